"""Join sets: the streams whose partition counts must agree because their rows meet in one step.

A stream belongs to every `join` and `lookup` downstream of it, through tables too, up to the next `repartition` or
`broadcast`. A keyed step (`aggregate`, `deduplicate`, `process`) that several streams reach needs equal counts for the
same reason: rows with equal keys must be in one task. Sets of names are bits of one integer here, because cascaded
joins make them large. Must not compare counts.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import compress

from holdfast.planning.graph import Graph, makes_stream

MANY = 2


@dataclass(frozen=True, slots=True)
class JoinSet:
    """The streams that meet in one step. An intermediate stream has the name of the step that creates it."""

    step: str
    verb: str
    streams: tuple[str, ...]

    @property
    def is_join(self) -> bool:
        """Whether the step matches two sides, rather than grouping one by key."""
        return self.verb in ("join", "lookup")


_BITS = bytes.maketrans(b"01", b"\0\1")


def join_sets(graph: Graph, reaching: "Reaching") -> tuple[JoinSet, ...]:
    """All join sets, in flow order."""
    return tuple(
        JoinSet(step=name, verb=graph.steps[name].verb, streams=streams)
        for name in graph.order
        if (streams := reaching.set_of(name)) is not None
    )


class Reaching:
    """Which streams' rows reach which step."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        # Includes streams made inside a cycle of steps: a step that reads them may still be checked.
        self._names = sorted({*graph.streams, *(name for name, step in graph.steps.items() if makes_stream(step))})
        self._bit = {name: 1 << i for i, name in enumerate(self._names)}
        self._into: dict[str, int] = dict.fromkeys(graph.order, 0)
        self._table: dict[str, int] = dict.fromkeys(graph.tables, 0)
        # One pass is enough unless tables form a cycle; then repeat until nothing is added, which always ends.
        while self._pass():
            pass

    def _pass(self) -> bool:
        grew = False
        for name in self._graph.order:
            step = self._graph.steps[name]
            mask = 0
            for source in step.inputs:
                mask |= self._of(source)
            if step.lookup is not None:
                # Matches of broadcast rows come out where the table's rows are, so the table's streams count from here.
                mask |= self._table[step.lookup.table] | (0 if mask else self._side_inputs(step.lookup.table))
            self._into[name] = mask
            if step.to_table is not None and self._table[step.to_table] | mask != self._table[step.to_table]:
                self._table[step.to_table] |= mask
                grew = True
        return grew

    def _of(self, source: str) -> int:
        step = self._graph.steps.get(source)
        if step is None:
            return self._bit[source]
        if step.broadcast is not None:
            return 0  # every task reads all of it, so its count constrains no step
        return self._bit[source] if makes_stream(step) else self._into.get(source, 0)

    def _side_inputs(self, table: str) -> int:
        found = self._graph.tables[table]
        if found.distribution == "Broadcast":
            return 0
        mask = 0
        for source in found.sources or ():
            mask |= self._bit[source]
        return mask

    def names(self, mask: int) -> tuple[str, ...]:
        """The streams of a bit mask, sorted."""
        # Done in C: hundreds of joins over hundreds of streams ask for a hundred thousand names.
        return tuple(compress(self._names, f"{mask:b}"[::-1].encode().translate(_BITS)))

    def along(self, source: str) -> tuple[str, ...]:
        """The streams whose rows reach a reader of this stream or step."""
        return self.names(self._of(source))

    def set_of(self, name: str) -> tuple[str, ...] | None:
        """The streams that need equal partition counts at this step; None if there is no such need."""
        step = self._graph.steps[name]
        if step.lookup is not None:
            table = self._graph.tables[step.lookup.table]
            if table.distribution == "Broadcast":
                return None
            return self.names(self._into[name] | self._side_inputs(step.lookup.table))
        if step.join is not None:
            return self.names(self._into[name])
        if step.aggregate or step.deduplicate or step.process:
            mask = self._into[name]
            return self.names(mask) if mask.bit_count() >= MANY else None
        return None


def paths_to(graph: Graph, step: str, streams: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """A shortest path from each stream to the step, found by walking back from the step."""
    towards: dict[str, str] = {}
    queue = deque([step])
    while queue:
        name = queue.popleft()
        for earlier in _before(graph, name, target=step):
            if earlier not in towards and earlier != step:
                towards[earlier] = name
                if earlier.startswith(_TABLE) or (earlier in graph.steps and not makes_stream(graph.steps[earlier])):
                    queue.append(earlier)
    return tuple(_path(stream, step, towards) for stream in streams)


_TABLE = "table "
"""Prefix of table names in a path: a step may have the same name as a table."""


def _before(graph: Graph, name: str, *, target: str) -> Iterator[str]:
    if name.startswith(_TABLE):
        table = name.removeprefix(_TABLE)
        yield from graph.table_writers.get(table, ())
        # Side inputs matter only at the look-up itself; their rows do not flow on.
        lookup = graph.steps[target].lookup
        if lookup is not None and lookup.table == table:
            yield from graph.tables[table].sources or ()
        return
    step = graph.steps[name]
    yield from step.inputs
    if step.lookup is not None:
        yield f"{_TABLE}{step.lookup.table}"


def _path(stream: str, step: str, towards: dict[str, str]) -> tuple[str, ...]:
    path, at = [stream], stream
    while at != step and at in towards:
        at = towards[at]
        path.append(at)
    return tuple(path)
