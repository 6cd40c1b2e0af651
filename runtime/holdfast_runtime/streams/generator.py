"""Generator systems: streams without a broker, whose rows a user function makes at a chosen rate.

Rows are a function of partition and offset, and the end of a partition is a function of time and rate alone, so a
replay and every restart get the same. Such streams can't be written. `Pace` must not look at a clock, and rows must not
depend on one; only the end of a partition does, by the clock that is passed in.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from holdfast.errors import UserActionError
from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.streams.record_keys import key_bytes
from holdfast_runtime.streams.records import FETCHED, Marker, OffsetBounds, OffsetRange, check_partition, check_range

Numbers = npt.NDArray[np.int64]
_SECOND = 1000


@dataclass(frozen=True, slots=True)
class Pace:
    """The number of rows up to a time, and the rate from then on. The caller stores it, so that a restart finds it."""

    rows_per_second: int
    since: int
    """Milliseconds since 1970."""
    before: int = 0
    """Rows made before `since`, over all partitions."""

    def total(self, now: int) -> int:
        """Return the rows over all partitions; a clock before `since` adds none."""
        return self.before + self.rows_per_second * max(0, now - self.since) // _SECOND

    def changed(self, rows_per_second: int, now: int) -> "Pace":
        """Return the pace with another rate from now on; rows made so far stay."""
        if rows_per_second == self.rows_per_second:
            return self
        return Pace(rows_per_second, max(now, self.since), self.total(now))

    def end(self, partition: int, partitions: int, now: int) -> int:
        """Return the end offset of a partition: rows are dealt to partitions in turn."""
        return max(0, self.total(now) - partition + partitions - 1) // partitions

    def due(self, rows: Numbers) -> Numbers:
        """Return when rows, counted over all partitions, were due; those from before `since` at `since`."""
        return self.since + np.maximum(0, rows - self.before + 1) * _SECOND // self.rows_per_second


Make = Callable[[int, int, int], pa.RecordBatch]
"""Makes rows from partition, first offset and count."""
Encode = Callable[[pa.RecordBatch], pa.Array]
"""Encodes rows as record values."""


@dataclass(frozen=True, slots=True)
class GeneratedStream:
    """One stream of a generator."""

    name: str
    partitions: int
    key: tuple[str, ...] | None
    encode: Encode
    """Encodes its values, for readers that want records rather than rows."""


class Generator:
    """The streams of one generator system."""

    def __init__(
        self,
        path: str,
        make: Make,
        streams: Sequence[GeneratedStream],
        *,
        pace: Pace,
        clock: Callable[[], int],
    ) -> None:
        """`path` is the function's name, for messages; `clock` gives milliseconds since 1970."""
        self._path, self._make = path, make
        self._streams: Mapping[str, GeneratedStream] = {stream.name: stream for stream in streams}
        self._counts = {stream.name: stream.partitions for stream in streams}
        self._pace, self._clock = pace, clock

    def bounds(self, stream: str) -> dict[StreamPartition, OffsetBounds]:
        """Return what exists of each partition by now."""
        check_partition(StreamPartition(stream, 0), self._counts)
        count, now = self._counts[stream], self._clock()
        return {StreamPartition(stream, i): OffsetBounds(0, self._pace.end(i, count, now)) for i in range(count)}

    def since(self, stream: str, moment: int) -> dict[int, int]:
        """Return the first offsets with a timestamp at this moment or later, of partitions that have one."""
        first_offsets = {}
        for partition, bounds in self.bounds(stream).items():
            number, count = partition.partition, self._counts[stream]
            first = bisect_left(
                range(bounds.end),
                moment,
                key=lambda offset: int(self._pace.due(np.array([offset * count + number]))[0]),
            )
            if first < bounds.end:
                first_offsets[number] = first
        return first_offsets

    def fetch(self, offset_range: OffsetRange) -> pa.RecordBatch:
        """Return exactly the records of a range. The clock is not checked: a replay must not depend on it."""
        rows, stream = self.rows(offset_range), self._streams[offset_range.partition.stream]
        offsets = np.arange(offset_range.start, offset_range.end, dtype=np.int64)
        due = self._pace.due(offsets * stream.partitions + offset_range.partition.partition)
        columns = [pa.array(offsets), key_bytes(rows, stream.key), stream.encode(rows), pa.array(due)]
        return pa.RecordBatch.from_arrays(columns, schema=FETCHED)

    def rows(self, offset_range: OffsetRange) -> pa.RecordBatch:
        """Return the rows of a range as the function makes them, without encoding, for the app's own inputs."""
        partition, start, end = offset_range.partition, offset_range.start, offset_range.end
        check_partition(partition, self._counts)
        check_range(offset_range, OffsetBounds(0, max(end, start)))
        try:
            rows = self._make(partition.partition, start, end - start)
        except Exception as error:
            raise self._error(offset_range, f"failed: {type(error).__name__}: {error}") from error
        if not isinstance(rows, pa.RecordBatch):
            raise self._error(offset_range, f"gave a {type(rows).__name__}; it must give a pyarrow.RecordBatch")
        if rows.num_rows != end - start:
            raise self._error(offset_range, f"gave {rows.num_rows} rows where {end - start} were asked for")
        names = {name.casefold() for name in rows.schema.names}
        key = self._streams[partition.stream].key or ()
        if missing := [name for name in key if names.isdisjoint((name.casefold(), name.partition(".")[0].casefold()))]:
            raise self._error(
                offset_range, f"gave no column {missing[0]}, which is the key of stream {partition.stream}"
            )
        return rows

    def append(self, partition: StreamPartition, records: pa.RecordBatch, marker: Marker | None = None) -> bool:
        """Raise `ReadOnlyError`."""
        message = (
            f"{partition} can't be written ({records.num_rows} records{f' of {marker.task}' if marker else ''}): "
            f"{self._path} makes its rows up"
        )
        raise UserActionError(message, code="ReadOnlyError")

    def _error(self, offset_range: OffsetRange, what: str) -> UserActionError:
        partition, start, end = offset_range.partition, offset_range.start, offset_range.end
        call = f"{self._path}(partition={partition.partition}, offset={start}, count={end - start})"
        return UserActionError(f"{call} for stream {partition.stream} {what}", code="GeneratorFunctionError")
