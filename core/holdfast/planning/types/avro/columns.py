"""The columns that records of an Avro schema have, and the schema of records that are made of columns."""

import json
import re
from typing import Any, NoReturn

from holdfast.planning.problems import ExpressionError, SqlFinding
from holdfast.planning.types.avro.program import VALUE
from holdfast.planning.types.avro.reading import column_word
from holdfast.planning.types.avro.schema import AvroKind, AvroSchema, AvroType
from holdfast.planning.types.ddl import parse_type, typed_columns
from holdfast.planning.types.spark_types import STRING, Column, RowType, SparkType, array, is_text, mapping, struct
from holdfast.reasons import Reason

_AVRO_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ELSE = re.compile(r"[^A-Za-z0-9_]")
MOST_PARTS = 10_000
"""Columns of a schema and the parts of these; records that are used twice may double at each level."""


def columns_of(schema: AvroSchema) -> RowType:
    """Return the columns of all that records hold; raise `ExpressionError` if one has no type in Spark."""
    root, unfolded = schema.resolved(schema.root), _Unfolded(schema)
    if root.kind is not AvroKind.RECORD:
        return RowType((_column(VALUE, unfolded.column_type(root, VALUE, ())),))
    fields = ((known.name, unfolded.column_type(known.type, known.name, (root.name,))) for known in root.fields)
    return RowType(tuple(_column(name, kind) for name, kind in fields))


def _column(name: str, kind: SparkType) -> Column:
    if parse_type(str(kind)) is None:
        _refuse(f"{name} is nested too deeply, or has too many parts, for a column")
    return Column(name, str(kind))


class _Unfolded:
    """Columns in which each record stands wherever its name does, which may be many times."""

    def __init__(self, schema: AvroSchema) -> None:
        self._schema = schema
        self._parts = 0

    def column_type(self, kind: AvroType, path: str, inside: tuple[str, ...]) -> SparkType:
        """Return the type of a column, or of a part of one, inside of these records."""
        self._parts += 1
        if self._parts > MOST_PARTS:
            _refuse(f"the columns of {self._schema.root} have more than {MOST_PARTS} parts")
        return self._column_type(self._schema.resolved(kind), path, inside)

    def _column_type(self, kind: AvroType, path: str, inside: tuple[str, ...]) -> SparkType:
        match kind.kind:
            case AvroKind.RECORD:
                if kind.name in inside:
                    _refuse(f"{path} is {kind} again, inside of itself, which no column can hold")
                parts = (
                    (known.name, self.column_type(known.type, f"{path}.{known.name}", (*inside, kind.name)))
                    for known in kind.fields
                )
                return struct(parts)
            case AvroKind.ARRAY:
                return array(self.column_type(kind.inner[0], f"{path}[]", inside))
            case AvroKind.MAP:
                return mapping(STRING, self.column_type(kind.inner[0], f"{path}[]", inside))
            case AvroKind.UNION:
                branches = [branch for branch in kind.inner if branch.kind is not AvroKind.NULL]
                if len(branches) != 1:
                    _refuse(f"{path} is {kind}, for which there is no one type")
                return self.column_type(branches[0], path, inside)
        word = column_word(kind)
        made = None if word is None else parse_type(word)
        if made is None:
            _refuse(f"{path} is {kind}, which no column can hold")
        return made


def _refuse(message: str) -> NoReturn:
    cure = "give the stream a schema, with the columns that are wanted"
    raise ExpressionError(SqlFinding(Reason.SCHEMA_INVALID, f"{message}; {cure}"))


def avro_of(rows: RowType, name: str) -> str:
    """Return the schema, as JSON, of records that hold these columns; every field may be null.

    Raise `ExpressionError` if a column has no type in Avro.
    """
    safe = _ELSE.sub("_", name)
    safe = safe if _AVRO_NAME.match(safe) else f"_{safe}"
    columns = typed_columns(rows)
    assert columns is not None, rows  # noqa: S101 - the caller has looked
    return json.dumps(_record(columns, safe, set()), separators=(",", ":"))


def _record(fields: tuple[tuple[str, SparkType], ...], name: str, names: set[str]) -> dict[str, Any]:
    """Return a record whose name is none of those before: field b of column a and column a_b are both called a_b."""
    while name in names:
        name += "_"
    names.add(name)
    trees = []
    for column, kind in fields:
        if not _AVRO_NAME.fullmatch(column):
            message = f"column {column} can't be a field of an Avro record, whose names are letters, digits and _"
            raise ExpressionError(SqlFinding(Reason.SCHEMA_INVALID, f"{message}; rename it in a select step"))
        trees.append({"name": column, "type": _nullable(kind, f"{name}_{column}", names), "default": None})
    return {"type": "record", "name": name, "fields": trees}


def _avro_type(kind: SparkType, name: str, names: set[str]) -> Any:  # noqa: PLR0911 - one per family of types
    if kind.word == "STRUCT":
        return _record(tuple(zip(kind.names, kind.inner, strict=True)), name, names)
    if kind.word == "ARRAY":
        return {"type": "array", "items": _nullable(kind.inner[0], name, names)}
    if kind.word == "MAP" and is_text(kind.inner[0]):
        return {"type": "map", "values": _nullable(kind.inner[1], name, names)}
    if kind.word == "DECIMAL":
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.digits[0], "scale": kind.digits[1]}
    if kind.word in _MEANT:
        base, logical = _MEANT[kind.word]
        return {"type": base, "logicalType": logical}
    if is_text(kind):
        return "string"
    if kind.word not in _BASES:
        message = f"{name} is {kind}, which Avro has no type for; leave it out, or CAST it in a select step"
        raise ExpressionError(SqlFinding(Reason.SCHEMA_INVALID, message))
    return _BASES[kind.word]


def _nullable(kind: SparkType, name: str, names: set[str]) -> Any:
    return ["null", _avro_type(kind, name, names)]


_BASES = {
    "BOOLEAN": "boolean",
    "TINYINT": "int",
    "SMALLINT": "int",
    "INT": "int",
    "BIGINT": "long",
    "FLOAT": "float",
    "DOUBLE": "double",
    "BINARY": "bytes",
}
_MEANT = {
    "DATE": ("int", "date"),
    "TIMESTAMP": ("long", "timestamp-micros"),
    "TIMESTAMP_NTZ": ("long", "local-timestamp-micros"),
    "TIME": ("long", "time-micros"),
}
