"""The StreamApp object: metadata, spec and status; one schema for the CRD, `holdfast plan` and the local run.

The status is written by the operator alone and holds counts and conditions, nothing that grows: details (tasks,
places, plans) go to ConfigMaps, since an object that lists them is refused by etcd one day. Must not hold rules over
fields: those are in `rules`.
"""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, model_validator

from holdfast.attempt_number import LAST_ATTEMPT
from holdfast.spec.fields import ChangeCost, SpecModel
from holdfast.spec.runtime import Alerts, AppDefaults, Expansion, LocalState, Planning, Restart, Runtime
from holdfast.spec.steps import Step
from holdfast.spec.streams import Stream, System, Table
from holdfast.spec.values import AppName, RunId


class Condition(SpecModel):
    """One thing that is true, false or unknown of the app, in the shape Kubernetes gives to conditions."""

    type: Annotated[str, Field(max_length=316)]
    """What is said, e.g. Ready."""
    status: Literal["True", "False", "Unknown"]
    """Whether it is so."""
    reason: Annotated[str, Field(min_length=1, max_length=1024, pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")]
    """Why, in one word of the closed list of reasons."""
    message: Annotated[str, Field(max_length=32768)]
    """Why, in a sentence that says what to do."""
    last_transition_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})]
    """When the status changed last."""
    observed_generation: Annotated[int | None, Field(ge=0, json_schema_extra={"format": "int64"})] = None
    """The generation of the app this is said about."""


StatusCount = Annotated[int | None, Field(ge=0, le=LAST_ATTEMPT, json_schema_extra={"format": "int64"})]
"""Bounded, as attempts are: a larger number that somebody writes there would be refused when one is added."""


PodDigests = Annotated[tuple[Annotated[str, Field(max_length=64)], ...], Field(max_length=2)]
"""Of what driver and executors are made from; one if both are made from the same."""


class PodTrial(SpecModel):
    """A trial of what the next attempt's pods are made from, while another attempt runs."""

    pods: PodDigests
    """What is tried."""
    generation: Annotated[int, Field(ge=0, json_schema_extra={"format": "int64"})]
    """The generation of the app it is tried for."""
    since: Annotated[str, Field(max_length=64, json_schema_extra={"format": "date-time"})]
    """When it began."""
    failed: Annotated[str, Field(max_length=4096)] = ""
    """Why it failed; empty: it has not."""
    failed_before: Annotated[str, Field(max_length=4096)] = ""
    """Why the one failed that it repeats; empty: it repeats none."""


MOST_LEFT_RUNS = 16


class BegunAttempt(SpecModel):
    """An attempt whose driver began; what it ran is in its ConfigMap."""

    run_id: Annotated[str, Field(max_length=63)]
    """Its run."""
    attempt: Annotated[int, Field(ge=0, le=LAST_ATTEMPT, json_schema_extra={"format": "int64"})]
    """Its number in the run."""
    spec_hash: Annotated[str, Field(max_length=128)]
    """Hash of the spec that it ran."""
    defaults: AppDefaults | None = None
    """What the release gave its run."""


class Rollback(SpecModel):
    """A generation of the app that never came up; the spec of the last attempt that began runs in its place."""

    generation: Annotated[int, Field(ge=0, json_schema_extra={"format": "int64"})]
    """The generation that never came up; a newer one ends the rollback."""
    why: Annotated[str, Field(max_length=4096)]
    """What became of its attempt."""


class Status(SpecModel):
    """What the operator has observed and intends."""

    observed_generation: Annotated[int | None, Field(ge=0, json_schema_extra={"format": "int64"})] = None
    """The generation of the app that was reconciled last."""
    run_id: Annotated[str | None, Field(max_length=63)] = None
    """The run that attempts are counted in."""
    attempt: StatusCount = None
    """Number of the latest attempt of this run; written before its driver is made."""
    spec_hash: Annotated[str | None, Field(max_length=128)] = None
    """Hash of the spec that attempt runs; written with its number."""
    defaults: AppDefaults | None = None
    """What the release gave this run, as the spec does not say it; later values of the release do not count for it."""
    driver_uid: Annotated[str | None, Field(max_length=64)] = None
    """Its driver pod, once seen."""
    draining: Annotated[str | None, Field(max_length=64)] = None
    """Why it is asked to end; written before it is asked."""
    ended: Annotated[str | None, Field(max_length=64)] = None
    """How it ended: Drained, Completed, Failed, Refused or Lost."""
    failures: StatusCount = None
    """How many attempts failed one after the other."""
    retry_at: Annotated[str | None, Field(json_schema_extra={"format": "date-time"})] = None
    """Before this there is no next attempt."""
    tasks: StatusCount = None
    """How many tasks the app has."""
    placed: Annotated[str | None, Field(max_length=32)] = None
    """How many of them run where their state is, e.g. `14/16`."""
    partitions: StatusCount = None
    """How many input partitions are read."""
    restarts: StatusCount = None
    """How many attempts of this run failed and were followed by another."""
    pods: PodDigests = ()
    """Digests of what the pods of that attempt are made from, as far as a trial can tell."""
    trial: PodTrial | None = None
    """The last trial of other pods, if it is under way or has failed."""
    begun: BegunAttempt | None = None
    """The last attempt whose driver began."""
    rollback: Rollback | None = None
    """Set while the spec of that attempt runs in place of the newest, which never came up."""
    left_runs: Annotated[tuple[Annotated[str, Field(max_length=63)], ...], Field(max_length=MOST_LEFT_RUNS)] = ()
    """Earlier runs whose volume claims are still to be deleted."""
    conditions: Annotated[tuple[Condition, ...], Field(max_length=32)] = ()
    """Ready, Reconciling, Stalled and what they rest on; each has one writer."""

    @property
    def has_begun(self) -> bool:
        """Return whether the attempt in it is the last whose driver began."""
        return self.begun is not None and (self.begun.run_id, self.begun.attempt) == (self.run_id, self.attempt)

    @property
    def had_driver(self) -> bool:
        """Return whether the attempt in it once had a driver, which others may have made it forget."""
        return self.driver_uid is not None or self.has_begun


API_VERSION = "holdfast.dev/v1alpha1"
KIND = "StreamApp"


class AppSpec(SpecModel):
    """What an app computes and how it is run."""

    run_id: Annotated[RunId, ChangeCost.NEW_RUN] = "1"
    """The life of the app's state. A new value starts with empty state. Default: "1"."""
    systems: Annotated[tuple[System, ...], ChangeCost.RESTART, Field(min_length=1, max_length=16)]
    """Places that hold streams."""
    streams: Annotated[tuple[Stream, ...], ChangeCost.RESTART, Field(min_length=1, max_length=500)]
    """Streams that are read or written."""
    tables: Annotated[tuple[Table, ...], ChangeCost.RESTART, Field(max_length=100)] = ()
    """Adjunct stores for look-ups."""
    steps: Annotated[tuple[Step, ...], ChangeCost.RESTART, Field(min_length=1, max_length=1000)]
    """The graph: what is done with the rows."""
    planning: Annotated[Planning, ChangeCost.NEW_RUN] = Planning()
    """Partition counts of intermediate streams."""
    grouping: Annotated[Literal["ByPartition", "ByStreamPartition"], ChangeCost.NEW_RUN] = "ByPartition"
    """ByPartition: task N reads partition N of every stream. ByStreamPartition: one task for each stream partition,
    for apps without state. Default: ByPartition."""
    expansion: Annotated[Expansion, ChangeCost.RESTART] = Expansion()
    """What happens to tasks when an input grows partitions."""
    runtime: Annotated[Runtime, ChangeCost.RESTART] = Runtime()
    """The Spark application."""
    state: Annotated[LocalState, ChangeCost.RESTART] = LocalState()
    """Where local state lives."""
    restart: Annotated[Restart, ChangeCost.LIVE] = Restart()
    """What happens when an attempt fails."""
    alerts: Annotated[Alerts, ChangeCost.LIVE] = Alerts()
    """What the app promises, for alerts."""
    on_partition_growth: Annotated[Literal["Restart", "Live", "Halt"], ChangeCost.LIVE] = "Restart"
    """When an input has grown: drain and start the next attempt, take the partitions up while running, or stop and
    say so. Default: Restart."""
    suspend: Annotated[bool, ChangeCost.LIVE] = False
    """True: drain and stay stopped, state kept. Default: false."""

    @property
    def dead_letters(self) -> frozenset[str]:
        """The streams that take dead letters, of streams or of steps."""
        named = {*(stream.dead_letter for stream in self.streams), *(step.dead_letter for step in self.steps)}
        return frozenset(name for name in named if name is not None)


class Metadata(SpecModel):
    """What Kubernetes knows an object by. Fields other than the name are Kubernetes' own."""

    model_config = ConfigDict(extra="ignore")

    name: Annotated[AppName, ChangeCost.FORBIDDEN]
    """The app's name: lower-case letters, digits and inner dashes, at most 40."""


class StreamApp(SpecModel):
    """A stateful Spark streaming application."""

    @model_validator(mode="before")
    @classmethod
    def _without_status(cls, tree: Any) -> Any:
        # What `kubectl get -o yaml` prints, or the operator watches, has one; the operator alone knows what it means.
        if not isinstance(tree, dict) or "status" not in tree:
            return tree
        return {name: value for name, value in tree.items() if name != "status"}

    api_version: Annotated[Literal["holdfast.dev/v1alpha1"], ChangeCost.FORBIDDEN]
    """Version of this schema."""
    kind: Annotated[Literal["StreamApp"], ChangeCost.FORBIDDEN]
    """Always StreamApp."""
    metadata: Annotated[Metadata, ChangeCost.FORBIDDEN]
    """Name of the app."""
    spec: Annotated[AppSpec, ChangeCost.RESTART]
    """What the app computes and how it is run."""

    @property
    def name(self) -> str:
        """The app's name."""
        return self.metadata.name
