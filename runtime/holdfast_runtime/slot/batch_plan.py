"""The plan of one batch, of which the driver sends each slot its part, and the check that a task's state fits its turn.

A plan is made from the durable offsets alone (`loop.next_batch`), so that a replay makes the same plan. A part has the
turns of a slot's tasks, and all that these need to know of other tasks. Its text lasts for one batch, and is read by
the release that wrote it. The ranges of a turn must begin exactly where the state ends: otherwise rows would silently
be lost or counted twice. A partition of the embedded log that was restored from an older copy looks like one to which
the task has written nothing since, so it is refused. A partition without any marker of the task was removed by
somebody, and is written to. Must not read or write streams.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NamedTuple

from holdfast.errors import UserActionError
from holdfast.tasks.partitions import StreamPartition, parse_partition
from holdfast_runtime.state.errors import parsing_state
from holdfast_runtime.state.store.delta import Delta
from holdfast_runtime.state.store.task_store import OFFSETS, OUTPUTS, TaskStore
from holdfast_runtime.streams.markers import outputs_behind
from holdfast_runtime.streams.records import Marker, OffsetRange


class SettledPartition(NamedTuple):
    """A partition that gave keys to new partitions, after the grace period: producers should know the new count."""

    since: int
    """The offset from which on this holds."""
    partitions: int


_NO_PARTITIONS: Mapping[StreamPartition, Any] = MappingProxyType({})


class Turn(NamedTuple):
    """One task's part of a batch."""

    number: int
    """In how many batches the task has taken part, including this one: the batch number of its state."""
    ranges: tuple[OffsetRange, ...]
    ended: tuple[StreamPartition, ...] = ()
    """Partitions of bounded streams that this batch reads to their end."""
    jumped: Mapping[StreamPartition, int] = _NO_PARTITIONS
    """Partition -> its position before a jump, where a user has set where the range begins."""
    settled: Mapping[StreamPartition, SettledPartition] = _NO_PARTITIONS
    """Partitions read in this turn that gave keys to new partitions."""

    @property
    def fetched(self) -> tuple[OffsetRange, ...]:
        """The ranges that are not empty; one is empty after a jump to where nothing is left to read."""
        return tuple(offset_range for offset_range in self.ranges if offset_range.start < offset_range.end)


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """The plan of one batch."""

    batch: int
    epoch: int
    """The attempt that runs it."""
    now: int
    """The batch clock."""
    first: bool
    """Whether it is the attempt's first batch: control messages were not heard before it."""
    turns: Mapping[str, Turn]
    """Task that takes part -> its turn."""
    skew: int = 0
    """How far the batch clock is ahead of the host's clock."""
    tables: Mapping[str, int] = field(default_factory=dict)
    """Table with side inputs -> its generation: what is held of another one is dropped."""
    table_inputs: Mapping[StreamPartition, tuple[int, int]] = field(default_factory=dict)
    """Partition that each location reads for its tables -> where this generation began, and how far this batch goes."""
    quiet: bool = False
    """Whether it only loads tables that inputs wait for."""
    epochs: Mapping[StreamPartition, int] = field(default_factory=dict)
    """Partition of these -> the leader epoch under which its range was fixed."""
    lead: str | None = None
    """The task that does what one task of all has to do; None: no task takes part."""

    @property
    def wall(self) -> int:
        """The host's clock: the time of day outside of the engine."""
        return self.now - self.skew

    def part(self, tasks: Iterable[str]) -> "BatchPlan":
        """Return what a slot with these tasks needs of the plan."""
        turns = {task: self.turns[task] for task in tasks if task in self.turns}
        if turns:
            return replace(self, turns=turns)
        # Tables are brought up by turns, so without one the slot reads nothing of them.
        return replace(self, turns={}, tables={}, table_inputs={}, epochs={})

    def texts(self, slots: Sequence[Sequence[str]]) -> list[str]:
        """Return the part of each slot, given by its tasks, as JSON."""
        return [self.part(tasks).text() for tasks in slots]

    def text(self) -> str:
        """Return the plan as JSON."""
        head = (self.batch, self.epoch, self.now, self.skew, self.first, self.quiet, self.lead)
        shared = [(partition, *bounds, self.epochs.get(partition)) for partition, bounds in self.table_inputs.items()]
        return _encode((*head, {task: _tree(turn) for task, turn in self.turns.items()}, dict(self.tables), shared))

    @classmethod
    def parse(cls, text: str) -> "BatchPlan":
        """Return the plan from the text that `text` made."""
        batch, epoch, now, skew, first, quiet, lead, trees, tables, shared = json.loads(text)
        turns = {task: _turn(*tree) for task, tree in trees.items()}
        table_inputs = {StreamPartition(*partition): (start, end) for partition, start, end, _ in shared}
        epochs = {StreamPartition(*partition): epoch for partition, _, _, epoch in shared if epoch is not None}
        return cls(batch, epoch, now, first, turns, skew, tables, table_inputs, quiet, epochs, lead)


_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode
"""Writes named tuples as lists, so that partitions and ranges need no form of their own."""


def _tree(turn: Turn) -> tuple[Any, ...]:
    """Return the turn for JSON; most have ranges alone."""
    if not (turn.ended or turn.jumped or turn.settled):
        return turn[:2]
    return (*turn[:3], list(turn.jumped.items()), list(turn.settled.items()))


def _turn(
    number: int,
    ranges: Sequence[Any],
    ended: Sequence[Any] = (),
    jumped: Sequence[Any] = (),
    settled_partitions: Sequence[Any] = (),
) -> Turn:
    return Turn(
        number,
        tuple(OffsetRange(StreamPartition(*partition), start, end, epoch) for partition, start, end, epoch in ranges),
        tuple(StreamPartition(*partition) for partition in ended),
        {StreamPartition(*partition): offset for partition, offset in jumped},
        {StreamPartition(*partition): SettledPartition(*settled) for partition, settled in settled_partitions},
    )


def check_offsets(store: TaskStore, turn: Turn) -> None:
    """Refuse ranges that do not begin where the state ends, or a jump that does not start there."""
    keys = [_key(offset_range.partition) for offset_range in turn.ranges]
    with parsing_state(f"how far {store.directory.identity} has read"):
        offsets = [None if stored is None else int(stored) for stored in store.offsets.get_many(keys)]
    for offset_range, stored in zip(turn.ranges, offsets, strict=True):
        begins = _stood(turn, offset_range)
        if stored is not None and stored != begins:
            message = (
                f"the state of {store.directory.identity} has read {offset_range.partition} up to offset {stored}, but "
                f"the checkpoint continues at {begins}: they are not of one history. Put back state and checkpoint "
                f"from the same time, or start under a new spec.runId"
            )
            raise UserActionError(message, code="StateOffsetsError")


def check_delta(delta: Delta, turn: Turn) -> None:
    """Refuse a delta that was computed from other ranges than the turn's: a replay would skip or repeat rows."""
    offsets = {key: None if value is None else int(value) for key, value in delta.tables.get(OFFSETS, ())}
    planned = {_key(offset_range.partition): offset_range for offset_range in turn.ranges}
    for key in sorted(offsets.keys() | planned.keys()):
        offset_range = planned.get(key)
        end = None if offset_range is None else offset_range.end
        # A delta holds only changes: it has no entry for a partition whose position stays, as after a jump back.
        stays = offset_range is not None and key not in offsets and _stood(turn, offset_range) == end
        if not stays and offsets.get(key) != end:
            message = (
                f"batch {delta.batch} of {delta.identity} has to read {key.decode()} up to offset {end}, but its "
                f"delta read up to {offsets.get(key)}: state and checkpoint are not of one history. Put back both from "
                f"the same time, or start under a new spec.runId"
            )
            raise UserActionError(message, code="StateOffsetsError")


def keep_offsets(store: TaskStore, turn: Turn) -> None:
    """Store in the state how far this turn reads."""
    store.offsets.put_many(
        [_key(offset_range.partition) for offset_range in turn.ranges],
        [b"%d" % offset_range.end for offset_range in turn.ranges],
    )


def _stood(turn: Turn, offset_range: OffsetRange) -> int:
    """Return the partition's position after the batch before."""
    return turn.jumped.get(offset_range.partition, offset_range.start)


def _key(partition: object) -> bytes:
    return str(partition).encode()


def keep_outputs(store: TaskStore, turn: int, partitions: Iterable[str]) -> None:
    """Store in the state that this turn writes to these partitions."""
    keys = [partition.encode() for partition in partitions]
    store.table(OUTPUTS).put_many(keys, [b"%d" % turn] * len(keys))


def check_outputs(store: TaskStore, marker: Callable[[StreamPartition], Marker | None]) -> None:
    """Refuse partitions that lack batches of the task; `marker` returns the task's last marker in a partition."""
    for key, value in store.table(OUTPUTS).scan():
        with parsing_state(f"what {store.directory.identity} has written"):
            partition, turn = parse_partition(key.decode()), int(value)
        last_marker = marker(partition)
        if last_marker is not None and last_marker.batch < turn:
            raise outputs_behind(str(partition), last_marker, turn)
