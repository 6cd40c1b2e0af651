"""Lost positions: streams that no longer hold the next record to read, or not the records that were read before it.

The driver stops with an error that lists the choices; `holdfast offsets` shows them. Must not read streams.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from holdfast.errors import UserActionError
from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.checkpoint.offsets import Offsets
from holdfast_runtime.streams.records import LogCut, OffsetBounds


class PositionTrouble(StrEnum):
    """Why a partition can't be read on from its position."""

    GONE = "gone"
    """Unread records are no longer kept."""
    RECREATED = "recreated"
    """The topic was deleted and created again."""
    BEYOND_END = "beyondEnd"
    """The partition ends before the position."""
    REPLACED = "replaced"
    """The partition has other records before the position than those that were read."""

    @property
    def sentence(self) -> str:
        """What happened, for people."""
        match self:
            case PositionTrouble.GONE:
                return "records are gone unread"
            case PositionTrouble.RECREATED:
                return "the topic was created again"
            case PositionTrouble.BEYOND_END:
                return "it ends before where it was read to"
            case PositionTrouble.REPLACED:
                return "it has other records than were read"


class PositionLostError(UserActionError):
    """A stream no longer holds the next record to read, or not the records that were read before it."""

    def __init__(self, message: str, settings: Sequence[str]) -> None:
        """`settings`: arguments of `holdfast offsets --set` with which the app could go on."""
        super().__init__(message)
        self.settings = tuple(settings)


@dataclass(frozen=True, slots=True)
class LostPosition:
    """A partition that can't be read on from its position."""

    partition: StreamPartition
    position: int
    bounds: OffsetBounds
    trouble: PositionTrouble
    lost_records: int = 0
    """How many unread records are gone."""
    cut: LogCut | None = None
    """What a broker says, if other records were read."""
    epoch: int | None = None
    """The leader epoch of the position, where it is known."""

    @property
    def setting(self) -> str:
        """The argument of `holdfast offsets --set` with which the app could go on."""
        if self.cut is not None:
            return f"{self.partition}={max(self.cut.since, self.bounds.oldest)}"
        return f"{self.partition}={'end' if self.trouble is PositionTrouble.BEYOND_END else 'oldest'}"

    @property
    def sentence(self) -> str:
        """What is wrong, and what to do."""
        if self.cut is not None:
            now = "its present leader" if self.bounds.epoch is None else f"its leader of epoch {self.bounds.epoch}"
            return (
                f"the next offset to read of {self.partition} is {self.position}, of leader epoch {self.epoch}, but "
                f"{now} has other records from offset {self.cut.since} on ({self.cut.said}): its log was lost and "
                f"filled again, or cut by an unclean election. Up to {self.position - self.cut.since} records that "
                f"were read are gone, and as many others were not read. Bring back the partition as it was, or start "
                f"a new run (another spec.runId)"
            )
        if self.trouble is PositionTrouble.BEYOND_END:
            return (
                f"the next offset to read of {self.partition} is {self.position}, but it ends at {self.bounds.end}: it "
                "was created again, or put back to an older copy. Bring back the stream as it was, or start a new run "
                "(another spec.runId)"
            )
        return (
            f"the next offset to read of {self.partition} is {self.position}, but the oldest record kept is "
            f"{self.bounds.oldest}: {self.lost_records} records are gone unread. Start a new run (another spec.runId) "
            "to continue without them, and keep records longer than the app may be stopped"
        )


def find_lost(
    partition: StreamPartition, position: int, bounds: OffsetBounds, last: int | None = None
) -> LostPosition | None:
    """Return what is wrong with a position; None if nothing is. `last`: where the partition ends for this app."""
    end = bounds.end if last is None else min(bounds.end, last)
    if position < min(bounds.oldest, end):
        return LostPosition(partition, position, bounds, PositionTrouble.GONE, min(bounds.oldest, end) - position)
    return LostPosition(partition, position, bounds, PositionTrouble.BEYOND_END) if position > bounds.end else None


def find_replaced(
    offsets: Offsets, bounds: Mapping[StreamPartition, OffsetBounds], cut: Mapping[StreamPartition, LogCut]
) -> list[LostPosition]:
    """Return the partitions that have other records than those that were read before their positions."""
    return [
        LostPosition(
            partition,
            offsets.positions[partition],
            bounds[partition],
            PositionTrouble.REPLACED,
            cut=log_cut,
            epoch=offsets.epochs.get(partition),
        )
        for partition, log_cut in cut.items()
    ]


def lost_error(lost_positions: Sequence[LostPosition], planned: int | None = None) -> PositionLostError:
    """Return one error for all lost positions. `planned`: the batch that was to be repeated and can't be."""
    first, *more = sorted(lost_positions, key=lambda lost: lost.partition)
    details = f". Also lost: {', '.join(str(lost.partition) for lost in more)}" if more else ""
    if planned is not None:
        details += (
            f". Batch {planned} was planned to read up to there, and would read other records now: before positions "
            f"can be set, have it planned again (runtime.replan, or holdfast offsets --replan)"
        )
    return PositionLostError(f"{first.sentence}{details}", [lost.setting for lost in (first, *more)])


def recreated_error(stream: str, new_id: str, read_id: str) -> PositionLostError:
    """Return the error for a topic that has another id than the one that was read."""
    message = (
        f"the topic of stream {stream} was deleted and created again: its id is {new_id}, and the records read so far "
        f"came from {read_id}. Start a new run (another spec.runId) to read the new topic from its beginning"
    )
    return PositionLostError(message, [f"{stream}=oldest"])
