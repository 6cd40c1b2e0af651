"""The formats whose records have schemas: what planner and driver ask of a schema, whatever its format.

What is accepted here is what the format's codec reads and writes. Must not know streams.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.planning.types import json_schema
from holdfast.planning.types.avro.columns import avro_of, columns_of
from holdfast.planning.types.avro.reading import reading
from holdfast.planning.types.avro.schema import parse_avro
from holdfast.planning.types.avro.writing import writing
from holdfast.planning.types.misfits import Misfit
from holdfast.planning.types.protobuf import columns as protobuf_columns
from holdfast.planning.types.protobuf.fields import meeting
from holdfast.planning.types.protobuf.text import parse_proto
from holdfast.planning.types.schema_fields import SchemaField, avro_fields, json_fields, protobuf_fields
from holdfast.planning.types.spark_types import RowType

References = Sequence[tuple[str, str]]
"""Names and texts of schemas that another one refers to; those that others need come first."""


@dataclass(frozen=True, slots=True)
class Unread:
    """What of a stream's columns a schema can't fill."""

    misfits: tuple[Misfit, ...] = ()
    """Values that their column can't take: why."""
    absent: tuple[Misfit, ...] = ()
    """Columns that no field has: which, with the nearest name."""
    doubts: tuple[Misfit, ...] = ()
    """Columns that take some values of their field alone: with which a record is bad."""


@dataclass(frozen=True, slots=True)
class RecordFormat:
    """A format; its schemas are values that only it knows. All functions raise `ExpressionError` for bad ones."""

    name: str
    field: str
    """What of a stream says which schema it has."""
    kind: str
    """What registries call it."""
    parse: Callable[[str, References, str | None], Any]
    """Reads a text; the last is the message that records are, where the stream says so."""
    columns: Callable[[Any], RowType] | None
    """The columns that a schema says, if it does."""
    fields: Callable[[Any], tuple[SchemaField, ...]]
    """What records consist of, by name."""
    unread: Callable[[Any, RowType], Unread]
    unwritten: Callable[[Any, RowType], tuple[Misfit, ...]]
    """Why rows of these columns are no records of the schema."""
    made: Callable[[RowType, str], str] | None
    """Makes a schema of columns, and what it is called, if one may be made."""
    needs_registry: bool = False
    """Whether records without an id are of another format."""


def _unread_avro(schema: Any, rows: RowType) -> Unread:
    fields = reading(schema, rows)
    return Unread(fields.misfits, fields.absent, fields.doubts)


def _unread_protobuf(schema: Any, rows: RowType) -> Unread:
    fields = meeting(schema, rows)
    return Unread(fields.unread, fields.absent, fields.doubts)


def _unread_json(schema: Any, rows: RowType) -> Unread:
    return Unread(absent=json_schema.absent_columns(schema, rows), doubts=json_schema.doubtful_columns(schema, rows))


_FORMATS = (
    RecordFormat(
        name="avro",
        field="avro",
        kind="AVRO",
        parse=lambda text, references, _: parse_avro(text, [other for _, other in references]),
        columns=columns_of,
        fields=avro_fields,
        unread=_unread_avro,
        unwritten=lambda schema, rows: writing(schema, rows).misfits,
        made=avro_of,
    ),
    RecordFormat(
        name="json-schema",
        field="jsonSchema",
        kind="JSON",
        parse=lambda text, _references, _message: json_schema.parse_json_schema(text),
        columns=None,
        fields=json_fields,
        unread=_unread_json,
        unwritten=json_schema.unwritable_columns,
        made=json_schema.json_schema_of,
        needs_registry=True,
    ),
    RecordFormat(
        name="protobuf",
        field="protobuf",
        kind="PROTOBUF",
        parse=parse_proto,
        columns=protobuf_columns.columns_of,
        fields=protobuf_fields,
        unread=_unread_protobuf,
        unwritten=lambda schema, rows: meeting(schema, rows).unwritten,
        # Numbers of fields that follow from where a column stands would mean others after an edit.
        made=None,
    ),
)
RECORD_FORMATS: Mapping[str, RecordFormat] = {known.name: known for known in _FORMATS}
"""By the `format` of a stream."""
