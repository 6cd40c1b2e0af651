"""The plan of a task's event time: its sources, the steps that need a watermark, the streams that it is sent to.

It is the same in every batch of a task, and derived from the program alone. Also finds the column that still holds a
step's event time. Must not know batches.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.control.bookkeeping import ControlInputs
from holdfast.control.producers import Producers
from holdfast.spec.app import AppSpec
from holdfast.spec.streams import MAX_AHEAD, Stream
from holdfast.spec.values import millis
from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.segments.graph import CompiledGraph, GraphNode
from holdfast_runtime.slot.program import Program, count_of, typed_streams


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
    max_ahead: int | None = None
    """The largest `maxAhead` of all streams of the app."""

    @property
    def inputs(self) -> ControlInputs:
        """The inputs as the bookkeeping of control messages takes them."""
        producers = {name: source.producers for name, source in self.sources.items() if source.producers is not None}
        return ControlInputs(self.partitions, producers)


def clock_plan(program: Program, task: str) -> ClockPlan:
    """Return how event time moves through one task."""
    spec, plan, compiled = program.spec, program.plan, program.compiled
    declared = {stream.name: stream for stream in spec.streams}
    typed = typed_streams(spec, plan)
    reach, timers = _sources_of(compiled), _timers_of(compiled)
    times = [stream.event_time for stream in spec.streams if stream.event_time is not None]
    farthest = max((millis(one.max_ahead) for one in times), default=millis(MAX_AHEAD))
    sources = {}
    for node in compiled.sources:
        stream = declared.get(node.name)
        event_time = None if stream is None else stream.event_time
        idle = None if event_time is None or event_time.idle_after is None else millis(event_time.idle_after)
        ahead = farthest if event_time is None else millis(event_time.max_ahead)
        if node.name in typed:
            writers = plan.producers.get(node.name, ())
            patience = idle if stream is not None else _patience(spec, compiled, reach, node.name)
            producers = Producers.of(writers, patience) if writers else Producers(0, idle_after=patience)
            sources[node.name] = ClockSource(idle_after=idle, producers=producers, max_ahead=ahead)
        else:
            lateness = None if event_time is None else millis(event_time.lateness)
            sources[node.name] = ClockSource(lateness, idle, max_ahead=ahead)
    told: dict[str, ClockTarget] = {}
    behind = {node.name: timers[node.index] - {node.name} for node in compiled.nodes if node.verb == "process"}
    for node in compiled.sinks:
        stream_name = node.step.to if node.step is not None and node.step.to is not None else node.name
        writers = plan.producers.get(stream_name, ())
        if stream_name in typed and task in writers:
            before = told[stream_name].sources if stream_name in told else frozenset()
            told[stream_name] = ClockTarget(count_of(plan, stream_name), before | reach[node.index], writers)
            behind[stream_name] = behind.get(stream_name, frozenset()) | timers[node.index]
    asking = {node.name: reach[node.index] for node in compiled.nodes if node.verb == "process"}
    return ClockPlan(task, program.tasks[task], sources, asking, told, behind, farthest)


def kept_event_time(compiled: CompiledGraph, node: GraphNode, declared: Mapping[str, Stream]) -> str | None:
    """Return the column that still holds the original event time of a step's rows; None if there is none."""
    if node.step is None and (stream := declared.get(node.name)) is not None:
        return None if stream.event_time is None else stream.event_time.column
    if node.step is None:
        # Rows that a repartition step wrote are read from the stream of its name.
        return kept_event_time(compiled, next(one for one in compiled.sinks if one.name == node.name), declared)
    columns = {kept_event_time(compiled, compiled.nodes[at], declared) for at in node.inputs}
    column, step = columns.pop() if len(columns) == 1 else None, node.step
    function = step.apply or step.process
    if function is not None and column not in (function.keeps or ()):
        return None
    if step.select is not None and not {column, "*"} & {text.strip() for text in step.select}:
        return None
    return column


def _sources_of(compiled: CompiledGraph) -> Sequence[frozenset[str]]:
    """Return for each node the streams whose rows reach it."""
    reach: list[frozenset[str]] = []
    for node in compiled.nodes:
        own = frozenset({node.name}) if node.step is None else frozenset[str]()
        reach.append(own.union(*(reach[at] for at in node.inputs)))
    return reach


def _timers_of(compiled: CompiledGraph) -> Sequence[frozenset[str]]:
    """Return for each node the steps with timers whose rows reach it in the same task, itself included."""
    reach: list[frozenset[str]] = []
    for node in compiled.nodes:
        own = frozenset({node.name}) if node.verb == "process" else frozenset[str]()
        reach.append(own.union(*(reach[at] for at in node.inputs)))
    return reach


def _patience(spec: AppSpec, compiled: CompiledGraph, reach: Sequence[frozenset[str]], made: str) -> int | None:
    """Return how long to wait for a silent producer of an intermediate stream: as long as for its slowest source.

    If one source is waited for without limit, so are its producers.
    """
    declared = {stream.name: stream for stream in spec.streams}
    times = []
    for node in compiled.sinks:
        if node.name != made:
            continue
        for source in reach[node.index]:
            event_time = declared[source].event_time if source in declared else None
            if event_time is None or event_time.idle_after is None:
                return None
            times.append(millis(event_time.idle_after))
    return max(times, default=None)
