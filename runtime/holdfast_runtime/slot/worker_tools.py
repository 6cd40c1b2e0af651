"""The tools a worker process keeps from batch to batch: open streams, codecs, the user's functions, prepared steps.

Made once per process from the program; nothing in it depends on a batch. Must not keep state of tasks: the next batch
of a task may come to another process.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa

from holdfast.control.producers import Delivery
from holdfast.control.watermark import Watermarks
from holdfast.errors import HoldfastError
from holdfast.spec.kept_state import state_name
from holdfast.spec.steps import Step
from holdfast.spec.verbs import SINK_VERBS, SQL_VERBS
from holdfast.tasks.partitions import StreamPartition, parse_partition
from holdfast_runtime.segments.graph import (
    FAILED,
    FAILURES,
    PARTIAL,
    PICK,
    SIFT,
    SOURCE,
    GraphNode,
    failed_rows,
)
from holdfast_runtime.slot.batch_plan import Turn
from holdfast_runtime.slot.inputs import InputReader
from holdfast_runtime.slot.local_cleanup import LocalCleanup
from holdfast_runtime.slot.outputs import Outbox, OutputStream
from holdfast_runtime.slot.program import ClockPlan, Program, clock_plan, count_of, kept_event_time, typed_streams
from holdfast_runtime.slot.report import TaskReport, TurnNote
from holdfast_runtime.slot.row_marks import marked_rows
from holdfast_runtime.slot.shared_tables import SharedTables
from holdfast_runtime.slot.side_inputs import SideInputReader, dataset_ends
from holdfast_runtime.slot.task_clock import ClockInput, held, waits
from holdfast_runtime.steps.context import StepClock, TaskTables
from holdfast_runtime.steps.failures import letters_of
from holdfast_runtime.steps.joins.join import JoinStep
from holdfast_runtime.steps.keyed.deduplicate import DeduplicateStep
from holdfast_runtime.steps.keyed.process import InheritedNames, ProcessStep
from holdfast_runtime.steps.late_rows import LeavesOutLateRows, late_letters
from holdfast_runtime.steps.plain.apply import UserFunction, apply_apart, apply_or_name
from holdfast_runtime.steps.plain.plain_sql import pick, sift
from holdfast_runtime.steps.tables.kept_versions import DatasetEnd
from holdfast_runtime.steps.tables.lookup import LookupStep
from holdfast_runtime.steps.tables.to_table import DatasetInputs, ToTableStep
from holdfast_runtime.steps.timed_rows import TimedRows, merge
from holdfast_runtime.steps.windows.aggregate import AggregateStep
from holdfast_runtime.steps.windows.partial_aggregate import PartialAggregateStep
from holdfast_runtime.streams.app_streams import StreamAccess
from holdfast_runtime.streams.codecs import DEAD_LETTER_SCHEMA, codec_for
from holdfast_runtime.streams.user_functions import load_function

StepRun = Callable[[list[TimedRows], TurnNote, TaskTables], TimedRows]
_RUN_ELSEWHERE = (SOURCE, *SQL_VERBS, FAILED, FAILURES, *SINK_VERBS)
"""The verbs of nodes that are read, computed by Spark SQL, or written; `_prepared` must know all others."""


@dataclass(slots=True)
class TurnInput:
    """What was read from all ranges of a turn."""

    rows: dict[int, TimedRows] = field(default_factory=dict)
    """Index of a node -> its rows."""
    deliveries: list[Delivery] = field(default_factory=list)
    delivered_at: list[int] = field(default_factory=list)
    """The offset of each of them."""
    latest: dict[StreamPartition, int] = field(default_factory=dict)
    letters: dict[str, list[pa.RecordBatch]] = field(default_factory=dict)
    dataset_ends: dict[StreamPartition, list[DatasetEnd]] = field(default_factory=dict)
    """Partition of a side input -> the ends of data sets in it."""


class WorkerTools:
    """The tools of one process for one app, over its open streams."""

    def __init__(self, program: Program, streams: StreamAccess) -> None:
        spec, plan = program.spec, program.plan
        self.program = program
        self.streams = streams
        self.names = program.names
        self.cleanup = LocalCleanup(program)
        self.number = {task: number for number, task in enumerate(self.names)}
        compiled = program.compiled
        self.layouts = tuple(compiled.layout(level) for level in range(compiled.last))
        """The layout of rows that travel from each level to the next."""
        self.crossings = tuple(compiled.crossing(level) for level in range(compiled.last))
        """The nodes whose rows travel from each level to the next."""
        self._declared = {stream.name: stream for stream in spec.streams}
        self._typed = typed_streams(spec, plan)
        self._side_inputs = compiled.side_inputs
        self._readers = {node.name: self._reader(node) for node in compiled.sources}
        self.shared_tables = SharedTables(program, streams, self._shared_reader)
        self._updating = {step.name for step in plan.steps if step.updates is not None}
        self._letter_targets = {name: self._letter_target(name) for name in spec.dead_letters}
        self._targets = {node.index: self._target(node) for node in compiled.sinks}
        self._runs = {node.index: self._prepared(node) for node in compiled.nodes if node.verb not in _RUN_ELSEWHERE}
        self._feeding = {index for index, reached in enumerate(compiled.reach()) if reached <= self._side_inputs}
        """The nodes that only side inputs reach: they feed tables."""
        self._clock_plans: dict[str, ClockPlan] = {}

    def fetch(self, turn: Turn, now: int, report: TaskReport) -> TurnInput:
        """Read the rows of all ranges, by node; `now` is the batch clock.

        Partitions of a stream come in the order of the task's inputs.
        """
        fetched, parts = TurnInput(), dict[str, list[TimedRows]]()
        for offset_range in turn.fetched:
            stream = offset_range.partition.stream
            range_input = self._readers[stream].read(
                offset_range, self.streams, now, report, turn.settled.get(offset_range.partition)
            )
            parts.setdefault(stream, []).append(range_input.rows)
            if stream in self._side_inputs:
                fetched.dataset_ends[offset_range.partition] = dataset_ends(range_input)
            else:
                fetched.deliveries += range_input.deliveries
                fetched.delivered_at += range_input.delivered_at
                report.tombstones += 0 if range_input.nulls is None else range_input.nulls.num_rows
            if range_input.latest is not None:
                fetched.latest[offset_range.partition] = range_input.latest
            if range_input.letters is not None:
                fetched.letters.setdefault(str(self._declared[stream].dead_letter), []).append(range_input.letters)
        for node in self.program.compiled.sources:
            fetched.rows[node.index] = TimedRows.joined(parts.get(node.name, []), node.schema)
        return fetched

    def mark_rows(self, plan: ClockPlan, fetched: TurnInput, before: Watermarks, clock_input: ClockInput) -> None:
        """Give marks to the rows that come to steps with timers; `before`: the watermarks when the batch began."""
        for node in self.program.compiled.sources:
            if node.name in plan.marked.values() and fetched.rows[node.index].count:
                messages = [
                    (offset, delivery.message)
                    for offset, delivery in zip(fetched.delivered_at, fetched.deliveries, strict=True)
                    if delivery.partition.stream == node.name
                ]
                rows, source = fetched.rows[node.index], plan.sources[node.name]
                fetched.rows[node.index] = marked_rows(rows, source, before, messages, clock_input)

    def in_log(self, partition: str) -> bool:
        """Return whether an output partition is in the embedded log."""
        return self.streams.in_log(parse_partition(partition).stream)

    def clock_plan(self, task: str) -> ClockPlan:
        """Return the clock plan of a task."""
        if task not in self._clock_plans:
            self._clock_plans[task] = clock_plan(self.program, task)
        return self._clock_plans[task]

    def run_steps(
        self, level: int, rows: Mapping[int, TimedRows], note: TurnNote, tables: TaskTables
    ) -> dict[int, TimedRows]:
        """Run the steps of a level; return their rows together with the given ones, by node."""
        rows_by_node = dict(rows)
        for node in self.program.compiled.at(level):
            if node.index not in self._runs or (note.quiet and node.index not in self._feeding):
                continue
            inputs = [
                rows_by_node.get(index) or TimedRows.nothing(self.program.compiled.nodes[index].schema)
                for index in node.inputs
            ]
            rows_by_node[node.index] = self._runs[node.index](inputs, note, tables)
        return rows_by_node

    def outbox(self, turn: Turn, now: int, rows: Mapping[int, TimedRows], note: TurnNote) -> Outbox:
        """Return what a turn writes: rows, dead letters, and behind them the control messages."""
        outbox = Outbox(turn.number, now, turn.ranges, self.program.called)
        for node in self.program.compiled.sinks:
            if (sent := rows.get(node.inputs[0])) is not None:
                outbox.add(self._targets[node.index], sent)
        for node in self.program.compiled.failures:
            if (failed := rows.get(node.inputs[0])) is not None and failed.count:
                self._put_aside(node, failed, note)
        for stream, letters in note.letters.items():
            for rows_of in letters:
                outbox.add_letters(self._letter_targets[stream], rows_of)
        for stream, partitions, message in note.control_messages:
            outbox.say(stream, partitions, message)
        return outbox

    def _reader(self, node: GraphNode) -> InputReader | SideInputReader:
        typed, declared = node.name in self._typed, self._declared.get(node.name)
        if declared is not None and node.name in self._side_inputs:
            return SideInputReader(declared, node.schema, typed=typed)
        return InputReader(node.name, declared, node.schema, typed=typed)

    def _shared_reader(self, stream: str) -> SideInputReader:
        schema = next(table.shape.given for table in self.program.compiled.tables if stream in table.sources)
        return SideInputReader(self._declared[stream], schema, typed=stream in self._typed)

    def _put_aside(self, node: GraphNode, failed: TimedRows, note: TurnNote) -> None:
        """Turn rows on which Spark SQL failed into dead letters."""
        step = node.step
        assert step is not None  # noqa: S101 - it is the step that failed
        assert step.dead_letter is not None  # noqa: S101 - or nothing would have been put aside
        inputs, failures = failed_rows(step, failed)
        note.put_aside(step.name, step.dead_letter, letters_of(step.name, inputs, failures))

    def _prepared(self, node: GraphNode) -> StepRun:
        step = node.step
        assert step is not None  # noqa: S101 - sources are not prepared
        letters = step.dead_letter
        schemas = [self.program.compiled.nodes[index].schema for index in node.inputs]
        code = self.program.spec.runtime.code
        if step.apply is not None:
            path = step.apply.function
            column = kept_event_time(self.program.compiled, node, self._declared)
            function = UserFunction(step.name, path, load_function(path, code), node.schema, column)
            if letters is None:
                return lambda rows, _, __: apply_or_name(function, rows[0])
            return lambda rows, note, __: _applied(function, letters, rows[0], note)
        if (keyed := self._keyed(node, step, schemas[0]) or self._with_table(node, step)) is not None:
            return keyed
        if node.verb == "merge":
            return lambda rows, _, __: merge(rows, node.schema)
        if node.verb == PICK:
            return lambda rows, _, __: pick(rows[0], node.plain, node.schema)
        if node.verb == SIFT:
            return lambda rows, _, __: sift(rows[0], node.plain[0])
        # Run as any other verb, or not at all, the app would write wrong rows and nobody would notice.
        message = f"step {step.name}: slots can't run the verb {node.verb}. This is a bug in Holdfast; please report it"
        raise HoldfastError(message)

    def _keyed(self, node: GraphNode, step: Step, schema: pa.Schema) -> StepRun | None:
        """Return how a step with state runs, or sends on what it keeps of rows; None for other verbs."""
        code, letters = self.program.spec.runtime.code, step.dead_letter if step.on_error == "DeadLetter" else None
        late_to = step.dead_letter if step.late == "DeadLetter" else None
        if step.process is not None:
            inherited = InheritedNames(kept_event_time(self.program.compiled, node, self._declared), state_name(step))
            called = load_function(step.process.function, code)
            process = ProcessStep(step.name, step.process, called, schema, node.schema, inherited)
            return lambda rows, note, tables: self._processed(process, letters, rows[0], note, tables)
        if step.deduplicate is not None:
            once = DeduplicateStep(step.name, step.deduplicate, schema, state_name(step))
            return lambda rows, note, tables: self._deduplicated(once, late_to, rows[0], note, tables)
        if node.aggregate is not None:
            if node.verb == PARTIAL:
                before = PartialAggregateStep(step.name, node.aggregate)
                return lambda rows, note, _: _gathered(before, rows[0], note)
            windows = AggregateStep(step.name, node.aggregate, state_name(step), apart=letters is not None)
            return lambda rows, note, tables: self._aggregated(windows, letters, late_to, rows[0], note, tables)
        if node.join is not None:
            join = JoinStep(step.name, node.join, state_name(step))
            return lambda rows, note, tables: self._joined(join, late_to, rows, note, tables)
        return None

    def _with_table(self, node: GraphNode, step: Step) -> StepRun | None:
        """Return how a step that writes or looks up a table runs; None for other verbs."""
        if node.lookup is not None:
            lookup = LookupStep(node.lookup)
            if node.lookup.shared:
                return lambda rows, _, __: lookup.run(rows[0], self.shared_tables)
            return lambda rows, _, tables: lookup.run(rows[0], tables)
        if node.table is not None:
            nodes = self.program.compiled.nodes
            writers = [
                writer_node.index
                for writer_node in nodes
                if writer_node.step is not None and writer_node.step.to_table == step.to_table
            ]
            first, last = node.index == writers[0], node.index == writers[-1]
            writer = ToTableStep(node.table, state_name(step), first=first, last=last)
            return lambda rows, note, tables: self._stored(writer, step, rows[0], note, tables)
        return None

    def _clock(self, step: str, note: TurnNote) -> StepClock:
        """Return the clock of a step, held back by due timers of steps before it that have not fired."""
        clock, plan = note.clocks[step], self.clock_plan(note.report.task)
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
        fed = next((table_input for table_input in self.program.compiled.tables if table_input.name == table), None)
        generation = note.generations.get(table)
        if fed is not None and fed.shape.versioned:
            partitions = [partition for partition in self.program.tasks[task] if partition.stream in fed.sources]
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

    def _target(self, node: GraphNode) -> OutputStream:
        step = node.step
        assert step is not None  # noqa: S101 - a sink is a step
        stream = step.to or step.name
        declared = self._declared.get(stream)
        planned = self.program.plan.stream(stream)
        return OutputStream(
            stream,
            count_of(self.program.plan, stream),
            planned.key,
            "murmur2" if declared is None else declared.partitioner,
            codec_for("json" if declared is None else declared.format, node.schema),
            stream in self._typed,
            step.name,
            self.streams.record_limit(stream),
            None
            if declared is None or declared.on_unwritable == "Fail"
            else self._letter_targets[str(declared.dead_letter)],
            # Of updates the last one holds, which only one partition can say.
            node.verb == "repartition" or step.name in self._updating,
        )

    def _letter_target(self, stream: str) -> OutputStream:
        declared = self._declared[stream]
        codec = codec_for(declared.format, DEAD_LETTER_SCHEMA)
        limit = self.streams.record_limit(stream)
        return OutputStream(
            stream, count_of(self.program.plan, stream), None, declared.partitioner, codec, typed=False, limit=limit
        )


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
