"""One attempt of one run, without Spark: plan, tasks, streams, the program of its slots, growth of its inputs.

    app + record -> plan -> tasks -> program;   shut out: number the attempt, fence off earlier ones
                                                take up:  check that outputs and checkpoint have one history
                                                begin:    record where tasks run
                                                move:     record where tasks run from now on

Growth that the app can't take is reported once; the attempt continues with the partitions it has. Growth is not applied
here: the next attempt does that, starting where this one's last batch ended. Must not import Spark: users' tests run
attempts without a JVM. Must not decide anything that the parts can decide.
"""

import secrets
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

from holdfast.errors import UserActionError
from holdfast.planning.plan import Plan, PlanningFacts, plan
from holdfast.reasons import Reason
from holdfast.spec.app import StreamApp
from holdfast.spec.kept_state import KeptState
from holdfast.spec.kept_streams import StreamNames, kept_app
from holdfast.spec.values import millis
from holdfast.tasks.grouping import (
    ExpansionRefusedError,
    child_after,
    growth_refusals,
    new_partitions,
    parents_of_new,
)
from holdfast.tasks.partitions import StreamPartition, counts_of, partitions_of
from holdfast.tasks.record import ParentEnd, PlacementRecord
from holdfast_runtime.checkpoint.directories import RunPaths, files_at
from holdfast_runtime.checkpoint.identity import take_up
from holdfast_runtime.checkpoint.offset_log import OffsetLogState
from holdfast_runtime.checkpoint.offsets import Offsets
from holdfast_runtime.coordination.coordinator import Coordinator, Placement, RunPlacement
from holdfast_runtime.driver.file_tables import FileTable
from holdfast_runtime.driver.registered_streams import registered_streams
from holdfast_runtime.loop.joined_sides import joined_sides
from holdfast_runtime.loop.next_batch import AttemptInputs
from holdfast_runtime.loop.ranges import BatchLimits
from holdfast_runtime.progress import GrowthRefused, Listener
from holdfast_runtime.segments.graph import CompiledGraph
from holdfast_runtime.slot.program import Program, StatePaths, written_streams
from holdfast_runtime.state.store.directory import TaskIdentity, quota_for
from holdfast_runtime.streams.app_streams import StreamsEnvironment
from holdfast_runtime.streams.data_files import DataFiles
from holdfast_runtime.streams.markers import AttemptId, EarlierWrites, TaskMarkers
from holdfast_runtime.streams.modules_beside import ModulesBeside
from holdfast_runtime.streams.records import EpochPosition, LogCut, OffsetBounds
from holdfast_runtime.streams.systems import Streams

PartitionCounts = Mapping[str, int]
_NOTHING_BESIDE = ModulesBeside()


class Attempt:
    """One attempt of a run. Creates the streams that do not exist yet.

    From here on, streams have the names by which the run knows them.
    """

    def __init__(
        self,
        app: StreamApp,
        paths: RunPaths,
        coordinator: Coordinator,
        clock: Callable[[], int],
        topics: Mapping[str, int | None] | None = None,
        beside: ModulesBeside = _NOTHING_BESIDE,
    ) -> None:
        """`topics`: stream -> partition count, where newer than the coordinator's."""
        self.names, self.app = StreamNames.of(app.spec), kept_app(app)
        """What streams are called, and the app as its run knows it."""
        self._coordinator, self._paths = coordinator, paths
        self._record = coordinator.record()
        self._child_after: Mapping[StreamPartition, ParentEnd] = {}
        counts = topics or coordinator.topics
        self.plan = _accepted(app, PlanningFacts(topics=counts, record=self._record))
        if kept_names := self.names.kept:
            counts = {kept_names.get(name, name): count for name, count in counts.items()}
            self.plan = _accepted(self.app, PlanningFacts(topics=counts, record=self._record))
        self.tasks = {task.name: task.inputs for task in self.plan.tasks}
        self._shared = _shared(self.app, self.plan)
        self._read = sorted(
            {partition.stream for inputs in (*self.tasks.values(), self._shared) for partition in inputs}
        )
        self._before, self._life, self._last = EarlierWrites(), "", Offsets()
        now = clock()
        rates = {
            system.name: system.generator.rows_per_second
            for system in self.app.spec.systems
            if system.generator is not None
        }
        self._environment = StreamsEnvironment(
            paths.log, coordinator.paces(rates, now), secrets=paths.secrets, beside=beside
        )
        self._streams = Streams(app.name, self.app.spec, self.plan, self._environment, clock)
        for stream in self.plan.streams:
            if stream.count is not None:
                self._streams.ensure(stream.name, stream.count.actual, now)

    @property
    def given_up(self) -> tuple[str, ...]:
        """State that the run gives up because the app has changed, one sentence each."""
        return tuple(warning.message for warning in self.plan.warnings if warning.reason is Reason.STATE_GIVEN_UP)

    def program(self, compiled: CompiledGraph) -> Program:
        """Return the program that slots run."""
        return Program(
            app=self.app.name,
            spec=self.app.spec,
            called=self.names.called,
            plan=self.plan,
            compiled=compiled,
            tasks=self.tasks,
            environment=replace(
                self._environment, schemas=registered_streams(self.app.spec, compiled, self._paths.secrets)
            ),
            state=StatePaths(
                self._paths.state,
                self._paths.durable,
                quota_for(self.app.spec.state.size),
                runs=self._paths.runs,
            ),
            owner=f"{self.app.name}/{self.app.spec.run_id}",
            life=self._life,
            sent=self._before.last,
            decides=self._streams.deciding(written_streams(self.app.spec, self.plan)),
        )

    def shut_out(self, slots: int) -> int:
        """Fence off earlier attempts, which takes brokers seconds; return this attempt's number, its fencing epoch.

        `slots`: the largest number of slots there can be.
        """
        number = self._coordinator.next_attempt()
        attempt_id = AttemptId(self.app.name, self.app.spec.run_id, number)
        written, slots = written_streams(self.app.spec, self.plan), min(slots, len(self.tasks))
        self._before = self._streams.begin(written, attempt_id, slots, self._coordinator.owner)
        self._environment = replace(self._environment, before=self._before.kafka, limits=self._streams.limits(written))
        return number

    def take_up(self, number: int, logged: OffsetLogState | None) -> None:
        """Continue from the checkpoint with this offset log; raise `OutputsAheadError` if outputs are ahead of it.

        Call it after `shut_out` and before anything is planned.
        """
        last = None if logged is None else logged.planned or logged.done
        self._last = last or Offsets()
        turns = self._last.turns
        self._life = take_up(self._paths.shared, number, self._before.markers, turns, secrets.token_hex(8))

    @property
    def kafka_markers(self) -> Mapping[str, TaskMarkers]:
        """Kafka system that the app writes -> what earlier attempts wrote into it. Ask it after `shut_out`."""
        return self._before.kafka

    def is_written(self, task: str, turn: int) -> bool:
        """Return whether outputs of a task's turn are visible, as far as markers show. Call it after `shut_out`."""
        placed = self._before.last.get(task)
        return placed is not None and placed.marker.batch >= turn

    def begin(self, placement: Placement, compiled: CompiledGraph, slot_bytes: int | None = None) -> AttemptInputs:
        """Record where tasks run; return what the attempt reads, each slot so many bytes a batch at most.

        Call it after `take_up`.
        """
        spec = self.app.spec
        self._child_after, shared_after = self._order()
        self.move(placement)
        self._coordinator.applied(placement)
        bounded = frozenset(stream.name for stream in spec.streams if stream.bounded)
        limits = BatchLimits(spec.runtime.trigger.max_records_per_partition, slot_bytes)
        grace = millis(spec.expansion.grace)
        intermediate = frozenset(stream.name for stream in self.plan.streams if stream.role == "intermediate")
        return AttemptInputs(
            self.tasks,
            bounded,
            limits,
            {**self._child_after, **shared_after},
            grace,
            intermediate,
            joined_sides(compiled),
            compiled.tables,
            self._shared,
            self._starts(),
        )

    def _starts(self) -> Mapping[StreamPartition, int]:
        """Return where inputs begin of which the run has no position, if their streams say so."""
        known = {partition.stream for partition in self._last.positions}
        starts = {stream.name: stream.start for stream in self.app.spec.streams if stream.name not in known}
        return self._streams.starts({name: start for name, start in starts.items() if start and name in self._read})

    def file_tables(self, compiled: CompiledGraph) -> list[FileTable]:
        """Return the tables of files, and where their data sets are kept."""
        spec, file_tables = self.app.spec, list[FileTable]()
        declared = {table.name: table.files for table in spec.tables}
        for table in compiled.tables:
            if (files := declared[table.name]) is not None:
                field = f"files.location of table {table.name}"
                system, path = files_at(files.location, spec.runtime.spark_conf, field)
                identity = TaskIdentity(self.app.name, spec.run_id, table.name)
                data = DataFiles(system, path, files.location, files.format, table.shape.given)
                file_tables.append(FileTable(table, data, millis(files.every), identity, self._paths.durable))
        return file_tables

    def move(self, placement: Placement) -> None:
        """Record where tasks run, before their first batch there."""
        before = KeptState() if self._record is None else self._record.state
        self._coordinator.ran(
            RunPlacement(
                self.tasks,
                placement,
                self._child_after,
                self._untasked(),
                before.after(self.app.spec, self.plan.made_by),
            )
        )

    def _untasked(self) -> dict[str, int]:
        """Return the counts of streams that no task reads."""
        read = {partition.stream for inputs in self.tasks.values() for partition in inputs}
        return {
            stream.name: stream.count.actual
            for stream in self.plan.streams
            if stream.count is not None and stream.name not in read
        }

    def bounds(self) -> Mapping[StreamPartition, OffsetBounds]:
        """Return the bounds of all partitions that are read."""
        return self._streams.bounds(self._read)

    def written(self) -> Mapping[StreamPartition, int]:
        """Return the ends of the streams that the app writes for itself, committed or not."""
        return self._streams.written_ends([stream for stream in self._read if stream in self.plan.producers])

    def assumed_bytes(self, measured: Collection[str]) -> Mapping[str, float]:
        """Return stream -> assumed bytes per record, for streams that are not `measured`."""
        return self._streams.assumed_bytes(set(self._read).difference(measured))

    def ids(self) -> Mapping[str, str]:
        """Return stream -> id of its topic, for inputs whose system gives one."""
        return self._streams.ids(self._read)

    def cut(self, positions: Mapping[StreamPartition, EpochPosition]) -> Mapping[StreamPartition, LogCut]:
        """Return the partitions that no longer have the records before a position."""
        return self._streams.cut(positions)

    def processed(self, positions: Mapping[StreamPartition, int]) -> None:
        """Let streams delete what lies before these positions: it is processed for good."""
        self._streams.tidy(positions)

    def _order(self) -> tuple[dict[StreamPartition, ParentEnd], dict[StreamPartition, ParentEnd]]:
        """Return which new partitions wait for which old ones, and up to which offset: those of tasks, and shared ones.

        The record knows what tasks read. What no task reads is known by the offsets.
        """
        rules, last = self.plan.expansion, self._last
        ends = {partition: bounds.end for partition, bounds in self.bounds().items()}
        of_tasks: dict[StreamPartition, ParentEnd] = {}
        if self._record is not None:
            read = {partition for inputs in self.tasks.values() for partition in inputs}
            of_tasks = child_after(self._record, parents_of_new(self._record, read, rules), ends)
        known_partitions = frozenset(partition for partition in last.positions if partition in self._shared)
        if refusals := growth_refusals(counts_of(known_partitions), counts_of(self._shared), rules):
            raise ExpansionRefusedError(refusals)
        waiting = {
            partition: ParentEnd(new.parent, new.end or 0)
            for partition, new in last.noticed.items()
            if partition in known_partitions
        }
        fresh = new_partitions(counts_of(known_partitions), self._shared, rules)
        return of_tasks, waiting | {partition: ParentEnd(parent, ends[parent]) for partition, parent in fresh.items()}


def _shared(app: StreamApp, app_plan: Plan) -> frozenset[StreamPartition]:
    """Return the side inputs of Broadcast tables, which are no task's."""
    tables = [table for table in app.spec.tables if table.distribution == "Broadcast"]
    counts = {stream.name: stream.count.actual for stream in app_plan.streams if stream.count is not None}
    streams = {source: counts[source] for table in tables for source in table.sources or () if source in counts}
    return frozenset(partitions_of(streams))


def _problems(app_plan: Plan) -> str:
    return "; ".join(f"{problem.reason}: {problem.message}" for problem in app_plan.problems)


def _accepted(app: StreamApp, facts: PlanningFacts) -> Plan:
    app_plan = plan(app, facts)
    if not app_plan.valid:
        message = f"{app.name} can't run as it is: {_problems(app_plan)}"
        raise UserActionError(message, code="PlanRejectedError")
    return app_plan


@dataclass(slots=True)
class Growth:
    """Watches the inputs of one attempt."""

    app: StreamApp
    plan: Plan
    record: Callable[[], PlacementRecord | None]
    listen: Listener
    _planned: PartitionCounts = field(init=False)
    """Stream of the spec -> partitions in the plan; streams that the app creates for itself are left out."""
    _refused: PartitionCounts = field(default_factory=dict)
    """The last growth that was refused."""

    def __post_init__(self) -> None:
        declared = {stream.name for stream in self.app.spec.streams}
        self._planned = {
            stream.name: stream.count.actual
            for stream in self.plan.streams
            if stream.count is not None and stream.name in declared
        }

    def taken(self, bounds: Collection[StreamPartition]) -> bool:
        """Return whether inputs have grown and another attempt can read the new partitions."""
        grown = self._grown(bounds)
        if not grown or grown == self._refused:
            return False
        if self.app.spec.on_partition_growth == "Halt":
            message = f"{self._said(grown)}; to continue, set spec.onPartitionGrowth to Restart or Live"
            raise UserActionError(message, code="GrowthHaltedError")
        grown_plan = plan(self.app, PlanningFacts(topics={**self._planned, **grown}, record=self.record()))
        if grown_plan.valid:
            return True
        self._refused = grown
        why = _problems(grown_plan)
        self.listen(GrowthRefused(f"{self._said(grown)}, and the app continues with the partitions it had: {why}"))
        return False

    def _grown(self, bounds: Collection[StreamPartition]) -> dict[str, int]:
        counts = Counter(partition.stream for partition in bounds)
        return {name: counts[name] for name, planned in self._planned.items() if counts[name] > planned}

    def _said(self, grown: PartitionCounts) -> str:
        sentences = (f"{name} has grown from {self._planned[name]} to {now} partitions" for name, now in grown.items())
        return ", ".join(sentences)
