"""The search for the cheapest repair of a step; each candidate is tried on the graph before it is offered.

A repair cuts edges: it inserts a `repartition` there, and everything downstream reads a new stream whose partition
count follows from the others. The first candidate under which the streams of the step's join set agree is the answer.
Must not create problems: `checks` and `key_needs` do.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from holdfast.planning.derived_columns import flow_rows
from holdfast.planning.graph import Graph, build_graph, makes_stream
from holdfast.planning.key_needs import Arm, KeyNeed, NeedSide, contained, key_problems, needs
from holdfast.planning.known_columns import Flow
from holdfast.planning.partition_counts import DecidedCount, KnownCounts, Reaching, decide_counts, join_sets
from holdfast.planning.problems import NewStep, Repair, Rewire, apply_repair, repair_yaml
from holdfast.planning.spread import OURS, Spread, follow_keys, names_in
from holdfast.reasons import Reason
from holdfast.spec.app import AppSpec
from holdfast.spec.verbs import VERBS

_MAX_NAME = 63
_MOST_TARGETS = 6


@dataclass(frozen=True, slots=True)
class PlanDraft:
    """The parts of an unfinished plan that the search for a repair needs."""

    app: str
    spec: AppSpec
    graph: Graph
    flow: Flow
    spreads: dict[str, Spread]
    reaching: Reaching
    counts: dict[str, DecidedCount]
    facts: KnownCounts

    def partitions(self, source: str) -> set[int | None]:
        """The distinct partition counts of the streams whose rows reach a reader of this stream or step."""
        return {self.count(name) for name in self.reaching.along(source)}

    def count(self, stream: str) -> int | None:
        """The partition count of a stream, if known."""
        count = self.counts.get(stream)
        return None if count is None else count.partitions


@dataclass(frozen=True, slots=True)
class RepairTarget:
    """How all sides of a step should be partitioned."""

    by: tuple[str, ...]
    partitions: int | None
    """None: any count, because every side is repartitioned."""


def find_repair(now: PlanDraft, need: KeyNeed) -> Repair | None:
    """Return the cheapest repair of a step whose sides disagree in keys or counts; None if nothing helps."""
    offers: list[tuple[int, int, Repair]] = []
    for target in _targets(now, need):
        cuts = _cuts(now, need, target)
        if cuts:
            price = sum(max(1, len(now.reaching.along(_source(now, cut)))) for cut in cuts)
            for reuse in (True, False):
                repair = _repair(now, cuts, target, reuse=reuse)
                offers.append((price + len(repair.new_steps), -(target.partitions or 0), repair))
    offers = sorted(dict.fromkeys(offers), key=lambda offer: (offer[0], offer[1], offer[2].new_steps, offer[2].rewired))
    lookup = need.step.lookup
    fed = lookup is not None and now.graph.tables[lookup.table].sources is not None
    advice = f" (or make table {lookup.table} Broadcast)" if lookup is not None and fed else ""
    for _, _, repair in offers:
        counts = _counts_after(now, need, repair)
        if counts is not None:
            return _described(now, repair, counts, advice)
    for repair in (*_one_cut(now, need), _isolating(now, need)):
        counts = _counts_after(now, need, repair)
        if counts is not None and _settles(now, need, repair):
            return _described(now, repair, counts, advice)
    if lookup is not None and fed and not _looked_up_everywhere(now, lookup.table):
        repair = Repair(f"make table {lookup.table} Broadcast", broadcast_tables=(lookup.table,))
        return replace(repair, yaml=repair_yaml(now.spec, repair))
    return None


def _looked_up_everywhere(now: PlanDraft, table: str) -> bool:
    """Whether broadcast rows look this table up: if it were Broadcast too, each task would emit their matches."""
    readers = now.graph.lookups.get(table, ())
    return any(now.spreads.get(now.graph.steps[name].inputs[0], Spread()).everywhere for name in readers)


def _described(now: PlanDraft, repair: Repair, counts: dict[str, DecidedCount], advice: str) -> Repair:
    """The repair with its summary and YAML, including the counts its new streams will have."""
    parts = [
        f"repartition {new.source} by {', '.join(new.by)} into {counts[new.name].partitions}"
        for new in repair.new_steps
    ]
    fresh = {new.name for new in repair.new_steps}
    parts += [f"read {one.source} in {one.step}" for one in repair.rewired if one.source not in fresh]
    repair = replace(repair, summary="; ".join(parts) + advice)
    return replace(repair, yaml=repair_yaml(now.spec, repair))


def _one_cut(now: PlanDraft, need: KeyNeed) -> Iterator[Repair]:
    """Repairs of one side alone. Enough where a table's rows come from the step that looks it up: the rest follows."""
    for side in need.sides:
        if side.arm is not None and not side.spread.everywhere:
            yield _repair(now, [side.arm], RepairTarget(need.columns, None))


def _isolating(now: PlanDraft, need: KeyNeed) -> Repair:
    """The repair that cuts all sides and the output, for joins downstream that would constrain the new streams."""
    target = RepairTarget(need.columns, None)
    cuts = [side.arm for side in need.sides if side.arm is not None and not side.spread.everywhere]
    for name in dict.fromkeys([need.step.name, *(arm[0] for arm in cuts)]):
        rows = now.flow.rows[name]
        for reader in now.graph.readers.get(name, ()):
            step = now.graph.steps[reader]
            if not makes_stream(step) and all(rows.find(column) for column in need.columns):
                cuts += [(reader, i) for i, source in enumerate(step.inputs) if source == name]
    return _repair(now, list(dict.fromkeys(cuts)), target)


def _settles(now: PlanDraft, need: KeyNeed, repair: Repair) -> bool:
    """Whether the step's keys agree after the repair; expensive, as it derives all rows again, so it is asked last."""
    graph = build_graph(apply_repair(now.spec, repair))
    flow = flow_rows(graph)
    after = next(one for one in needs(graph, flow, follow_keys(graph, flow)) if one.step.name == need.step.name)
    return not any(problem.reason is not Reason.BROADCAST_REPEATED for problem in key_problems(after))


def _targets(now: PlanDraft, need: KeyNeed) -> Iterator[RepairTarget]:
    """Candidate targets: each combination of a key and a count that a side has; then each key with all sides cut."""
    keys = {need.columns: None}
    for side in need.sides:
        if side.spread.columns is not None and contained(side.spread, need.columns):
            keys[tuple(names_in(names, need.columns)[0] for names in side.spread.columns)] = None
    votes: dict[int, int] = {}
    for side in need.sides:
        if not side.spread.everywhere:
            for count in _side_counts(now, side):
                votes[count] = votes.get(count, 0) + 1
    for partitions in sorted(votes, key=lambda count: (-votes[count], -count))[:_MOST_TARGETS]:
        for by in keys:
            yield RepairTarget(by, partitions)
    for by in keys:
        yield RepairTarget(by, None)


def _side_counts(now: PlanDraft, side: NeedSide) -> list[int]:
    if side.arm is None:
        return [count for count in (now.count(side.source),) if count is not None]
    return [count for name in now.reaching.along(side.source) if (count := now.count(name)) is not None]


def _cuts(now: PlanDraft, need: KeyNeed, target: RepairTarget) -> list[Arm] | None:
    """The edges to cut so that every side meets the target; None if a side does not meet it and can't be cut."""
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


def _cut_edge(now: PlanDraft, arm: Arm, spread: Spread, target: RepairTarget) -> list[Arm]:
    source = _source(now, arm)
    if target.partitions is None:
        return [arm]
    if _meets(now, source, spread, target):
        return []
    below = _cuts_below(now, source, target)
    return [arm] if below is None else sorted(below)


def _meets(now: PlanDraft, source: str, spread: Spread, target: RepairTarget) -> bool:
    return now.partitions(source) <= {target.partitions} and _fits_key(spread, target.by)


def _cuts_below(now: PlanDraft, source: str, target: RepairTarget) -> frozenset[Arm] | None:
    """The edges upstream of `source` to cut instead of the one after it; None if moving the cut saves nothing.

    Only moving it past a merge saves anything: some inputs of the merge may already be right. Each step is visited
    once, in flow order, because the number of paths through merges grows exponentially.
    """
    cuts_by_step: dict[str, frozenset[Arm] | None] = {}
    for name in _movable_above(now, source, target):
        inputs = now.graph.steps[name].inputs
        cuts: set[Arm] = set()
        for index, deeper in enumerate(inputs):
            if not _meets(now, deeper, now.spreads.get(deeper, Spread()), target):
                cuts |= cuts_by_step.get(deeper) or {(name, index)}
        whole = {(name, index) for index in range(len(inputs))}
        cuts_by_step[name] = None if not cuts or whole <= cuts else frozenset(cuts)
    return cuts_by_step.get(source)


def _movable_above(now: PlanDraft, source: str, target: RepairTarget) -> list[str]:
    """The steps upstream of `source` that a cut may be moved across, in flow order."""
    steps: set[str] = set()
    todo = [source]
    while todo:
        name = todo.pop()
        step = now.graph.steps.get(name)
        if name in steps or step is None or not VERBS[step.verb].may_follow_repartition:
            continue
        if _passes(now, name, target.by):
            steps.add(name)
            todo += step.inputs
    return [name for name in now.graph.order if name in steps] if steps else []


def _source(now: PlanDraft, arm: Arm) -> str:
    return now.graph.steps[arm[0]].inputs[arm[1]]


def _passes(now: PlanDraft, step: str, by: tuple[str, ...]) -> bool:
    """Whether a step passes these columns on unchanged and under the same names, from all its inputs."""
    passes = now.flow.passes.get(step, {})
    inputs = range(len(now.graph.steps[step].inputs))
    return all(all((i, name) in passes.get(name, frozenset()) for i in inputs) for name in by)


def _fits_key(spread: Spread, by: tuple[str, ...]) -> bool:
    if spread.everywhere:
        return True
    if spread.columns is None:
        return not spread.why and spread.partitioner == OURS  # an undeclared key is assumed to fit
    same = len(spread.columns) == len(by)
    return (
        same and spread.partitioner == OURS and all(names_in(n, (c,)) for n, c in zip(spread.columns, by, strict=True))
    )


def _repair(now: PlanDraft, cuts: list[Arm], target: RepairTarget, *, reuse: bool = True) -> Repair:
    """The cuts as changes of the spec; with `reuse`, an existing repartition by the same columns is read instead."""
    # A new step must not get the name of a topic called `<app>-<name>`: its intermediate stream would be that topic.
    topics = {stream.topic.removeprefix(f"{now.app}-") for stream in now.graph.streams.values() if stream.topic}
    used_names = {*now.graph.streams, *now.graph.steps, *topics}
    repartitions = {
        step.inputs[0]: name
        for name, step in sorted(now.graph.steps.items())
        if reuse and step.repartition is not None and step.repartition.by == target.by
    }
    new: dict[str, NewStep] = {}
    rewired = []
    for arm in cuts:
        source = _source(now, arm)
        # Read from before an existing repartition: that saves one pass through the broker.
        while (step := now.graph.steps.get(source)) is not None and step.repartition is not None:
            source = step.inputs[0]
        name = repartitions.get(source)
        if name is None or name == arm[0]:
            if source not in new:
                fresh = _fresh_name(source, target.by, used_names)
                used_names.add(fresh)
                new[source] = NewStep(fresh, source, target.by)
            name = new[source].name
        rewired.append(Rewire(arm[0], arm[1], name))
    return Repair("", tuple(new.values()), tuple(rewired), _superseded(now, cuts, {r.source for r in rewired}))


def _superseded(now: PlanDraft, cuts: list[Arm], sources_read: set[str]) -> tuple[str, ...]:
    """Repartition steps that the cuts leave without readers."""
    cut = {(arm[0], _source(now, arm)) for arm in cuts}
    steps = []
    for name in dict.fromkeys(_source(now, arm) for arm in cuts):
        step = now.graph.steps.get(name)
        if step is None or step.repartition is None or name in sources_read:
            continue
        edges = [
            (r, i)
            for r in now.graph.readers.get(name, ())
            for i, s in enumerate(now.graph.steps[r].inputs)
            if s == name
        ]
        if all((reader, name) in cut and (reader, i) in cuts for reader, i in edges):
            steps.append(name)
    return tuple(steps)


def _fresh_name(source: str, by: tuple[str, ...], used_names: set[str]) -> str:
    stem = re.sub(r"[^A-Za-z0-9]+", "-", f"{source}-by-{'-'.join(by)}").strip("-")[: _MAX_NAME - 4].rstrip("-")
    name, number = stem, 2
    while name in used_names:
        name, number = f"{stem}-{number}", number + 1
    return name


def _counts_after(now: PlanDraft, need: KeyNeed, repair: Repair) -> dict[str, DecidedCount] | None:
    """All partition counts after the repair; None if the step's streams would still disagree."""
    spec = apply_repair(now.spec, repair)
    graph = build_graph(spec)
    sets = join_sets(graph, Reaching(graph))
    counts = decide_counts(graph, sets, spec.planning, now.facts)
    own_set = next((one for one in sets if one.step == need.step.name), None)
    agreed = own_set is None or len({counts[name].partitions for name in own_set.streams if name in counts}) <= 1
    return counts if agreed else None
