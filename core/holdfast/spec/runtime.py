"""How an app is run rather than what it computes, as a user writes it: pods, triggers, checkpoints, restarts, growth.

Must not know streams or steps.
"""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from holdfast.spec.fields import ChangeCost, SpecModel
from holdfast.spec.pods import NodeLabels, Resources, Tolerations, Variables
from holdfast.spec.values import (
    Arithmetic,
    Directory,
    Duration,
    LocationTemplate,
    Memory,
    ModuleName,
    ModuleText,
    Name,
    ObjectName,
    PartitionCount,
    PositiveDuration,
    Quantity,
    RegistryUrl,
    Retention,
    Settings,
    Text,
    heap_bytes,
    without_nulls,
)

Modules = Annotated[dict[ModuleName, ModuleText], Field(max_length=100), BeforeValidator(without_nulls)]
PodTemplate = Annotated[dict[str, Any], Field(json_schema_extra={"x-kubernetes-preserve-unknown-fields": True})]


class Planning(SpecModel):
    """How partition counts of intermediate streams are chosen where no join decides them."""

    intermediate_partitions: Annotated[PartitionCount | None, ChangeCost.NEW_RUN] = None
    """The count of intermediate streams. Default: the largest count of the inputs and outputs."""
    max_intermediate_partitions: Annotated[PartitionCount, ChangeCost.NEW_RUN] = 256
    """The inferred count is cut to this. Default: 256."""


class Expansion(SpecModel):
    """What happens to tasks with state when an input grows partitions."""

    enabled: Annotated[bool, ChangeCost.RESTART] = True
    """True: a new partition goes to the task that held its keys before. Default: true."""
    parent: Annotated[Arithmetic, ChangeCost.RESTART] = "partition % previous"
    """Which old partition held the keys of a new one: arithmetic over `partition`, `previous` and `current`. What was
    there keeps its keys. Default: partition % previous."""
    grace: Annotated[Duration, ChangeCost.RESTART] = "0s"
    """How long new partitions wait for producers that do not know of them yet; what those put elsewhere later is
    counted as misplaced. Default: 0s."""


class Trigger(SpecModel):
    """When a batch starts and how much it reads."""

    interval: Annotated[Duration, ChangeCost.RESTART] = "1s"
    """Start a batch this often; 0s: as soon as the last one is done. Default: 1s."""
    max_records_per_partition: Annotated[int, ChangeCost.RESTART, Field(ge=1, le=1_000_000_000)] = 50_000
    """Read at most so many records of a partition in one batch. Default: 50000."""


class Changelog(SpecModel):
    """A topic that holds what stands on the way of each batch: its offsets, and what it changes in state."""

    system: Annotated[Name, ChangeCost.NEW_RUN]
    """The Kafka system of the topic, which is called APP.holdfast.changelog and is made by Holdfast."""
    partitions: Annotated[int, ChangeCost.NEW_RUN, Field(ge=1, le=1000)] = 64
    """Partitions of the topic. A process reads those of its tasks when it begins. Default: 64."""


class Checkpoint(SpecModel):
    """Where offsets and durable copies of state are kept."""

    location: Annotated[Directory, ChangeCost.NEW_RUN] = "file:///checkpoints"
    """A folder that driver and executors reach, e.g. `s3a://bucket/path` or `file:///shared/path`. Default, with a
    claim: file:///checkpoints."""
    claim: Annotated[ObjectName | None, ChangeCost.NEW_RUN] = None
    """A volume claim (ReadWriteMany): driver and executors mount it at the path of the location."""
    retention: Annotated[Retention, ChangeCost.RESTART] = "168h"
    """How long a run that was left is kept there, or `Forever`. Default: 168h."""
    changelog: Annotated[Changelog | None, ChangeCost.NEW_RUN] = None
    """A topic for what is small and waited for in each batch: where the location answers slowly, as object stores do,
    rows come out sooner. `holdfast run` uses none."""


class AppDefaults(SpecModel):
    """What a release gives apps that do not say it themselves."""

    checkpoint: Checkpoint | None = None
    """Where offsets and durable copies of state are kept."""
    storage_class: ObjectName | None = None
    """Storage class of claims."""


BESIDE_HEAP, _LEAST_BESIDE_HEAP = 0.4, 384 << 20


def beside_heap(memory: str) -> int:
    """The bytes that a container has beside a heap, for Python's workers and Java itself, unless its spec says more."""
    return max(int(BESIDE_HEAP * heap_bytes(memory)), _LEAST_BESIDE_HEAP)


class Driver(SpecModel):
    """The pod that plans batches."""

    cores: Annotated[int, ChangeCost.RESTART, Field(ge=1, le=1024)] = 1
    """CPU cores. Default: 1."""
    memory: Annotated[Memory, ChangeCost.RESTART] = "1g"
    """Java heap. Default: 1g."""
    resources: Annotated[Resources, ChangeCost.RESTART] = Resources()
    """What its container asks of its node."""
    node_selector: Annotated[NodeLabels, ChangeCost.RESTART] = Field(default_factory=dict)
    """Labels of the nodes that it may run on."""
    tolerations: Annotated[Tolerations, ChangeCost.RESTART] = ()
    """Taints of nodes that it tolerates."""
    env: Annotated[Variables, ChangeCost.RESTART] = ()
    """Variables of its container."""
    pod_template: Annotated[PodTemplate, ChangeCost.RESTART] = Field(default_factory=dict)
    """A pod template merged into the driver's pod."""


class Executors(SpecModel):
    """The pods that hold tasks and state."""

    count: Annotated[int, ChangeCost.RESTART, Field(ge=1, le=10_000)] = 2
    """How many. Default: 2."""
    cores: Annotated[int, ChangeCost.RESTART, Field(ge=1, le=1024)] = 1
    """CPU cores of each. Default: 1."""
    memory: Annotated[Memory, ChangeCost.RESTART] = "1g"
    """Java heap of each. Default: 1g."""
    resources: Annotated[Resources, ChangeCost.RESTART] = Resources()
    """What the container of each asks of its node."""
    node_selector: Annotated[NodeLabels, ChangeCost.RESTART] = Field(default_factory=dict)
    """Labels of the nodes that they may run on."""
    tolerations: Annotated[Tolerations, ChangeCost.RESTART] = ()
    """Taints of nodes that they tolerate."""
    env: Annotated[Variables, ChangeCost.RESTART] = ()
    """Variables of the container of each, where functions run."""
    pod_template: Annotated[PodTemplate, ChangeCost.RESTART] = Field(default_factory=dict)
    """A pod template merged into each executor's pod."""


class LineageEndpoint(SpecModel):
    """A server that takes OpenLineage events over HTTP."""

    url: Annotated[RegistryUrl, ChangeCost.RESTART]
    """Its address; without a path, /api/v1/lineage is added."""
    namespace: Annotated[Text | None, ChangeCost.RESTART] = None
    """The namespace of the job, which has the app's name. Default: the app's namespace."""
    secret_name: Annotated[ObjectName | None, ChangeCost.RESTART] = None
    """A Secret of the app's namespace with entries token or ca.crt."""


class Runtime(SpecModel):
    """The Spark application."""

    image: Annotated[Text | None, ChangeCost.RESTART] = None
    """The image of driver and executors. Default: the runtime image of this release."""
    service_account_name: Annotated[ObjectName | None, ChangeCost.RESTART] = None
    """The service account of driver and executors. Default: that of this release."""
    code: Annotated[Modules, ChangeCost.RESTART] = Field(default_factory=dict)
    """Small Python modules, name to text, put on the path of driver and executors; `parcels.zones` is one of a package.
    `holdfast render` packs the modules beside a file."""
    trigger: Annotated[Trigger, ChangeCost.RESTART] = Trigger()
    """When a batch starts and how much it reads."""
    checkpoint: Annotated[Checkpoint | None, ChangeCost.NEW_RUN] = None
    """Where offsets and durable copies of state are kept. On a cluster it is needed."""
    driver: Annotated[Driver, ChangeCost.RESTART] = Driver()
    """The pod that plans batches."""
    executors: Annotated[Executors, ChangeCost.RESTART] = Executors()
    """The pods that hold tasks and state."""
    lineage: Annotated[LineageEndpoint | None, ChangeCost.RESTART] = None
    """Where the driver sends lineage of columns, on a cluster. Default: nowhere."""
    replan: Annotated[int | None, ChangeCost.RESTART, Field(ge=1, le=1_000_000_000_000)] = None
    """The number of a batch that can't be done: if it is planned and not done, the next attempt plans it anew."""
    spark_conf: Annotated[Settings, ChangeCost.RESTART] = Field(default_factory=dict)
    """Settings of Spark, passed through."""


class LocalState(SpecModel):
    """Where local state lives."""

    location: Annotated[LocationTemplate, ChangeCost.RESTART] = "Claim"
    """Claim: a volume claim per executor. Node: a folder of the node. Pod: the pod's own disk, gone with it. Or a
    template over pod and node that names one disk, e.g. `{node.labels.rack}/{node.name}`. Default: Claim."""
    storage_class: Annotated[ObjectName | None, ChangeCost.NEW_RUN] = None
    """Storage class of the claims. Default: the cluster's."""
    size: Annotated[Quantity, ChangeCost.NEW_RUN] = "10Gi"
    """Size of each claim. Default: 10Gi."""
    on_completion: Annotated[Literal["Release", "Keep"], ChangeCost.LIVE] = "Release"
    """Release: the claims are deleted when the app has completed; its durable copies stay. Keep: they stay until the
    app is deleted or gets a new run. Default: Release."""


class Backoff(SpecModel):
    """How long to wait between failed attempts, doubled each time; after a first one that had begun: not at all."""

    initial: Annotated[PositiveDuration, ChangeCost.LIVE] = "5s"
    """The first wait. Default: 5s."""
    max: Annotated[PositiveDuration, ChangeCost.LIVE] = "5m"
    """The longest wait. Default: 5m."""


class Restart(SpecModel):
    """What happens when an attempt fails."""

    policy: Annotated[Literal["Always", "OnFailure", "Never"], ChangeCost.LIVE] = "Always"
    """Always: also when an endless app exits by itself. OnFailure: only when it failed. Never. Default: Always."""
    backoff: Annotated[Backoff, ChangeCost.LIVE] = Backoff()
    """How long to wait between attempts."""
    reset_after: Annotated[PositiveDuration, ChangeCost.LIVE] = "10m"
    """An attempt healthy this long forgets earlier failures. Default: 10m."""


class Alerts(SpecModel):
    """What the app promises its users; rules of the chart report a promise that is not kept."""

    max_lag: Annotated[PositiveDuration | None, ChangeCost.LIVE] = None
    """How far the app may be behind its inputs, e.g. 5m. Default: no promise."""
    dead_letters: Annotated[int | None, ChangeCost.LIVE, Field(ge=0, le=1_000_000_000)] = None
    """How many rows may become dead letters in an hour. Default: no promise."""
