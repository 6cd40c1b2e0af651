"""What joins are not to be given yet: sides that are ahead in event time, and anything where pairs are left to make.

Rows wait in a join until the other side has passed them. A side that is read hours ahead of the other, because it has
fewer records or a past that the other lacks, would fill the disk with rows that only wait. So its partitions are left
out of a batch while the other side has records to read, unless these wait for it in turn. A side without anything to
read holds nobody back. Where rows have so many partners that their pairs do not fit into one commit, they are put aside
in the join, and a task reads no more of its streams until they have met. Pure: marks and what is unread are arguments.
Must not know steps but by name.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import NamedTuple

from holdfast.tasks.partitions import StreamPartition
from holdfast.times import Micros, floor_millis, time_span
from holdfast_runtime.segments.graph import CompiledGraph

_SLACK = 60_000
"""How far ahead a side may be beyond what its rows wait anyway, in milliseconds: batches of both are never alike."""


@dataclass(frozen=True, slots=True)
class JoinedSide:
    """One side of a join."""

    streams: frozenset[str]
    """The streams whose rows reach it in one task, and not the other side."""
    sources: frozenset[str]
    """These, and all whose rows come into them through intermediate streams."""
    clocks: frozenset[str]
    """What its rows have their event times from: the streams, or steps behind them with an `eventTime`."""


@dataclass(frozen=True, slots=True)
class JoinedSides:
    """A join, and how far one of its sides may be ahead."""

    step: str
    sides: tuple[JoinedSide, JoinedSide]
    most: int
    """Milliseconds of event time."""
    reads: frozenset[str]
    """The streams whose rows reach it in one task."""


@dataclass(frozen=True, slots=True)
class JoinedTasks:
    """What tasks have reported of their joins."""

    marks: Mapping[str, Mapping[str, int | None]] = field(default_factory=dict)
    """Task -> stream -> its watermark there."""
    unjoined: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Task -> step -> how many rows have been put aside there; tasks without any may be left out."""
    spreads: Mapping[str, int] | None = None
    """Task -> how far its known watermarks are apart, so that few of very many are looked at; None: all are."""

    def apart(self, most: int) -> Collection[str]:
        """Return the tasks in which a side may be further ahead than this."""
        if self.spreads is None:
            return self.marks.keys()
        return [task for task, spread in self.spreads.items() if spread > most]


def spread_of(marks: Mapping[str, int | None]) -> int:
    """Return how far the known watermarks of a task are apart."""
    known = [mark for mark in marks.values() if mark is not None]
    return max(known) - min(known) if len(known) > 1 else 0


def joined_sides(compiled: CompiledGraph) -> tuple[JoinedSides, ...]:
    """Return the joins of an app."""
    reach, clocks, joins = compiled.reach(), compiled.clocks(), []
    for node in compiled.nodes:
        if node.join is None:
            continue
        left, right = (reach[index] for index in node.inputs)
        left_clocks, right_clocks = (clocks[index] for index in node.inputs)
        sides = (
            JoinedSide(left - right, _sources(compiled, left), left_clocks - right_clocks),
            JoinedSide(right - left, _sources(compiled, right), right_clocks - left_clocks),
        )
        most = floor_millis(Micros(node.join.before + node.join.after)) + _SLACK
        joins.append(JoinedSides(node.name, sides, most, left | right))
    return tuple(joins)


def _sources(compiled: CompiledGraph, streams: frozenset[str]) -> frozenset[str]:
    reach, sources, todo = compiled.reach(), set(streams), list(streams)
    while todo:
        name = todo.pop()
        new = frozenset[str]().union(*(reach[sink.index] for sink in compiled.sinks if sink.name == name)) - sources
        sources |= new
        todo += new
    return frozenset(sources)


def may_hold(joins: Iterable[JoinedSides], tasks: JoinedTasks) -> bool:
    """Whether these joins may hold back anything."""
    return any(tasks.apart(join.most) or any(join.step in steps for steps in tasks.unjoined.values()) for join in joins)


def held_partitions(
    joins: Iterable[JoinedSides],
    inputs: Mapping[str, Sequence[StreamPartition]],
    tasks: JoinedTasks,
    unread: Set[StreamPartition],
) -> dict[StreamPartition, str]:
    """Return the partitions that are not read in this batch, each with the reason."""
    reasons: dict[StreamPartition, str] = {}
    waits: list[_Wait] = []
    by_stream: dict[str, set[StreamPartition]] = {}
    for partition in unread:
        by_stream.setdefault(partition.stream, set()).add(partition)
    for join in joins:
        rows = {task: steps[join.step] for task, steps in tasks.unjoined.items() if join.step in steps}
        for task in dict.fromkeys((*rows, *tasks.apart(join.most))):
            partitions = inputs.get(task, ())
            if task in rows:
                reason = (
                    f"step {join.step}: {sum(rows.values())} rows wait to be joined, because rows of their keys make "
                    f"very many pairs; {', '.join(sorted(join.reads))} wait until they are"
                )
                reasons.update({partition: reason for partition in partitions if partition.stream in join.reads})
                continue
            for side, other in (join.sides, reversed(join.sides)):
                ahead = _ahead(tasks.marks.get(task, {}), side, other)
                if ahead is None or ahead <= join.most:
                    continue
                reason = (
                    f"step {join.step}: {', '.join(sorted(side.streams))} is {time_span(ahead)} ahead of "
                    f"{', '.join(sorted(other.streams))}, and waits until that is read"
                )
                waiting = frozenset(partition for partition in partitions if partition.stream in side.streams)
                waits.append(_Wait(waiting, _unread_of(other, partitions, by_stream), reason))
    for wait in _ending(waits, unread):
        reasons.update(dict.fromkeys(wait.partitions, wait.reason))
    return reasons


class _Wait(NamedTuple):
    """Partitions of a side that is ahead."""

    partitions: frozenset[StreamPartition]
    until: frozenset[StreamPartition]
    """What is still to be read for the other side."""
    reason: str


def _unread_of(
    side: JoinedSide, partitions: Sequence[StreamPartition], unread: Mapping[str, Set[StreamPartition]]
) -> frozenset[StreamPartition]:
    """Return what is still to be read for a side of this task, by it or on the way to it."""
    own_unread = frozenset(
        partition
        for partition in partitions
        if partition.stream in side.streams and partition in unread.get(partition.stream, ())
    )
    return own_unread.union(*(unread.get(stream, ()) for stream in side.sources - side.streams))


def _ending(waits: Sequence[_Wait], unread: Set[StreamPartition]) -> list[_Wait]:
    """Return the waits that will end: for something that is read now, or that waits itself for such only.

    A stream may be joined with what is made of it, so that partitions wait for each other, or for themselves.
    """
    ending: list[_Wait] = []
    endless = list(waits)
    while True:
        read = unread - frozenset[StreamPartition]().union(*(wait.partitions for wait in endless))
        more = [wait for wait in endless if not wait.until.isdisjoint(read)]
        if not more:
            return ending
        ending += more
        endless = [wait for wait in endless if wait.until.isdisjoint(read)]


def _ahead(marks: Mapping[str, int | None], side: JoinedSide, other: JoinedSide) -> int | None:
    """Return how far a side is ahead; None if that is not known."""
    side_marks, other_marks = ([marks.get(clock) for clock in joined_side.clocks] for joined_side in (side, other))
    side_known, other_known = (
        [mark for mark in marks_of if mark is not None] for marks_of in (side_marks, other_marks)
    )
    if len(side_known) < len(side_marks) or len(other_known) < len(other_marks) or not side_marks or not other_marks:
        return None  # not known, or both sides are read from the same streams
    return min(side_known) - min(other_known)
