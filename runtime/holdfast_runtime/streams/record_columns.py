"""The columns of a stream's rows that are not in the values of its records: their keys, headers and places.

Read, they are added behind what was decoded. Written, they leave the rows before those are encoded, and become the
record's own key and headers. Must not know formats.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.spec.streams import MetadataField, Stream
from holdfast.tasks.partitions import StreamPartition
from holdfast.times import MICROS_PER_MILLI
from holdfast_runtime.streams.codecs.arrow_types import FIRST_MICROS, LAST_MICROS
from holdfast_runtime.streams.codecs.codec import BadRecord, DecodedBatch
from holdfast_runtime.streams.records import HEADERS

_NO_TEXT = "its key is no text in UTF-8, and metadata has key; take keyBytes, and decode it in a step"


@dataclass(frozen=True, slots=True)
class MetadataColumns:
    """Which columns of a stream's rows they are."""

    schema: pa.Schema
    """All columns."""
    fields: Mapping[str, MetadataField] = field(default_factory=dict)
    """Column -> what of the record it holds."""

    @classmethod
    def of(cls, declared: Stream | None, schema: pa.Schema) -> "MetadataColumns":
        """Return those of a stream whose rows have these columns."""
        return cls(schema, {} if declared is None else declared.metadata_columns)

    @property
    def in_value(self) -> pa.Schema:
        """The columns of values."""
        return pa.schema([column for column in self.schema if column.name not in self.fields])

    @property
    def fed(self) -> pa.Schema:
        """The columns of rows from which records are made outside of apps: those of values, and the key."""
        keys = [name for name, kind in self.fields.items() if kind in ("key", "keyBytes")]
        return pa.schema([*self.in_value, *map(self.schema.field, keys)])

    def added(self, decoded: DecodedBatch, records: pa.RecordBatch, partition: StreamPartition) -> DecodedBatch:
        """Return decoded records with all columns; a record whose key can't be one is bad."""
        if not self.fields:
            return decoded
        good = records.take(pa.array(decoded.good)) if len(decoded.good) < records.num_rows else records
        columns = {name: _of_records(kind, good, partition) for name, kind in self.fields.items()}
        without_text = np.zeros(good.num_rows, bool)
        for name in (name for name, kind in self.fields.items() if kind == "key"):
            columns[name], without = _texts(columns[name])
            without_text |= without
        columns |= dict(zip(decoded.rows.schema.names, decoded.rows.columns, strict=True))
        rows = pa.RecordBatch.from_arrays([columns[name] for name in self.schema.names], schema=self.schema)
        if not without_text.any():
            return replace(decoded, rows=rows)
        bad = [BadRecord(int(index), _NO_TEXT) for index in decoded.good[without_text]]
        return replace(
            decoded,
            rows=rows.filter(pa.array(~without_text)),
            good=decoded.good[~without_text],
            bad=tuple(sorted((*decoded.bad, *bad), key=lambda record: record.index)),
        )

    def value_rows(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows without the columns that are not in values."""
        if not self.fields:
            return rows
        return rows.select([name for name in rows.schema.names if name not in self.fields])

    def headers(self, rows: pa.RecordBatch) -> pa.ListArray | None:
        """Return the headers of the records of rows; None if such records are given none."""
        column = next((name for name, kind in self.fields.items() if kind == "headers"), None)
        return None if column is None else rows.column(column).cast(HEADERS.type)


def _of_records(kind: MetadataField, records: pa.RecordBatch, partition: StreamPartition) -> pa.Array:
    match kind:
        case "key" | "keyBytes":
            return records.column("key")
        case "headers":
            has_headers = "headers" in records.schema.names
            headers = records.column("headers") if has_headers else pa.nulls(records.num_rows, HEADERS.type)
            return headers.cast(_HEADER_ELEMENTS)
        case "partition":
            return pa.array(np.full(records.num_rows, partition.partition, np.int32))
        case "offset":
            return records.column("offset")
        case "timestamp":
            return _moments(records.column("timestamp"))
    assert_never(kind)


_HEADER_ELEMENTS = pa.list_(pa.field("element", HEADERS.type.value_type))
"""As rows have it."""


def _moments(stamps: pa.Int64Array) -> pa.TimestampArray:
    """Return timestamps of records as times, null outside of the years that rows can have."""
    first, last = FIRST_MICROS // MICROS_PER_MILLI, LAST_MICROS // MICROS_PER_MILLI
    believed = pc.and_(pc.greater_equal(stamps, first), pc.less_equal(stamps, last))
    micros = pc.multiply(pc.if_else(believed, stamps, None), MICROS_PER_MILLI)
    return micros.cast(pa.timestamp("us", tz="UTC"))


def _texts(keys: pa.BinaryArray) -> tuple[pa.StringArray, "np.typing.NDArray[np.bool_]"]:
    """Return keys as texts, null where they are none, and which are none."""
    try:
        return keys.cast(pa.string()), np.zeros(len(keys), bool)
    except pa.ArrowInvalid:
        texts = [None if key is None else _text(key) for key in keys.to_pylist()]
        column = pa.array(texts, pa.string())
        return column, pc.and_(column.is_null(), keys.is_valid()).to_numpy(zero_copy_only=False)


def _text(key: bytes) -> str | None:
    try:
        return key.decode()
    except UnicodeDecodeError:
        return None
