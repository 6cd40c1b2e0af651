"""Partition counts: which streams must agree (join sets), how many partitions each has, where the number comes from.

A stream belongs to every `join` and `lookup` downstream of it, through tables too, up to the next `repartition` or
`broadcast`. A keyed step (`aggregate`, `deduplicate`, `process`) that several streams reach needs equal counts for the
same reason: rows with equal keys must be in one task. Sets of names are bits of one integer here, because cascaded
joins make them large. Known counts are arguments. Streams without one take counts in rounds from the join sets they
are in; those still without take the configured or the largest known count. Must not check whether the counts agree.
"""

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import compress
from typing import assert_never

from holdfast.planning.graph import Graph, makes_stream
from holdfast.spec.runtime import Planning
from holdfast.spec.steps import (
    Aggregate,
    Apply,
    Broadcast,
    Deduplicate,
    Filter,
    Join,
    Lookup,
    Merge,
    Process,
    Repartition,
    Select,
    To,
    ToTable,
)
from holdfast.spec.verbs import STATEFUL_VERBS, VERBS, Verb

MANY = 2


@dataclass(frozen=True, slots=True)
class JoinSet:
    """The streams that meet in one step. An intermediate stream has the name of the step that creates it."""

    step: str
    verb: Verb
    streams: tuple[str, ...]

    @property
    def is_join(self) -> bool:
        """Whether the step matches two sides, rather than grouping one by key."""
        return VERBS[self.verb].matches_sides


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

    def _side_inputs(self, name: str) -> int:
        table = self._graph.tables[name]
        if table.distribution == "Broadcast":
            return 0
        mask = 0
        for source in table.sources or ():
            mask |= self._bit[source]
        return mask

    def names(self, mask: int) -> tuple[str, ...]:
        """The streams of a bit mask, sorted."""
        # Done in C: hundreds of joins over hundreds of streams ask for a hundred thousand names.
        return tuple(compress(self._names, f"{mask:b}"[::-1].encode().translate(_BITS)))

    def with_state(self) -> frozenset[str]:
        """The streams whose rows reach a step that keeps something by their keys."""
        mask = 0
        for name in self._graph.order:
            step = self._graph.steps[name]
            by_key = step.lookup is None or self._graph.tables[step.lookup.table].distribution != "Broadcast"
            if step.verb in STATEFUL_VERBS and by_key:
                mask |= self._into[name]
        return frozenset(self.names(mask))

    def along(self, source: str) -> tuple[str, ...]:
        """The streams whose rows reach a reader of this stream or step."""
        return self.names(self._of(source))

    def set_of(self, name: str) -> tuple[str, ...] | None:
        """The streams that need equal partition counts at this step; None if there is no such need."""
        streams = self._into[name]
        match self._graph.steps[name].operation:
            case Lookup(table=table):
                broadcast = self._graph.tables[table].distribution == "Broadcast"
                return None if broadcast else self.names(streams | self._side_inputs(table))
            case Join():
                return self.names(streams)
            case Aggregate() | Deduplicate() | Process():
                return self.names(streams) if streams.bit_count() >= MANY else None
            case Filter() | Select() | Merge() | Apply() | Repartition() | Broadcast() | To() | ToTable():
                return None
            case never:
                assert_never(never)


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
    path, node = [stream], stream
    while node != step and node in towards:
        node = towards[node]
        path.append(node)
    return tuple(path)


@dataclass(frozen=True, slots=True)
class DecidedCount:
    """A partition count with its origin."""

    partitions: int
    decided_by: str
    """`topic`, `given`, `join:<step>`, `config`, `default` or `broadcast`."""
    how: str
    """The origin as a phrase for people."""
    grown_to: int | None = None
    """The actual count, if the tasks were built for fewer partitions."""
    cut_from: int | None = None
    """The inferred count, if it was cut to `planning.maxIntermediatePartitions`."""

    @property
    def actual(self) -> int:
        """The number of partitions to read."""
        return self.partitions if self.grown_to is None else self.grown_to


@dataclass(frozen=True, slots=True)
class KnownCounts:
    """The partition counts known before planning."""

    given: Mapping[str, int]
    """From the command line: stream -> count."""
    topics: Mapping[str, int]
    """From brokers: stream -> count of its topic, for topics that exist."""
    built_for: Mapping[str, int]
    """From the placement record: stream -> the count its tasks were built for."""
    made_with: Mapping[str, int]
    """From the placement record: stream that no task has read -> the count it was made with."""
    had: Mapping[str, int]
    """From the placement record: stream that tasks have read -> its count."""


def decide_counts(
    graph: Graph, sets: tuple[JoinSet, ...], planning: Planning, facts: KnownCounts
) -> dict[str, DecidedCount]:
    """Return the counts of all streams, without inputs and side inputs whose count is unknown."""
    counts = {name: count for name in graph.streams if (count := _known(graph, name, facts)) is not None}
    for name in graph.made():
        if graph.steps[name].broadcast is not None:
            counts[name] = DecidedCount(1, "broadcast", "every task reads it, one partition is enough")
    open_streams = {name for name in _decidable(graph) if name not in counts}
    # Records lie in them by that count, and who reads them next must find them by it.
    made = {name: facts.made_with[name] for name in open_streams & facts.made_with.keys()}
    counts.update((name, DecidedCount(count, "default", "what it was made with")) for name, count in made.items())
    open_streams.difference_update(made)
    _in_rounds(sets, counts, open_streams)
    if missing := open_streams.difference(counts):
        count = _for_the_rest(graph, counts, planning)
        for name in missing:
            if (built := facts.built_for.get(name)) is not None:
                counts[name] = DecidedCount(built, count.decided_by, "what its tasks were built for")
            elif (had := facts.had.get(name, 0)) > count.partitions:
                counts[name] = DecidedCount(had, count.decided_by, "what it had: there may be records in all of them")
            else:
                counts[name] = count
    return counts


def _known(graph: Graph, name: str, facts: KnownCounts) -> DecidedCount | None:
    stream = graph.streams[name]
    if name in facts.given:
        now = DecidedCount(facts.given[name], "given", "given on the command line")
    elif name in facts.topics:
        now = DecidedCount(facts.topics[name], "topic", f"its topic {stream.topic or name} has them")
    elif stream.partitions is not None:
        now = DecidedCount(stream.partitions, "config", "set in the spec")
    else:
        return None
    built = facts.built_for.get(name)
    if built is None or built >= now.partitions:
        return now
    # Tasks built for fewer partitions keep every key where it was, so joins still compare the old count.
    how = f"grown to {now.partitions}, counts as the {built} its tasks were built for"
    return DecidedCount(built, now.decided_by, how, grown_to=now.partitions)


def _decidable(graph: Graph) -> list[str]:
    """Streams whose topic Holdfast creates or may create: intermediates and outputs. Inputs exist or they don't."""
    outputs = [name for name in graph.streams if graph.role(name) in ("output", "intermediate")]
    return [*graph.made(), *outputs]


def _in_rounds(sets: tuple[JoinSet, ...], counts: dict[str, DecidedCount], unknown: set[str]) -> None:
    """In each round, every stream without a count takes the smallest count known so far in any of its sets.

    A set passes on a count as soon as one of its streams has one, to all its other streams at once. So each set is
    visited only when its first count appears.
    """
    member_of: dict[str, list[int]] = defaultdict(list)
    smallest: list[tuple[int, int] | None] = []
    for index, join_set in enumerate(sets):
        set_counts = [counts[name].partitions for name in join_set.streams if name in counts]
        smallest.append((min(set_counts), index) if set_counts else None)
        for name in join_set.streams:
            if name in unknown and name not in counts:
                member_of[name].append(index)
    giving = {index for index, least in enumerate(smallest) if least is not None}
    while giving:
        new_counts: dict[str, DecidedCount] = {}
        for name in {name for index in giving for name in sets[index].streams if name in member_of}:
            if name in counts:
                continue
            partitions, source = min(least for index in member_of[name] if (least := smallest[index]) is not None)
            step = sets[source].step
            new_counts[name] = DecidedCount(
                partitions, f"join:{step}", f"taken over from the streams it meets in {step}"
            )
        counts.update(new_counts)
        giving = set()
        for name, count in new_counts.items():
            for index in member_of[name]:
                if smallest[index] is None or index in giving:
                    first, candidate = smallest[index], (count.partitions, index)
                    smallest[index] = candidate if first is None else min(first, candidate)
                    giving.add(index)


def _for_the_rest(graph: Graph, counts: dict[str, DecidedCount], planning: Planning) -> DecidedCount:
    if planning.intermediate_partitions is not None:
        return DecidedCount(planning.intermediate_partitions, "config", "planning.intermediatePartitions")
    outer = [
        (count.partitions, name)
        for name, count in counts.items()
        if name in graph.streams and graph.role(name) in ("input", "output") and graph.used(name)
    ]
    if not outer:
        return DecidedCount(1, "default", "no input or output has a known count")
    largest, name = max(outer, key=lambda pair: (pair[0], pair[1]))
    cap = planning.max_intermediate_partitions
    if largest > cap:
        how = f"{name} has {largest}, cut to planning.maxIntermediatePartitions"
        return DecidedCount(cap, "default", how, cut_from=largest)
    return DecidedCount(largest, "default", f"as many as {name}, the largest input or output")
