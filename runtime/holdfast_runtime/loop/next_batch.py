"""The next batch: whether there is one, what it reads, which tasks take part, and the plan that goes to slots.

A task takes part if it has records to read, if it asked to be woken by now, or if the attempt is new: then all do, so
that each says where it stands. Without any of them there is no batch, and an idle app writes nothing. The batch plan
is made of the durable offsets alone, so that a replay makes the same. Must not read streams or clocks: what is known
comes in.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil

from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.checkpoint.jumps import Jump, jumped
from holdfast_runtime.checkpoint.offsets import Offsets
from holdfast_runtime.loop.grace import after_grace, noticed_now, settled
from holdfast_runtime.loop.lost_positions import find_lost, lost_error, recreated_error
from holdfast_runtime.loop.ranges import Backlog, BatchLimits, ReadOrder, plan_ranges
from holdfast_runtime.slot.batch_plan import BatchPlan, SettledPartition, Turn
from holdfast_runtime.streams.records import OffsetBounds, OffsetRange


@dataclass(frozen=True, slots=True)
class LoopSnapshot:
    """What the driver sees when it decides."""

    bounds: Mapping[StreamPartition, OffsetBounds]
    now: int
    """The batch clock, milliseconds since 1970."""
    first: bool
    """Whether the attempt has run no batch yet."""
    wakes: Mapping[str, int] = field(default_factory=dict)
    """Task -> the clock at which it wants to take part although nothing is there to read."""
    record_bytes: Mapping[str, float] = field(default_factory=dict)
    """Stream -> average size of its records, as the attempt has read them."""
    assumed_bytes: Mapping[str, float] = field(default_factory=dict)
    """The same of streams that were never read."""
    ids: Mapping[str, str] = field(default_factory=dict)
    """Stream -> the id of its topic, where a system gives one."""
    skew: int = 0
    """How far the batch clock is ahead of the host's."""


@dataclass(frozen=True, slots=True)
class AttemptInputs:
    """What an attempt reads, and how."""

    inputs: Mapping[str, Sequence[StreamPartition]]
    """Task -> what it reads."""
    bounded: frozenset[str]
    """Streams that end where they end when the app first looks."""
    limits: BatchLimits
    order: ReadOrder = field(default_factory=ReadOrder)
    grace: int = 0
    """How long new partitions wait for producers that do not know of them yet, milliseconds."""
    own: frozenset[str] = frozenset()
    """Streams that the app writes for itself: what is there before a run begins is an earlier run's."""

    @property
    def partitions(self) -> frozenset[StreamPartition]:
        """All that is read."""
        return frozenset(partition for inputs in self.inputs.values() for partition in inputs)


def next_offsets(before: Offsets, reading: AttemptInputs, seen: LoopSnapshot, jump: Jump | None = None) -> Offsets:
    """The offsets after the next batch; `before` itself if there is none. `jump`: to be made by this batch."""
    found = before if jump is None else jumped(before, jump, reading.partitions)
    _check_same(found, seen)
    fresh = {one: _first(one, before, reading, seen) for one in reading.partitions if one not in found.positions}
    positions = {**found.positions, **fresh}
    ends = dict(found.ends)
    for partition in reading.partitions:
        if partition.stream in reading.bounded and partition not in ends:
            ends[partition] = seen.bounds[partition].end
    sizes = {**found.record_bytes, **{stream: ceil(size) for stream, size in seen.record_bytes.items()}}
    backlogs = _backlogs(reading, seen, positions, ends, {**seen.assumed_bytes, **sizes, **seen.record_bytes})
    now = max(seen.now, before.now)
    new = {child: first for child, first in reading.order.after.items() if child in fresh}
    noticed = noticed_now(before.noticed, new, seen.bounds, now, reading.grace)
    order = ReadOrder(after_grace(reading.order.after, noticed, ends))
    # A range also where nothing is read: the tasks' state has to follow each jump in this very batch.
    jumps = {} if jump is None else {partition: (to, to) for partition, to in jump.to.items()}
    ranges = {**jumps, **plan_ranges(backlogs, reading.limits, order)}
    taking_part = [task for task, inputs in reading.inputs.items() if _takes_part(task, inputs, ranges, seen, now)]
    if not taking_part:
        return before
    return Offsets(
        batch=before.batch + 1,
        now=now,
        positions=positions | {partition: end for partition, (_, end) in ranges.items()},
        turns={**before.turns, **{task: before.turns.get(task, 0) + 1 for task in taking_part}},
        ends=ends,
        starts={partition: start for partition, (start, _) in ranges.items()},
        taking_part=tuple(taking_part),
        ids={**found.ids, **seen.ids},
        jumped={} if jump is None else jump.found,
        jump=before.jump if jump is None else jump.id,
        noticed=noticed,
        skew=seen.skew,
        record_bytes=sizes,
    )


def _first(partition: StreamPartition, before: Offsets, reading: AttemptInputs, seen: LoopSnapshot) -> int:
    """Where a partition is read from that was not read before.

    A run that begins has written nothing yet. Later its own records may be in a new partition: a batch that an earlier
    attempt had planned is replayed before the next one is decided.
    """
    bounds = seen.bounds[partition]
    return bounds.end if not before.batch and partition.stream in reading.own else bounds.oldest


def lag(reading: AttemptInputs, seen: LoopSnapshot, after: Offsets) -> int:
    """How many records are there and unread when a batch is done."""
    backlogs = _backlogs(reading, seen, {**dict.fromkeys(reading.partitions, 0), **after.positions}, after.ends, {})
    return sum(backlog.lag for backlog in backlogs.values())


def _check_same(before: Offsets, seen: LoopSnapshot) -> None:
    """Refuse to read a topic that was made anew under the name of the one that was read."""
    for stream, known in before.ids.items():
        found = seen.ids.get(stream, known)
        if found != known:
            raise recreated_error(stream, found, known)


def _takes_part(
    task: str,
    inputs: Sequence[StreamPartition],
    ranges: Mapping[StreamPartition, tuple[int, int]],
    seen: LoopSnapshot,
    now: int,
) -> bool:
    wake = seen.wakes.get(task)
    return seen.first or (wake is not None and wake <= now) or any(partition in ranges for partition in inputs)


def _backlogs(
    reading: AttemptInputs,
    seen: LoopSnapshot,
    positions: Mapping[StreamPartition, int],
    ends: Mapping[StreamPartition, int],
    record_bytes: Mapping[str, float],
) -> dict[StreamPartition, Backlog]:
    backlogs, lost = {}, []
    for partition in reading.partitions:
        bounds, position = seen.bounds[partition], positions[partition]
        if (found := find_lost(partition, position, bounds, ends.get(partition))) is not None:
            lost.append(found)
        end = min(bounds.end, ends.get(partition, bounds.end))
        backlogs[partition] = Backlog(position, end, record_bytes.get(partition.stream, 0.0))
    if lost:
        raise lost_error(lost)
    return backlogs


def batch_to(end: Offsets, inputs: Mapping[str, Sequence[StreamPartition]], epoch: int, *, first: bool) -> BatchPlan:
    """The batch that leads to these offsets, for tasks with these inputs."""
    gave = _settled(end) if end.noticed else {}
    turns = {
        task: Turn(
            end.turns[task],
            _ranges(end, inputs[task]),
            _ended(end, inputs[task]),
            {one: end.jumped[one] for one in inputs[task] if one in end.jumped},
            {one: gave[one] for one in inputs[task] if one in gave},
        )
        for task in end.taking_part
    }
    return BatchPlan(end.batch, epoch, end.now, first, turns, end.skew)


def _settled(end: Offsets) -> dict[StreamPartition, SettledPartition]:
    """What is read in this batch of partitions that gave keys away; nothing where no stream has grown in this run."""
    counts = Counter(partition.stream for partition in end.positions)
    return {
        partition: SettledPartition(start, counts[partition.stream])
        for partition, start in settled(end.noticed).items()
        if partition in end.starts and end.positions[partition] > start
    }


def _ranges(end: Offsets, inputs: Sequence[StreamPartition]) -> tuple[OffsetRange, ...]:
    return tuple(OffsetRange(one, end.starts[one], end.positions[one]) for one in inputs if one in end.starts)


def _ended(end: Offsets, inputs: Sequence[StreamPartition]) -> tuple[StreamPartition, ...]:
    return tuple(one for one in inputs if one in end.ends and end.positions.get(one, 0) >= end.ends[one])
