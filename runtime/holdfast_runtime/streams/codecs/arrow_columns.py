"""The columns of Arrow records converted to those of their stream: matched by name, of kindred types.

Missing columns are null and extra ones are ignored; a column of an unrelated type makes the record bad. Kindred types
differ in layout or width and lose nothing, also inside lists, maps and structs. Values that Arrow allows but no later
step can use make a record bad too: null keys of a map, times outside of the years 1 to 9999, times of day finer than
microseconds, intervals at the limit of 64 bits. Must not read messages.
"""

from dataclasses import dataclass
from typing import NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast_runtime.streams.codecs.arrow_types import outside_years, parts

MOST_BYTES = 64 << 20
"""Limit on a decompressed record, unless the record itself is larger."""
MOST_VALUES = 10_000_000
"""Limit on the elements in the lists of a column, at any depth: null ones take no bytes."""
NANOS_PER_MICRO = 1000
LONGEST_DAYS = 106_751_991
LONGEST = LONGEST_DAYS * 86_400_000_000
"""Microseconds. Arrow can hold intervals up to a day longer, but they can't be read back from Python."""
VIEWS = (pa.string_view(), pa.binary_view())


class RefusedError(Exception):
    """A record is bad, for this reason."""


@dataclass(frozen=True, slots=True)
class ColumnMapping:
    """How the columns of a stream come from those of records with one schema."""

    schema: pa.Schema
    """The stream's schema."""
    found: pa.Schema
    """The records' schema."""
    places: tuple[int | None, ...]
    """Index of each column in the records, None if missing."""
    growing: frozenset[int]
    """Columns whose values may be larger than their bytes."""
    foreign: frozenset[int]
    """Columns of a kindred type, which are cast."""

    @classmethod
    def of(cls, schema: pa.Schema, record_schema: pa.Schema) -> "ColumnMapping":
        """Map the columns; raise `RefusedError` if one appears twice or has an unrelated type."""
        places = tuple(_place(record_schema, field) for field in schema)
        kinds = [(index, record_schema.field(place).type) for index, place in enumerate(places) if place is not None]
        growing = frozenset(index for index, kind in kinds if pa.types.is_nested(kind) or kind in VIEWS)
        foreign = frozenset(index for index, kind in kinds if kind != schema.field(index).type)
        return cls(schema, record_schema, places, growing, foreign)

    def fit(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the stream's columns; raise `RefusedError` if values do not fit. The batch must be valid."""
        columns = []
        for index, place in enumerate(self.places):
            field = self.schema.field(index)
            if place is None:
                columns.append(pa.nulls(batch.num_rows, field.type))
                continue
            column = batch.column(place)
            if index in self.growing:
                _require_bounded(column, field.name)
            columns.append(_cast(column, field) if index in self.foreign else column)
        return pa.RecordBatch.from_arrays(columns, schema=self.schema) if columns else batch.select([])


def unusable(rows: pa.RecordBatch) -> str | None:
    """Return why later steps can't use these rows, or None. Checked for many records at once, as it is rare."""
    reasons = (_unusable(column, field.name) for field, column in zip(rows.schema, rows.columns, strict=True))
    return next((reason for reason in reasons if reason is not None), None)


def _place(record_schema: pa.Schema, field: pa.Field) -> int | None:
    places = record_schema.get_all_field_indices(field.name)
    if len(places) > 1:
        _refuse(f"field {field.name} is there {len(places)} times")
    if places and not kindred(record_schema.field(places[0]).type, field.type):
        _refuse(f"field {field.name} should be {field.type}, found {record_schema.field(places[0]).type}")
    return places[0] if places else None


def _cast(column: pa.Array, field: pa.Field) -> pa.Array:
    try:
        cast_column = column.cast(field.type)
        cast_column.validate()  # what pyarrow makes of arrays of nulls can be invalid
    except pa.ArrowException:
        _refuse(f"field {field.name} should be {field.type}, found {column.type} with values that do not fit")
    return cast_column


def kindred(actual: pa.DataType, expected: pa.DataType) -> bool:
    """Whether values of one type convert to another without loss, except for single values that do not fit."""
    if actual == expected or any(all(test(kind) for kind in (actual, expected)) for test in KINDRED):
        return True
    if pa.types.is_struct(actual) and pa.types.is_struct(expected):
        names = {field.name for field in expected}
        return all(kindred(field.type, expected.field(field.name).type) for field in actual if field.name in names)
    same = any(all(test(kind) for kind in (actual, expected)) for test in (pa.types.is_list, pa.types.is_map))
    return same and all(
        kindred(actual.field(index).type, expected.field(index).type) for index in range(expected.num_fields)
    )


def _require_bounded(column: pa.Array, path: str) -> None:
    kind = column.type
    if kind in VIEWS:
        # Many text views may point at the same bytes.
        lengths = np.frombuffer(column.buffers()[1], np.int32)[4 * column.offset :: 4][: len(column)]
        size = int(lengths.sum(dtype=np.int64, where=column.is_valid().to_numpy(zero_copy_only=False)))
        if size > MOST_BYTES:
            _refuse(f"field {path} holds {size} bytes of text, and {MOST_BYTES} of a record are read")
    elif pa.types.is_list(kind) or pa.types.is_map(kind):
        elements = column.values
        if len(elements) > MOST_VALUES:
            _refuse(f"field {path} has {len(elements)} elements, and {MOST_VALUES} of a record are read")
        _require_bounded(elements, path)
    elif pa.types.is_struct(kind):
        for index, part in enumerate(kind):
            _require_bounded(column.field(index), f"{path}.{part.name}")


def _unusable(column: pa.Array, path: str) -> str | None:
    kind = column.type
    if pa.types.is_nested(kind):
        inner = list(parts(column))
        if pa.types.is_map(kind) and inner[0][1].null_count:
            return f"field {path} has a key that is null"
        reasons = (_unusable(part, f"{path}{where}") for where, part in inner)
        return next((reason for reason in reasons if reason is not None), None)
    if pa.types.is_time(kind) and pc.any(pc.not_equal(_remainder(column.view(pa.int64())), 0)).as_py():
        return f"field {path} holds a time of day with a part of a microsecond"
    if pa.types.is_duration(kind) and pc.any(pc.greater(_size(column.view(pa.int64())), LONGEST)).as_py():
        return f"field {path} holds an interval of more than {LONGEST_DAYS} days"
    if outside_years(column, path) is not None:
        return f"field {path} holds a time outside of the years 1 to 9999"
    return None


def _size(micros: pa.Array) -> pa.Array:
    """Return the absolute values, without overflow on the smallest number."""
    return pc.max_element_wise(micros, pc.bit_wise_not(micros), skip_nulls=False)


def _remainder(nanos: pa.Array) -> pa.Array:
    return pc.subtract(nanos, pc.multiply(pc.divide(nanos, NANOS_PER_MICRO), NANOS_PER_MICRO))


def _refuse(reason: str) -> NoReturn:
    raise RefusedError(reason) from None


def _text(kind: pa.DataType) -> bool:
    return kind in (pa.string(), pa.large_string(), pa.string_view())


def _bytes(kind: pa.DataType) -> bool:
    return kind in (pa.binary(), pa.large_binary(), pa.binary_view()) or pa.types.is_fixed_size_binary(kind)


def _instant(kind: pa.DataType) -> bool:
    return pa.types.is_timestamp(kind) and kind.tz is not None


def _wall_clock(kind: pa.DataType) -> bool:
    return pa.types.is_timestamp(kind) and kind.tz is None


KINDRED = (_text, _bytes, _instant, _wall_clock, pa.types.is_integer)
