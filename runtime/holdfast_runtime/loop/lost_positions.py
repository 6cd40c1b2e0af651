"""Lost positions: streams that no longer hold the next record to read, or end before what was read.

The driver stops with an error that lists the choices; `holdfast offsets` shows them. Must not read streams.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from holdfast.errors import UserActionError
from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.streams.records import OffsetBounds


class PositionTrouble(StrEnum):
    """Why a partition can't be read on from its position."""

    GONE = "gone"
    """Unread records are no longer kept."""
    RECREATED = "recreated"
    """The topic was deleted and created again."""
    BEYOND_END = "beyondEnd"
    """The partition ends before the position."""


class PositionLostError(UserActionError):
    """A stream no longer holds the next record to read, or ends before what was read."""

    def __init__(self, message: str, settings: Sequence[str]) -> None:
        """`settings`: arguments of `holdfast offsets --set` with which the app could go on."""
        super().__init__(message)
        self.settings = tuple(settings)


@dataclass(frozen=True, slots=True)
class LostPosition:
    """A partition whose next record does not exist."""

    partition: StreamPartition
    position: int
    bounds: OffsetBounds
    trouble: PositionTrouble
    gone: int = 0
    """How many unread records are gone."""

    @property
    def setting(self) -> str:
        """The argument of `holdfast offsets --set` with which the app could go on."""
        return f"{self.partition}={'end' if self.trouble is PositionTrouble.BEYOND_END else 'oldest'}"

    @property
    def sentence(self) -> str:
        """What is wrong, and what to do."""
        if self.trouble is PositionTrouble.BEYOND_END:
            return (
                f"the next offset to read of {self.partition} is {self.position}, but it ends at {self.bounds.end}: it "
                "was created again, or put back to an older copy. Bring back the stream as it was, or start a new run "
                "(another spec.runId)"
            )
        return (
            f"the next offset to read of {self.partition} is {self.position}, but the oldest record kept is "
            f"{self.bounds.oldest}: {self.gone} records are gone unread. Start a new run (another spec.runId) to "
            "continue without them, and keep records longer than the app may be stopped"
        )


def find_lost(
    partition: StreamPartition, position: int, bounds: OffsetBounds, last: int | None = None
) -> LostPosition | None:
    """Return what is wrong with a position; None if nothing is. `last`: where the partition ends for this app."""
    end = bounds.end if last is None else min(bounds.end, last)
    if position < min(bounds.oldest, end):
        return LostPosition(partition, position, bounds, PositionTrouble.GONE, min(bounds.oldest, end) - position)
    return LostPosition(partition, position, bounds, PositionTrouble.BEYOND_END) if position > bounds.end else None


def lost_error(found: Sequence[LostPosition]) -> PositionLostError:
    """Return one error for all lost positions."""
    first, *more = sorted(found, key=lambda lost: lost.partition)
    told = f". Also lost: {', '.join(str(lost.partition) for lost in more)}" if more else ""
    return PositionLostError(f"{first.sentence}{told}", [lost.setting for lost in (first, *more)])


def recreated_error(stream: str, found: str, known: str) -> PositionLostError:
    """Return the error for a topic that has another id than the one that was read."""
    message = (
        f"the topic of stream {stream} was deleted and created again: its id is {found}, and the records read so far "
        f"came from {known}. Start a new run (another spec.runId) to read the new topic from its beginning"
    )
    return PositionLostError(message, [f"{stream}=oldest"])
