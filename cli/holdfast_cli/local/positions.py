"""Why: where an app stands in each partition it reads, held against what there is, as values.

Must not read or write anything.
"""

from dataclasses import dataclass

from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.checkpoint.offset_log import OffsetLogState
from holdfast_runtime.loop.lost_positions import PositionTrouble, find_lost
from holdfast_runtime.streams.records import OffsetBounds


@dataclass(frozen=True, slots=True)
class PartitionPosition:
    """One partition."""

    partition: StreamPartition
    position: int | None
    """The next record to read; None: the run has not seen the partition yet, and begins at its oldest record."""
    bounds: OffsetBounds | None
    """What there is of it; None: not known."""
    last: int | None = None
    """Where it ends for the app, if its stream is bounded."""
    recreated: bool = False

    @property
    def end(self) -> int | None:
        """Where it ends for the app, as far as there is something."""
        if self.bounds is None or self.last is None or self.recreated:
            return None if self.bounds is None else self.bounds.end
        return min(self.bounds.end, self.last)

    @property
    def trouble(self) -> PositionTrouble | None:
        """Why it can't be read on."""
        if self.recreated:
            return PositionTrouble.RECREATED
        if self.bounds is None or self.position is None:
            return None
        found = find_lost(self.partition, self.position, self.bounds, self.last)
        return None if found is None else found.trouble

    @property
    def lag(self) -> int | None:
        """How many records are there and unread."""
        if self.bounds is None or self.end is None:
            return None
        begin = self.bounds.oldest
        if self.position is not None and self.trouble in (None, PositionTrouble.BEYOND_END):
            begin = max(begin, self.position)
        return max(0, self.end - begin)


@dataclass(frozen=True, slots=True)
class StreamPositions:
    """One stream that the app reads."""

    name: str
    role: str
    kind: str
    """Of its system."""
    control: bool
    """Whether another app's control messages are among its records."""
    stands: tuple[PartitionPosition, ...]
    id: str | None = None
    """Of its topic, where the system gives one."""
    unknown: str | None = None
    """Why it is not known what there is of it."""
    grown: bool = False
    """Whether partitions of it have to wait for others, as it has grown in this run."""


@dataclass(frozen=True, slots=True)
class AppPositions:
    """One run of an app."""

    app: str
    run: str
    logged: OffsetLogState
    streams: tuple[StreamPositions, ...]
