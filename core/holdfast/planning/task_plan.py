"""The tasks of a plan: their partitions, which of these are new, where they would run, which streams they write.

Must not group or assign tasks itself: `holdfast.tasks` and `holdfast.placement` do, and it converts their results.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from holdfast.placement.assignment import MovedTask, assign, moved_tasks
from holdfast.planning.graph import Graph
from holdfast.planning.partition_counts import DecidedCount, Reaching
from holdfast.planning.problems import Problem
from holdfast.planning.spread import Spread
from holdfast.reasons import Reason
from holdfast.spec.app import AppSpec
from holdfast.spec.kept_streams import StreamNames
from holdfast.tasks.grouping import (
    ExpansionRefusal,
    ExpansionRefusedError,
    ExpansionRules,
    GroupingInput,
    ParentMappingError,
    Tasks,
    group,
    growth_refusals,
)
from holdfast.tasks.partitions import StreamPartition, partitions_of
from holdfast.tasks.record import PlacementRecord


@dataclass(frozen=True, slots=True)
class PlannedTask:
    """A task with the stream partitions it reads."""

    name: str
    inputs: tuple[StreamPartition, ...]
    new: tuple[StreamPartition, ...] = ()
    """Those of `inputs` that the last run did not have."""


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """All tasks, or the problems because of which there are none."""

    tasks: tuple[PlannedTask, ...] = ()
    producers: Mapping[str, tuple[str, ...]] | None = None
    """Stream written by the app -> the tasks that write it."""
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class TaskRules:
    """By which rules an app has its tasks."""

    by_stream_partition: bool
    stateful: bool
    expansion: ExpansionRules
    kept: Mapping[str, str]
    """Stream -> its name in the run, if that is another one."""


def plan_tasks(
    graph: Graph,
    reaching: Reaching,
    spreads: Mapping[str, Spread],
    counts: Mapping[str, DecidedCount],
    record: PlacementRecord | None,
    rules: TaskRules,
) -> TaskPlan:
    """Return the tasks that follow from partition counts and the record of the run."""
    own_counts, shared = _read(graph, counts)
    tasks_made = sum(own_counts.values()) if rules.by_stream_partition else max(own_counts.values(), default=0)
    # Every task reads all shared partitions, and each stream that is written has a list of tasks.
    parts = sum(own_counts.values()) + tasks_made * len(shared)
    if parts > MOST_PARTITIONS or parts * len(graph.stream_writers) > MOST_PRODUCERS:
        message = (
            f"its {tasks_made} tasks would read {parts} stream partitions and write {len(graph.stream_writers)} "
            f"streams; at most {MOST_PARTITIONS} are planned, and {MOST_PRODUCERS} times the streams that are "
            "written: make several apps of it, or give its streams fewer partitions"
        )
        return TaskPlan(problems=(Problem(Reason.TOO_LARGE, message),))
    broadcast = partitions_of(shared)
    grouping = GroupingInput(
        partitions=(*partitions_of(own_counts), *broadcast),
        broadcast=frozenset(broadcast),
        by_stream_partition=rules.by_stream_partition,
        stateful=rules.stateful,
        expansion=rules.expansion,
        record=None if record is None else record.grouping,
        kept=rules.kept,
    )
    try:
        # Checked also before any stream grows: an invalid mapping must be reported now, not at the first growth.
        grouping.expansion.mapping()
        tasks = group(grouping)
    except ParentMappingError as error:
        return TaskPlan(problems=(Problem(Reason.INVALID_EXPRESSION, str(error)),))
    except ExpansionRefusedError as error:
        return TaskPlan(problems=_problems(error.refusals))
    if record is not None and (refusals := growth_refusals(record.side_counts, _sides(graph, counts), rules.expansion)):
        return TaskPlan(problems=_problems(refusals))
    if record is not None and not rules.by_stream_partition:
        split = tuple(_split_sets(graph, reaching, tasks, own_counts))
        if split:
            return TaskPlan(problems=split)
    recorded_parts = None if record is None else {part for parts in record.grouping.values() for part in parts}
    planned = tuple(
        PlannedTask(
            name, inputs, () if recorded_parts is None else tuple(part for part in inputs if part not in recorded_parts)
        )
        for name, inputs in tasks.items()
    )
    return TaskPlan(planned, _producers(graph, spreads, reaching, tasks))


def _split_sets(graph: Graph, reaching: Reaching, tasks: Tasks, counts: Mapping[str, int]) -> Iterator[Problem]:
    """A problem for each step in which streams meet whose partitions of one number are in different tasks.

    Those of a stream that has grown stay with their parents, so equal counts are not enough for streams that an edit of
    the app brings together in the middle of a run.
    """
    task_of = {part: task for task, parts in tasks.items() for part in parts}
    for step in graph.order:
        met = dict[int, StreamPartition]()
        streams = [name for name in reaching.set_of(step) or () if name in counts]
        for part in partitions_of({name: counts[name] for name in streams}):
            other = met.setdefault(part.partition, part)
            if task_of[other] != task_of[part]:
                verb = graph.steps[step].verb
                message = (
                    f"{verb} {step} needs {part} and {other} in one task, but their streams have grown apart in this "
                    f"run: {task_of[part]} has the one and {task_of[other]} the other. Put the change back, or set a "
                    f"new spec.runId to start with empty state"
                )
                yield Problem(Reason.STATE_MISFIT, message, step=step)
                break


def task_rules(spec: AppSpec, graph: Graph, reaching: Reaching, *, stateful: bool) -> TaskRules:
    """Return by which rules this app has its tasks, and how they follow the growth of its streams."""
    # Which value of a row in a table is newer depends on the order of its side input.
    with_state = reaching.with_state() | graph.side_inputs
    expansion = ExpansionRules(
        enabled=spec.expansion.enabled,
        parent=spec.expansion.parent,
        unknown_partitioner=frozenset(s.name for s in spec.streams if s.partitioner == "none"),
        stateless=frozenset({*graph.streams, *graph.made()} - with_state),
    )
    return TaskRules(spec.grouping == "ByStreamPartition", stateful, expansion, StreamNames.of(spec).kept)


def assign_tasks(
    plan: TaskPlan, record: PlacementRecord | None, processors: Mapping[str, str]
) -> tuple[Mapping[str, tuple[str, ...]], tuple[MovedTask, ...]]:
    """Return processor -> tasks and the tasks that would leave their state; empty without tasks or processors."""
    if not plan.tasks or not processors:
        return {}, ()
    task_location = {} if record is None else record.task_location
    assignment = assign(
        [task.name for task in plan.tasks], processors, task_location, {} if record is None else record.task_processor
    )
    return assignment.tasks_of, moved_tasks(assignment, processors, task_location)


def _read(graph: Graph, counts: Mapping[str, DecidedCount]) -> tuple[dict[str, int], dict[str, int]]:
    """The counts of streams whose partitions belong to one task each, and of streams that every task reads.

    Side inputs of a Broadcast table are neither: one designated task per location reads them for all.
    """
    partitioned = {
        s for table in graph.tables.values() if table.distribution == "Partitioned" for s in table.sources or ()
    }
    read = {name for name in graph.streams if name in graph.readers or name in partitioned}
    made = {name for name in graph.made() if name in graph.readers}
    shared = {name for name in made if graph.steps[name].broadcast is not None}
    own_counts = {name: counts[name].actual for name in (read | made) - shared if name in counts}
    return own_counts, {name: counts[name].actual for name in shared if name in counts}


def _sides(graph: Graph, counts: Mapping[str, DecidedCount]) -> dict[str, int]:
    """The counts of side inputs of Broadcast tables."""
    tables = [table for table in graph.tables.values() if table.distribution == "Broadcast"]
    return {name: counts[name].actual for table in tables for name in table.sources or () if name in counts}


def _problems(refusals: tuple[ExpansionRefusal, ...]) -> tuple[Problem, ...]:
    return tuple(Problem(one.reason, one.message, stream=one.stream) for one in refusals)


def _producers(
    graph: Graph, spreads: Mapping[str, Spread], reaching: Reaching, tasks: Tasks
) -> dict[str, tuple[str, ...]]:
    tasks_of: dict[str, set[str]] = {}
    for task, inputs in tasks.items():
        for partition in inputs:
            tasks_of.setdefault(partition.stream, set()).add(task)
    writers: dict[str, set[str]] = {name: {graph.steps[name].inputs[0]} for name in graph.made()}
    for stream, steps in graph.stream_writers.items():
        writers[stream] = {graph.steps[step].inputs[0] for step in steps}
    producers: dict[str, tuple[str, ...]] = {}
    for stream in sorted(writers):
        feeding: set[str] = set()
        for source in writers[stream]:
            if spreads.get(source, Spread()).repeated:
                feeding |= set(tasks)  # every task has broadcast rows
            feeding |= set().union(*(tasks_of.get(name, set()) for name in reaching.along(source)))
        producers[stream] = tuple(task for task in tasks if task in feeding)
    return producers


MOST_PARTITIONS = 200_000
"""Most partitions of all streams an app reads; each is an object in memory, in the plan and in the record."""
MOST_PRODUCERS = 20_000_000
"""Most stream partitions read times streams written: each written stream has a list of its tasks."""
