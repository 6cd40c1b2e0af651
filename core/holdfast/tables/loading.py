"""Why: main inputs wait until a bootstrap table holds what its sources held at the start, and no longer.

The end of each partition is noted once. What arrives later does not move it, or a busy source would never let go. Must
not look at sources: bounds and positions come in.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from holdfast.tasks.partitions import StreamPartition


class SourceBounds(NamedTuple):
    """What there was to read of a partition at start."""

    start: int
    """The next record to read then."""
    end: int
    """The offset behind the newest record then; equal to `start` where there was nothing."""


@dataclass(frozen=True, slots=True)
class TableLoading:
    """How far a table is from being loaded."""

    waiting: Mapping[StreamPartition, SourceBounds]
    """Partitions that have not reached their end, with the position they have."""

    @classmethod
    def noted(cls, bounds: Mapping[StreamPartition, SourceBounds]) -> "TableLoading":
        """At the start of an attempt."""
        return cls({partition: bound for partition, bound in bounds.items() if bound.start < bound.end})

    def reached(self, positions: Mapping[StreamPartition, int]) -> "TableLoading":
        """With these positions: of each partition the next record to read.

        Positions are compared, not records seen: the newest record at start may since have been compacted away.
        """
        waiting = {}
        for partition, bound in self.waiting.items():
            position = max(bound.start, positions.get(partition, bound.start))
            if position < bound.end:
                waiting[partition] = SourceBounds(position, bound.end)
        return self if waiting == self.waiting else TableLoading(waiting)

    @property
    def loaded(self) -> bool:
        """Whether main inputs may be read. Once true it stays."""
        return not self.waiting

    @property
    def left(self) -> int:
        """How many offsets are still to be read."""
        return sum(bound.end - bound.start for bound in self.waiting.values())
