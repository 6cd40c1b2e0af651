"""What is left to read of all partitions of an attempt, in columns: a row for each, in the order of partitions.

Apps read tens of thousands of partitions, and each batch looks at all of them, so what is the same for all is done by
numpy and not once for each. Must not decide what is read.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter

import numpy as np
import numpy.typing as npt

from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.streams.records import OffsetBounds

Offsets64 = npt.NDArray[np.int64]
_OLDEST, _END = attrgetter("oldest"), attrgetter("end")


@dataclass(frozen=True)
class PartitionRows:
    """The partitions of an attempt, each in the row that it has in all columns."""

    partitions: Sequence[StreamPartition]
    """Sorted."""

    @cached_property
    def row_of(self) -> Mapping[StreamPartition, int]:
        """Partition -> its row."""
        return {partition: row for row, partition in enumerate(self.partitions)}

    @cached_property
    def rows_of(self) -> Mapping[str, slice]:
        """Stream -> its rows."""
        rows, begin = dict[str, slice](), 0
        for row, partition in enumerate(self.partitions):
            if row + 1 == len(self.partitions) or self.partitions[row + 1].stream != partition.stream:
                rows[partition.stream], begin = slice(begin, row + 1), row + 1
        return rows

    @cached_property
    def numbers(self) -> Offsets64:
        """The numbers of the partitions in their streams."""
        return np.array([partition.partition for partition in self.partitions], dtype=np.int64)

    def column(self, offsets: Callable[[StreamPartition], int]) -> Offsets64:
        """Return a number for each partition."""
        return np.fromiter(map(offsets, self.partitions), np.int64, len(self.partitions))

    def sizes(self, by_stream: Mapping[str, float]) -> npt.NDArray[np.float64]:
        """Return the size of records of each partition; 0 where it is not known."""
        column = np.zeros(len(self.partitions))
        for stream, rows in self.rows_of.items():
            column[rows] = by_stream.get(stream, 0.0)
        return column

    def chosen(self, rows: Iterable[int]) -> list[StreamPartition]:
        """Return the partitions in these rows."""
        return [self.partitions[row] for row in rows]


@dataclass(frozen=True, slots=True)
class BoundColumns:
    """Where partitions begin and end."""

    oldest: Offsets64
    newest: Offsets64
    """Behind the newest record."""
    end: Offsets64
    """Behind the last record that is read: a bounded stream may go on behind it."""

    @classmethod
    def of(
        cls,
        rows: PartitionRows,
        bounds: Mapping[StreamPartition, OffsetBounds],
        ends: Mapping[StreamPartition, int],
    ) -> "BoundColumns":
        """Return the columns for these bounds; `ends`: partition of a bounded stream -> its end."""
        each = [bounds[partition] for partition in rows.partitions]
        oldest, newest = (np.fromiter(map(one, each), np.int64, len(each)) for one in (_OLDEST, _END))
        end = newest
        if ends:
            end = newest.copy()
            for partition, last in ends.items():
                if (row := rows.row_of.get(partition)) is not None:
                    end[row] = min(newest[row], last)
        return cls(oldest, newest, end)


@dataclass(frozen=True, slots=True)
class Backlogs:
    """What is left to read of each partition."""

    rows: PartitionRows
    position: Offsets64
    """The next record to read."""
    end: Offsets64
    """The offset behind the newest record."""
    record_bytes: npt.NDArray[np.float64]
    """Average size of its records; 0 if unknown."""

    @property
    def lag(self) -> Offsets64:
        """How many offsets are unread."""
        lag: Offsets64 = np.maximum(self.end - self.position, 0)
        return lag

    def unread(self) -> frozenset[StreamPartition]:
        """Return the partitions of which something is unread."""
        return frozenset(self.rows.chosen(np.flatnonzero(self.lag).tolist()))

    def lags(self) -> dict[str, tuple[int, ...]]:
        """Return stream -> how many offsets of each of its partitions, from 0 on, are unread."""
        lag, by_stream = self.lag, dict[str, tuple[int, ...]]()
        for stream, rows in self.rows.rows_of.items():
            numbers = self.rows.numbers[rows]
            unread: Offsets64 = np.zeros(int(numbers[-1]) + 1, dtype=np.int64)
            unread[numbers] = lag[rows]
            by_stream[stream] = tuple(unread.tolist())
        return by_stream
