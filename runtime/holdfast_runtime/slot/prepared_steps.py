"""The Python steps of an app, prepared once for a process: what runs each of them, and how a turn notes their outcomes.

A step that can't be prepared is an error before anything runs. Must not read or write streams, nor keep state.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, assert_never

from holdfast.errors import HoldfastError
from holdfast.spec.kept_state import state_name
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
    Step,
    To,
    ToTable,
)
from holdfast.spec.verbs import SINK_VERBS, SQL_VERBS
from holdfast_runtime.segments.graph import (
    FAILED,
    FAILURES,
    PARTIAL,
    PICK,
    SIFT,
    SOURCE,
    TIMES,
    GraphNode,
)
from holdfast_runtime.slot.clock.clock_messages import held, waits
from holdfast_runtime.slot.program import ClockPlan, Program, kept_event_time
from holdfast_runtime.slot.reading.inputs import far_ahead, note_ahead
from holdfast_runtime.slot.report import TurnNote
from holdfast_runtime.slot.shared_tables import SharedTables
from holdfast_runtime.steps.context import StepClock, TaskTables
from holdfast_runtime.steps.failures import letters_of
from holdfast_runtime.steps.joins.join import JoinStep
from holdfast_runtime.steps.keyed.batch_process import BatchProcessStep
from holdfast_runtime.steps.keyed.deduplicate import DeduplicateStep
from holdfast_runtime.steps.keyed.process import ProcessSetting, ProcessStep
from holdfast_runtime.steps.late_rows import late_letters
from holdfast_runtime.steps.outcome import StepOutcome
from holdfast_runtime.steps.plain.apply import UserFunction, apply_apart, apply_or_name
from holdfast_runtime.steps.plain.async_apply import CallLimits, apply_each
from holdfast_runtime.steps.plain.event_time import TimedBy
from holdfast_runtime.steps.plain.plain_step import PlainStep
from holdfast_runtime.steps.tables.function_tables import FunctionTable, FunctionTables
from holdfast_runtime.steps.tables.lookup import LookupStep
from holdfast_runtime.steps.tables.to_table import DatasetInputs, ToTableStep
from holdfast_runtime.steps.timed_rows import TimedRows, merge
from holdfast_runtime.steps.windows.aggregate import AggregateStep
from holdfast_runtime.steps.windows.partial_aggregate import PartialAggregateStep
from holdfast_runtime.streams.user_functions import load_function

StepRun = Callable[[list[TimedRows], TurnNote, TaskTables], StepOutcome]
_RUN_ELSEWHERE = (SOURCE, *SQL_VERBS, FAILED, FAILURES, *SINK_VERBS)
"""The verbs of nodes that are read, computed by Spark SQL, or written; `_prepared` must know all others."""


class PreparedSteps:
    """The steps of one app in one process."""

    def __init__(self, program: Program, shared_tables: SharedTables, clock_plan: Callable[[str], ClockPlan]) -> None:
        """`clock_plan`: of a task."""
        compiled = program.compiled
        self._program, self._shared_tables, self._clock_plan = program, shared_tables, clock_plan
        self._declared = {stream.name: stream for stream in program.spec.streams}
        self._function_tables: dict[str, FunctionTable] = {}
        self._runs = {node.index: self._prepared(node) for node in compiled.nodes if node.verb not in _RUN_ELSEWHERE}
        self._nothing = [TimedRows.nothing(node.schema) for node in compiled.nodes]
        self._feeding = {index for index, reached in enumerate(compiled.reach()) if reached <= compiled.side_inputs}
        """The nodes that only side inputs reach: they feed tables."""

    def run(
        self, level: int, rows: Mapping[int, TimedRows], note: TurnNote, tables: TaskTables
    ) -> dict[int, TimedRows]:
        """Run the steps of a level; return their rows together with the given ones, by node."""
        rows_by_node = dict(rows)
        for node in self._program.compiled.at(level):
            step, step_run = node.step, self._runs.get(node.index)
            if step is None or step_run is None or (note.quiet and node.index not in self._feeding):
                continue
            inputs = [rows_by_node.get(index) or self._nothing[index] for index in node.inputs]
            outcome = step_run(inputs, note, tables)
            _note_outcome(outcome, step, note)
            rows_by_node[node.index] = outcome.rows
        return rows_by_node

    def _prepared(self, node: GraphNode) -> StepRun:
        step = node.step
        assert step is not None  # noqa: S101 - sources are not prepared
        if node.verb in (TIMES, PICK, SIFT):
            return _of_rows_alone(step, node)
        match step.operation:
            case Merge():
                return lambda rows, _, __: StepOutcome(merge(rows, node.schema))
            case Apply() as verb:
                return self._apply(node, step, verb)
            case Process() | Deduplicate() | Aggregate() | Join() as verb:
                return self._keyed(node, step, verb)
            case Lookup():
                return self._lookup(node)
            case ToTable(table):
                return self._to_table(node, step, table)
            case Filter() | Select() | Repartition() | Broadcast() | To():
                # Run as any other verb, or not at all, the app would write wrong rows and nobody would notice.
                message = f"step {step.name}: slots can't run the verb {node.verb}. This is a bug in Holdfast"
                raise HoldfastError(message)
            case never:
                assert_never(never)

    def _apply(self, node: GraphNode, step: Step, verb: Apply) -> StepRun:
        column = kept_event_time(self._program.compiled, node, self._declared)
        called = self._function(verb.function)
        function = UserFunction(step.name, verb.function, called, node.schema, column)
        apart = step.on_error == "DeadLetter"
        if (limits := CallLimits.of(verb)) is not None:
            return lambda rows, _, __: apply_each(function, limits, rows[0], apart=apart)
        applied = apply_apart if apart else apply_or_name
        return lambda rows, _, __: applied(function, rows[0])

    def _function(self, path: str) -> Callable[..., Any]:
        """Return a function of the user's by its name."""
        return load_function(path, self._program.spec.runtime.code, self._program.environment.beside)

    def _keyed(self, node: GraphNode, step: Step, verb: Process | Deduplicate | Aggregate | Join) -> StepRun:
        """Return how a step with state runs, or sends on what it keeps of rows."""
        schema = self._program.compiled.nodes[node.inputs[0]].schema
        apart = step.on_error == "DeadLetter"
        match verb:
            case Process():
                event_time = kept_event_time(self._program.compiled, node, self._declared)
                setting = ProcessSetting(event_time, state_name(step), self._tables_of(node))
                called = self._function(verb.function)
                process = (
                    ProcessStep(step.name, verb, called, schema, node.schema, setting)
                    if verb.form == "Rows"
                    else BatchProcessStep(step.name, verb, called, schema, node.schema, setting)
                )
                processed = process.run_apart if apart else process.run
                return lambda rows, note, tables: processed(rows[0], tables, self._clock(step, note))
            case Deduplicate():
                once = DeduplicateStep(step.name, verb, schema, state_name(step))
                return lambda rows, note, tables: once.run(rows[0], tables, self._clock(step, note))
            case Aggregate():
                assert node.aggregate is not None  # noqa: S101 - its verb says so
                if node.verb == PARTIAL:
                    before = PartialAggregateStep(step.name, node.aggregate)
                    return lambda rows, _, __: before.run(rows[0])
                windows = AggregateStep(step.name, node.aggregate, state_name(step), apart=apart)
                return lambda rows, note, tables: windows.run(rows[0], tables, self._clock(step, note))
            case Join():
                assert node.join is not None  # noqa: S101 - its verb says so
                join = JoinStep(step.name, node.join, state_name(step))
                return lambda rows, note, tables: join.run(rows[0], rows[1], tables, self._clock(step, note))
            case never:
                assert_never(never)

    def _tables_of(self, node: GraphNode) -> FunctionTables:
        """Return the tables of a function; steps share what is decoded of them."""
        tables = dict[str, FunctionTable]()
        for plan in node.function_tables:
            name = plan.lookup.kept_as
            if name not in self._function_tables:
                self._function_tables[name] = FunctionTable(plan, self._shared_tables)
            tables[name] = self._function_tables[name]
        return FunctionTables(node.name, tables)

    def _lookup(self, node: GraphNode) -> StepRun:
        assert node.lookup is not None  # noqa: S101 - its verb says so
        lookup = LookupStep(node.lookup)
        if node.lookup.shared:
            return lambda rows, _, __: lookup.run(rows[0], self._shared_tables)
        return lambda rows, _, tables: lookup.run(rows[0], tables)

    def _to_table(self, node: GraphNode, step: Step, table: str) -> StepRun:
        assert node.table is not None  # noqa: S101 - its verb says so
        compiled = self._program.compiled
        writers = [
            writer.index for writer in compiled.nodes if writer.step is not None and writer.step.to_table == table
        ]
        first, last = node.index == writers[0], node.index == writers[-1]
        writer = ToTableStep(node.table, state_name(step), first=first, last=last)
        fed = next((table_input for table_input in compiled.tables if table_input.name == table), None)
        if fed is None or not fed.shape.versioned:
            return lambda rows, note, tables: writer.run(rows[0], tables, note.generations.get(table))

        def run_versioned(rows: list[TimedRows], note: TurnNote, tables: TaskTables) -> StepOutcome:
            partitions = [part for part in self._program.tasks[note.report.task] if part.stream in fed.sources]
            ends = {
                partition.partition: partition_ends
                for partition, partition_ends in note.dataset_ends.items()
                if partition.stream == step.inputs[0]
            }
            datasets = DatasetInputs(step.inputs[0], partitions, ends)
            return writer.run_versioned(rows[0], tables, note.generations.get(table), datasets)

        return run_versioned

    def _clock(self, step: Step, note: TurnNote) -> StepClock:
        """Return the clock of a step, held back by due timers of steps before it that have not fired."""
        clock, plan = note.clocks[step.name], self._clock_plan(note.report.task)
        if not waits(plan, step.name, note.unfired):
            return clock
        mark = held(plan, step.name, clock.watermark, clock.before, note.unfired)
        return replace(clock, watermark=mark, ended=False)


def _of_rows_alone(step: Step, node: GraphNode) -> StepRun:
    """Return how plain expressions are computed, or how rows of a step get their event times."""
    declared = step.event_time
    if node.verb != TIMES or declared is None:
        plain = PlainStep(step, node.plain, node.schema)
        return lambda rows, _, __: plain.run(rows[0])
    timed_by = TimedBy.of(declared, node.schema)

    def run(rows: list[TimedRows], note: TurnNote, _: TaskTables) -> StepOutcome:
        times, _outside = timed_by.times(rows[0].rows)
        ahead = far_ahead(times, declared, note.now)
        note_ahead(ahead, lambda row: f"row {row} of step {step.name}", note.report)
        if ahead.latest is not None:
            note.latest[step.name] = ahead.latest
        return StepOutcome(TimedRows(rows[0].rows, times, rows[0].origins))

    return run


def _note_outcome(outcome: StepOutcome, step: Step, note: TurnNote) -> None:
    """Note what a run of a step produced besides rows that go on; late and failed ones become dead letters."""
    report = note.report
    for name, rows in outcome.late.items():
        report.note_late(name, rows)
    for late_rows in outcome.late_rows if step.late == "DeadLetter" else ():
        if late_rows.rows.count:
            note.add_letters(str(step.dead_letter), late_letters(late_rows))
    for failed in outcome.failed:
        if failed.failures:
            note.put_aside(step.name, str(step.dead_letter), letters_of(step.name, failed))
    if outcome.unfired is not None:
        note.unfired[step.name] = outcome.unfired
    if outcome.wake is not None:
        report.wake = outcome.wake if report.wake is None else min(report.wake, outcome.wake)
    report.buffered |= outcome.buffered
    if outcome.unjoined:
        report.unjoined[step.name] = outcome.unjoined
    report.note_unkeyed(step.to_table or step.name, outcome.unkeyed)
