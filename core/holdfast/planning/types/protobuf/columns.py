"""The columns that a message has."""

from holdfast.planning.types.ddl import parse_type
from holdfast.planning.types.protobuf.schema import (
    TIMESTAMP,
    WRAPPERS,
    Presence,
    ProtoField,
    ProtoMessage,
    ProtoSchema,
    refuse,
)
from holdfast.planning.types.spark_types import STRING, Column, RowType, SparkType, array, mapping, struct

WORDS = {
    "bool": "BOOLEAN",
    "int32": "INT",
    "int64": "BIGINT",
    "uint32": "BIGINT",
    "uint64": "DECIMAL(20,0)",
    "sint32": "INT",
    "sint64": "BIGINT",
    "fixed32": "BIGINT",
    "fixed64": "DECIMAL(20,0)",
    "sfixed32": "INT",
    "sfixed64": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "STRING",
    "bytes": "BINARY",
    TIMESTAMP: "TIMESTAMP",
}
"""Type -> the column type that takes all of its values."""
MOST_PARTS = 10_000
"""Columns of a message and the parts of these; messages that are used twice may double at each level."""


def columns_of(schema: ProtoSchema) -> RowType:
    """Return the columns of all that a message holds; raise `ExpressionError` if one has no type in Spark."""
    root, unfolded = schema.root, _Unfolded(schema)
    kinds = [(known.name, unfolded.of_field(known, known.name, (root.name,))) for known in root.fields]
    for name, kind in kinds:
        if parse_type(str(kind)) is None:
            _refuse(f"{name} is nested too deeply, or has too many parts, for a column")
    return RowType(tuple(Column(name, str(kind)) for name, kind in kinds))


class _Unfolded:
    """Columns in which each message stands wherever its name does, which may be many times."""

    def __init__(self, schema: ProtoSchema) -> None:
        self._schema = schema
        self._parts = 0

    def of_field(self, known: ProtoField, path: str, inside: tuple[str, ...]) -> SparkType:
        """Return the type of a column, or of a part of one, inside of these messages."""
        self._parts += 1
        if self._parts > MOST_PARTS:
            _refuse(f"the columns of message {self._schema.message} have more than {MOST_PARTS} parts")
        kind = self._of_type(known.type, path, inside)
        if known.key:
            return mapping(_parsed(WORDS[known.key]), kind)
        return array(kind) if known.presence is Presence.REPEATED else kind

    def _of_type(self, name: str, path: str, inside: tuple[str, ...]) -> SparkType:
        if name in WORDS:
            return _parsed(WORDS[name])
        if name not in self._schema.messages:
            return STRING  # an enum
        message: ProtoMessage = self._schema.messages[name]
        if name in WRAPPERS:
            return self._of_type(message.fields[0].type, path, inside)
        if name in inside:
            _refuse(f"{path} is message {name} again, inside of itself, which no column can hold")
        parts = (
            (known.name, self.of_field(known, f"{path}.{known.name}", (*inside, name))) for known in message.fields
        )
        return struct(parts)


def _parsed(word: str) -> SparkType:
    kind = parse_type(word)
    assert kind is not None, word  # noqa: S101 - a constant
    return kind


def _refuse(message: str) -> None:
    refuse(f"{message}; give the stream a schema, with the columns that are wanted")
