"""What a user says of an app's pods, as Kubernetes writes it: resources, nodes, variables.

Amounts, labels, tolerations and variables are in the notation of a pod, and are judged as the API server judges them
there: a pod that it refuses would be found out only after the running attempt is gone. Must not know which part of an
app a pod is.
"""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, StringConstraints

from holdfast.spec.fields import ChangeCost, SpecModel, ValueModel
from holdfast.spec.values import ObjectName, Shares, without_nulls

_PREFIX = r"([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
_LABEL_KEY = rf"^{_PREFIX}[A-Za-z0-9]([-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?$"
_LABEL_VALUE = r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$"
_VARIABLE = r"^[-._A-Za-z][-._A-Za-z0-9]*$"
_DATA_KEY = r"^[-._A-Za-z0-9]+$"
_POD_FIELD = (
    r"^(metadata[.](name|namespace|uid|(labels|annotations)\['[^'\[\]]{1,317}'\])|spec[.](nodeName|serviceAccountName)"
    r"|status[.](hostIP|hostIPs|podIP|podIPs))$"
)

LabelKey = Annotated[str, StringConstraints(pattern=_LABEL_KEY, max_length=317)]
"""The key of a label, e.g. `topology.kubernetes.io/zone`."""

LabelValue = Annotated[str, StringConstraints(pattern=_LABEL_VALUE, max_length=63)]
"""The value of a label."""

NodeLabels = Annotated[dict[LabelKey, LabelValue], Field(max_length=50), BeforeValidator(without_nulls)]
"""Labels that nodes have."""


class Resources(SpecModel):
    """What a container asks of its node: `cpu`, `memory` and others that nodes have, by name."""

    requests: Annotated[Shares, ChangeCost.RESTART] = Field(default_factory=dict)
    """What must be free. Default: `cpu` as `cores` says, `memory` as the limit."""
    limits: Annotated[Shares, ChangeCost.RESTART] = Field(default_factory=dict)
    """What it may take. Default: `memory`, the heap and two fifths of it (384 MiB or more) for Python and Java."""


class Toleration(ValueModel):
    """A taint of nodes that pods tolerate."""

    key: LabelKey | None = None
    """The taint's key. Default: any, with `Exists`."""
    operator: Literal["Equal", "Exists"] = "Equal"
    """Equal: the taint's value is `value`. Exists: it may be any. Default: Equal."""
    value: LabelValue = ""
    """The taint's value. Default: empty."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """The taint's effect. Default: any."""
    toleration_seconds: Annotated[int | None, Field(ge=0, le=1_000_000_000)] = None
    """How long a pod stays on a node that gets the taint, with NoExecute. Default: forever."""


class DataKey(ValueModel):
    """A key of a Secret or a ConfigMap in the app's namespace."""

    name: ObjectName
    """The object."""
    key: Annotated[str, StringConstraints(pattern=_DATA_KEY, max_length=253)]
    """The key."""
    optional: bool = False
    """True: without the object or the key there is no variable. Default: false."""


class PodField(ValueModel):
    """A field of the pod."""

    field_path: Annotated[str, StringConstraints(pattern=_POD_FIELD, max_length=340)]
    """Its path, e.g. `spec.nodeName` or `metadata.labels['zone']`."""


class VariableSource(ValueModel):
    """Where the value of a variable comes from: one of these."""

    secret_key_ref: DataKey | None = None
    """A key of a Secret."""
    config_map_key_ref: DataKey | None = None
    """A key of a ConfigMap."""
    field_ref: PodField | None = None
    """A field of the pod."""


class Variable(ValueModel):
    """An environment variable."""

    name: Annotated[str, StringConstraints(pattern=_VARIABLE, max_length=253)]
    """Its name. `HOLDFAST_` and `SPARK_` begin those of Holdfast and Spark."""
    value: Annotated[str, StringConstraints(max_length=16_384)] | None = None
    """Its value. Default: empty."""
    value_from: VariableSource | None = None
    """Where its value comes from."""


Tolerations = Annotated[tuple[Toleration, ...], Field(max_length=50)]
"""Taints of nodes that pods tolerate."""

Variables = Annotated[tuple[Variable, ...], Field(max_length=100)]
"""Environment variables."""
