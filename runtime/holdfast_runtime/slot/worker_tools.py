"""The tools a worker process keeps from batch to batch: open streams, codecs, tables of its location, prepared steps.

Made once per process from the program; nothing in it depends on a batch. Must not keep state of tasks: the next batch
of a task may come to another process.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from holdfast.control.producers import Delivery
from holdfast.control.watermark import Watermarks
from holdfast.planning.plan import typed_streams
from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.segments.graph import (
    GraphNode,
    failed_rows,
)
from holdfast_runtime.slot.batch_plan import Turn
from holdfast_runtime.slot.clock.row_marks import marked_rows
from holdfast_runtime.slot.clock.task_clock import ClockInput
from holdfast_runtime.slot.local_cleanup import LocalCleanup
from holdfast_runtime.slot.outputs import Outbox, OutputStream
from holdfast_runtime.slot.prepared_steps import PreparedSteps
from holdfast_runtime.slot.program import ClockPlan, Program, clock_plan, count_of
from holdfast_runtime.slot.reading.inputs import InputReader, value_decoder
from holdfast_runtime.slot.reading.key_check import FIRST_TURNS, KeyCheck, streams_by_key
from holdfast_runtime.slot.reading.side_inputs import SideInputReader, change_decoder, dataset_ends
from holdfast_runtime.slot.report import TaskReport, TurnNote
from holdfast_runtime.slot.shared_tables import SharedTables
from holdfast_runtime.steps.failures import letters_of
from holdfast_runtime.steps.tables.kept_table import GONE, without_side
from holdfast_runtime.steps.tables.kept_versions import DatasetEnd
from holdfast_runtime.steps.timed_rows import TimedRows
from holdfast_runtime.streams.app_streams import StreamAccess
from holdfast_runtime.streams.codecs import DEAD_LETTER_SCHEMA
from holdfast_runtime.streams.record_columns import MetadataColumns
from holdfast_runtime.streams.stream_codecs import stream_codec


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
        self._schemas = program.environment.schemas
        self._typed = typed_streams(spec, plan)
        self._side_inputs = compiled.side_inputs
        self._readers = {node.name: self._reader(node) for node in compiled.sources}
        self._key_checks = self._checked_keys()
        self.shared_tables = SharedTables(program, streams, self._shared_reader)
        self._updating = {step.name for step in plan.steps if step.updates is not None}
        self._letter_targets = {name: self._letter_target(name) for name in spec.dead_letters}
        self._targets = {node.index: self._target(node) for node in compiled.sinks}
        self._clock_plans: dict[str, ClockPlan] = {}
        self.steps = PreparedSteps(program, self.shared_tables, self.clock_plan)

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
            if turn.number <= FIRST_TURNS and (check := self._key_checks.get(stream)) is not None:
                check.look(offset_range.partition, range_input.rows.rows)
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

    def clock_plan(self, task: str) -> ClockPlan:
        """Return the clock plan of a task."""
        if task not in self._clock_plans:
            self._clock_plans[task] = clock_plan(self.program, task)
        return self._clock_plans[task]

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

    def _checked_keys(self) -> dict[str, KeyCheck]:
        """Return the streams of which it is checked that records lie where their key puts them.

        Where a stream has grown in the run, older records lie where fewer partitions put them.
        """
        program = self.program
        made_up = {system.name for system in program.spec.systems if system.generator is not None}
        counts = {stream.name: stream.count for stream in program.plan.streams}
        grown = {name for name, count in counts.items() if count is not None and count.actual != count.partitions}
        read = streams_by_key(program.compiled) - program.plan.producers.keys()
        return {
            name: KeyCheck(stream, count_of(program.plan, name))
            for name, stream in self._declared.items()
            if name in read - grown
            and stream.partition_key
            and stream.partitioner != "none"
            and stream.system not in made_up
        }

    def _reader(self, node: GraphNode) -> InputReader | SideInputReader:
        typed, declared = node.name in self._typed, self._declared.get(node.name)
        if declared is not None and node.name in self._side_inputs:
            return SideInputReader(declared, node.schema, self._schemas.get(node.name), typed=typed)
        schemas = self._schemas.get(node.name)
        if declared is not None and declared.changes is not None:
            decoder = change_decoder(declared, without_side(node.schema), schemas)
        else:
            decoder = value_decoder(declared, node.schema, schemas)
        return InputReader(node.name, declared, node.schema, decoder, typed=typed)

    def _shared_reader(self, stream: str) -> SideInputReader:
        schema = next(table.shape.given for table in self.program.compiled.tables if stream in table.sources)
        return SideInputReader(self._declared[stream], schema, self._schemas.get(stream), typed=stream in self._typed)

    def _put_aside(self, node: GraphNode, failed: TimedRows, note: TurnNote) -> None:
        """Turn rows on which Spark SQL failed into dead letters."""
        step = node.step
        assert step is not None  # noqa: S101 - it is the step that failed
        assert step.dead_letter is not None  # noqa: S101 - or nothing would have been put aside
        note.put_aside(step.name, step.dead_letter, letters_of(step.name, failed_rows(step, failed)))

    def _target(self, node: GraphNode) -> OutputStream:
        step = node.step
        assert step is not None  # noqa: S101 - a sink is a step
        stream = step.to or step.name
        declared = self._declared.get(stream)
        planned = self.program.plan.stream(stream)
        columns = MetadataColumns.of(declared, without_side(node.schema))
        return OutputStream(
            stream,
            count_of(self.program.plan, stream),
            planned.key,
            "murmur2" if declared is None else declared.partitioner,
            stream_codec(declared, columns.in_value, self._schemas.get(stream)),
            stream in self._typed,
            step.name,
            self.streams.record_limit(stream),
            self.streams.lifetime(stream),
            None
            if declared is None or declared.on_unwritable == "Fail"
            else self._letter_targets[str(declared.dead_letter)],
            # Of updates the last one holds, which only one partition can say.
            node.verb == "repartition" or step.name in self._updating,
            columns,
            GONE.name in node.schema.names,
        )

    def _letter_target(self, stream: str) -> OutputStream:
        declared = self._declared[stream]
        codec = stream_codec(declared, DEAD_LETTER_SCHEMA, self._schemas.get(stream))
        limit = self.streams.record_limit(stream)
        return OutputStream(
            stream, count_of(self.program.plan, stream), None, declared.partitioner, codec, typed=False, limit=limit
        )
