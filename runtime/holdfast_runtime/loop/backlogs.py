"""What is left to read of all partitions of an attempt, in columns: a row for each, in the order of partitions.

Apps read tens of thousands of partitions, and each batch looks at all of them. So their order is made once in an
attempt, and a look at all is one pass over lists, without an object or a call for each. Lists and not arrays: for the
two partitions of a small app, numpy's calls would cost more than all else. Must not decide what is read.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.streams.records import OffsetBounds


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
        counts, rows, begin = Counter(partition.stream for partition in self.partitions), dict[str, slice](), 0
        for stream in sorted(counts):
            rows[stream] = slice(begin, begin + counts[stream])
            begin += counts[stream]
        return rows

    def ends(self, bounds: Sequence[OffsetBounds], bounded: Mapping[StreamPartition, int]) -> list[int]:
        """Return up to where partitions are read; `bounded`: partition -> its end for the app, if it has one."""
        ends = [bound.end for bound in bounds]
        for partition, end in bounded.items():
            if (row := self.row_of.get(partition)) is not None:
                ends[row] = min(ends[row], end)
        return ends


@dataclass(frozen=True)
class Backlogs:
    """What is left to read of each partition."""

    rows: PartitionRows
    position: Sequence[int]
    """The next record to read."""
    end: Sequence[int]
    """The offset behind the newest record."""
    record_bytes: Mapping[str, float]
    """Stream -> average size of its records, where it is known."""

    @cached_property
    def lag(self) -> Sequence[int]:
        """How many offsets are unread."""
        return [end - position if end > position else 0 for position, end in zip(self.position, self.end, strict=True)]

    def unread(self) -> frozenset[StreamPartition]:
        """Return the partitions of which something is unread."""
        return frozenset(partition for partition, lag in zip(self.rows.partitions, self.lag, strict=True) if lag)

    def lags(self) -> dict[str, tuple[int, ...]]:
        """Return stream -> how many offsets of each of its partitions, from 0 on, are unread."""
        by_stream = dict[str, tuple[int, ...]]()
        for stream, rows in self.rows.rows_of.items():
            partitions, unread = self.rows.partitions[rows], list(self.lag[rows])
            if partitions[-1].partition >= len(partitions):
                lag_of = {partition.partition: lag for partition, lag in zip(partitions, unread, strict=True)}
                unread = [lag_of.get(number, 0) for number in range(partitions[-1].partition + 1)]
            by_stream[stream] = tuple(unread)
        return by_stream
