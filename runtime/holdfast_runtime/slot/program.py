"""The program of an app, made once by the driver and sent with the job, and the event-time plan of each task.

Plain values, picklable, the same for all batches of an attempt, wherever its tasks run. Also finds the column that
still holds a step's event time. Must not hold anything open, nor know batches.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.control.bookkeeping import ControlInputs
from holdfast.control.producers import Producers
from holdfast.control.runs import run_name
from holdfast.control.sending import relays
from holdfast.planning.plan import Plan, typed_streams
from holdfast.spec.app import AppSpec
from holdfast.spec.streams import MAX_AHEAD, EventTime, Stream
from holdfast.spec.values import millis
from holdfast.spec.verbs import SINK_VERBS, TIMED_VERBS, WAITING_VERBS, verbs_that
from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.checkpoint.directories import directory_name
from holdfast_runtime.segments.graph import PICK, SIFT, SOURCE, TIMES, CompiledGraph, GraphNode
from holdfast_runtime.state.durable.copy import CrashHook, DurableCopy, SnapshotPolicy
from holdfast_runtime.state.durable.storage import Storage
from holdfast_runtime.state.store.delta import Delta
from holdfast_runtime.state.store.directory import DEFAULT_QUOTA, StoreDirectory, TaskIdentity
from holdfast_runtime.streams.app_streams import StreamsEnvironment
from holdfast_runtime.streams.markers import AttemptId, PlacedMarker
from holdfast_runtime.streams.records import Marker


@dataclass(frozen=True, slots=True)
class StatePaths:
    """Where state is kept: in local stores, and in the durable copy."""

    local: Path
    durable: Storage
    quota: int = DEFAULT_QUOTA
    snapshots: SnapshotPolicy = field(default_factory=SnapshotPolicy)
    runs: Path | None = None
    """The directory of all runs of the app, where they share a disk, as on a laptop."""

    def store_directory(self, identity: TaskIdentity) -> StoreDirectory:
        """Return the directory of a task's local store."""
        return StoreDirectory(self.local / directory_name(identity.task), identity, self.quota)

    def copy(self, identity: TaskIdentity, at: CrashHook) -> DurableCopy:
        """Return the durable copy of a task's state."""
        return DurableCopy(self.durable, identity, at=at)


@dataclass(frozen=True, slots=True)
class Program:
    """An app, ready to run."""

    app: str
    spec: AppSpec
    called: Mapping[str, str]
    """Stream -> what it is called, where the run knows it by another name."""
    plan: Plan
    compiled: CompiledGraph
    tasks: Mapping[str, tuple[StreamPartition, ...]]
    environment: StreamsEnvironment
    state: StatePaths
    owner: str
    """The owner in output markers: app and run."""
    life: str
    """The id of the checkpoint (`checkpoint.life`)."""
    sent: Mapping[str, PlacedMarker]
    """Task -> the marker of its last batch whose outputs existed when the attempt began."""
    decides: str | None = None
    """The Kafka system whose transactions have all that a slot writes, and so decide; None: there is none."""

    @property
    def names(self) -> tuple[str, ...]:
        """Tasks in a fixed order: between segments a task is known by its number in it."""
        return tuple(self.tasks)

    def who(self, attempt: int) -> AttemptId:
        """Return the identity under which an attempt writes."""
        return AttemptId(self.app, self.spec.run_id, attempt)

    def identity(self, task: str) -> TaskIdentity:
        """Return the identity of a task's state."""
        return TaskIdentity(self.app, self.spec.run_id, task)

    def marker(self, delta: Delta, attempt: int) -> Marker:
        """Return the marker of a batch's outputs, as an attempt writes it."""
        return Marker(self.owner, delta.identity.task, delta.batch, attempt, self.life, delta.digest)


def written_streams(spec: AppSpec, plan: Plan) -> tuple[str, ...]:
    """Return the streams that the app writes, by its steps or as dead letters."""
    return tuple(sorted({*plan.producers, *spec.dead_letters}))


def count_of(plan: Plan, stream: str) -> int:
    """Return how many partitions a stream has."""
    count = plan.stream(stream).count
    return 1 if count is None else count.actual


@dataclass(frozen=True, slots=True)
class ClockSource:
    """The event time of a stream that a task reads."""

    lateness: int | None = None
    """How far a record may lie behind the newest one; None: its records have no event time."""
    idle_after: int | None = None
    producers: Producers | None = None
    """The producers of its control messages; None: it carries none."""
    max_ahead: int | None = None
    """How far ahead of the batch clock an event time is believed; None: no limit."""


@dataclass(frozen=True, slots=True)
class ClockTarget:
    """A stream to which the task sends control messages."""

    partitions: int
    sources: frozenset[str]
    """The input streams whose rows reach it."""
    producers: tuple[str, ...]
    """The tasks that write to it."""
    relayed: bool = False
    """Whether they write to its aggregating partition only, whose task sends to the others (`sending.Relay`)."""


Delays = Mapping[str, int | None]
"""Stream -> how far behind its watermark rows of it may come, in milliseconds: a row without a partner leaves a join
when no partner can come any more. None: as far as they like until it ends, as final results without a window do."""


@dataclass(frozen=True, slots=True)
class ClockPlan:
    """How event time moves through one task."""

    task: str
    partitions: tuple[StreamPartition, ...]
    sources: Mapping[str, ClockSource]
    steps: Mapping[str, frozenset[str]]
    """Step that needs a watermark -> the streams whose rows reach it."""
    told: Mapping[str, ClockTarget]
    behind: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Step, or target stream -> the steps with timers whose rows reach it in this task."""
    set_times: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Step with an `eventTime` -> the streams and such steps whose rows reach it. Behind it, it is the source."""
    max_ahead: int | None = None
    """The largest `maxAhead` of all streams of the app."""
    delays: Mapping[str, Delays] = field(default_factory=dict)
    """Step, or target stream -> how far behind the watermarks of its streams rows of them may come, where they may."""
    run: str | None = None
    """The name of the run, in the messages that the task sends."""
    marked: Mapping[str, str] = field(default_factory=dict)
    """Step with timers to which the rows of one partition come in their order -> their stream: their marks hold."""

    @property
    def inputs(self) -> ControlInputs:
        """The inputs as the bookkeeping of control messages takes them; a step with an `eventTime` is one of them."""
        producers = {name: source.producers for name, source in self.sources.items() if source.producers is not None}
        partitions = (*self.partitions, *(StreamPartition(step, 0) for step in self.set_times))
        return ControlInputs(partitions, producers, frozenset(self.set_times))


def clock_plan(program: Program, task: str) -> ClockPlan:
    """Return how event time moves through one task."""
    spec, plan, compiled = program.spec, program.plan, program.compiled
    declared = {stream.name: stream for stream in spec.streams}
    typed = typed_streams(spec, plan)
    reach, timers = compiled.clocks(), _timers_of(compiled)
    times = (*(stream.event_time for stream in spec.streams), *(step.event_time for step in spec.steps))
    farthest = max(
        (millis(event_time.max_ahead) for event_time in times if event_time is not None), default=millis(MAX_AHEAD)
    )
    sources = {}
    for node in compiled.sources:
        if node.name in compiled.side_inputs:
            continue  # tables have no event time, and no end
        stream = declared.get(node.name)
        event_time = None if stream is None else stream.event_time
        idle = None if event_time is None else event_time.idle_millis
        ahead = farthest if event_time is None else millis(event_time.max_ahead)
        if node.name in typed:
            writers = plan.producers.get(node.name, ())
            producers = Producers.of(writers, idle) if writers else Producers(0, idle_after=idle)
            sources[node.name] = ClockSource(idle_after=idle, producers=producers, max_ahead=ahead)
        else:
            lateness = None if event_time is None else millis(event_time.lateness)
            sources[node.name] = ClockSource(lateness, idle, max_ahead=ahead)
    set_times = {node.name: reach[node.inputs[0]] for node in compiled.nodes if node.verb == TIMES}
    sources |= {
        step.name: _of_step(step.event_time) for step in spec.steps if step.event_time and step.name in set_times
    }
    targets: dict[str, ClockTarget] = {}
    behind = {node.name: timers[node.index] - {node.name} for node in compiled.nodes if node.verb in TIMED_VERBS}
    for node in compiled.sinks:
        stream_name = node.step.to if node.step is not None and node.step.to is not None else node.name
        writers = plan.producers.get(stream_name, ())
        if stream_name in typed and task in writers:
            before = targets[stream_name].sources if stream_name in targets else frozenset()
            count = count_of(plan, stream_name)
            # Of a stream for other apps no task here has the aggregating partition.
            relayed = stream_name in sources and relays(len(writers), count)
            targets[stream_name] = ClockTarget(count, before | reach[node.index], writers, relayed)
            behind[stream_name] = behind.get(stream_name, frozenset()) | timers[node.index]
    asking = {node.name: reach[node.index] for node in compiled.nodes if node.verb in TIMED_VERBS}
    inputs = tuple(partition for partition in program.tasks[task] if partition.stream not in compiled.side_inputs)
    run = run_name(program.app, spec.run_id, program.life)
    direct = {node.name: _read_directly(compiled, node) for node in compiled.nodes if node.verb == "process"}
    of_one = [stream for stream, count in Counter(partition.stream for partition in inputs).items() if count == 1]
    marked = {step: stream for step, stream in direct.items() if stream in of_one}
    return ClockPlan(
        task, inputs, sources, asking, targets, behind, set_times, farthest, _delays(compiled), run, marked
    )


def _of_step(event_time: EventTime) -> ClockSource:
    return ClockSource(millis(event_time.lateness), event_time.idle_millis, max_ahead=millis(event_time.max_ahead))


_ROW_BY_ROW = (*verbs_that(lambda verb: verb.row_by_row), PICK, SIFT)


def _read_directly(compiled: CompiledGraph, node: GraphNode) -> str | None:
    """Return the stream whose rows come to a step one by one, in their order; None if they come otherwise."""
    source = compiled.nodes[node.inputs[0]]
    if source.verb == SOURCE:
        return source.name
    return _read_directly(compiled, source) if source.verb in _ROW_BY_ROW else None


def kept_event_time(compiled: CompiledGraph, node: GraphNode, declared: Mapping[str, Stream]) -> str | None:
    """Return the column that still holds the original event time of a step's rows; None if there is none."""
    if node.verb == TIMES or (node.step is None and node.name in declared):
        event_time = declared[node.name].event_time if node.step is None else node.step.event_time
        return None if event_time is None else event_time.column
    if node.step is None:
        # Rows that a repartition step wrote are read from the stream of its name.
        return kept_event_time(compiled, next(sink for sink in compiled.sinks if sink.name == node.name), declared)
    columns = {kept_event_time(compiled, compiled.nodes[index], declared) for index in node.inputs}
    column, step = columns.pop() if len(columns) == 1 else None, node.step
    function = step.apply or step.process
    if step.aggregate is not None or step.join is not None:
        return None
    if function is not None and column not in (function.keeps or ()):
        return None
    items = step.select if step.lookup is None else step.lookup.select
    passed_on = {"*", column, f"left.{column}"} if step.lookup is not None else {"*", column}
    if items is not None and not passed_on & {text.strip() for text in items}:
        return None
    return column


def _timers_of(compiled: CompiledGraph) -> Sequence[frozenset[str]]:
    """Return for each node the steps of `WAITING_VERBS` whose rows reach it in the same task, itself included."""
    reach: list[frozenset[str]] = []
    for node in compiled.nodes:
        node_timers = frozenset({node.name}) if node.verb in WAITING_VERBS else frozenset[str]()
        reach.append(node_timers.union(*(reach[index] for index in node.inputs)))
    return reach


def _delays(compiled: CompiledGraph) -> Mapping[str, Delays]:
    """Return for each step that asks for a watermark, and each stream that is written, how late rows come to it."""
    after: list[dict[str, int | None]] = []
    delays_by_name: dict[str, dict[str, int | None]] = {}
    for node in compiled.nodes:
        delays: dict[str, int | None] = {node.name: 0} if node.step is None or node.verb == TIMES else {}
        for index in () if node.verb == TIMES else node.inputs:
            _raise(delays, after[index])
        after.append({stream: _later(delay, node) for stream, delay in delays.items()})
        if node.verb in TIMED_VERBS:
            delays_by_name[node.name] = delays
        elif node.verb in SINK_VERBS and node.step is not None:
            _raise(delays_by_name.setdefault(node.step.to or node.name, {}), delays)
    late = {
        name: {stream: delay for stream, delay in delays.items() if delay != 0}
        for name, delays in delays_by_name.items()
    }
    return {name: delays for name, delays in late.items() if delays}


def _later(delay: int | None, node: GraphNode) -> int | None:
    verb = None if node.step is None else node.step.aggregate
    if delay is None or (verb is not None and not verb.windowed and not verb.updates):
        return None
    return delay if node.join is None else delay + node.join.delay


def _raise(delays: dict[str, int | None], input_delays: Delays) -> None:
    for stream, delay in input_delays.items():
        before = delays.get(stream, 0)
        delays[stream] = None if before is None or delay is None else max(delay, before)
