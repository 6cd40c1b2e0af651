"""The Python steps of an app, prepared once for a process: what runs each of them, and what a turn is told of its run.

A step that can't be prepared is an error before anything runs. Must not read or write streams, nor keep state.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import assert_never

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
    GraphNode,
)
from holdfast_runtime.slot.clock.task_clock import held, waits
from holdfast_runtime.slot.program import ClockPlan, Program, kept_event_time
from holdfast_runtime.slot.report import TurnNote
from holdfast_runtime.slot.shared_tables import SharedTables
from holdfast_runtime.steps.context import StepClock, TaskTables
from holdfast_runtime.steps.failures import letters_of
from holdfast_runtime.steps.joins.join import JoinStep
from holdfast_runtime.steps.keyed.deduplicate import DeduplicateStep
from holdfast_runtime.steps.keyed.process import InheritedNames, ProcessStep
from holdfast_runtime.steps.late_rows import LeavesOutLateRows, late_letters
from holdfast_runtime.steps.plain.apply import UserFunction, apply_apart, apply_or_name
from holdfast_runtime.steps.plain.plain_sql import pick, sift
from holdfast_runtime.steps.tables.lookup import LookupStep
from holdfast_runtime.steps.tables.to_table import DatasetInputs, ToTableStep
from holdfast_runtime.steps.timed_rows import TimedRows, merge
from holdfast_runtime.steps.windows.aggregate import AggregateStep
from holdfast_runtime.steps.windows.partial_aggregate import PartialAggregateStep
from holdfast_runtime.streams.user_functions import load_function

StepRun = Callable[[list[TimedRows], TurnNote, TaskTables], TimedRows]
_RUN_ELSEWHERE = (SOURCE, *SQL_VERBS, FAILED, FAILURES, *SINK_VERBS)
"""The verbs of nodes that are read, computed by Spark SQL, or written; `_prepared` must know all others."""


class PreparedSteps:
    """The steps of one app in one process."""

    def __init__(self, program: Program, shared_tables: SharedTables, clock_plan: Callable[[str], ClockPlan]) -> None:
        """`clock_plan`: of a task."""
        compiled = program.compiled
        self._program, self._shared_tables, self._clock_plan = program, shared_tables, clock_plan
        self._declared = {stream.name: stream for stream in program.spec.streams}
        self._runs = {node.index: self._prepared(node) for node in compiled.nodes if node.verb not in _RUN_ELSEWHERE}
        self._feeding = {index for index, reached in enumerate(compiled.reach()) if reached <= compiled.side_inputs}
        """The nodes that only side inputs reach: they feed tables."""

    def run(
        self, level: int, rows: Mapping[int, TimedRows], note: TurnNote, tables: TaskTables
    ) -> dict[int, TimedRows]:
        """Run the steps of a level; return their rows together with the given ones, by node."""
        rows_by_node = dict(rows)
        for node in self._program.compiled.at(level):
            if node.index not in self._runs or (note.quiet and node.index not in self._feeding):
                continue
            inputs = [
                rows_by_node.get(index) or TimedRows.nothing(self._program.compiled.nodes[index].schema)
                for index in node.inputs
            ]
            rows_by_node[node.index] = self._runs[node.index](inputs, note, tables)
        return rows_by_node

    def _prepared(self, node: GraphNode) -> StepRun:  # noqa: PLR0911 - one for each verb
        step = node.step
        assert step is not None  # noqa: S101 - sources are not prepared
        if node.verb == PICK:
            return lambda rows, _, __: pick(rows[0], node.plain, node.schema)
        if node.verb == SIFT:
            return lambda rows, _, __: sift(rows[0], node.plain[0])
        match step.operation:
            case Merge():
                return lambda rows, _, __: merge(rows, node.schema)
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
        called = load_function(verb.function, self._program.spec.runtime.code)
        function, letters = UserFunction(step.name, verb.function, called, node.schema, column), step.dead_letter
        if letters is None:
            return lambda rows, _, __: apply_or_name(function, rows[0])
        return lambda rows, note, __: _applied(function, letters, rows[0], note)

    def _keyed(self, node: GraphNode, step: Step, verb: Process | Deduplicate | Aggregate | Join) -> StepRun:
        """Return how a step with state runs, or sends on what it keeps of rows."""
        schema = self._program.compiled.nodes[node.inputs[0]].schema
        letters = step.dead_letter if step.on_error == "DeadLetter" else None
        late_to = step.dead_letter if step.late == "DeadLetter" else None
        match verb:
            case Process():
                inherited = InheritedNames(
                    kept_event_time(self._program.compiled, node, self._declared), state_name(step)
                )
                called = load_function(verb.function, self._program.spec.runtime.code)
                process = ProcessStep(step.name, verb, called, schema, node.schema, inherited)
                return lambda rows, note, tables: self._processed(process, letters, rows[0], note, tables)
            case Deduplicate():
                once = DeduplicateStep(step.name, verb, schema, state_name(step))
                return lambda rows, note, tables: self._deduplicated(once, late_to, rows[0], note, tables)
            case Aggregate():
                assert node.aggregate is not None  # noqa: S101 - its verb says so
                if node.verb == PARTIAL:
                    before = PartialAggregateStep(step.name, node.aggregate)
                    return lambda rows, note, _: _gathered(before, rows[0], note)
                windows = AggregateStep(step.name, node.aggregate, state_name(step), apart=letters is not None)
                return lambda rows, note, tables: self._aggregated(windows, letters, late_to, rows[0], note, tables)
            case Join():
                assert node.join is not None  # noqa: S101 - its verb says so
                join = JoinStep(step.name, node.join, state_name(step))
                return lambda rows, note, tables: self._joined(join, late_to, rows, note, tables)
            case never:
                assert_never(never)

    def _lookup(self, node: GraphNode) -> StepRun:
        assert node.lookup is not None  # noqa: S101 - its verb says so
        lookup = LookupStep(node.lookup)
        if node.lookup.shared:
            return lambda rows, _, __: lookup.run(rows[0], self._shared_tables)
        return lambda rows, _, tables: lookup.run(rows[0], tables)

    def _to_table(self, node: GraphNode, step: Step, table: str) -> StepRun:
        assert node.table is not None  # noqa: S101 - its verb says so
        nodes = self._program.compiled.nodes
        writers = [writer.index for writer in nodes if writer.step is not None and writer.step.to_table == table]
        first, last = node.index == writers[0], node.index == writers[-1]
        writer = ToTableStep(node.table, state_name(step), first=first, last=last)
        return lambda rows, note, tables: self._stored(writer, step, rows[0], note, tables)

    def _clock(self, step: str, note: TurnNote) -> StepClock:
        """Return the clock of a step, held back by due timers of steps before it that have not fired."""
        clock, plan = note.clocks[step], self._clock_plan(note.report.task)
        if not waits(plan, step, note.unfired):
            return clock
        mark = held(plan, step, clock.watermark, clock.before, note.unfired)
        return replace(clock, watermark=mark, ended=False)

    def _deduplicated(
        self, once: DeduplicateStep, late_to: str | None, rows: TimedRows, note: TurnNote, tables: TaskTables
    ) -> TimedRows:
        clock = self._clock(once.name, note)
        step_rows = once.run(rows, tables, clock)
        _note_late(once, late_to, clock, "its key may be forgotten", note)
        return step_rows

    def _aggregated(
        self,
        windows: AggregateStep,
        letters: str | None,
        late_to: str | None,
        rows: TimedRows,
        note: TurnNote,
        tables: TaskTables,
    ) -> TimedRows:
        clock = self._clock(windows.name, note)
        step_rows = windows.run(rows, tables, clock)
        judged = replace(clock, before=windows.closed_until)
        _note_late(windows, late_to, judged, "its window has closed", note)
        for keys, failed in windows.failed:
            note.put_aside(windows.name, str(letters), letters_of(windows.name, keys, failed))
        note.note_waiting(windows.name, windows.waiting, clock.now)
        return step_rows

    def _joined(
        self, join: JoinStep, late_to: str | None, rows: list[TimedRows], note: TurnNote, tables: TaskTables
    ) -> TimedRows:
        clock = self._clock(join.name, note)
        left, right = rows
        step_rows = TimedRows.joined(list(join.run(left, right, tables, clock)), join.schema)
        for side in join.late_sides:
            _note_late(side, late_to, clock, "no partner is waited for any more", note)
        note.report.buffered |= {f"{join.name}.{side}": rows for side, rows in join.buffered.items()}
        if join.unjoined:
            note.report.unjoined[join.name] = join.unjoined
        note.note_waiting(join.name, join.waiting, clock.now)
        return step_rows

    def _processed(
        self, process: ProcessStep, letters: str | None, rows: TimedRows, note: TurnNote, tables: TaskTables
    ) -> TimedRows:
        clock = self._clock(process.name, note)
        if letters is None:
            step_rows = process.run(rows, tables, clock)
        else:
            step_rows, failed = process.run_apart(rows, tables, clock)
            if failed:
                note.put_aside(process.name, letters, letters_of(process.name, rows, failed))
        report = note.report
        report.note_late(process.name, process.late)
        if process.wake is not None:
            report.wake = process.wake if report.wake is None else min(report.wake, process.wake)
        if process.unfired is not None:
            note.unfired[process.name] = process.unfired
        return step_rows

    def _stored(
        self, writer: ToTableStep, step: Step, rows: TimedRows, note: TurnNote, tables: TaskTables
    ) -> TimedRows:
        table, task = str(step.to_table), note.report.task
        fed = next((table_input for table_input in self._program.compiled.tables if table_input.name == table), None)
        generation = note.generations.get(table)
        if fed is not None and fed.shape.versioned:
            partitions = [partition for partition in self._program.tasks[task] if partition.stream in fed.sources]
            ends = {
                partition.partition: partition_ends
                for partition, partition_ends in note.dataset_ends.items()
                if partition.stream == step.inputs[0]
            }
            writer.run_versioned(rows, tables, generation, DatasetInputs(step.inputs[0], partitions, ends))
        else:
            writer.run(rows, tables, generation)
        note.report.note_unkeyed(table, writer.unkeyed)
        return rows


def _gathered(before: PartialAggregateStep, rows: TimedRows, note: TurnNote) -> TimedRows:
    partial_rows = before.run(rows)
    note.report.note_late(before.name, before.late)
    return partial_rows


def _note_late(step: LeavesOutLateRows, stream: str | None, clock: StepClock, loss: str, note: TurnNote) -> None:
    """Count the rows that a step left out as late, and turn them into dead letters if it names a stream for them."""
    note.report.note_late(step.name, step.late)
    if stream is not None and step.late:
        note.add_letters(stream, late_letters(step.name, step.late_rows, clock, loss))


def _applied(function: UserFunction, stream: str, rows: TimedRows, note: TurnNote) -> TimedRows:
    step_rows, failed = apply_apart(function, rows)
    if failed:
        note.put_aside(function.step, stream, letters_of(function.step, rows, failed))
    return step_rows
