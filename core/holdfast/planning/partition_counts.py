"""Partition counts: how many partitions each stream has or will have, and where the number comes from.

Known counts are arguments. Streams without one take counts in rounds from the join sets they are in; those still
without take the configured or the largest known count. Must not check whether the counts agree.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.planning.graph import Graph
from holdfast.planning.join_sets import JoinSet
from holdfast.spec.runtime import Planning


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


NO_KNOWN_COUNTS = KnownCounts(given={}, topics={}, built_for={})


def decide_counts(
    graph: Graph, sets: tuple[JoinSet, ...], planning: Planning, facts: KnownCounts
) -> dict[str, DecidedCount]:
    """Return the counts of all streams, without inputs and side inputs whose count is unknown."""
    counts = {name: count for name in graph.streams if (count := _known(graph, name, facts)) is not None}
    for name in graph.made():
        if graph.steps[name].broadcast is not None:
            counts[name] = DecidedCount(1, "broadcast", "every task reads it, one partition is enough")
    open_streams = {name for name in _decidable(graph) if name not in counts}
    _in_rounds(sets, counts, open_streams)
    if missing := open_streams.difference(counts):
        count = _for_the_rest(graph, counts, planning)
        for name in missing:
            recorded = facts.built_for.get(name)
            counts[name] = (
                count if recorded is None else DecidedCount(recorded, count.decided_by, "what its tasks were built for")
            )
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
    for index, one in enumerate(sets):
        known = [counts[name].partitions for name in one.streams if name in counts]
        smallest.append((min(known), index) if known else None)
        for name in one.streams:
            if name in unknown and name not in counts:
                member_of[name].append(index)
    giving = {index for index, least in enumerate(smallest) if least is not None}
    while giving:
        taken: dict[str, DecidedCount] = {}
        for name in {name for index in giving for name in sets[index].streams if name in member_of}:
            if name in counts:
                continue
            partitions, source = min(least for index in member_of[name] if (least := smallest[index]) is not None)
            step = sets[source].step
            taken[name] = DecidedCount(partitions, f"join:{step}", f"taken over from the streams it meets in {step}")
        counts.update(taken)
        giving = set()
        for name, count in taken.items():
            for index in member_of[name]:
                if smallest[index] is None or index in giving:
                    first, found = smallest[index], (count.partitions, index)
                    smallest[index] = found if first is None else min(first, found)
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
