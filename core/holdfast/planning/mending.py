"""Why: which repair of a step is the cheapest that works, tried on the graph before it is offered.

A repair cuts edges: where an edge is cut, a `repartition` is put, and what comes behind it starts from a new stream
whose count follows from the others. Every candidate for a count mismatch is tried on the graph; the first under which
the step's set agrees is the answer.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from holdfast.planning.counts import Count, Facts, decide_counts
from holdfast.planning.flow import Flow
from holdfast.planning.graph import Graph, build_graph
from holdfast.planning.keys import OURS, Spread, names_in
from holdfast.planning.needs import Arm, Need, Side, contained
from holdfast.planning.repairs import NewStep, Repair, Rewire, apply_repair, repair_yaml
from holdfast.planning.sets import Reaching, join_sets
from holdfast.spec.app import AppSpec

_MAX_NAME = 63
_MOST_TARGETS = 6
_TRANSPARENT = ("merge", "filter", "deduplicate", "to", "toTable", "select")
"""Verbs a cut may be moved across, towards the stream that needs it."""


@dataclass(frozen=True, slots=True)
class Situation:
    """A plan in the making, as far as a repair must see it."""

    spec: AppSpec
    graph: Graph
    flow: Flow
    spreads: dict[str, Spread]
    reaching: Reaching
    counts: dict[str, Count]
    facts: Facts

    def partitions(self, source: str) -> set[int | None]:
        """The distinct counts of the streams a reader of this stream or step gets."""
        return {self.count(name) for name in self.reaching.along(source)}

    def count(self, stream: str) -> int | None:
        """The count of a stream, if it has one."""
        count = self.counts.get(stream)
        return None if count is None else count.partitions


@dataclass(frozen=True, slots=True)
class Target:
    """How all sides of a step should be partitioned."""

    by: tuple[str, ...]
    partitions: int | None
    """None: whatever follows, because every side is written anew."""


def mend(now: Situation, need: Need) -> Repair | None:
    """The cheapest repair of a step whose sides disagree in keys or counts; None if nothing helps."""
    offers: list[tuple[int, int, Repair]] = []
    for target in _targets(now, need):
        cuts = _cuts(now, need, target)
        if cuts:
            price = sum(max(1, len(now.reaching.along(_source(now, cut)))) for cut in cuts)
            offers.append((price, -(target.partitions or 0), _repair(now, cuts, target)))
    offers.sort(key=lambda offer: (offer[0], offer[1], offer[2].new_steps))
    lookup = need.step.lookup
    fed = lookup is not None and now.graph.tables[lookup.table].sources is not None
    for _, _, repair in offers:
        counts = _counts_after(now, need, repair)
        if counts is not None:
            advice = f" (or make table {lookup.table} Broadcast)" if lookup is not None and fed else ""
            return _described(now, repair, counts, advice)
    if lookup is not None and fed:
        repair = Repair(f"make table {lookup.table} Broadcast", broadcast_tables=(lookup.table,))
        return replace(repair, yaml=repair_yaml(now.spec, repair))
    return None


def _described(now: Situation, repair: Repair, counts: dict[str, Count], advice: str) -> Repair:
    """The repair in words, with the counts its new streams will have."""
    parts = [
        f"repartition {new.source} by {', '.join(new.by)} into {counts[new.name].partitions}"
        for new in repair.new_steps
    ]
    repair = replace(repair, summary="; ".join(parts) + advice)
    return replace(repair, yaml=repair_yaml(now.spec, repair))


def _targets(now: Situation, need: Need) -> Iterator[Target]:
    """What a side already is, each combination of a key and a count that occurs; and everything anew."""
    keys = {need.columns: None}
    for side in need.sides:
        if side.spread.columns is not None and contained(side.spread, need.columns):
            keys[tuple(names_in(names, need.columns)[0] for names in side.spread.columns)] = None
    found: dict[int, int] = {}
    for side in need.sides:
        if not side.spread.everywhere:
            for count in _side_counts(now, side):
                found[count] = found.get(count, 0) + 1
    for partitions in sorted(found, key=lambda count: (-found[count], -count))[:_MOST_TARGETS]:
        for by in keys:
            yield Target(by, partitions)
    for by in keys:
        yield Target(by, None)


def _side_counts(now: Situation, side: Side) -> list[int]:
    if side.arm is None:
        return [count for count in (now.count(side.source),) if count is not None]
    return [count for name in now.reaching.along(side.source) if (count := now.count(name)) is not None]


def _cuts(now: Situation, need: Need, target: Target) -> list[Arm] | None:
    """The edges to cut so that every side meets the target; None if a side that can't be cut does not meet it."""
    cuts: list[Arm] = []
    for side in need.sides:
        if side.spread.everywhere:
            continue
        if side.arm is None:
            fits = now.count(side.source) == target.partitions or target.partitions is None
            if not fits or not _fits_key(side.spread, target.by):
                return None
        else:
            cuts += _cut_edge(now, side.arm, side.spread, target)
    return list(dict.fromkeys(cuts))


def _cut_edge(now: Situation, arm: Arm, spread: Spread, target: Target) -> list[Arm]:
    source = _source(now, arm)
    if target.partitions is None:
        return [arm]
    uniform = now.partitions(source) <= {target.partitions}
    if uniform and _fits_key(spread, target.by):
        return []
    step = now.graph.steps.get(source)
    if step is None or step.verb not in _TRANSPARENT or not _passes(now, source, target.by):
        return [arm]
    below: list[Arm] = []
    for index, deeper in enumerate(step.inputs):
        below += _cut_edge(now, (source, index), now.spreads.get(deeper, Spread()), target)
    # Only moving the cut past a merge saves anything: some of its inputs may be right already.
    whole = {(source, index) for index in range(len(step.inputs))}
    return [arm] if not below or whole <= set(below) else below


def _source(now: Situation, arm: Arm) -> str:
    return now.graph.steps[arm[0]].inputs[arm[1]]


def _passes(now: Situation, step: str, by: tuple[str, ...]) -> bool:
    """Whether the columns have the same names before and behind a step."""
    passes = now.flow.passes.get(step, {})
    inputs = range(len(now.graph.steps[step].inputs))
    return all(all((i, name) in passes.get(name, frozenset()) for i in inputs) for name in by)


def _fits_key(spread: Spread, by: tuple[str, ...]) -> bool:
    if spread.everywhere:
        return True
    if spread.columns is None:
        return not spread.why  # an undeclared key is taken on trust
    same = len(spread.columns) == len(by)
    return (
        same and spread.partitioner == OURS and all(names_in(n, (c,)) for n, c in zip(spread.columns, by, strict=True))
    )


def _repair(now: Situation, cuts: list[Arm], target: Target) -> Repair:
    taken = {*now.graph.streams, *now.graph.steps}
    new: dict[str, NewStep] = {}
    rewired = []
    for arm in cuts:
        source = _source(now, arm)
        # What is repartitioned already is taken from before that, which saves a pass through the broker.
        while (step := now.graph.steps.get(source)) is not None and step.repartition is not None:
            source = step.inputs[0]
        if source not in new:
            name = _fresh_name(source, target.by, taken)
            taken.add(name)
            new[source] = NewStep(name, source, target.by)
        rewired.append(Rewire(arm[0], arm[1], new[source].name))
    return Repair("", tuple(new.values()), tuple(rewired), _superseded(now, cuts))


def _superseded(now: Situation, cuts: list[Arm]) -> tuple[str, ...]:
    """Repartition steps whose every reader is cut off from them."""
    cut = {(arm[0], _source(now, arm)) for arm in cuts}
    found = []
    for name in dict.fromkeys(_source(now, arm) for arm in cuts):
        step = now.graph.steps.get(name)
        if step is None or step.repartition is None:
            continue
        edges = [
            (r, i)
            for r in now.graph.readers.get(name, ())
            for i, s in enumerate(now.graph.steps[r].inputs)
            if s == name
        ]
        if all((reader, name) in cut and (reader, i) in cuts for reader, i in edges):
            found.append(name)
    return tuple(found)


def _fresh_name(source: str, by: tuple[str, ...], taken: set[str]) -> str:
    stem = re.sub(r"[^A-Za-z0-9]+", "-", f"{source}-by-{'-'.join(by)}").strip("-")[: _MAX_NAME - 4].rstrip("-")
    name, number = stem, 2
    while name in taken:
        name, number = f"{stem}-{number}", number + 1
    return name


def _counts_after(now: Situation, need: Need, repair: Repair) -> dict[str, Count] | None:
    """All counts once the repair is in; None if the step's streams would still disagree."""
    spec = apply_repair(now.spec, repair)
    graph = build_graph(spec)
    sets = join_sets(graph)
    counts = decide_counts(graph, sets, spec.planning, now.facts)
    own = next((one for one in sets if one.step == need.step.name), None)
    agreed = own is None or len({counts[name].partitions for name in own.streams if name in counts}) <= 1
    return counts if agreed else None
