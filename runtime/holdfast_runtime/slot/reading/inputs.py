"""Inputs of a slot: fetches ranges of records, splits off control messages, decodes rows with their event times.

There is one reader per stream and process, because codecs adapt to their stream. A row whose event time is farther
ahead of the batch clock than `maxAhead` does not move the watermark: otherwise one producer with a wrong clock would
make all later rows late. Bad records are set aside. Must not know steps or state, nor decide what becomes of bad rows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.control.producers import Delivery
from holdfast.errors import UserActionError
from holdfast.spec.streams import EventTime, Stream
from holdfast.spec.values import millis
from holdfast.tasks.partitions import StreamPartition
from holdfast.times import Micros, floor_millis, micros, row_moment, time_span
from holdfast_runtime.slot.batch_plan import SettledPartition
from holdfast_runtime.slot.reading.user_records import split_records
from holdfast_runtime.slot.report import TaskReport
from holdfast_runtime.steps.plain.event_time import TimedBy
from holdfast_runtime.steps.timed_rows import RowOrigin, TimedRows
from holdfast_runtime.streams.app_streams import RecordAccess
from holdfast_runtime.streams.codecs import BadBatch, BadRecord, on_bad
from holdfast_runtime.streams.codecs.arrow_types import outside_years
from holdfast_runtime.streams.codecs.codec import DecodedBatch, Indices
from holdfast_runtime.streams.header_ids import VALUE_ID, without_header_ids
from holdfast_runtime.streams.record_columns import MetadataColumns
from holdfast_runtime.streams.record_keys import misplaced
from holdfast_runtime.streams.records import OffsetRange
from holdfast_runtime.streams.stream_codecs import SchemaRecords, stream_codec


@dataclass(frozen=True, slots=True)
class FarAheadRows:
    """The rows of a range whose event time is too far ahead of the clock."""

    rows: Indices
    """Indices of these rows."""
    latest: int | None
    """The latest event time of the other rows, in milliseconds, rounded down."""
    reason: Callable[[int], str]
    """Returns why a row is too far ahead, as a sentence."""


def far_ahead(times: pa.Int64Array, declared: EventTime | None, now: int) -> FarAheadRows:
    """Find rows too far ahead of the batch clock; none in a stream that declares no event time."""
    latest = _latest(times)
    if declared is None or latest is None or latest < now + millis(declared.max_ahead):
        return FarAheadRows(np.empty(0, np.int64), latest, lambda _: "")
    beyond = pc.greater(times, micros(now + millis(declared.max_ahead))).fill_null(False)  # noqa: FBT003 - Arrow's own
    rows = np.flatnonzero(beyond.to_numpy(zero_copy_only=False))

    def reason(row: int) -> str:
        time = Micros(times[row].as_py())
        return (
            f"{declared.text} is {row_moment(time)}, {time_span(floor_millis(time) - now)} ahead of the clock, and "
            f"eventTime.maxAhead is {declared.max_ahead}"
        )

    return FarAheadRows(rows, _latest(times.filter(pc.invert(beyond))), reason)


def note_ahead(ahead: FarAheadRows, where: Callable[[int], str], report: TaskReport) -> None:
    """Count rows that are too far ahead, and keep the first of them for people; `where` a row is."""
    if len(ahead.rows):
        first = int(ahead.rows[0])
        report.note_ahead([f"{where(first)}: {ahead.reason(first)}"])
        report.ahead += len(ahead.rows) - 1


def _latest(times: pa.Int64Array) -> int | None:
    """Return the latest time as watermarks have it."""
    return None if times.null_count == len(times) else floor_millis(Micros(pc.max(times).as_py()))


@dataclass(slots=True)
class RangeInput:
    """What was read from one range."""

    rows: TimedRows
    deliveries: list[Delivery] = field(default_factory=list)
    """Control messages among the records."""
    delivered_at: list[int] = field(default_factory=list)
    """The offset of each of them."""
    ends: list[int] = field(default_factory=list)
    """The offsets of records that end a data set, where such records are looked for."""
    latest: int | None = None
    """The latest event time that is not too far ahead, in milliseconds, rounded down."""
    letters: pa.RecordBatch | None = None
    """Dead letters for records that could not be decoded, if the stream wants them."""
    nulls: pa.RecordBatch | None = None
    """The records without a value, if there are any."""


RecordDecoder = Callable[[pa.RecordBatch, StreamPartition], DecodedBatch]
"""Makes rows of the records of a partition."""


def value_decoder(declared: Stream | None, schema: pa.Schema, records: SchemaRecords | None) -> RecordDecoder:
    """Return what reads the values of a stream into these columns. `records`: what a registry says of them."""
    columns = MetadataColumns.of(declared, schema)
    codec = stream_codec(declared, columns.in_value, records)

    def decoded(batch: pa.RecordBatch, partition: StreamPartition) -> DecodedBatch:
        of_values = codec.decode(batch.column("value"))
        if records is not None:
            of_values = without_header_ids(of_values, batch, [VALUE_ID])
        return columns.added(of_values, batch, partition)

    return decoded


class InputReader:
    """Reads and decodes one stream."""

    def __init__(
        self,
        name: str,
        declared: Stream | None,
        schema: pa.Schema,
        decoder: RecordDecoder,
        *,
        typed: bool,
        ends: bool = False,
    ) -> None:
        """`typed`: records start with a type byte, because the stream carries control messages.

        `ends`: records with the header `DATASET_END` are not rows.
        """
        self._ends = ends
        self._name, self._declared, self._schema, self._typed = name, declared, schema, typed
        self._has_metadata = declared is not None and bool(declared.metadata_columns)
        self._decode = decoder
        self._mode = declared.on_decode_error if declared is not None else "Fail"
        self._event_time = declared.event_time if declared is not None else None
        self._timed_by = None if self._event_time is None else TimedBy.of(self._event_time, schema)

    def read(
        self,
        offset_range: OffsetRange,
        streams: RecordAccess,
        now: int,
        report: TaskReport,
        settled: SettledPartition | None = None,
    ) -> RangeInput:
        """Read the rows of a range; `now` is the batch clock.

        If the partition is `settled`, count the records whose key belongs to another partition.
        """
        generated = None if self._has_metadata else streams.rows(offset_range)
        if generated is not None:
            rows = self._made_up(generated, offset_range)
            ahead = far_ahead(rows.times, self._event_time, now)
            partition = offset_range.partition
            note_ahead(ahead, lambda row: f"{partition} at offset {offset_range.start + row}", report)
            range_input = RangeInput(rows, latest=ahead.latest)
        else:
            range_input = self._fetched(offset_range, streams, now, report, settled)
        if range_input.rows.count:
            report.rows_in[self._name] = report.rows_in.get(self._name, 0) + range_input.rows.count
        report.read[self._name] = report.read.get(self._name, 0) + offset_range.end - offset_range.start
        return range_input

    def _fetched(
        self,
        offset_range: OffsetRange,
        streams: RecordAccess,
        now: int,
        report: TaskReport,
        settled: SettledPartition | None,
    ) -> RangeInput:
        records = streams.fetch(offset_range)
        report.bytes_in += records.nbytes
        report.bytes_read[self._name] = report.bytes_read.get(self._name, 0) + records.nbytes
        if settled is not None:
            self._count_misplaced(offset_range.partition, records, settled, report)
        deliveries, delivered_at, ends = list[Delivery](), list[int](), list[int]()
        if self._ends:
            records, ends = _without_ends(records)
        parted = split_records(records, offset_range.partition) if self._typed else None
        if parted is not None:
            records, deliveries, delivered_at = parted.users, parted.deliveries, parted.delivered_at
        decoded = self._decode(records, offset_range.partition)
        nulls = records.take(pa.array(decoded.nulls)) if len(decoded.nulls) else None
        offsets = records.column("offset").take(pa.array(decoded.good))
        if self._timed_by is None and parted is not None:
            letters = self._bad(offset_range.partition, records, decoded.bad, report)
            origins = (RowOrigin(offset_range.partition, offsets),)
            rows = TimedRows(decoded.rows, parted.times(decoded.good), origins)
            return RangeInput(rows, deliveries, delivered_at, ends, letters=letters, nulls=nulls)
        timed, outside = self._timed(decoded.rows, offset_range.partition, offsets)
        bad, good = decoded.bad, decoded.good
        if len(outside):
            bad = (*bad, *(BadRecord(int(good[row]), self._no_year()) for row in outside.tolist()))
            in_years = np.isin(np.arange(timed.count), outside, invert=True)
            timed, good, offsets = timed.where(in_years), good[in_years], offsets.filter(pa.array(in_years))
        ahead = far_ahead(timed.times, self._event_time, now)
        note_ahead(ahead, lambda row: f"{offset_range.partition} at offset {offsets[row].as_py()}", report)
        if len(ahead.rows) and self._mode == "DeadLetter":
            bad = (*bad, *(BadRecord(int(good[row]), ahead.reason(row)) for row in ahead.rows.tolist()))
            timed = timed.where(np.isin(np.arange(timed.count), ahead.rows, invert=True))
            report.undecoded -= len(ahead.rows)
        letters = self._bad(offset_range.partition, records, sorted(bad, key=lambda record: record.index), report)
        return RangeInput(timed, deliveries, delivered_at, ends, ahead.latest, letters, nulls)

    def _count_misplaced(
        self, partition: StreamPartition, records: pa.RecordBatch, settled: SettledPartition, report: TaskReport
    ) -> None:
        if self._declared is None or self._declared.partition_key is None or self._declared.partitioner == "none":
            return
        keys = records.filter(pc.greater_equal(records.column("offset"), settled.since)).column("key")
        count = misplaced(keys, partition.partition, settled.partitions, self._declared.partitioner)
        if count:
            report.misplaced[self._name] = report.misplaced.get(self._name, 0) + count

    def _bad(
        self, partition: StreamPartition, records: pa.RecordBatch, bad: Sequence[BadRecord], report: TaskReport
    ) -> pa.RecordBatch | None:
        if not bad:
            return None
        batch = BadBatch(
            partition.stream,
            partition.partition,
            records.column("offset"),
            records.column("key"),
            records.column("value"),
            records.column("timestamp").cast(pa.timestamp("ms", tz="UTC")),
            bad,
            records.column("headers") if "headers" in records.schema.names else None,
        )
        handled = on_bad(batch, self._mode)
        report.undecoded += handled.count
        return handled.letters if handled.letters.num_rows else None

    def _timed(
        self, rows: pa.RecordBatch, partition: StreamPartition, offsets: pa.Int64Array
    ) -> tuple[TimedRows, Indices]:
        """Return rows with their event times, and those whose time is in no year that rows can have."""
        origins = (RowOrigin(partition, offsets),)
        if self._timed_by is None:
            return TimedRows(rows, pa.nulls(rows.num_rows, pa.int64()), origins), np.empty(0, np.int64)
        times, outside = self._timed_by.times(rows)
        return TimedRows(rows, times, origins), outside

    def _no_year(self) -> str:
        assert self._event_time is not None  # noqa: S101 - it is what gave the time
        return (
            f"event time {self._event_time.text} is outside of the years 1 to 9999; look at the unit of what counts it"
        )

    def _made_up(self, rows: pa.RecordBatch, offset_range: OffsetRange) -> TimedRows:
        """Return a generator's rows as those of records that hold them."""
        offsets = pa.array(np.arange(offset_range.start, offset_range.end))
        rows = self._fitted(rows)
        timed, outside = self._timed(rows, offset_range.partition, offsets)
        if len(outside):
            message = f"the generator of stream {self._name} gave a row of which {self._no_year()}"
            raise UserActionError(message, code="GeneratorFunctionError")
        return timed

    def _fitted(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return a generator's rows with the columns that the stream's schema declares."""
        columns = []
        for column in self._schema:
            if column.name not in rows.schema.names:
                message = (
                    f"the generator of stream {self._name} gave the columns {', '.join(rows.schema.names)} and no "
                    f"{column.name}, which the stream's schema has"
                )
                raise UserActionError(message, code="GeneratorFunctionError")
            values = rows.column(column.name)
            try:
                columns.append(values if values.type == column.type else values.cast(column.type))
            except pa.ArrowException as error:
                message = (
                    f"the generator of stream {self._name} gave {column.name} as {values.type}, which does not fit "
                    f"{column.type} of the stream's schema: {error}"
                )
                raise UserActionError(message, code="GeneratorFunctionError") from error
            path = outside_years(columns[-1], column.name)
            if path is not None:
                message = f"the generator of stream {self._name} gave a time outside of the years 1 to 9999 as {path}"
                raise UserActionError(message, code="GeneratorFunctionError")
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)


DATASET_END = ("holdfast-dataset", b"end")
"""The header of a record that ends a data set."""


def _without_ends(records: pa.RecordBatch) -> tuple[pa.RecordBatch, list[int]]:
    """Return records without those that end a data set, and the offsets of these."""
    if "headers" not in records.schema.names:
        return records, []
    headers = records.column("headers").to_pylist()
    ends = np.array(
        [
            DATASET_END in [(header["key"], header["value"]) for header in record_headers or ()]
            for record_headers in headers
        ],
        bool,
    )
    return records.filter(pa.array(~ends)), records.column("offset").filter(pa.array(ends)).to_pylist()
