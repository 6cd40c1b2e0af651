"""The ranges of a batch: exact offsets for every partition, so that a replay reads the same records.

Limits how much a batch reads, in records and in bytes, so that no partition starves and one that lags catches up. New
partitions wait: for their parents, and first for producers that do not know them yet and write to the old ones.

    noticed -> grace is over: the parent's end is noted -> the parent is read to that end -> the new partition is read

What such a producer writes later is read out of order and counted: behind that end, a key in the parent that belongs
elsewhere is misplaced. Pure: positions, ends, limits and clock are arguments, and decisions go into the offsets, so
that replays and later attempts know them. Must not read streams.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from holdfast.tasks.grouping import may_be_read
from holdfast.tasks.partitions import StreamPartition
from holdfast.tasks.record import ParentEnd
from holdfast_runtime.checkpoint.offsets import NewPartition
from holdfast_runtime.loop.backlogs import Backlogs
from holdfast_runtime.streams.records import OffsetBounds

Counts = npt.NDArray[np.int64]
Sizes = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """How much one batch may read."""

    records_per_partition: int
    bytes_per_slot: int | None = None
    """Over all partitions that a slot reads; None: no limit. A record larger than its share may exceed it."""


def plan_ranges(
    backlogs: Backlogs,
    limits: BatchLimits,
    after: Mapping[StreamPartition, ParentEnd],
    held_back: Iterable[StreamPartition] = (),
    slot_of: Mapping[StreamPartition, int] | None = None,
) -> dict[StreamPartition, tuple[int, int]]:
    """Return partition -> (start, end) of what the next batch reads; partitions with nothing to read are left out.

    `after`: new partitions that wait until their parents are processed to there; `held_back`: partitions not read now;
    `slot_of`: partition -> the slot that reads it, None if there is only one.
    """
    rows, most = backlogs.rows, limits.records_per_partition
    counts = [min(most, lag) for lag in backlogs.lag]
    for partition in (*_waiting(backlogs, after), *held_back):
        counts[rows.row_of[partition]] = 0
    if limits.bytes_per_slot is not None:
        sizes = backlogs.record_bytes
        if sum(sizes.get(stream, 0.0) * sum(counts[of]) for stream, of in rows.rows_of.items()) > limits.bytes_per_slot:
            counts = _within_slots(counts, backlogs, limits.bytes_per_slot, slot_of or {})
    return {
        partition: (position, position + count)
        for partition, position, count in zip(rows.partitions, backlogs.position, counts, strict=True)
        if count
    }


def slot_of(
    slots: Sequence[Sequence[str]], inputs: Mapping[str, Sequence[StreamPartition]]
) -> dict[StreamPartition, int]:
    """Return partition -> the number of the slot that reads it, for partitions that only one reads."""
    slot_of_partition: dict[StreamPartition, int] = {}
    for number, tasks in enumerate(slots):
        for partition in (partition for task in tasks for partition in inputs.get(task, ())):
            slot = slot_of_partition.setdefault(partition, number)
            slot_of_partition[partition] = slot if slot == number else _ALL
    return {partition: slot for partition, slot in slot_of_partition.items() if slot != _ALL}


def _waiting(backlogs: Backlogs, after: Mapping[StreamPartition, ParentEnd]) -> list[StreamPartition]:
    """Return the new partitions whose parents are not processed to where they wait for."""
    if not after:
        return []
    processed = dict(zip(backlogs.rows.partitions, backlogs.position, strict=True))
    return [child for child in after if child in processed and not may_be_read(child, after, processed)]


def _within_slots(
    counts: Sequence[int], backlogs: Backlogs, most: int, slot_of: Mapping[StreamPartition, int]
) -> list[int]:
    """Limit counts to bytes for each slot; what no slot has for itself counts as that of one more."""
    rows = backlogs.rows
    limited, lags = np.array(counts, dtype=np.int64), np.array(backlogs.lag, dtype=np.int64)
    sizes = np.zeros(len(counts))
    for stream, of in rows.rows_of.items():
        sizes[of] = backlogs.record_bytes.get(stream, 0.0)
    slots = np.array([slot_of.get(partition, _ALL) for partition in rows.partitions], dtype=np.int64)
    order = np.argsort(slots, kind="stable")
    for own_rows in np.split(order, np.flatnonzero(np.diff(slots[order])) + 1):
        limited[own_rows] = _within_bytes(limited[own_rows], lags[own_rows], sizes[own_rows], most)
    numbers: list[int] = limited.tolist()
    return numbers


def _within_bytes(counts: Counts, lags: Counts, sizes: Sizes, most: int) -> Counts:
    """Limit counts to bytes: half in equal shares, half by lag; what a partition does not need goes to the others."""
    needs = counts * sizes
    if needs.sum() <= most:
        return counts
    equal = _filled(needs, np.ones(len(needs)), most / 2)
    by_lag = _filled(needs - equal, lags.astype(np.float64), most - float(equal.sum()))
    sized = sizes > 0
    limited = counts.copy()
    limited[sized] = np.minimum(counts[sized], ((equal + by_lag)[sized] / sizes[sized]).astype(np.int64))
    starved = np.flatnonzero((counts > 0) & (limited == 0))
    if len(starved):
        # Records larger than their share would never be read while others keep coming, so one of them is always read.
        # Rows are in the order of partitions: of several with most to read it is the last.
        limited[starved[len(starved) - 1 - int(np.argmax(lags[starved][::-1]))]] = 1
    return limited


def _filled(needs: Sizes, weights: Sizes, amount: float) -> Sizes:
    """Share out an amount in proportion to weights, none above its need; what is left over is shared again."""
    shares = np.zeros(len(needs))
    hungry = np.flatnonzero(needs > 0)
    while len(hungry) and amount > 0:
        portion = amount * weights[hungry] / weights[hungry].sum()
        left = needs[hungry] - shares[hungry]
        sated = left <= portion
        if not sated.any():
            shares[hungry] += portion
            return shares
        amount -= float(left[sated].sum())
        shares[hungry[sated]] = needs[hungry[sated]]
        hungry = hungry[~sated]
    return shares


_ALL = -1
"""The slot of partitions that several read."""
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
    new_partitions = {**{child: NewPartition(first.parent, now) for child, first in new.items()}, **before}
    return {
        child: NewPartition(new_partition.parent, new_partition.at, bounds[new_partition.parent].end)
        if new_partition.end is None and new_partition.parent in bounds and now >= new_partition.at + grace
        else new_partition
        for child, new_partition in new_partitions.items()
    }


def after_grace(
    after: Mapping[StreamPartition, ParentEnd],
    noticed: Mapping[StreamPartition, NewPartition],
    bounded: Mapping[StreamPartition, int],
) -> dict[StreamPartition, ParentEnd]:
    """Return which partitions wait for which, and up to which offset; `bounded`: ends behind which nothing is read."""
    parent_ends = {}
    for child, first in after.items():
        new_partition = noticed.get(child)
        offset = (
            first.offset
            if new_partition is None
            else _NEVER
            if new_partition.end is None
            else max(new_partition.end, first.offset)
        )
        if offset != _NEVER:
            offset = min(offset, bounded.get(first.parent, offset))
        parent_ends[child] = ParentEnd(first.parent, offset)
    return parent_ends


def settled(noticed: Mapping[StreamPartition, NewPartition]) -> dict[StreamPartition, int]:
    """Return parent partition -> offset from which on a key that belongs to a new partition is misplaced there."""
    ends: dict[StreamPartition, int] = {}
    for new_partition in noticed.values():
        end = _NEVER if new_partition.end is None else new_partition.end
        ends[new_partition.parent] = max(end, ends.get(new_partition.parent, 0))
    return {parent: end for parent, end in ends.items() if end != _NEVER}
