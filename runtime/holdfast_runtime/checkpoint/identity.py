"""The identity of a checkpoint: an id that is created with it, and the last attempt that used it.

    life-<attempt>-<id>    in the checkpoint location, so that it is backed up and removed together with it

Output markers carry the id. A new attempt compares the markers with its checkpoint before it writes anything: with a
checkpoint that was lost or restored from an older copy, it would plan batches whose outputs exist already. Only an
attempt that was not refused stores its number, so outputs with a later number were written from another copy. Must not
decide which of the two is right: a person does.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from holdfast.attempt_number import PADDED, padded
from holdfast_runtime.state.durable.storage import Storage, obsolete_may_stay
from holdfast_runtime.streams.markers import PlacedMarker, outputs_ahead
from holdfast_runtime.streams.records import Marker

_NAME = re.compile(rf"life-({PADDED})-([0-9a-f]{{16}})")


@dataclass(frozen=True, slots=True, order=True)
class CheckpointLife:
    """The identity of a checkpoint; ordered by attempt."""

    attempt: int
    """The last attempt that used it."""
    id: str

    @property
    def name(self) -> str:
        """The name of its object."""
        return f"life-{padded(self.attempt)}-{self.id}"


def check_outputs(markers: Iterable[PlacedMarker], life: CheckpointLife | None, turns: Mapping[str, int]) -> None:
    """Refuse outputs that were not written from this checkpoint; `turns`: task -> the last batch planned for it."""
    for placed in markers:
        if (why := _foreign(placed.marker, life, turns.get(placed.marker.task, 0))) is not None:
            raise outputs_ahead(placed, why)


def take_up(
    checkpoint: Storage, attempt: int, markers: Iterable[PlacedMarker], turns: Mapping[str, int], fresh: str
) -> str:
    """Take up the checkpoint for this attempt, unless the outputs are refused.

    Return the checkpoint's id: `fresh` if it is new.
    """
    lives = _lives(checkpoint.names())
    life = max(lives, default=None)
    check_outputs(markers, life, turns)
    now = CheckpointLife(attempt, fresh if life is None else life.id)
    checkpoint.write(now.name, [b"%d\n" % attempt])
    # Keep those of later attempts: an attempt that is fenced off may come this far.
    with obsolete_may_stay(checkpoint):
        for _ in checkpoint.delete(old_life.name for old_life in lives if old_life < now):
            pass
    return now.id


def _foreign(marker: Marker, life: CheckpointLife | None, planned: int) -> str | None:
    if life is None:
        return "but its checkpoint is gone"
    if marker.life != life.id:
        return "and was planned in another checkpoint than the one that is here"
    if marker.batch > planned:
        return f"and its checkpoint has come to batch {planned}: it is an older copy"
    if marker.epoch > life.attempt:
        return f"and its checkpoint was last used by attempt {life.attempt}: it is an older copy"
    return None


def _lives(names: Iterable[str]) -> list[CheckpointLife]:
    matches = (_NAME.fullmatch(name) for name in names)
    return [CheckpointLife(int(match[1]), match[2]) for match in matches if match is not None]
