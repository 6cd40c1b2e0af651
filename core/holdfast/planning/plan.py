"""The plan of an app, as `holdfast plan` prints it and the operator checks it; and the plan with all repairs applied.

`plan` is one of the functions to read first: it lists everything planning does. Counts, the record and all else from
outside come in as `PlanningFacts`. Repairs are applied one at a time, because each may solve problems downstream of
it. A step is repaired a few times at most, so that this ends; remaining problems are reported. Must not read anything.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from holdfast.placement.assignment import MovedTask
from holdfast.planning.change_streams import change_problems
from holdfast.planning.checks import (
    Mendable,
    circle_problems,
    count_problems,
    empty_tables,
    letters_of_tables,
    location_problems,
    location_warnings,
    registry_problems,
    repeated_inside,
    repeated_rows,
    setting_problems,
    topic_problems,
    topic_warnings,
    unused_rows,
    with_repairs,
)
from holdfast.planning.derived_columns import flow_rows
from holdfast.planning.event_times import event_time_problems, merged_times
from holdfast.planning.graph import Graph, build_graph
from holdfast.planning.held_keys import held_keys
from holdfast.planning.held_types import held_types
from holdfast.planning.input_topics import missing_topics, unknown_counts
from holdfast.planning.key_needs import key_problems, key_warnings, needs
from holdfast.planning.known_columns import Flow
from holdfast.planning.partition_counts import DecidedCount, JoinSet, KnownCounts, Reaching, decide_counts, join_sets
from holdfast.planning.problems import Problem, Repair, apply_repair, shown_problems
from holdfast.planning.repair_search import PlanDraft
from holdfast.planning.run_checks import code_problems, given_up, state_problems
from holdfast.planning.spread import Spread, follow_keys
from holdfast.planning.state_growth import kept_for_ever, keyed_otherwise, many_panes
from holdfast.planning.task_plan import PlannedTask, TaskPlan, assign_tasks, plan_tasks, task_rules
from holdfast.planning.types.spark_types import OPEN, RowType
from holdfast.planning.updates import UpdateRows, follow_updates, never_final, update_problems
from holdfast.reasons import Reason
from holdfast.spec.app import AppSpec, StreamApp
from holdfast.spec.kept_state import KeptState, state_change
from holdfast.spec.kept_streams import StreamNames
from holdfast.spec.made_by import made_by
from holdfast.spec.verbs import STATEFUL_VERBS
from holdfast.tasks.grouping import ExpansionRules
from holdfast.tasks.record import PlacementRecord


@dataclass(frozen=True, slots=True)
class PlanningFacts:
    """What is known from outside the spec before planning."""

    given: Mapping[str, int] = field(default_factory=dict)
    """Partition counts from the command line, by stream."""
    topics: Mapping[str, int | None] = field(default_factory=dict)
    """Partition counts from brokers, by stream; None: the topic does not exist."""
    near: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Topics that are there and may be meant, by stream whose topic is not."""
    record: PlacementRecord | None = None
    """The placement record of the last run."""
    processors: Mapping[str, str] = field(default_factory=dict)
    """Live processors and their locations."""


@dataclass(frozen=True, slots=True)
class PlannedStream:
    """A stream of the plan; an intermediate stream has the name of the step that creates it."""

    name: str
    role: str
    topic: str
    """Its topic in its system."""
    count: DecidedCount | None
    key: tuple[str, ...] | None
    partitioner: str
    rows: RowType
    is_made: bool = True
    """Whether the app makes its topic where there is none."""


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """A step of the plan, with the type and spread of the rows that come out of it."""

    name: str
    verb: str
    inputs: tuple[str, ...]
    rows: RowType
    spread: Spread
    updates: UpdateRows | None = None
    """Set if its rows are updates; otherwise each row is one more."""


@dataclass(frozen=True, slots=True)
class PlannedTable:
    """A table of the plan."""

    name: str
    key: tuple[str, ...]
    distribution: str
    sources: tuple[str, ...]
    writers: tuple[str, ...]
    rows: RowType
    files: str | None = None
    """Where the files are that feed it."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that is decided before an app runs, or everything that is wrong with it."""

    app: str
    stateful: bool
    streams: tuple[PlannedStream, ...]
    sets: tuple[JoinSet, ...]
    steps: tuple[PlannedStep, ...]
    tables: tuple[PlannedTable, ...]
    tasks: tuple[PlannedTask, ...]
    producers: Mapping[str, tuple[str, ...]]
    assignment: Mapping[str, tuple[str, ...]]
    """Processor -> tasks, where processors are known."""
    moved: tuple[MovedTask, ...]
    """Tasks that would run at another location than their state."""
    expansion: ExpansionRules
    """How the tasks follow the growth of streams."""
    made_by: Mapping[str, Mapping[str, str]]
    """By what its state is made: see `KeptState`."""
    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...]

    @property
    def valid(self) -> bool:
        """Whether the plan has no problems."""
        return not self.problems

    def stream(self, name: str) -> PlannedStream:
        """The stream of this name."""
        return next(stream for stream in self.streams if stream.name == name)

    def partitions_of(self, join_set: JoinSet) -> int | None:
        """The partition count of a join set; None if its streams disagree or have no count."""
        counts = {count.partitions for name in join_set.streams if (count := self.stream(name).count) is not None}
        return counts.pop() if len(counts) == 1 else None


def plan(app: StreamApp, facts: PlanningFacts | None = None, *, mend_only: Mendable = None) -> Plan:
    """Return the plan of an app, with all its problems. The order of lists in the spec never changes it.

    `mend_only` is for callers that apply repairs one at a time: only the first step it admits gets a repair.
    """
    spec, facts, names = app.spec, facts or PlanningFacts(), StreamNames.of(app.spec)
    if facts.record is not None:
        facts = replace(facts, record=facts.record.called(names))
    stateful = bool(spec.tables) or any(step.verb in STATEFUL_VERBS for step in spec.steps)
    record = facts.record if facts.record is not None and facts.record.run_id == spec.run_id else None

    kept_state = KeptState() if record is None else record.state

    graph = build_graph(spec)
    flow = flow_rows(graph)
    spreads = follow_keys(graph, flow)
    updates = follow_updates(graph, flow)
    key_needs = list(needs(graph, flow, spreads))
    reaching = Reaching(graph)
    sets = join_sets(graph, reaching)
    known_counts = _facts(facts, record, keeps_tasks=stateful and spec.expansion.enabled)
    counts = decide_counts(graph, sets, spec.planning, known_counts)
    made = {**made_by(spec), **held_types(spec, flow)}
    for path, keys in held_keys(key_needs, reaching, counts, names.kept).items():
        made[path] |= keys
    change = state_change(kept_state, spec, made)

    problems = [
        *circle_problems(graph),
        *flow.problems,
        *event_time_problems(graph),
        *never_final(graph),
        *update_problems(graph, updates),
        *empty_tables(graph),
        *letters_of_tables(graph),
        *change_problems(spec, graph, flow),
        *setting_problems(spec.systems),
        *registry_problems(spec),
        *topic_problems(app.name, graph),
        *code_problems(spec),
        *state_problems(spec, kept_state, change),
        *location_problems(spec),
        *(problem for need in key_needs for problem in key_problems(need)),
        *repeated_inside(graph, spreads),
        *missing_topics(graph, counts, facts.topics, facts.near),
        *unknown_counts(graph, counts, facts.topics),
        *count_problems(graph, sets, counts),
    ]
    rules = task_rules(spec, graph, reaching, stateful=stateful)
    tasks = plan_tasks(graph, reaching, spreads, counts, record, rules)
    situation = PlanDraft(app.name, spec, graph, flow, spreads, reaching, counts, known_counts)
    problems = list(with_repairs([*problems, *tasks.problems], situation, key_needs, mend_only))
    if problems:
        tasks = TaskPlan()
    assignment, moved = assign_tasks(tasks, record, facts.processors)
    warnings = [
        *flow.warnings,
        *(warning for need in key_needs for warning in key_warnings(need)),
        *merged_times(graph),
        *unused_rows(graph),
        *repeated_rows(graph, spreads),
        *topic_warnings(graph, reaching),
        *kept_for_ever(graph, flow),
        *keyed_otherwise(graph, flow),
        *many_panes(graph),
        *given_up(kept_state, change),
        *location_warnings(spec),
        *_surprises(app, graph, counts, facts),
    ]
    return Plan(
        app=app.name,
        stateful=stateful,
        streams=_streams(app, graph, flow, counts),
        sets=sets,
        steps=tuple(
            PlannedStep(name, step.verb, step.inputs, flow.rows[name], spreads[name], updates.get(name))
            for name in graph.order
            for step in (graph.steps[name],)
        ),
        tables=_tables(graph, flow),
        tasks=tasks.tasks,
        producers=tasks.producers or {},
        assignment=assignment,
        moved=moved,
        expansion=rules.expansion,
        made_by=made,
        problems=shown_problems(problems),
        warnings=shown_problems(warnings),
    )


def typed_streams(spec: AppSpec, app_plan: Plan) -> frozenset[str]:
    """Return the streams whose records start with a type byte, because they may carry control messages."""
    control = {stream.name for stream in spec.streams if stream.control}
    return frozenset(
        stream.name for stream in app_plan.streams if stream.role == "intermediate" or stream.name in control
    )


def _facts(facts: PlanningFacts, record: PlacementRecord | None, *, keeps_tasks: bool) -> KnownCounts:
    topics = {name: count for name, count in facts.topics.items() if count is not None}
    if record is None:
        return KnownCounts(facts.given, topics, {}, {}, {})
    built_for = record.built_for() if keeps_tasks else {}
    return KnownCounts(facts.given, topics, built_for, record.side_counts, record.counts())


def _streams(app: StreamApp, graph: Graph, flow: Flow, counts: Mapping[str, DecidedCount]) -> tuple[PlannedStream, ...]:
    declared = [
        PlannedStream(
            name,
            graph.role(name),
            stream.topic or name,
            counts.get(name),
            stream.partition_key,
            stream.partitioner,
            flow.rows_in(name),
            graph.is_made(name),
        )
        for name, stream in sorted(graph.streams.items())
    ]
    made = [
        PlannedStream(
            name,
            "intermediate",
            f"{app.name}-{name}",
            counts.get(name),
            step.repartition.by if step.repartition else None,
            "murmur2",
            flow.rows[name],
        )
        for name in sorted(graph.made())
        for step in (graph.steps[name],)
    ]
    order = ("input", "sideInput", "intermediate", "output")
    return tuple(sorted([*declared, *made], key=lambda stream: (order.index(stream.role), stream.name)))


def _tables(graph: Graph, flow: Flow) -> tuple[PlannedTable, ...]:
    return tuple(
        PlannedTable(
            name,
            table.key,
            table.distribution,
            table.sources or (),
            graph.table_writers.get(name, ()),
            flow.tables.get(name, OPEN),
            None if table.files is None else table.files.location,
        )
        for name, table in sorted(graph.tables.items())
    )


def _surprises(app: StreamApp, graph: Graph, counts: Mapping[str, DecidedCount], facts: PlanningFacts) -> list[Problem]:
    """Warnings about what is legal but may not be intended."""
    problems = []
    for name, stream in sorted(graph.streams.items()):
        topic = facts.topics.get(name)
        if (
            topic is not None
            and stream.partitions is not None
            and stream.partitions != topic
            and name not in facts.given
        ):
            message = f"the spec says {stream.partitions} partitions, its topic has {topic}; {topic} is used"
            problems.append(Problem(Reason.PARTITION_COUNT_DIFFERS, message, stream=name))
    cap = app.spec.planning.max_intermediate_partitions
    capped = sorted(name for name, count in counts.items() if count.cut_from is not None)
    if capped:
        message = (
            f"{', '.join(capped)}: the inferred count was cut to {cap}; set planning.intermediatePartitions to choose "
            f"it, or raise planning.maxIntermediatePartitions"
        )
        problems.append(Problem(Reason.COUNT_CAPPED, message, stream=capped[0]))
    if facts.record is not None and facts.record.run_id == app.spec.run_id and not app.spec.expansion.enabled:
        before = facts.record.counts()
        for name, count in sorted(counts.items()):
            if before.get(name, count.actual) != count.actual:
                message = (
                    f"{name} had {before[name]} partitions in the last run and has {count.actual} now; with expansion "
                    f"off, tasks are created again and keys leave the tasks that hold their state"
                )
                problems.append(Problem(Reason.EXPANSION_OFF, message, stream=name))
    if facts.record is not None and facts.record.run_id != app.spec.run_id:
        message = (
            f"the record is of run {facts.record.run_id}, the app is run {app.spec.run_id}; it starts with empty state"
        )
        problems.append(Problem(Reason.RECORD_IGNORED, message))
    return problems


_TRIES_PER_STEP = 3


@dataclass(frozen=True, slots=True)
class RepairedApp:
    """An app with repairs applied."""

    app: StreamApp
    repairs: tuple[Repair, ...]
    """In the order they were applied."""
    plan: Plan
    """The plan of the repaired app."""


def apply_all_repairs(app: StreamApp, facts: PlanningFacts) -> RepairedApp:
    """Apply repairs in flow order until none is left, planning anew after each: it may solve problems downstream."""
    repairs: list[Repair] = []
    tries: dict[str, int] = {}

    def untired(step: str) -> bool:
        return tries.get(step, 0) < _TRIES_PER_STEP

    result = plan(app, facts, mend_only=untired)
    while (next_repair := next(((p.step, p.repair) for p in result.problems if p.step and p.repair), None)) is not None:
        step, repair = next_repair
        inserted = {new.name for applied in repairs for new in applied.new_steps}
        if inserted & set(repair.removed):
            # Two steps that need one stream partitioned in two ways would undo each other's repair for ever.
            tries[step] = _TRIES_PER_STEP
        else:
            tries[step] = tries.get(step, 0) + 1
            repairs.append(repair)
            app = app.model_copy(update={"spec": apply_repair(app.spec, repair)})
        result = plan(app, facts, mend_only=untired)
    return RepairedApp(app, tuple(repairs), plan(app, facts))
