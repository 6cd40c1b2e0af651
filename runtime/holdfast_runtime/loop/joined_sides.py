"""The sides of joins that are ahead in event time: what is not read on until the other side comes after.

Rows wait in a join until the other side has passed them. A side that is read hours ahead of the other, because it has
fewer records or a past that the other lacks, would fill the disk with rows that only wait. So its partitions are left
out of a batch while the other side has records to read. A side without anything to read holds nobody back. Pure: marks
and what is unread are arguments. Must not know steps but by name.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from holdfast.moments import time_span
from holdfast.tasks.partitions import StreamPartition
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


@dataclass(frozen=True, slots=True)
class JoinedSides:
    """A join, and how far one of its sides may be ahead."""

    step: str
    sides: tuple[JoinedSide, JoinedSide]
    most: int
    """Milliseconds of event time."""


def joined_sides(compiled: CompiledGraph) -> tuple[JoinedSides, ...]:
    """Return the joins of an app whose sides come from different streams."""
    reach, found = compiled.reach(), []
    for node in compiled.nodes:
        if node.join is None:
            continue
        left, right = (reach[at] for at in node.inputs)
        sides = JoinedSide(left - right, _sources(compiled, left)), JoinedSide(right - left, _sources(compiled, right))
        if all(side.streams for side in sides):
            found.append(JoinedSides(node.name, sides, node.join.before + node.join.after + _SLACK))
    return tuple(found)


def _sources(compiled: CompiledGraph, streams: frozenset[str]) -> frozenset[str]:
    reach, found, todo = compiled.reach(), set(streams), list(streams)
    while todo:
        name = todo.pop()
        new = frozenset[str]().union(*(reach[sink.index] for sink in compiled.sinks if sink.name == name)) - found
        found |= new
        todo += new
    return frozenset(found)


def held_partitions(
    joins: Iterable[JoinedSides],
    inputs: Mapping[str, Sequence[StreamPartition]],
    marks: Mapping[str, Mapping[str, int | None]],
    unread: Set[StreamPartition],
) -> dict[StreamPartition, str]:
    """Return the partitions that are not read in this batch, each with the reason.

    `marks`: task -> stream -> its watermark there.
    """
    held: dict[StreamPartition, str] = {}
    for join in joins:
        for task, partitions in inputs.items():
            for mine, other in (join.sides, reversed(join.sides)):
                ahead = _ahead(marks.get(task, {}), mine, other)
                if ahead is None or ahead <= join.most or not _has_unread(other, partitions, unread):
                    continue
                said = (
                    f"step {join.step}: {', '.join(sorted(mine.streams))} is {time_span(ahead)} ahead of "
                    f"{', '.join(sorted(other.streams))}, and waits until that is read"
                )
                held.update({one: said for one in partitions if one.stream in mine.streams})
    return held


def _has_unread(side: JoinedSide, partitions: Sequence[StreamPartition], unread: Set[StreamPartition]) -> bool:
    """Whether rows for a side of this task are still to be read, by it or on the way to it."""
    own = (one for one in partitions if one.stream in side.streams)
    return not unread.isdisjoint(own) or any(one.stream in side.sources - side.streams for one in unread)


def _ahead(marks: Mapping[str, int | None], mine: JoinedSide, other: JoinedSide) -> int | None:
    """Return how far a side is ahead; None if that is not known."""
    here, there = ([marks.get(stream) for stream in side.streams] for side in (mine, other))
    known_here, known_there = ([mark for mark in some if mark is not None] for some in (here, there))
    if len(known_here) < len(here) or len(known_there) < len(there):
        return None
    return min(known_here) - min(known_there)
