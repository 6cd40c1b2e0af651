"""The ranges of a batch: exact offsets for every partition, so that a replay reads the same records.

Limits how much a batch reads, in records and in bytes, so that no partition starves and one that lags catches up. New
partitions wait: for their parents, and first for producers that do not know them yet and write to the old ones.

    noticed -> grace is over: the parent's end is noted -> the parent is read to that end -> the new partition is read

What such a producer writes later is read out of order and counted: behind that end, a key in the parent that belongs
elsewhere is misplaced. Pure: positions, ends, limits and clock are arguments, and decisions go into the offsets, so
that replays and later attempts know them. Must not read streams.
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass

from holdfast.tasks.grouping import may_be_read
from holdfast.tasks.partitions import StreamPartition
from holdfast.tasks.record import ParentEnd
from holdfast_runtime.checkpoint.offsets import NewPartition
from holdfast_runtime.streams.records import OffsetBounds


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """How much one batch may read."""

    records_per_partition: int
    bytes_in_all: int | None = None
    """Over all partitions; None: no limit. A single record that is larger than its share may exceed it."""


@dataclass(frozen=True, slots=True)
class Backlog:
    """What is left to read of one partition."""

    position: int
    """The next record to read."""
    end: int
    """The offset behind the newest record."""
    record_bytes: float = 0.0
    """Average size of its records; 0 if unknown."""

    @property
    def lag(self) -> int:
        """How many offsets are unread."""
        return max(0, self.end - self.position)


def plan_ranges(
    backlogs: Mapping[StreamPartition, Backlog],
    limits: BatchLimits,
    after: Mapping[StreamPartition, ParentEnd],
    held_back: Container[StreamPartition] = (),
) -> dict[StreamPartition, tuple[int, int]]:
    """Return partition -> (start, end) of what the next batch reads; partitions with nothing to read are left out.

    `after`: new partitions that wait until their parents are processed to there; `held_back`: partitions not read now.
    """
    processed = {partition: backlog.position for partition, backlog in backlogs.items()}
    counts = {
        partition: min(backlogs[partition].lag, limits.records_per_partition)
        for partition in sorted(backlogs)
        if backlogs[partition].lag and partition not in held_back and may_be_read(partition, after, processed)
    }
    if limits.bytes_in_all is not None:
        counts = _within_bytes(counts, backlogs, limits.bytes_in_all)
    return {
        partition: (backlogs[partition].position, backlogs[partition].position + count)
        for partition, count in counts.items()
        if count
    }


def _within_bytes(
    counts: Mapping[StreamPartition, int], backlogs: Mapping[StreamPartition, Backlog], most: int
) -> dict[StreamPartition, int]:
    """Limit counts to bytes: half in equal shares, half by lag; what a partition does not need goes to the others."""
    needs = {partition: count * backlogs[partition].record_bytes for partition, count in counts.items()}
    if sum(needs.values()) <= most:
        return dict(counts)
    equal = _filled(needs, dict.fromkeys(needs, 1.0), most / 2)
    rest = {partition: need - equal[partition] for partition, need in needs.items()}
    by_lag = _filled(
        rest, {partition: float(backlogs[partition].lag) for partition in needs}, most - sum(equal.values())
    )
    limited = {}
    for partition, count in counts.items():
        size = backlogs[partition].record_bytes
        limited[partition] = count if not size else min(count, int((equal[partition] + by_lag[partition]) / size))
    if starved := [partition for partition, count in limited.items() if not count]:
        # Records larger than their share would never be read while others keep coming, so one of them is always read.
        limited[max(starved, key=lambda partition: (backlogs[partition].lag, partition))] = 1
    return limited


def _filled(
    needs: Mapping[StreamPartition, float], weights: Mapping[StreamPartition, float], amount: float
) -> dict[StreamPartition, float]:
    """Share out an amount in proportion to weights, none above its need; what is left over is shared again."""
    shares = dict.fromkeys(needs, 0.0)
    hungry = [partition for partition in needs if needs[partition] > 0]
    while hungry and amount > 0:
        whole = sum(weights[partition] for partition in hungry)
        sated = [p for p in hungry if needs[p] - shares[p] <= amount * weights[p] / whole]
        if not sated:
            for partition in hungry:
                shares[partition] += amount * weights[partition] / whole
            return shares
        for partition in sated:
            amount -= needs[partition] - shares[partition]
            shares[partition] = needs[partition]
        hungry = [partition for partition in hungry if partition not in set(sated)]
    return shares


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
