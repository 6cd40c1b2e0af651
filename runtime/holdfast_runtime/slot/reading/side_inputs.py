"""Side inputs of a slot: their records as changes of tables, rows to keep and keys to delete, in the order of records.

A record without a value deletes the row of its key, which is read from the key of the record; one whose key can't be
read, or has none, is counted and skipped. Changes of a database say more, and are read by their own codec. Event times
mean nothing here. Must not know tables but by their columns.
"""

import base64
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from holdfast.control.messages import EndOfStreamMessage
from holdfast.spec.streams import Stream
from holdfast_runtime.slot.batch_plan import SettledPartition
from holdfast_runtime.slot.reading.inputs import InputReader, RangeInput, RecordDecoder, value_decoder
from holdfast_runtime.slot.report import TaskReport
from holdfast_runtime.steps.tables.kept_table import GONE, SET, without_side
from holdfast_runtime.steps.tables.kept_versions import DatasetEnd, with_sets
from holdfast_runtime.steps.timed_rows import RowOrigin, TimedRows
from holdfast_runtime.streams.app_streams import RecordAccess
from holdfast_runtime.streams.changes import ChangeCodec
from holdfast_runtime.streams.codecs import codec_for
from holdfast_runtime.streams.header_ids import KEY_ID, VALUE_ID, without_header_ids
from holdfast_runtime.streams.record_keys import column_at, key_path
from holdfast_runtime.streams.records import OffsetRange, no_rows
from holdfast_runtime.streams.stream_codecs import SchemaRecords


class SideInputReader:
    """Reads one side input."""

    def __init__(
        self, declared: Stream, schema: pa.Schema, records: SchemaRecords | None = None, *, typed: bool
    ) -> None:
        """`schema`: its columns, `GONE` behind them, and `SET` if the data set is replaced as a whole."""
        self._schema, self._versioned = schema, SET.name in schema.names
        self._columns = without_side(schema)
        timeless = declared.model_copy(update={"event_time": None})
        self._are_changes = declared.changes is not None
        decoder = change_decoder if self._are_changes else value_decoder
        self._reader = InputReader(
            declared.name,
            timeless,
            self._columns,
            decoder(timeless, self._columns, records),
            typed=typed,
            ends=self._versioned,
        )
        none = no_rows(self._columns)
        self._key = pa.schema([(name, column_at(none, name).type) for name in declared.partition_key or ()])
        self._keys = codec_for("json", self._key)

    def read(
        self,
        offset_range: OffsetRange,
        streams: RecordAccess,
        now: int,
        report: TaskReport,
        settled: SettledPartition | None = None,
    ) -> RangeInput:
        """Read the changes of a range."""
        range_input = self._reader.read(offset_range, streams, now, report, settled)
        (origin,) = range_input.rows.origins
        if self._are_changes:
            return range_input
        parts = [_with(range_input.rows.rows, self._schema, deleted=False)]
        offsets = [origin.offsets.to_numpy()]
        if range_input.nulls is not None:
            keys, deleted_offsets = self._deleted(range_input.nulls)
            report.note_unkeyed(offset_range.partition.stream, range_input.nulls.num_rows - keys.num_rows)
            parts.append(_with(keys, self._schema, deleted=True))
            offsets.append(deleted_offsets)
        rows, row_offsets = pa.concat_batches(parts), np.concatenate(offsets)
        if len(parts) > 1:
            order = np.argsort(row_offsets, kind="stable")
            rows, row_offsets = rows.take(pa.array(order)), row_offsets[order]
        if self._versioned:
            sets = with_sets(offset_range.partition.partition, row_offsets, dataset_ends(range_input))
            rows = rows.set_column(rows.schema.get_field_index(SET.name), SET, sets)
        untimed = pa.nulls(rows.num_rows, pa.int64())
        range_input.rows = TimedRows(rows, untimed, (RowOrigin(offset_range.partition, pa.array(row_offsets)),))
        return range_input

    def _deleted(self, records: pa.RecordBatch) -> tuple[pa.RecordBatch, "np.typing.NDArray[np.int64]"]:
        """Return rows of the keys that records delete, and their offsets."""
        texts = pa.array([self._as_row(key) for key in records.column("key").to_pylist()], pa.binary())
        decoded = self._keys.decode(texts)
        whole = np.ones(decoded.rows.num_rows, bool)
        for column in decoded.rows.columns:
            whole &= column.is_valid().to_numpy(zero_copy_only=False)
        offsets = records.column("offset").to_numpy()[decoded.good]
        keys = decoded.rows.filter(pa.array(whole))
        parts = [
            (key_path(name, self._columns.names), values)
            for name, values in zip(self._key.names, keys.columns, strict=True)
        ]
        columns = [
            _holding(field, [(path[1:], values) for path, values in parts if _same(path[0], field.name)], keys.num_rows)
            for field in self._columns
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self._columns), offsets[whole]

    def _as_row(self, key: bytes | None) -> bytes | None:
        """Return the key of a record as a JSON object; None if it can't be one."""
        names = self._key.names
        if key is None or not names:
            return None
        try:
            if len(names) > 1:
                return json.dumps(dict(zip(names, json.loads(key), strict=True))).encode()
            return json.dumps({names[0]: _single(key, self._key.field(0).type)}).encode()
        except (ValueError, TypeError):
            return None


def change_decoder(declared: Stream, columns: pa.Schema, records: SchemaRecords | None) -> RecordDecoder:
    """Return what reads changes of a database: these columns, and `GONE` behind them. `records`: as of values."""
    changes = ChangeCodec(declared, columns, GONE, records)
    if records is None:
        return lambda batch, _: changes.decode(batch)
    return lambda batch, _: without_header_ids(changes.decode(batch), batch, [VALUE_ID, KEY_ID])


def dataset_ends(range_input: RangeInput) -> list[DatasetEnd]:
    """Return the ends of data sets in a range, in the order of offsets."""
    messages = zip(range_input.deliveries, range_input.delivered_at, strict=True)
    ended = [
        DatasetEnd(offset, delivery.message)
        for delivery, offset in messages
        if isinstance(delivery.message, EndOfStreamMessage)
    ]
    return sorted([*ended, *map(DatasetEnd, range_input.ends)], key=lambda end: end.offset)


def _holding(field: pa.Field, parts: Sequence[tuple[tuple[str, ...], pa.Array]], count: int) -> pa.Array:
    """Return a column with these values at these paths inside it, or in place of it, and nothing else."""
    if not parts:
        return pa.nulls(count, field.type)
    if not parts[0][0]:
        return parts[0][1]
    inner_columns = [
        _holding(inner, [(path[1:], values) for path, values in parts if _same(path[0], inner.name)], count)
        for inner in field.type
    ]
    return pa.StructArray.from_arrays(inner_columns, fields=list(field.type))


def _same(name: str, other: str) -> bool:
    return name.casefold() == other.casefold()


def _single(key: bytes, kind: pa.DataType) -> Any:
    """Return the key of one column as the value of a field in JSON."""
    if pa.types.is_string(kind):
        return key.decode()
    return base64.b64encode(key).decode() if pa.types.is_binary(kind) else json.loads(key)


def _with(rows: pa.RecordBatch, schema: pa.Schema, *, deleted: bool) -> pa.RecordBatch:
    """Return rows with all columns of a side input, null where they have none."""
    columns_by_name = {name: rows.column(index) for index, name in enumerate(rows.schema.names)}
    columns_by_name[GONE.name] = pa.array(np.full(rows.num_rows, deleted))
    columns = [columns_by_name.get(field.name, pa.nulls(rows.num_rows, field.type)) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
