"""The grace period of new partitions: producers that do not know them yet go on writing their keys to the old ones.

    noticed -> the grace is over: where the parent ends is noted -> it is read to there -> the new partition is read

What such a producer writes later is read out of order, and counted: from that end on, a key in the parent that
belongs elsewhere is misplaced. Pure: clock and ends come in, and what is decided goes into the offsets, so that
replays and later attempts know it. Must not read streams.
"""

from collections.abc import Mapping

from holdfast.tasks.partitions import StreamPartition
from holdfast.tasks.record import ParentEnd
from holdfast_runtime.checkpoint.offsets import NewPartition
from holdfast_runtime.streams.records import OffsetBounds

_NEVER = 2**63 - 1
"""No partition is ever read to there."""


def noticed_now(
    before: Mapping[StreamPartition, NewPartition],
    new: Mapping[StreamPartition, ParentEnd],
    bounds: Mapping[StreamPartition, OffsetBounds],
    now: int,
    grace: int,
) -> dict[StreamPartition, NewPartition]:
    """What is known of new partitions at this moment; `grace` is milliseconds."""
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
    """Which partitions wait for which, and how long; `bounded`: behind these ends nothing is ever read."""
    found = {}
    for child, first in after.items():
        one = noticed.get(child)
        offset = first.offset if one is None else _NEVER if one.end is None else max(one.end, first.offset)
        if offset != _NEVER:
            offset = min(offset, bounded.get(first.parent, offset))
        found[child] = ParentEnd(first.parent, offset)
    return found


def settled(noticed: Mapping[StreamPartition, NewPartition]) -> dict[StreamPartition, int]:
    """Partition that gave keys away -> from which offset on such a key is misplaced there."""
    found: dict[StreamPartition, int] = {}
    for one in noticed.values():
        end = _NEVER if one.end is None else one.end
        found[one.parent] = max(end, found.get(one.parent, 0))
    return {parent: end for parent, end in found.items() if end != _NEVER}
