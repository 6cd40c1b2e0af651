"""The grace period of new partitions: producers that do not know them yet still write their keys to the old ones.

    noticed -> grace is over: the parent's end is noted -> the parent is read to that end -> the new partition is read

What such a producer writes later is read out of order and counted: behind that end, a key in the parent that belongs
elsewhere is misplaced. Pure: clock and ends are arguments, and decisions go into the offsets, so that replays and later
attempts know them. Must not read streams.
"""

from collections.abc import Mapping

from holdfast.tasks.partitions import StreamPartition
from holdfast.tasks.record import ParentEnd
from holdfast_runtime.checkpoint.offsets import NewPartition
from holdfast_runtime.streams.records import OffsetBounds

_NEVER = 2**63 - 1
"""An offset that no partition reaches."""


def noticed_now(
    before: Mapping[StreamPartition, NewPartition],
    new: Mapping[StreamPartition, ParentEnd],
    bounds: Mapping[StreamPartition, OffsetBounds],
    now: int,
    grace: int,
) -> dict[StreamPartition, NewPartition]:
    """Return what is known of new partitions now; `grace` is in milliseconds."""
    known = {**{child: NewPartition(first.parent, now) for child, first in new.items()}, **before}
    return {
        child: NewPartition(one.parent, one.at, bounds[one.parent].end)
        if one.end is None and one.parent in bounds and now >= one.at + grace
        else one
        for child, one in known.items()
    }


def after_grace(
    after: Mapping[StreamPartition, ParentEnd],
    noticed: Mapping[StreamPartition, NewPartition],
    bounded: Mapping[StreamPartition, int],
) -> dict[StreamPartition, ParentEnd]:
    """Return which partitions wait for which, and up to which offset; `bounded`: ends behind which nothing is read."""
    found = {}
    for child, first in after.items():
        one = noticed.get(child)
        offset = first.offset if one is None else _NEVER if one.end is None else max(one.end, first.offset)
        if offset != _NEVER:
            offset = min(offset, bounded.get(first.parent, offset))
        found[child] = ParentEnd(first.parent, offset)
    return found


def settled(noticed: Mapping[StreamPartition, NewPartition]) -> dict[StreamPartition, int]:
    """Return parent partition -> offset from which on a key that belongs to a new partition is misplaced there."""
    found: dict[StreamPartition, int] = {}
    for one in noticed.values():
        end = _NEVER if one.end is None else one.end
        found[one.parent] = max(end, found.get(one.parent, 0))
    return {parent: end for parent, end in found.items() if end != _NEVER}
