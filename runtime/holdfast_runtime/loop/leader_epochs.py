"""Leader epochs beside positions: which one is noted, and when brokers are asked whether a position is still theirs.

A partition's log can be lost under the same topic id and filled again, or be cut by an unclean election and written on.
Then its bounds fit, but the records before the position are others. Each leader of a partition has a number of its own,
its epoch, which brokers keep with the records. So a position is noted with the epoch of the leader that had the records
before it, and a later leader is asked how far it has the records of that epoch. Asked when an attempt begins, and when
the leader has changed: while an epoch lasts, a log only grows. Pure but for the question, which is an argument.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.checkpoint.offsets import Offsets
from holdfast_runtime.streams.records import EpochPosition, LogCut, OffsetBounds

_UNCHECKED = -1
"""No epoch of a leader."""
Bounds = Mapping[StreamPartition, OffsetBounds]
Epochs = Mapping[StreamPartition, int]
CutQuestion = Callable[[Mapping[StreamPartition, EpochPosition]], Mapping[StreamPartition, LogCut]]
"""Returns the partitions whose current leaders don't have the records before a position."""


def epochs_after(before: Epochs, bounds: Bounds, moved: Iterable[StreamPartition]) -> dict[StreamPartition, int]:
    """Return the epochs of all positions after a batch; `moved`: partitions whose position or its epoch is new.

    A position that stays keeps its epoch: an older one says more, as later leaders may have added nothing.
    """
    epochs = dict(before)
    # Set in place: offsets are written in the order of partitions, and sorting what is in order costs little.
    for partition in (*moved, *(partition for partition in bounds if partition not in before)):
        epoch = bounds[partition].epoch if partition in bounds else None
        if epoch is not None:
            epochs[partition] = epoch
        else:
            epochs.pop(partition, None)
    return epochs


def due_checks(
    offsets: Offsets, bounds: Bounds, checked: Mapping[StreamPartition, int | None]
) -> dict[StreamPartition, EpochPosition]:
    """Return the positions to ask for; `checked`: partition -> the epoch in which this attempt has asked before.

    A position without an epoch was noted by an earlier release, or on brokers that have none; nothing is before offset
    0.
    """
    due = {}
    for partition, epoch in offsets.epochs.items():
        if (bound := bounds.get(partition)) is None or checked.get(partition, _UNCHECKED) == bound.epoch:
            continue
        if position := offsets.positions.get(partition):
            due[partition] = EpochPosition(position, epoch)
    return due


@dataclass(slots=True)
class PositionChecks:
    """The checks of one attempt."""

    ask: CutQuestion
    _checked: dict[StreamPartition, int | None] = field(default_factory=dict)

    def cut(self, offsets: Offsets, bounds: Bounds) -> Mapping[StreamPartition, LogCut]:
        """Return the partitions that no longer have the records before their position, as far as there is doubt."""
        due = due_checks(offsets, bounds, self._checked)
        if not due:
            return {}
        cuts = self.ask(due)
        self._checked |= {partition: bounds[partition].epoch for partition in due if partition not in cuts}
        return cuts
