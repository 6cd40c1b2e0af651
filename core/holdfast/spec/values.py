"""Types of the small values of a spec: names, durations, quantities, and texts with a pattern.

Each is one type with one pattern, so that the model and the CRD can't disagree about it. Must not know where it is
used.
"""

import re
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints
from pydantic_core import PydanticCustomError

_LABEL = r"^[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?$"
# At most 9 digits of seconds and so on: together less than the 292 years the API server can compare.
_DURATION = r"^([0-9]{1,6}h)?([0-9]{1,7}m)?([0-9]{1,9}s)?([0-9]{1,9}ms)?$"
FOREVER = "Forever"
"""A retention without an end."""
_RETENTION = rf"^({FOREVER}|{_DURATION[1:-1]})$"
_OBJECT_NAME = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
_QUANTITY = r"^[0-9]{1,15}(\.[0-9]{1,3})?(Ki|Mi|Gi|Ti|Pi|Ei|k|M|G|T|P|E)?$"
_SHARE = r"^[0-9]{1,15}(\.[0-9]{1,3})?(m|Ki|Mi|Gi|Ti|Pi|Ei|k|M|G|T|P|E)?$"
_MEMORY = r"^[1-9][0-9]{0,8}(k|m|g|t|Ki|Mi|Gi|Ti)$"
_FUNCTION = r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*:[A-Za-z_][A-Za-z0-9_]*$"
_APP_NAME = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
_RUN_ID = r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"
_MODULE = r"^[A-Za-z_][A-Za-z0-9_]*([.][A-Za-z_][A-Za-z0-9_]*)*$"
_ARITHMETIC = r"^([0-9]+|partition|previous|current|[-+*/%() ])+$"
_DIRECTORY = r"^[a-z][a-z0-9+.-]*:/+[^/].*$"
_METADATA = r"^(key|keyBytes|headers|partition|offset|timestamp)( AS [A-Za-z_][A-Za-z0-9_]*)?$"
_URL = r"^https?://[^/@?#\s]+(/[^@?#\s]*)?$"
_START = (
    r"^(oldest|latest|[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
    r"T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,3})?Z)$"
)
_LOCATION = r"^(Claim|Node|Pod|[^{}]*(\{[^{}]+\}[^{}]*)+)$"
IN_WORDS = {
    _LABEL: "must be letters, digits and inner dashes",
    _OBJECT_NAME: "must be lower-case letters, digits, inner dashes and dots",
    _DURATION: "must be a duration, e.g. 500ms, 10m or 1h30m",
    _RETENTION: "must be a duration, e.g. 168h, or Forever",
    _QUANTITY: "must be an amount, e.g. 10Gi or 500M",
    _SHARE: "must be an amount, e.g. 500m or 2Gi",
    _MEMORY: "must be an amount of memory, e.g. 512m, 2g or 2Gi",
    _APP_NAME: "must be lower-case letters, digits and inner dashes",
    _RUN_ID: "must be letters, digits and inner dashes, dots and underscores",
    _MODULE: "must be the name of a Python module, e.g. scoring or parcels.zones",
    _ARITHMETIC: "must be arithmetic over partition, previous and current, e.g. partition % previous",
    _DIRECTORY: "must be the address of a folder, e.g. s3a://bucket/path or file:///shared/path",
    _START: "must be oldest, latest or a moment, e.g. 2026-11-28T06:00:00Z",
    _URL: "must be an address without a login, e.g. https://registry:8081",
    _LOCATION: "must be Claim, Node, Pod or a template, e.g. {node.labels.rack}/{node.name}",
    _FUNCTION: "must be a Python function, e.g. package.module:function",
    _METADATA: "must be key, keyBytes, headers, partition, offset or timestamp, or e.g. key AS user",
}
"""What a pattern asks for, for people."""

_PARTS = re.compile(r"([0-9]+)(ms|h|m|s)")
_MILLIS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}
_MAX_LABEL = 63
MAX_APP_NAME = 40
"""Names of pods, services and claims are built from the app's name and must stay below 63 characters."""


def millis(duration: str) -> int:
    """The milliseconds of a duration as the model accepts it, e.g. `1h30m`."""
    return sum(int(number) * _MILLIS[unit] for number, unit in _PARTS.findall(duration))


def is_duration(value: object) -> bool:
    """Whether `millis` can read it."""
    return isinstance(value, str) and value != "" and re.fullmatch(_DURATION, value) is not None


def _positive(duration: str) -> str:
    if millis(duration) == 0:
        kind = "duration_not_positive"
        message = "must be longer than nothing, e.g. 10s"
        raise PydanticCustomError(kind, message)
    return duration


def _not_all_zero(quantity: str) -> str:
    if not quantity.strip("0.kMGTPEi"):
        kind = "quantity_not_positive"
        message = "must be more than nothing, e.g. 10Gi"
        raise PydanticCustomError(kind, message)
    return quantity


def _of_a_day(start: str) -> str:
    if start not in ("oldest", "latest"):
        try:
            datetime.fromisoformat(start)
        except ValueError:
            kind = "no_such_day"
            message = "must be a day that there is, e.g. 2026-11-28T06:00:00Z"
            raise PydanticCustomError(kind, message) from None
    return start


def without_nulls(settings: object) -> object:
    """As the API server does: a setting that is null is not given."""
    if not isinstance(settings, dict):
        return settings
    return {name: value for name, value in settings.items() if value is not None}


def _cel(rule: str, message: str) -> dict[str, Any]:
    """A rule for the API server where the pattern alone can't say it."""
    return {"x-kubernetes-validations": [{"rule": rule, "message": message}]}


Name = Annotated[
    str,
    StringConstraints(pattern=_LABEL, min_length=1, max_length=_MAX_LABEL),
]
"""A DNS label: letters, digits and inner dashes, at most 63. Names of streams, tables, steps and systems."""

ObjectName = Annotated[str, StringConstraints(pattern=_OBJECT_NAME, min_length=1, max_length=253)]
"""The name of another object of the cluster, e.g. a Secret."""

AppName = Annotated[str, StringConstraints(pattern=_APP_NAME, min_length=1, max_length=MAX_APP_NAME)]
"""The name of an app: a DNS label short enough to build other names from."""

RunId = Annotated[str, StringConstraints(pattern=_RUN_ID, min_length=1, max_length=_MAX_LABEL)]
"""The name of a run."""

Text = Annotated[str, StringConstraints(min_length=1, max_length=4096)]
"""Any text that says something."""

ColumnName = Annotated[str, StringConstraints(min_length=1, max_length=255)]
"""The name of a column of some rows."""

MetadataItem = Annotated[str, StringConstraints(pattern=_METADATA, max_length=255), Field(examples=["key AS user"])]
"""What a record has beside its value, as a column."""

Expression = Annotated[str, StringConstraints(min_length=1, max_length=8192)]
"""One Spark SQL expression."""

ShortExpression = Annotated[str, StringConstraints(min_length=1, max_length=1024)]
"""A Spark SQL expression that the API server may compare at each edit, in each of a thousand steps."""

Ddl = Annotated[str, StringConstraints(min_length=1, max_length=16384)]
"""Columns as Spark DDL, e.g. `ad_id STRING, ts TIMESTAMP`."""

ShortDdl = Annotated[str, StringConstraints(min_length=1, max_length=4096)]
"""Columns that the API server may compare at each edit, in each of a thousand steps."""

SchemaText = Annotated[str, StringConstraints(min_length=1, max_length=65_536)]
"""A schema of records in the notation of their format."""

RegistryUrl = Annotated[
    str, StringConstraints(pattern=_URL, max_length=1024), Field(examples=["https://registry:8081"])
]
"""Where a server is, without a login."""

FunctionPath = Annotated[
    str,
    StringConstraints(pattern=_FUNCTION, max_length=255),
]
"""A Python function as `package.module:function`."""

ModuleName = Annotated[str, StringConstraints(pattern=_MODULE, max_length=100)]
"""A Python module with its package, e.g. `parcels.zones`."""

ModuleText = Annotated[str, StringConstraints(max_length=1_048_576)]
"""What stands in it; as much as an object of Kubernetes holds."""

Arithmetic = Annotated[str, StringConstraints(pattern=_ARITHMETIC, max_length=200)]
"""A partition computed from others."""

Directory = Annotated[
    str, StringConstraints(pattern=_DIRECTORY, max_length=1024), Field(examples=["s3a://bucket/apps"])
]
"""The address of a directory that several hosts reach."""

LocationTemplate = Annotated[str, StringConstraints(pattern=_LOCATION, max_length=253), Field(examples=["Claim"])]
"""What makes two executors share a disk."""

Duration = Annotated[str, StringConstraints(pattern=_DURATION, min_length=2, max_length=40), Field(examples=["10m"])]
"""A length of time as Kubernetes writes it: `500ms`, `10m`, `1h30m`."""

PositiveDuration = Annotated[
    str,
    StringConstraints(pattern=_DURATION, min_length=2, max_length=40),
    AfterValidator(_positive),
    Field(
        examples=["10m"],
        json_schema_extra=_cel("self.matches('[1-9]')", "must be longer than nothing, e.g. 10s"),
    ),
]
"""A duration longer than nothing."""

Retention = Annotated[str, StringConstraints(pattern=_RETENTION, min_length=2, max_length=40), Field(examples=["168h"])]
"""How long something is kept: a duration, or `Forever`."""

Start = Annotated[
    str,
    StringConstraints(pattern=_START, max_length=24),
    AfterValidator(_of_a_day),
    Field(
        examples=["latest"],
        json_schema_extra=_cel(
            "self == 'oldest' || self == 'latest' || timestamp(self).getFullYear() > 0",
            "must be a day that there is, e.g. 2026-11-28T06:00:00Z",
        ),
    ),
]
"""Where a run begins with an input."""

Quantity = Annotated[
    str,
    StringConstraints(pattern=_QUANTITY, max_length=24),
    AfterValidator(_not_all_zero),
    Field(examples=["10Gi"], json_schema_extra=_cel("self.matches('[1-9]')", "must be more than nothing, e.g. 10Gi")),
]
"""An amount of storage as Kubernetes writes it: `10Gi`, `500M`."""

NullText = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z0-9_.\\/*?#<>()-]*$", max_length=32),
    Field(examples=["\\N"]),
]
"""What stands for null among texts."""

Memory = Annotated[
    str,
    StringConstraints(pattern=_MEMORY, max_length=12),
    Field(examples=["2g"]),
]
"""An amount of memory, as Spark (`2g`) or Kubernetes (`2Gi`) writes it; both mean powers of 1024."""


def as_spark(memory: str) -> str:
    """Spark knows 2g, not 2Gi, and means the same."""
    return memory.removesuffix("i").lower()


def heap_bytes(memory: str) -> int:
    """The bytes of an amount of memory: `g` means powers of 1024 to Java, as `Gi` does."""
    text = as_spark(memory)
    return in_bytes(f"{text[:-1]}{text[-1].upper()}i")


def in_bytes(quantity: str) -> int:
    """The bytes of an amount, a part of one left out."""
    number = quantity.rstrip("kKMGTPEi")
    unit = quantity[len(number) :]
    factor = 1024 if unit.endswith("i") else 1000
    power = " kMGTPE".index(unit[0].replace("K", "k")) if unit else 0
    return int(Decimal(number) * factor**power)


SettingText = Annotated[str, StringConstraints(max_length=16_384)]
"""One of them."""

# The bound stands before the validator: behind it pydantic would keep it out of the schema.
Settings = Annotated[dict[str, SettingText], Field(max_length=200), BeforeValidator(without_nulls)]
"""Settings of other software, passed through."""

Share = Annotated[str, StringConstraints(pattern=_SHARE, max_length=24)]
"""An amount of something that nodes have, as Kubernetes writes it: `500m` of a core, `2Gi` of memory."""

Shares = Annotated[dict[str, Share], Field(max_length=20, examples=[{"cpu": "500m"}]), BeforeValidator(without_nulls)]
"""Amounts of what nodes have, by its name."""

ReplicaCount = Annotated[int, Field(ge=1, le=32_767)]
"""How many brokers hold a record."""

PartitionCount = Annotated[int, Field(ge=1, le=100_000)]
"""How many partitions."""
