"""Lost positions: streams that no longer have what is to be read next, or never had what was read.

The driver stops by it, with the choices spelled out; `holdfast offsets` shows it. Must not read streams.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from holdfast.errors import UserActionError
from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.streams.records import OffsetBounds


class PositionTrouble(StrEnum):
    """Why a partition can't be read on from where it stands."""

    GONE = "gone"
    """Records that were not read are no longer kept."""
    RECREATED = "recreated"
    """The topic was deleted and made anew."""
    BEYOND_END = "beyondEnd"
    """It ends before where it was read to."""


class PositionLostError(UserActionError):
    """A stream no longer has what is to be read next, or never had what was read."""

    def __init__(self, message: str, settings: Sequence[str]) -> None:
        """`settings`: what `holdfast offsets --set` would take for the app to go on."""
        super().__init__(message)
        self.settings = tuple(settings)


@dataclass(frozen=True, slots=True)
class LostPosition:
    """A partition whose next record is not there."""

    partition: StreamPartition
    position: int
    bounds: OffsetBounds
    trouble: PositionTrouble
    gone: int = 0
    """How many records are."""

    @property
    def setting(self) -> str:
        """Where it could go on."""
        return f"{self.partition}={'end' if self.trouble is PositionTrouble.BEYOND_END else 'oldest'}"

    @property
    def sentence(self) -> str:
        """What is wrong, and what to do."""
        if self.trouble is PositionTrouble.BEYOND_END:
            return (
                f"{self.partition} is to be read on at offset {self.position}, but it ends at {self.bounds.end}: it "
                "was created anew or put back to an older copy. Bring back the stream as it was, or start a new run "
                "(another spec.runId)"
            )
        return (
            f"{self.partition} is to be read on at offset {self.position}, but the oldest record kept is "
            f"{self.bounds.oldest}: {self.gone} records are gone unread. Start a new run (another spec.runId) to go on "
            "without them, and keep records longer than the app may stand still"
        )


def find_lost(
    partition: StreamPartition, position: int, bounds: OffsetBounds, last: int | None = None
) -> LostPosition | None:
    """What is wrong with a partition that stands there; `last`: where it ends for this app."""
    end = bounds.end if last is None else min(bounds.end, last)
    if position < min(bounds.oldest, end):
        return LostPosition(partition, position, bounds, PositionTrouble.GONE, min(bounds.oldest, end) - position)
    return LostPosition(partition, position, bounds, PositionTrouble.BEYOND_END) if position > bounds.end else None


def lost_error(found: Sequence[LostPosition]) -> PositionLostError:
    """All of them as one error."""
    first, *more = sorted(found, key=lambda lost: lost.partition)
    told = f". Lost, too: {', '.join(str(lost.partition) for lost in more)}" if more else ""
    return PositionLostError(f"{first.sentence}{told}", [lost.setting for lost in (first, *more)])


def recreated_error(stream: str, found: str, known: str) -> PositionLostError:
    """A topic has another id than the one that was read."""
    message = (
        f"the topic of stream {stream} was deleted and made anew: it has the id {found}, and what was read so "
        f"far came from {known}. Start a new run (another spec.runId) to read the new one from its beginning"
    )
    return PositionLostError(message, [f"{stream}=oldest"])
