"""Why: the names in the durable copy of a task sort by batch and then epoch, so a listing tells what there is.

`delta-<batch, 20 digits>-<epoch, 10 digits>`, `snapshot-...` the same, `fence-<epoch>`. Must not open anything.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

_NAME = re.compile(r"(delta|snapshot)-(\d{20})-(\d{10})|(fence)-(\d{10})")


@dataclass(frozen=True, slots=True, order=True)
class ObjectName:
    """What a name says."""

    batch: int
    epoch: int
    name: str


@dataclass(frozen=True, slots=True)
class Listing:
    """What there is of a task, each in order of batch and epoch."""

    deltas: tuple[ObjectName, ...]
    snapshots: tuple[ObjectName, ...]
    fences: tuple[ObjectName, ...]

    def delta(self, batch: int) -> ObjectName | None:
        """The delta of this batch. Of several the newest epoch's: an older one was refused after it was written."""
        found = [one for one in self.deltas if one.batch == batch]
        return found[-1] if found else None

    def newest_epoch(self, batch: int) -> int | None:
        """The newest attempt that is known to work on this batch, a later one, or any at all."""
        epochs = [one.epoch for one in self.fences] + [one.epoch for one in self.deltas if one.batch >= batch]
        return max(epochs, default=None)


def delta_name(batch: int, epoch: int) -> str:
    """The object of a batch's delta."""
    return f"delta-{batch:020}-{epoch:010}"


def snapshot_name(batch: int, epoch: int) -> str:
    """The object of a snapshot after this batch."""
    return f"snapshot-{batch:020}-{epoch:010}"


def fence_name(epoch: int) -> str:
    """The object that shuts out older attempts."""
    return f"fence-{epoch:010}"


def listing(names: Iterable[str]) -> Listing:
    """By kind; what is not ours is left alone."""
    # Names are in order as their batches and epochs are.
    found: dict[str, list[ObjectName]] = {"delta": [], "snapshot": [], "fence": []}
    for name in sorted(names):
        match = _NAME.fullmatch(name)
        if match is not None and match[1]:
            found[match[1]].append(ObjectName(int(match[2]), int(match[3]), name))
        elif match is not None:
            found["fence"].append(ObjectName(-1, int(match[5]), name))
    return Listing(*map(tuple, found.values()))


def obsolete(found: Listing) -> tuple[str, ...]:
    """What no restore can need, in the order to delete it: all up to the older of the last two snapshots.

    Two, because the newest may turn out damaged; what an attempt with an older view deletes is always less than this.
    """
    batches = sorted({one.batch for one in found.snapshots})
    gone: list[str] = [one.name for one in found.fences[:-1]]
    if len(batches) > 1:
        horizon = batches[-2]
        # An older state's snapshot without its deltas is harmless; deltas without a snapshot before them are litter.
        gone += [one.name for one in found.snapshots if one.batch < horizon]
        gone += [one.name for one in found.deltas if one.batch <= horizon]
    return tuple(gone)
