"""The identity of a checkpoint: an id that is made with it, and the last attempt that worked on it.

    life-<attempt>-<id>    in the checkpoint location, so that it goes with backups and removals of it

Markers of outputs carry the id. An attempt that begins compares what is written with its checkpoint, before it writes
anything: a checkpoint that was lost or put back to an older copy would have batches planned anew whose outputs are
there. Only an attempt that was not refused leaves its number, so what has a later one was written from another copy.
Must not decide which of the two is right: a person does.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from holdfast_runtime.state.storage import Storage
from holdfast_runtime.streams.markers import PlacedMarker, outputs_ahead
from holdfast_runtime.streams.records import Marker

_NAME = re.compile(r"life-(\d{10})-([0-9a-f]{16})")


@dataclass(frozen=True, slots=True, order=True)
class CheckpointLife:
    """Of a checkpoint, in the order of attempts."""

    attempt: int
    """The last that worked on it."""
    id: str

    @property
    def name(self) -> str:
        """Of its object."""
        return f"life-{self.attempt:010}-{self.id}"


def check_outputs(markers: Iterable[PlacedMarker], life: CheckpointLife | None, turns: Mapping[str, int]) -> None:
    """Refuse outputs that this checkpoint has not led to; `turns`: task -> the last batch it has planned."""
    for placed in markers:
        if (why := _foreign(placed.marker, life, turns.get(placed.marker.task, 0))) is not None:
            raise outputs_ahead(placed, why)


def take_up(
    checkpoint: Storage, attempt: int, markers: Iterable[PlacedMarker], turns: Mapping[str, int], fresh: str
) -> str:
    """From now on this attempt works on the checkpoint, unless its outputs are refused.

    The id of its life, `fresh` if it begins.
    """
    lives = _lives(checkpoint.names())
    life = max(lives, default=None)
    check_outputs(markers, life, turns)
    now = CheckpointLife(attempt, fresh if life is None else life.id)
    checkpoint.write(now.name, [b"%d\n" % attempt])
    # Not those of later attempts: one that is shut out may come this far.
    for _ in checkpoint.delete(one.name for one in lives if one < now):
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
