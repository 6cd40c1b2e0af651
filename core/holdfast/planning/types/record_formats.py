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
from holdfast.planning.types.spark_types import RowType

References = Sequence[tuple[str, str]]
"""Names and texts of schemas that another one refers to; those that others need come first."""


@dataclass(frozen=True, slots=True)
class Unread:
    """What of a stream's columns a schema can't fill."""

    misfits: tuple[str, ...] = ()
    """Values that their column can't take: why."""
    absent: tuple[str, ...] = ()
    """Columns that no field has: which, with the nearest name."""


@dataclass(frozen=True, slots=True)
class RecordFormat:
    """A format; its schemas are values that only it knows. All functions raise `ExpressionError` for bad ones."""

    name: str
    field: str
    """What of a stream says which schema it has."""
    kind: str
    """What registries call it."""
    parse: Callable[[str, References], Any]
    columns: Callable[[Any], RowType] | None
    """The columns that a schema says, if it does."""
    unread: Callable[[Any, RowType], Unread]
    unwritten: Callable[[Any, RowType], tuple[str, ...]]
    """Why rows of these columns are no records of the schema."""
    made: Callable[[RowType, str], str]
    """A schema that is made of columns, and what it is called."""
    needs_registry: bool = False
    """Whether records without an id are of another format."""


def _unread_avro(schema: Any, rows: RowType) -> Unread:
    fields = reading(schema, rows)
    return Unread(fields.misfits, fields.absent)


_FORMATS = (
    RecordFormat(
        name="avro",
        field="avro",
        kind="AVRO",
        parse=lambda text, references: parse_avro(text, [other for _, other in references]),
        columns=columns_of,
        unread=_unread_avro,
        unwritten=lambda schema, rows: writing(schema, rows).misfits,
        made=avro_of,
    ),
    RecordFormat(
        name="json-schema",
        field="jsonSchema",
        kind="JSON",
        parse=lambda text, _: json_schema.parse_json_schema(text),
        columns=None,
        unread=lambda schema, rows: Unread(absent=json_schema.absent_columns(schema, rows)),
        unwritten=json_schema.unwritable_columns,
        made=json_schema.json_schema_of,
        needs_registry=True,
    ),
)
RECORD_FORMATS: Mapping[str, RecordFormat] = {known.name: known for known in _FORMATS}
"""By the `format` of a stream."""
