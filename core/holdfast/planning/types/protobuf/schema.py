"""Protobuf schemas as values: messages, enums and fields by their full names.

Names of types are resolved, so nobody needs scopes any more. Must not know columns, nor how a text is read.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import NoReturn

from holdfast.planning.problems import ExpressionError, SqlFinding
from holdfast.reasons import Reason
from holdfast.suggest import did_you_mean

SCALARS = (
    "bool",
    "int32",
    "int64",
    "uint32",
    "uint64",
    "sint32",
    "sint64",
    "fixed32",
    "fixed64",
    "sfixed32",
    "sfixed64",
    "float",
    "double",
    "string",
    "bytes",
)
TIMESTAMP = "google.protobuf.Timestamp"
WRAPPERS = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Bool", "Int32", "Int64", "UInt32", "UInt64", "Float", "Double", "String", "Bytes")
)
"""Messages around one scalar, which are that scalar, or null where they are absent."""


class Presence(Enum):
    """How often a field stands in a message, and what its absence means."""

    IMPLICIT = "implicit"
    """Once; where it is absent, it has its type's default."""
    OPTIONAL = "optional"
    """Once or never."""
    REQUIRED = "required"
    REPEATED = "repeated"


@dataclass(frozen=True, slots=True)
class ProtoField:
    """A field of a message."""

    name: str
    number: int
    type: str
    """A scalar, or the full name of a message or an enum; of a map, that of its values."""
    presence: Presence
    packed: bool = False
    """Whether repeated numbers are written side by side."""
    key: str = ""
    """Of a map, the scalar that its keys are."""
    choice: str = ""
    """The `oneof` that it is in."""


@dataclass(frozen=True, slots=True)
class ProtoMessage:
    """A message, which is a scope of names, too."""

    name: str
    fields: tuple[ProtoField, ...]


@dataclass(frozen=True, slots=True)
class ProtoEnum:
    """An enum; several names may have one number, and the first of them is shown."""

    name: str
    numbers: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ProtoSchema:
    """The messages of a file and of all that it imports, and the one that records are."""

    messages: Mapping[str, ProtoMessage]
    enums: Mapping[str, ProtoEnum]
    places: Mapping[tuple[int, ...], str]
    """Where a message stands in the file, as frames of a registry say it -> its name."""
    message: str
    declared: bool
    """Whether the stream says which message its records are."""

    @property
    def root(self) -> ProtoMessage:
        """The message that records are."""
        return self.messages[self.message]

    @property
    def place(self) -> tuple[int, ...]:
        """Where it stands; raise `ExpressionError` if that can't be told."""
        place = next((place for place, name in self.places.items() if name == self.message), None)
        if place is None:
            refuse(
                f"message {self.message} is imported, or inside of one that has maps, where messages are counted in "
                "several ways; choose a message outside of others"
            )
        return place

    def chosen(self, message: str | None) -> "ProtoSchema":
        """Return the same with the message of this full name; raise `ExpressionError` if there is none."""
        if message is None:
            return self
        if message not in self.messages:
            refuse(f"the protobuf schema has no message {message}{did_you_mean(message, self.places.values())}")
        return replace(self, message=message, declared=True)


def refuse(message: str) -> NoReturn:
    """Raise `ExpressionError`."""
    raise ExpressionError(SqlFinding(Reason.SCHEMA_INVALID, message)) from None
