"""Outputs of a slot: rows become records in partitions, followed by control messages, and are written with a marker.

Records are stored in the batch's delta before they are written, partition by partition: a replay after a failure
between two partitions writes what the first try would have written. Must not know steps or state.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.spec.streams import Partitioner
from holdfast.tasks.partitions import StreamPartition, parse_partition
from holdfast_runtime.slot.record_limits import EncodedRows, fitting
from holdfast_runtime.steps.timed_rows import TimedRows
from holdfast_runtime.streams.app_streams import StreamAccess
from holdfast_runtime.streams.codecs import Codec
from holdfast_runtime.streams.keys import key_bytes, place, split
from holdfast_runtime.streams.markers import AttemptSlot
from holdfast_runtime.streams.records import NO_TIME, WRITTEN, Marker, OffsetRange, RecordLimit, stacked, written_batch

WRITE_STEPS = ("partition written",)
_TYPE_OF_ROWS = b"\0"


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
    letters: "OutputStream | None" = None
    """The stream for rows whose records are too large; None: they stop the app."""


class Outbox:
    """What one task writes in one batch, in the order of each partition."""

    def __init__(self, turn: int, now: int, read: Sequence[OffsetRange] = ()) -> None:
        """`read`: the ranges that the task's rows came from, for error messages."""
        self._turn, self._now, self._read = turn, now, read
        self._parts: dict[StreamPartition, list[pa.RecordBatch]] = {}
        self.rows: dict[str, int] = {}
        """Stream -> rows added."""
        self.unwritable = 0
        """Rows that became dead letters because their records are too large."""

    def add(self, target: OutputStream, rows: TimedRows) -> None:
        """Add rows, each to the partition of its key."""
        if not rows.count:
            return
        values = target.codec.encode(rows.rows)
        if target.typed:
            values = pc.binary_join_element_wise(_TYPE_OF_ROWS, values, b"")
        keys = key_bytes(rows.rows, target.key)
        if target.partitions == 1:
            places = np.zeros(rows.count, np.int64)
        else:
            places = place(keys, target.partitions, target.partitioner, position=self._turn)
        self._put_all(
            target, self._writable(target, EncodedRows(target.stream, target.step, rows, keys, values, places))
        )

    def add_letters(self, target: OutputStream, letters: pa.RecordBatch) -> None:
        """Add dead letters, cut to the size that the stream takes."""
        letters = fitting(letters, target.codec.encode, target.limit)
        self.add(target, TimedRows(letters, pa.nulls(letters.num_rows, pa.int64())))

    def _writable(self, target: OutputStream, written: EncodedRows) -> EncodedRows:
        bad = written.too_large(target.limit)
        if target.limit is None or not len(bad):
            return written
        if target.letters is None:
            raise written.refused(int(bad[0]), target.limit, self._read)
        own = len(_TYPE_OF_ROWS) if target.typed else 0
        self.add_letters(target.letters, written.letters(bad, target.limit, own))
        self.unwritable += len(bad)
        return written.without(bad)

    def _put_all(self, target: OutputStream, written: EncodedRows) -> None:
        # In an intermediate stream a record's timestamp is the row's event time; NO_TIME stands for a row without one.
        times = written.rows.times.fill_null(NO_TIME if target.typed else self._now)
        records = written_batch(written.keys, written.values, times)
        self.rows[target.stream] = self.rows.get(target.stream, 0) + records.num_rows
        if target.partitions == 1 and records.num_rows:
            self._put(StreamPartition(target.stream, 0), records)
            return
        for number, part in split(records, written.places):
            self._put(StreamPartition(target.stream, number), part)

    def say(self, stream: str, partitions: Iterable[int], message: bytes) -> None:
        """Add a control message behind the rows."""
        record = written_batch([None], [message], self._now)
        for number in partitions:
            self._put(StreamPartition(stream, number), record)

    def packed(self) -> dict[str, bytes]:
        """Return partition -> its records as bytes."""
        return {
            str(partition): _packed(stacked(parts, WRITTEN, f"the records for {partition} from one task"))
            for partition, parts in sorted(self._parts.items())
        }

    def _put(self, partition: StreamPartition, records: pa.RecordBatch) -> None:
        self._parts.setdefault(partition, []).append(records)


@dataclass(frozen=True, slots=True)
class TaskOutput:
    """What one task writes, with its marker."""

    marker: Marker
    outputs: Mapping[str, bytes]


def write(
    sent: Sequence[TaskOutput], streams: StreamAccess, sender: AttemptSlot, at: Callable[[str], None] = lambda _: None
) -> None:
    """Write the outputs of tasks; those already written are skipped. `at` is called with each step."""
    writes: dict[str, list[tuple[pa.RecordBatch, Marker]]] = {}
    for one in sent:
        for partition, content in one.outputs.items():
            writes.setdefault(partition, []).append((_unpacked(content), one.marker))
    if writes:
        streams.write(sender, {parse_partition(name): writes[name] for name in sorted(writes)}, at)


def _packed(records: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, WRITTEN) as writer:
        writer.write_batch(records)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def _unpacked(content: bytes) -> pa.RecordBatch:
    with pa.ipc.open_stream(pa.py_buffer(content)) as stream:
        return stacked(list(stream), WRITTEN, "the records of an earlier release")
