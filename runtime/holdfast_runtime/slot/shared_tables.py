"""Broadcast tables in one process: brought to where a batch wants them, by whichever process of a location comes first.

The plan of a batch says how far side inputs are applied. Who finds the table there reads it; who does not takes its
lock, looks again, and applies what is missing, or starts from the durable copy or the side inputs where the location
holds nothing that fits. A data set of files is fetched as the driver has written it, when the plan names another one.
So each look-up of a batch, on every location, sees the same rows. Must not commit anything of tasks.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pyarrow as pa

from holdfast.errors import WorldChangeError
from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.checkpoint.directories import directory_name
from holdfast_runtime.segments.graph import FedTable
from holdfast_runtime.slot.batch_plan import BatchPlan
from holdfast_runtime.slot.program import Program
from holdfast_runtime.slot.reading.inputs import RangeInput
from holdfast_runtime.slot.reading.side_inputs import SideInputReader, dataset_ends
from holdfast_runtime.slot.report import TaskReport
from holdfast_runtime.state.durable.copy import CrashHook
from holdfast_runtime.state.shared.data_sets import DataSets
from holdfast_runtime.state.shared.shared_table import TABLES, SharedTable
from holdfast_runtime.state.shared.table_copy import TableCopy, table_storage
from holdfast_runtime.state.sorted.stored_pieces import PIECE
from holdfast_runtime.state.store.directory import TaskIdentity, boot_id
from holdfast_runtime.steps.tables.kept_table import KeptTable, many_at_once
from holdfast_runtime.steps.tables.kept_versions import KeptVersions
from holdfast_runtime.streams.app_streams import RecordAccess
from holdfast_runtime.streams.records import OffsetRange

_CHUNK, _AHEAD, _READERS = 100_000, 8, 2
"""Records that are read at a time, how often before they are applied, and by how many threads."""
_NONE = 0
"""The generation of a table that is empty, as for a batch that was planned before the app had the table."""


class SharedTables:
    """All Broadcast tables of an app, in one process."""

    def __init__(self, program: Program, streams: RecordAccess, reader: Callable[[str], SideInputReader]) -> None:
        """`reader` returns a new reader of a side input."""
        self._program, self._make_reader = program, reader
        self._one_at_a_time, self._of_thread = _OneAtATime(streams), threading.local()
        self._shapes = {table.name: table for table in program.compiled.tables if table.broadcast}
        directory, boot = program.state.local / TABLES, boot_id()
        self._tables = {
            name: SharedTable(directory / directory_name(name), self._identity(name), boot, _nothing, PIECE)
            for name in self._shapes
        }
        self._copies = {
            name: TableCopy(table_storage(program.state.durable, self._identity(name)), self._identity(name))
            for name in self._shapes
        }
        self._batch = (0, 0)

    def table(self, name: str) -> SharedTable:
        """Return a table by its name, as the batch wants it."""
        return self._tables[name]

    def bring_up(self, plan: BatchPlan, report: TaskReport, at: CrashHook) -> None:
        """Bring all tables to where this batch wants them; what is read is added to the report."""
        if self._batch == (plan.epoch, plan.batch) or not self._tables:
            return
        for name, table in self._shapes.items():
            self._tables[name].at = at
            if table.files:
                self._fetch(table, plan)
                continue
            self._bring_up(table, plan, report)
            starts = {
                str(partition): start
                for partition, (start, _) in plan.table_inputs.items()
                if partition.stream in table.sources
            }
            # One location is enough, and each has tasks of its own.
            if plan.lead == report.task and self._copies[name].due(self._tables[name].manifest, starts):
                self._copies[name].upload(self._tables[name])
        self._batch = plan.epoch, plan.batch

    def _fetch(self, fed: FedTable, plan: BatchPlan) -> None:
        """Fetch the data set that the plan names, unless it is here."""
        table, number = self._tables[fed.name], plan.tables.get(fed.name, _NONE)
        if table.read(number, {}):
            return
        with table.changing():
            if table.read(number, {}):
                return
            table.drop()
            sets = DataSets(self._program.state.durable, self._identity(fed.name))
            if number != _NONE and not sets.fetch(table, number):
                message = (
                    f"table {fed.name}: data set {number}, which this batch needs, is gone from the checkpoint "
                    f"location, or damaged; put it back, or start under a new spec.runId"
                )
                raise WorldChangeError(message, code="DataSetGoneError")
            table.commit(plan.batch, number, {})

    def _bring_up(self, fed: FedTable, plan: BatchPlan, report: TaskReport) -> None:
        table, generation = self._tables[fed.name], plan.tables.get(fed.name, _NONE)
        bounds_by_partition = {
            partition: bounds for partition, bounds in plan.table_inputs.items() if partition.stream in fed.sources
        }
        ends = {str(partition): end for partition, (_, end) in bounds_by_partition.items()}
        if table.read(generation, ends):
            return
        with table.changing():
            if table.read(generation, ends):
                return  # another process was first
            manifest_before, copy = table.manifest, self._copies[fed.name]
            ahead = any(manifest_before.offsets.get(name, 0) > end for name, end in ends.items())
            if manifest_before.generation != generation or ahead or not manifest_before.offsets.keys() <= ends.keys():
                table.drop()
                copy.restore(table, generation, ends)
            reached = {
                partition: max(table.manifest.offsets.get(str(partition), 0), start)
                for partition, (start, _) in bounds_by_partition.items()
            }
            versions = KeptVersions(table, fed.shape, bounds_by_partition) if fed.shape.versioned else None
            kept_table = KeptTable(table, fed.shape)
            kept_table.begin()
            ranges = [
                chunk
                for partition, start in reached.items()
                for chunk in _chunks(
                    OffsetRange(partition, start, bounds_by_partition[partition][1], plan.epochs.get(partition))
                )
            ]
            range_inputs = self._read_ahead(ranges, plan.now, report)
            if versions is None:
                for rows in many_at_once(fed.shape.stored(range_input.rows.rows) for _, range_input in range_inputs):
                    report.note_unkeyed(fed.name, kept_table.put(rows))
            else:
                for partition, range_input in range_inputs:
                    over = {partition.partition: dataset_ends(range_input)}
                    report.note_unkeyed(fed.name, versions.put(partition.stream, range_input.rows.rows, over))
                versions.switch()
            table.commit(plan.batch, generation, ends)

    def _read_ahead(
        self, ranges: Iterable[OffsetRange], now: int, report: TaskReport
    ) -> Iterator[tuple[StreamPartition, RangeInput]]:
        """Yield what is in these ranges; the next ones are read and decoded while the last one is applied."""

        def read(offset_range: OffsetRange) -> tuple[StreamPartition, RangeInput, TaskReport]:
            thread_report = TaskReport(report.task)
            reader = self._reader(offset_range.partition.stream)
            return (
                offset_range.partition,
                reader.read(offset_range, self._one_at_a_time, now, thread_report),
                thread_report,
            )

        with ThreadPoolExecutor(_READERS) as threads:
            futures = deque[Future[tuple[StreamPartition, RangeInput, TaskReport]]]()
            for offset_range in (*ranges, *[None] * _AHEAD):
                if offset_range is not None:
                    futures.append(threads.submit(read, offset_range))
                if futures and (offset_range is None or len(futures) > _AHEAD):
                    partition, range_input, thread_report = futures.popleft().result()
                    report.add_reading(thread_report)
                    yield partition, range_input

    def _reader(self, stream: str) -> SideInputReader:
        """Return this thread's reader of a stream: codecs adapt to what they read."""
        readers: dict[str, SideInputReader] = self._of_thread.__dict__.setdefault("readers", {})
        if stream not in readers:
            readers[stream] = self._make_reader(stream)
        return readers[stream]

    def _identity(self, table: str) -> TaskIdentity:
        return self._program.identity(table)


class _OneAtATime:
    """Streams of which one thread at a time fetches records."""

    def __init__(self, streams: RecordAccess) -> None:
        self._streams, self._lock = streams, threading.Lock()

    def fetch(self, offset_range: OffsetRange) -> pa.RecordBatch:
        with self._lock:
            return self._streams.fetch(offset_range)

    def rows(self, offset_range: OffsetRange) -> pa.RecordBatch | None:
        with self._lock:
            return self._streams.rows(offset_range)


def _chunks(offset_range: OffsetRange) -> Iterator[OffsetRange]:
    for start in range(offset_range.start, offset_range.end, _CHUNK):
        yield offset_range._replace(start=start, end=min(start + _CHUNK, offset_range.end))


def _nothing(_: str) -> None:
    pass
