"""Outputs of a slot: rows become records in partitions, followed by control messages, and are written with a marker.

Records are stored in the batch's delta before they are written, partition by partition: a replay after a failure
between two partitions writes what the first try would have written. So a batch must not contain what its topic does not
take: rows that are too large are found while encoding, and either the batch fails with an error that names the row, or
they become dead letters, as the stream's `onUnwritable` says. Dead letters themselves are cut until they fit. Must not
know steps or state.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import UserActionError
from holdfast.spec.streams import Partitioner
from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.slot.packed_outputs import OutgoingRecords, OutgoingStreams, records_of
from holdfast_runtime.slot.reading.user_records import payload_of, record_times, with_heads
from holdfast_runtime.steps.tables.kept_table import GONE
from holdfast_runtime.steps.timed_rows import TimedRows
from holdfast_runtime.streams.app_streams import StreamAccess
from holdfast_runtime.streams.codecs import DEAD_LETTER_SCHEMA, Codec
from holdfast_runtime.streams.markers import AttemptSlot, Decided
from holdfast_runtime.streams.record_columns import MetadataColumns
from holdfast_runtime.streams.record_keys import Numbers, key_bytes, place
from holdfast_runtime.streams.records import (
    NO_TIME,
    Marker,
    OffsetRange,
    RecordLimit,
    written_batch,
)

Encode = Callable[[pa.RecordBatch], pa.Array]
"""Encodes rows as the values of their records."""
_SHOWN = 80
_BASE64_SLACK = 16
"""Bytes that base64 may add beyond four for every three."""
_LONGEST_REASON = 200
_HEADER_FRAME = 10
"""More than a header takes beside its name and content."""


@dataclass(frozen=True, slots=True)
class EncodedRows:
    """Rows encoded as records of a stream."""

    stream: str
    step: str
    """The step that writes them."""
    rows: TimedRows
    keys: pa.Array
    values: pa.Array
    partitions: Numbers
    """The partition of each row."""
    headers: pa.ListArray | None = None
    """The headers of each record; None if they have none."""

    def too_large(self, limit: RecordLimit | None) -> Numbers:
        """Return the indices of records above the limit."""
        return too_large(self.keys, self.values, limit, self.headers)

    def refused(self, row: int, limit: RecordLimit, read: Sequence[OffsetRange]) -> UserActionError:
        """Return the error for one record; `read`: the ranges that the task's rows came from."""
        key = self.keys[row].as_py()
        by = "without a key" if key is None else f"with key {key[:_SHOWN]!r}{'...' if len(key) > _SHOWN else ''}"
        origin = ", ".join(map(str, read)) or "timers"
        return UserActionError(
            f"step {self.step}: a row for {self.stream}/{self.partitions[row]} {by} makes a record of "
            f"{self._size(row)} bytes, and {limit.most} are taken ({limit.setting}). It was made of {origin}. Raise "
            f"the limit, make rows smaller, or, if {self.stream} is a stream of the spec, set its onUnwritable to "
            f"DeadLetter",
            code="RecordTooLargeError",
        )

    def letters(self, bad: Numbers, limit: RecordLimit, *, typed: bool = False) -> pa.RecordBatch:
        """Return dead letters for these records; `typed`: Holdfast's own bytes stand before each value."""
        indices, none = pa.array(bad), [None] * len(bad)
        values = self.values.take(indices)
        reasons = [
            f"its record has {self._size(index)} bytes, and {limit.most} are taken ({limit.setting})" for index in bad
        ]
        columns = {
            "reason": reasons,
            "stream": [self.stream] * len(bad),
            "partition": self.partitions[bad],
            "offset": none,
            "key": self.keys.take(indices),
            "value": pa.array([payload_of(value) for value in values.to_pylist()], pa.binary()) if typed else values,
            "timestamp": self.rows.times.take(indices).cast(pa.timestamp("us", tz="UTC")),
            "headers": none if self.headers is None else self.headers.take(indices),
            "step": [self.step] * len(bad),
            "column": none,
        }
        arrays = [
            column if isinstance(column := columns[field.name], pa.Array) else pa.array(column, field.type)
            for field in DEAD_LETTER_SCHEMA
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=DEAD_LETTER_SCHEMA)

    def without(self, bad: Numbers) -> "EncodedRows":
        """Return the other records."""
        remaining = np.delete(np.arange(len(self.values)), bad)
        indices = pa.array(remaining)
        rows = TimedRows(self.rows.rows.take(indices), self.rows.times.take(indices))
        headers = None if self.headers is None else self.headers.take(indices)
        keys, values = self.keys.take(indices), self.values.take(indices)
        return EncodedRows(self.stream, self.step, rows, keys, values, self.partitions[remaining], headers)

    def _size(self, row: int) -> int:
        headers = None if self.headers is None else self.headers.slice(row, 1)
        return int(_sizes(self.keys.slice(row, 1), self.values.slice(row, 1), headers)[0])


def too_large(
    keys: pa.Array, values: pa.Array, limit: RecordLimit | None, headers: pa.ListArray | None = None
) -> Numbers:
    """Return the indices of records above the limit."""
    if limit is None:
        return np.array([], np.int64)
    return np.flatnonzero(_sizes(keys, values, headers) > limit.most)


def _sizes(keys: pa.Array, values: pa.Array, headers: pa.ListArray | None) -> Numbers:
    sizes: Numbers = _lengths(keys) + _lengths(values)
    if headers is None:
        return sizes
    indices, pairs = pc.list_parent_indices(headers).to_numpy(), headers.flatten()
    of_pairs = _lengths(pairs.field("key")) + _lengths(pairs.field("value")) + _HEADER_FRAME
    of_records: Numbers = np.bincount(indices, of_pairs, len(sizes)).astype(np.int64)
    return sizes + of_records


def _lengths(column: pa.Array) -> Numbers:
    lengths: Numbers = pc.fill_null(pc.binary_length(column), 0).to_numpy().astype(np.int64)
    return lengths


def fitting(letters: pa.RecordBatch, encode: Encode, limit: RecordLimit | None) -> pa.RecordBatch:
    """Return dead letters that can be written: one that is too large keeps as much of its value as fits."""
    bad = too_large(pa.nulls(letters.num_rows, pa.binary()), encode(letters), limit)
    if limit is None or not len(bad):
        return letters
    rows = letters.to_pylist()
    for index in bad:
        rows[index] = _cut(rows[index], encode, limit)
    return pa.RecordBatch.from_pylist(rows, DEAD_LETTER_SCHEMA)


def _cut(letter: Mapping[str, Any], encode: Encode, limit: RecordLimit) -> dict[str, Any]:
    value, reason = letter["value"] or b"", str(letter["reason"])
    for left_out in ({}, {"headers": None}, {"headers": None, "key": None}):
        cut = f"; too large for this stream, it is cut: of {len(value)} bytes of its value, the first are here"
        if left_out:
            cut += f", and no {' or '.join(left_out)}"
        bare = {**letter, **left_out, "reason": reason[:_LONGEST_REASON] + cut, "value": b""}
        room = (limit.most - _size(bare, encode)) * 3 // 4 - _BASE64_SLACK
        if room >= 0:
            return {**bare, "value": value[:room]}
    message = (
        f"a dead letter of {letter['stream']}/{letter['partition']} takes more than {limit.most} bytes even without "
        f"what it is about ({limit.setting}): raise the limit of the stream that takes dead letters"
    )
    raise UserActionError(message, code="RecordTooLargeError")


def _size(letter: Mapping[str, Any], encode: Encode) -> int:
    return len(encode(pa.RecordBatch.from_pylist([letter], DEAD_LETTER_SCHEMA))[0].as_py())


WRITE_STEPS = ("partition written",)


@dataclass(frozen=True, slots=True)
class OutputStream:
    """A stream that the app writes."""

    stream: str
    partitions: int
    key: tuple[str, ...] | None
    partitioner: Partitioner
    codec: Codec
    typed: bool
    """Whether its records start with a type byte."""
    step: str = ""
    """The step that writes it; empty for dead letters."""
    limit: RecordLimit | None = None
    lifetime: int | None = None
    """Milliseconds from its timestamp until its topic deletes a record; None: not for its age."""
    letters: "OutputStream | None" = None
    """The stream for rows whose records are too large; None: they stop the app."""
    nulls_together: bool = False
    """Whether rows with a null key go to one partition: who groups by it, or wants the last one, finds them there."""
    columns: MetadataColumns | None = None
    """Which columns of its rows are not in values; None: all are."""
    deletes: bool = False
    """Whether its rows have `GONE` behind their columns: records of those that are gone have no value."""


class Outbox:
    """What one task writes in one batch, in the order of each partition."""

    def __init__(
        self, turn: int, now: int, read: Sequence[OffsetRange] = (), called: Mapping[str, str] | None = None
    ) -> None:
        """`read`: the ranges that the task's rows came from, for error messages; `called`: names for dead letters."""
        self._called = called or {}
        self._turn, self._now, self._read = turn, now, read
        self._parts: dict[str, list[OutgoingRecords]] = {}
        self.rows: dict[str, int] = {}
        """Stream -> rows added."""
        self.unwritable = 0
        """Rows that became dead letters because their records are too large."""
        self.expired: dict[str, int] = {}
        """Stream -> rows with records that are older than its topic keeps them."""

    def add(self, target: OutputStream, rows: TimedRows) -> None:
        """Add rows, each to the partition of its key."""
        if not rows.count:
            return
        values = _with_deletes(target, rows.rows) if target.deletes else _values(target, rows.rows)
        if target.typed:
            values = with_heads(values, rows.times)
        keys = key_bytes(rows.rows, target.key)
        headers = None if target.columns is None else target.columns.headers(rows.rows)
        if target.partitions == 1:
            partitions = np.zeros(rows.count, np.int64)
        else:
            position = None if target.nulls_together else self._turn
            partitions = place(keys, target.partitions, target.partitioner, position=position)
        self._put_all(
            target,
            self._writable(target, EncodedRows(target.stream, target.step, rows, keys, values, partitions, headers)),
        )

    def add_letters(self, target: OutputStream, letters: pa.RecordBatch) -> None:
        """Add dead letters, cut to the size that the stream takes."""
        if self._called:
            column = letters.schema.get_field_index("stream")
            names = [self._called.get(name, name) for name in letters.column(column).to_pylist()]
            letters = letters.set_column(column, letters.schema.field(column), pa.array(names, pa.string()))
        letters = fitting(letters, target.codec.encode, target.limit)
        self.add(target, TimedRows(letters, pa.nulls(letters.num_rows, pa.int64())))

    def _writable(self, target: OutputStream, encoded: EncodedRows) -> EncodedRows:
        bad = encoded.too_large(target.limit)
        if target.limit is None or not len(bad):
            return encoded
        if target.letters is None:
            raise encoded.refused(int(bad[0]), target.limit, self._read)
        self.add_letters(target.letters, encoded.letters(bad, target.limit, typed=target.typed))
        self.unwritable += len(bad)
        return encoded.without(bad)

    def _put_all(self, target: OutputStream, encoded: EncodedRows) -> None:
        # In an intermediate stream a record's timestamp is the row's event time, but for its microseconds; NO_TIME
        # stands for a row without one.
        times = record_times(encoded.rows.times, NO_TIME if target.typed else self._now)
        if expired := _expired(target, times, self._now):
            self.expired[target.stream] = self.expired.get(target.stream, 0) + expired
        records = written_batch(encoded.keys, encoded.values, times, encoded.headers)
        self.rows[target.stream] = self.rows.get(target.stream, 0) + records.num_rows
        self._put(target.stream, records, encoded.partitions)

    def say(self, stream: str, partitions: Sequence[int], message: bytes) -> None:
        """Add a control message behind the rows."""
        count = len(partitions)
        self._put(stream, written_batch([None] * count, [message] * count, self._now), np.array(partitions, np.int64))

    def outgoing(self) -> OutgoingStreams:
        """Return all that was added, by stream and partition."""
        return OutgoingStreams(self._parts)

    def _put(self, stream: str, records: pa.RecordBatch, partitions: Numbers) -> None:
        if records.num_rows:
            self._parts.setdefault(stream, []).append(OutgoingRecords(records, partitions))


def _values(target: OutputStream, rows: pa.RecordBatch) -> pa.Array:
    return target.codec.encode(rows if target.columns is None else target.columns.value_rows(rows))


def _with_deletes(target: OutputStream, rows: pa.RecordBatch) -> pa.Array:
    """Return the values of rows, null for those that are gone: of these nothing but the key is there."""
    deleted = rows.column(GONE.name).to_numpy(zero_copy_only=False)
    values = _values(target, rows.drop_columns(GONE.name).filter(pa.array(~deleted)))
    return values.take(pa.array(np.cumsum(~deleted) - 1, mask=deleted))


def _expired(target: OutputStream, times: pa.Array, now: int) -> int:
    """Return how many records of these times the topic may delete as soon as they are there."""
    if target.lifetime is None:
        return 0
    values = times.to_numpy()
    old = values < now - target.lifetime
    # Rows of before 1970, or without a time, travel as times in the future.
    return int(np.count_nonzero(old & (values > 0) if target.typed else old))


def write(
    outputs_by_marker: Mapping[Marker, Mapping[str, bytes]],
    streams: StreamAccess,
    sender: AttemptSlot,
    at: Callable[[str], None],
    decided: Decided,
) -> None:
    """Write the outputs of tasks, by their markers, unless already written. `at` is called with each step."""
    writes: dict[StreamPartition, list[tuple[pa.RecordBatch, Marker]]] = {}
    for marker, outputs in outputs_by_marker.items():
        for partition, records in records_of(outputs):
            writes.setdefault(partition, []).append((records, marker))
    if writes:
        streams.write(sender, {partition: writes[partition] for partition in sorted(writes)}, at, decided)
