"""The next batch: whether there is one, what it reads, which tasks take part, and the plan that slots get.

A task takes part if it has records to read, if it asked to be woken by now, or if the attempt is new: then all tasks
take part and report (`task_ledger`). If no task takes part there is no batch, so an idle app writes nothing. While
tables load that inputs wait for, batches are quiet: they read side inputs and nothing else happens, so that no row
meets a table that is half there. The batch plan is made from the durable offsets alone, so that a replay makes the same
plan. Must not read streams or clocks: bounds and time are arguments.
"""

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import ceil
from typing import NamedTuple

from holdfast.tasks.partitions import StreamPartition
from holdfast.tasks.record import ParentEnd
from holdfast_runtime.checkpoint.offsets import Jump, Offsets, jumped
from holdfast_runtime.loop.backlogs import Backlogs, PartitionRows
from holdfast_runtime.loop.fed_tables import (
    DataSetsSeen,
    TableStarts,
    loading_tables,
    table_starts,
    unchanged,
    waiting_inputs,
)
from holdfast_runtime.loop.joined_sides import JoinedSides, JoinedTasks, held_partitions, may_hold
from holdfast_runtime.loop.leader_epochs import epochs_after
from holdfast_runtime.loop.lost_positions import find_lost, find_replaced, lost_error, recreated_error
from holdfast_runtime.loop.ranges import BatchLimits, after_grace, noticed_now, plan_ranges, settled
from holdfast_runtime.segments.graph import FedTable
from holdfast_runtime.slot.batch_plan import BatchPlan, SettledPartition, Turn
from holdfast_runtime.streams.records import LogCut, OffsetBounds, OffsetRange


@dataclass(frozen=True, slots=True)
class LoopSnapshot:
    """What the driver knows when it decides about the next batch."""

    bounds: Mapping[StreamPartition, OffsetBounds]
    now: int
    """The batch clock, milliseconds since 1970."""
    first: bool
    """Whether the attempt has run no batch yet."""
    wakes: Mapping[str, int] = field(default_factory=dict)
    """Task -> the batch clock at which it wants to take part even without records."""
    record_bytes: Mapping[str, float] = field(default_factory=dict)
    """Stream -> average size of its records, measured in this attempt."""
    assumed_bytes: Mapping[str, float] = field(default_factory=dict)
    """Stream -> assumed size of its records, for streams that were never read."""
    ids: Mapping[str, str] = field(default_factory=dict)
    """Stream -> id of its topic, where the system gives one."""
    skew: int = 0
    """How far the batch clock is ahead of the host's clock."""
    joined: JoinedTasks = field(default_factory=JoinedTasks)
    began: Mapping[StreamPartition, int] = field(default_factory=dict)
    """Partition -> where it ended when the attempt began."""
    data_sets: DataSetsSeen = field(default_factory=DataSetsSeen)
    cut: Mapping[StreamPartition, LogCut] = field(default_factory=dict)
    """Partitions that no longer have the records before their positions."""
    slot_of: Mapping[StreamPartition, int] = field(default_factory=dict)
    """Partition -> the slot that reads it, if it is only one."""


@dataclass(frozen=True)
class AttemptInputs:
    """What an attempt reads, in which order and amounts."""

    inputs: Mapping[str, Sequence[StreamPartition]]
    """Task -> partitions that it reads."""
    bounded: frozenset[str]
    """Bounded streams: they end where they ended when the app first looked."""
    limits: BatchLimits
    after: Mapping[StreamPartition, ParentEnd] = field(default_factory=dict)
    """New partition -> its parent, and where it has to be processed to before the new one is read."""
    grace: int = 0
    """Milliseconds that new partitions wait for producers that do not know them yet."""
    intermediate: frozenset[str] = frozenset()
    """Its intermediate streams: records that exist before a run begins are those of an earlier run."""
    joins: tuple[JoinedSides, ...] = ()
    tables: tuple[FedTable, ...] = ()
    shared: frozenset[StreamPartition] = frozenset()
    """Side inputs that each location reads for itself."""
    starts: Mapping[StreamPartition, int] = field(default_factory=dict)
    """Partition of an input that the run has not read yet -> where it begins, if not with the oldest record."""

    @cached_property
    def partitions(self) -> frozenset[StreamPartition]:
        """All partitions that are read."""
        return self.shared.union(*self.inputs.values())

    @cached_property
    def rows(self) -> PartitionRows:
        """The same in their order."""
        return PartitionRows(sorted(self.partitions))

    @cached_property
    def readers(self) -> Mapping[StreamPartition, Sequence[str]]:
        """Partition -> the tasks that read it."""
        readers: dict[StreamPartition, list[str]] = {}
        for task, inputs in self.inputs.items():
            for partition in inputs:
                readers.setdefault(partition, []).append(task)
        return readers


def next_offsets(before: Offsets, reading: AttemptInputs, snapshot: LoopSnapshot, jump: Jump | None = None) -> Offsets:
    """Return the offsets after the next batch; `before` itself if there is none. `jump`: the batch makes it."""
    offsets = before if jump is None else jumped(before, jump, reading.partitions)
    _check_same(offsets, snapshot.ids)
    now = max(snapshot.now, before.now)
    if snapshot.first and reading.tables:
        tables = table_starts(offsets, reading.tables, reading.partitions, snapshot.bounds, now)
    else:
        tables = unchanged(offsets)
    tables = replace(tables, generations={**tables.generations, **snapshot.data_sets.numbers})
    positions_before = {partition: offsets.positions[partition] for partition in tables.moves}
    offsets = replace(offsets, positions={**offsets.positions, **tables.moves})
    fresh = {
        partition: _first(partition, before, reading, snapshot)
        for partition in reading.rows.partitions
        if partition not in offsets.positions
    }
    positions = {**offsets.positions, **fresh}
    ends = dict(offsets.ends)
    for stream in reading.bounded & reading.rows.rows_of.keys():
        for partition in reading.rows.partitions[reading.rows.rows_of[stream]]:
            if partition not in ends:
                ends[partition] = snapshot.bounds[partition].end
    sizes = {**offsets.record_bytes, **{stream: ceil(size) for stream, size in snapshot.record_bytes.items()}}
    # A jump gets a range even if nothing is read there: the tasks' state must follow it in this batch.
    moved = {**tables.moves, **({} if jump is None else jump.to)}
    rows, bounds = reading.rows, [snapshot.bounds[partition] for partition in reading.rows.partitions]
    record_bytes = {**snapshot.assumed_bytes, **sizes, **snapshot.record_bytes}
    position = [positions[partition] for partition in rows.partitions]
    backlogs = Backlogs(rows, position, rows.ends(bounds, ends), record_bytes)
    _check_there(snapshot, backlogs, bounds, replace(offsets, positions=positions, ends=ends), moved)
    new = {child: first for child, first in reading.after.items() if child in fresh}
    noticed = noticed_now(before.noticed, new, snapshot.bounds, now, reading.grace)
    after = after_grace(reading.after, noticed, ends)
    jumps = {partition: (to, to) for partition, to in moved.items()}
    loading = _loading(reading, snapshot, positions)
    held_back = _held(reading, snapshot, backlogs, loading)
    ranges = {**jumps, **plan_ranges(backlogs, reading.limits, after, held_back, snapshot.slot_of)}
    # A location without a task in this batch reads shared partitions, or fetches a data set, when it has one.
    changed = snapshot.data_sets.numbers.items() - before.tables.items()
    # What was due while tables loaded is due behind that, with or without records.
    loaded = before.quiet and not loading
    everyone = snapshot.first or loaded or bool(changed) or not reading.shared.isdisjoint(ranges)
    wakes = {} if loading else snapshot.wakes
    taking_part = list(reading.inputs) if everyone else _taking_part(reading, ranges, wakes, now)
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
        ids={**offsets.ids, **snapshot.ids},
        jumped=positions_before if jump is None else {**positions_before, **jump.found},
        jump=before.jump if jump is None else jump.id,
        noticed=noticed,
        skew=snapshot.skew,
        record_bytes=sizes,
        tables=tables.generations,
        incomplete=tables.incomplete,
        table_inputs=_table_inputs(before, reading, tables, {**positions, **moved}, moved),
        quiet=bool(loading),
        epochs=epochs_after(offsets.epochs, snapshot.bounds, ranges),
    )


def _table_inputs(
    before: Offsets,
    reading: AttemptInputs,
    tables: TableStarts,
    positions: Mapping[StreamPartition, int],
    moved: Container[StreamPartition],
) -> dict[StreamPartition, int]:
    """Return where each location has to start with its side inputs, if it holds nothing or less."""
    begun_tables = {table.name for table in reading.tables if tables.generations[table.name] == before.batch + 1}
    renewed = {source for table in reading.tables if table.name in begun_tables for source in table.sources}
    offsets_before = before.table_inputs
    return {
        partition: positions[partition]
        if partition.stream in renewed or partition in moved
        else offsets_before.get(partition, positions[partition])
        for partition in sorted(reading.shared)
    }


class LeftBehind(NamedTuple):
    """What is left behind a batch."""

    lags: Mapping[str, tuple[int, ...]]
    """Stream -> how many known records of each partition, from 0 on, are still unread."""
    held_inputs: Sequence[str]
    """Which streams are not read on for now because of joins or tables, and why, one sentence each."""
    loading: Mapping[str, int]
    """Table that inputs wait for -> how many records of its side inputs are to be read."""


def left_behind(after: Offsets, reading: AttemptInputs, snapshot: LoopSnapshot) -> LeftBehind:
    """Return what is left behind the batch that ends at these offsets."""
    rows, bounds = reading.rows, [snapshot.bounds[partition] for partition in reading.rows.partitions]
    # Where each partition is read on, among the records that it still has.
    position = [
        max(after.positions.get(partition, 0), bound.oldest)
        for partition, bound in zip(rows.partitions, bounds, strict=True)
    ]
    backlogs = Backlogs(rows, position, rows.ends(bounds, after.ends), {})
    positions = dict(zip(rows.partitions, position, strict=True)) if reading.tables else {}
    loading = _loading(reading, snapshot, positions)
    reasons = _held(reading, snapshot, backlogs, loading)
    return LeftBehind(backlogs.lags(), sorted(set(reasons.values())), loading)


def _loading(
    reading: AttemptInputs, snapshot: LoopSnapshot, positions: Mapping[StreamPartition, int]
) -> dict[str, int]:
    return loading_tables(reading.tables, positions, snapshot.began, snapshot.data_sets)


def _held(
    reading: AttemptInputs,
    snapshot: LoopSnapshot,
    backlogs: Backlogs,
    loading: Mapping[str, int],
) -> Mapping[StreamPartition, str]:
    """Return the partitions that are not read on, because of joins or of tables, each with the reason."""
    joins = (
        held_partitions(reading.joins, reading.inputs, snapshot.joined, backlogs.unread())
        if may_hold(reading.joins, snapshot.joined)
        else {}
    )
    return {**joins, **waiting_inputs(loading, reading.tables, backlogs.rows.partitions, snapshot.data_sets)}


def _first(partition: StreamPartition, before: Offsets, reading: AttemptInputs, snapshot: LoopSnapshot) -> int:
    """Return where to start reading a partition that was not read before.

    A new run has written nothing yet, so it skips what is in intermediate streams. Later a new partition may hold the
    run's own records: a batch that an earlier attempt had planned is replayed before the next one is decided.
    """
    bounds = snapshot.bounds[partition]
    if partition in reading.starts:
        return max(reading.starts[partition], bounds.oldest)
    return bounds.end if not before.batch and partition.stream in reading.intermediate else bounds.oldest


def check_replay(planned: Offsets, snapshot: LoopSnapshot) -> None:
    """Refuse to repeat a batch whose records are others now."""
    _check_same(planned, snapshot.ids)
    if replaced := find_replaced(planned, snapshot.bounds, snapshot.cut):
        raise lost_error(replaced, planned.batch)


def _check_same(before: Offsets, ids: Mapping[str, str]) -> None:
    """Refuse to read a topic that was deleted and created again under the same name."""
    for stream, read_id in before.ids.items():
        new_id = ids.get(stream, read_id)
        if new_id != read_id:
            raise recreated_error(stream, new_id, read_id)


def _check_there(
    snapshot: LoopSnapshot,
    backlogs: Backlogs,
    bounds: Sequence[OffsetBounds],
    offsets: Offsets,
    moved: Container[StreamPartition],
) -> None:
    """Refuse to go on from positions that their partitions do not have; `moved`: read on from elsewhere in any case."""
    verdicts = [
        find_lost(partition, position, bound, offsets.ends.get(partition))
        for partition, position, bound in zip(backlogs.rows.partitions, backlogs.position, bounds, strict=True)
        if not bound.oldest <= position <= bound.end
    ]
    if not verdicts and not snapshot.cut:
        return
    lost = {verdict.partition: verdict for verdict in verdicts if verdict is not None}
    cut = {partition: log_cut for partition, log_cut in snapshot.cut.items() if partition not in moved}
    replaced = {position.partition: position for position in find_replaced(offsets, snapshot.bounds, cut)}
    if lost or replaced:
        raise lost_error([*{**lost, **replaced}.values()])


def _taking_part(
    reading: AttemptInputs, ranges: Iterable[StreamPartition], wakes: Mapping[str, int], now: int
) -> list[str]:
    """Return the tasks that have something to read, or asked to be woken by now."""
    tasks = {task for task, wake in wakes.items() if wake <= now}
    tasks.update(*(reading.readers[partition] for partition in ranges if partition in reading.readers))
    return [task for task in reading.inputs if task in tasks]


def batch_to(end: Offsets, inputs: Mapping[str, Sequence[StreamPartition]], epoch: int, *, first: bool) -> BatchPlan:
    """Return the plan of the batch that ends at these offsets, for tasks with these inputs."""
    ranges = {
        partition: OffsetRange(partition, start, end.positions[partition], end.epochs.get(partition))
        for partition, start in end.starts.items()
    }
    gave = _settled(end) if end.noticed else {}
    # Most batches have turns with ranges alone, and with tens of thousands of tasks each look costs.
    plain = not (end.ends or end.jumped or gave)
    turns = {}
    for task in end.taking_part:
        read = inputs[task]
        turn = Turn(end.turns[task], tuple(ranges[partition] for partition in read if partition in ranges))
        turns[task] = turn if plain else _with_more(turn, end, read, gave)
    shared = {partition: (start, end.positions[partition]) for partition, start in end.table_inputs.items()}
    epochs = {partition: end.epochs[partition] for partition in shared if partition in end.epochs}
    lead = next(iter(end.taking_part), None)
    return BatchPlan(end.batch, epoch, end.now, first, turns, end.skew, end.tables, shared, end.quiet, epochs, lead)


def _with_more(
    turn: Turn, end: Offsets, inputs: Sequence[StreamPartition], gave: Mapping[StreamPartition, SettledPartition]
) -> Turn:
    return turn._replace(
        ended=_ended(end, inputs),
        jumped={partition: end.jumped[partition] for partition in inputs if partition in end.jumped},
        settled={partition: gave[partition] for partition in inputs if partition in gave},
    )


def _settled(end: Offsets) -> dict[StreamPartition, SettledPartition]:
    """Return the partitions of this batch that gave keys away and whose grace period is over when they are read."""
    counts = Counter(partition.stream for partition in end.positions)
    return {
        partition: SettledPartition(start, counts[partition.stream])
        for partition, start in settled(end.noticed).items()
        if partition in end.starts and end.positions[partition] > start
    }


def _ended(end: Offsets, inputs: Sequence[StreamPartition]) -> tuple[StreamPartition, ...]:
    return tuple(
        partition
        for partition in inputs
        if partition in end.ends and end.positions.get(partition, 0) >= end.ends[partition]
    )
