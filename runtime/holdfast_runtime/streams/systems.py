"""An app's streams by name, whatever system holds them: the one place that knows which kinds of systems exist.

The systems (embedded log, generators, Kafka) are made from the spec and from the host's resources: directories,
secrets, rates, and what the attempt found when it began. On a cluster there is no embedded log, because it belongs to
one host. Built in the driver and in every worker. Must not decide what is read or written.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from holdfast.errors import UserActionError
from holdfast.planning.plan import Plan, PlannedStream
from holdfast.spec.app import AppSpec
from holdfast.spec.streams import Stream, System
from holdfast.tasks.partitions import StreamPartition
from holdfast.times import moment
from holdfast_runtime.streams.app_streams import StreamsEnvironment, TopicLimits
from holdfast_runtime.streams.codecs import arrow_schema
from holdfast_runtime.streams.generator import GeneratedStream, Generator
from holdfast_runtime.streams.kafka.admin.topics import TopicUse
from holdfast_runtime.streams.kafka.client.settings import kafka_settings
from holdfast_runtime.streams.kafka.system import KafkaCluster
from holdfast_runtime.streams.log.embedded_log import EmbeddedLog
from holdfast_runtime.streams.markers import (
    AttemptId,
    AttemptSlot,
    Decided,
    EarlierWrites,
    PlacedMarker,
    TaskMarkers,
    WriteHook,
    Writes,
)
from holdfast_runtime.streams.record_columns import MetadataColumns
from holdfast_runtime.streams.records import EpochPosition, LogCut, Marker, OffsetBounds, OffsetRange, RecordLimit
from holdfast_runtime.streams.stream_codecs import stream_codec
from holdfast_runtime.streams.user_functions import load_function

StreamSystem = EmbeddedLog | Generator | KafkaCluster


def make_kafka(system: System, app: str, environment: StreamsEnvironment, timed: Collection[str]) -> KafkaCluster:
    """Return the Kafka cluster of a system, without contacting it."""
    kafka = system.kafka
    assert kafka is not None  # noqa: S101 - its kind says so
    return KafkaCluster(
        kafka_settings(system, environment.secrets),
        app,
        kafka.delivery == "ExactlyOnce",
        environment.before.get(system.name, {}),
        kafka.replication,
        environment.limits.get(system.name, {}),
        timed,
    )


def make_single_host(
    system: System, spec: AppSpec, plan: Plan, environment: StreamsEnvironment, clock: Callable[[], int]
) -> EmbeddedLog | Generator:
    """Return the embedded log or the generator of a system."""
    if system.generator is not None:
        return _generator(system, spec, plan, environment, clock)
    return make_embedded_log(environment, f"system {system.name}")


def make_embedded_log(environment: StreamsEnvironment, what: str) -> EmbeddedLog:
    """Return the embedded log of this host; raise `SystemNotBuiltError` on a cluster."""
    if environment.log is None:
        message = f"{what} would be kept in the embedded log, which one host alone has: on a cluster it needs Kafka"
        raise UserActionError(message, code="SystemNotBuiltError")
    return EmbeddedLog(environment.log, sync=environment.sync)


def _generator(
    system: System, spec: AppSpec, plan: Plan, environment: StreamsEnvironment, clock: Callable[[], int]
) -> Generator:
    assert system.generator is not None  # noqa: S101 - its kind says so
    streams = []
    for stream in spec.streams:
        if stream.system == system.name:
            planned = plan.stream(stream.name)
            codec = stream_codec(stream, MetadataColumns.of(stream, arrow_schema(planned.rows)).in_value)
            count = 1 if planned.count is None else planned.count.actual
            streams.append(GeneratedStream(planned.topic, count, stream.key, codec.encode))
    path = system.generator.function
    make = load_function(path, spec.runtime.code, environment.beside)
    return Generator(path, make, streams, pace=environment.paces[system.name], clock=clock)


def use_of_input(stream: Stream) -> TopicUse:
    """Return what the topic of a stream is for that others write."""
    return TopicUse.TIMED_READ if stream.control else TopicUse.READ


LARGE_RECORD = float(1 << 20)
"""Kafka's default for the largest record, because brokers do not report how large their records are."""
_OWN = "the app makes for itself"


@dataclass(frozen=True, slots=True)
class _Held:
    """The topic of a stream, and the system that holds it."""

    topic: str
    system: StreamSystem
    use: TopicUse
    retention: str | None = None
    """How long its records are kept."""
    is_made: bool = True
    """Whether a missing topic of Kafka is made."""


class Streams:
    """All streams of an app."""

    def __init__(
        self, app: str, spec: AppSpec, plan: Plan, environment: StreamsEnvironment, clock: Callable[[], int]
    ) -> None:
        """`app` is the name of the app."""
        declared = {stream.name: stream for stream in spec.streams}
        timed = {planned.topic for planned in plan.streams if is_timed(planned, declared.get(planned.name))}
        systems = {
            system.name: make_kafka(system, app, environment, timed)
            if system.kafka is not None
            else make_single_host(system, spec, plan, environment, clock)
            for system in spec.systems
            if any(stream.system == system.name for stream in spec.streams)
        }
        written = spec.dead_letters.union(plan.producers)
        # Streams that the app makes for itself go to Kafka, which hosts can share, if there is such a system.
        shared = next((system for system in systems.values() if isinstance(system, KafkaCluster)), None)

        def held(planned: PlannedStream) -> _Held:
            name, topic = planned.name, planned.topic
            stream = declared.get(name)
            if stream is None:
                system = shared or make_embedded_log(environment, f"stream {name}, which {_OWN},")
                return _Held(topic, system, TopicUse.INTERMEDIATE)
            use = TopicUse.TIMED if topic in timed else TopicUse.WRITTEN
            if name not in written:
                use = use_of_input(stream)
            return _Held(topic, systems[stream.system], use, stream.retention, planned.is_made)

        self._held = {stream.name: held(stream) for stream in plan.streams}

    def bounds(self, streams: Collection[str]) -> dict[StreamPartition, OffsetBounds]:
        """Return the current offsets of each partition of these streams."""
        bounds_by_partition: dict[StreamPartition, OffsetBounds] = {}
        of_kafka: dict[KafkaCluster, dict[str, str]] = {}
        for stream in streams:
            backing = self._held[stream]
            if isinstance(backing.system, KafkaCluster):
                of_kafka.setdefault(backing.system, {})[stream] = backing.topic
            else:
                stream_bounds = backing.system.bounds(backing.topic)
                bounds_by_partition |= {
                    StreamPartition(stream, partition.partition): bounds for partition, bounds in stream_bounds.items()
                }
        for system, topics in of_kafka.items():
            topic_bounds = system.bounds(sorted(set(topics.values())))
            for stream, topic in topics.items():
                bounds_by_partition |= {
                    StreamPartition(stream, number): bounds for number, bounds in topic_bounds[topic].items()
                }
        return bounds_by_partition

    def starts(self, declared: Mapping[str, str]) -> dict[StreamPartition, int]:
        """Return the offsets at which partitions of these streams begin; `declared`: stream -> its `start`."""
        starts: dict[StreamPartition, int] = {}
        for stream, start in declared.items():
            bounds = self.bounds([stream])
            if start == "oldest":
                starts |= {partition: partition_bounds.oldest for partition, partition_bounds in bounds.items()}
                continue
            starts |= {partition: partition_bounds.end for partition, partition_bounds in bounds.items()}
            if start != "latest":
                backing = self._held[stream]
                since = backing.system.since(backing.topic, max(0, moment(start) or 0))
                starts |= {StreamPartition(stream, number): offset for number, offset in since.items()}
        return starts

    def written_ends(self, streams: Collection[str]) -> dict[StreamPartition, int]:
        """Return the ends of partitions of these streams where what is written may not be readable yet."""
        ends: dict[StreamPartition, int] = {}
        for stream in streams:
            backing = self._held[stream]
            if isinstance(backing.system, KafkaCluster):
                written = backing.system.written_ends(backing.topic)
                ends |= {StreamPartition(stream, number): end for number, end in written.items()}
        return ends

    def assumed_bytes(self, streams: Collection[str]) -> dict[str, float]:
        """Return the assumed record size of these streams, used until records have been read."""
        return {stream: self._assumed_bytes(self._held[stream]) for stream in streams}

    @staticmethod
    def _assumed_bytes(backing: _Held) -> float:
        match backing.system:
            case EmbeddedLog():
                return backing.system.record_bytes(backing.topic)
            case KafkaCluster():
                return LARGE_RECORD
            case Generator():
                return 0.0

    def ids(self, streams: Collection[str]) -> dict[str, str]:
        """Return the topic ids of these streams, if their system has ids."""
        backings = {stream: self._held[stream] for stream in streams}
        return {
            name: backing.system.topic_id(backing.topic)
            for name, backing in backings.items()
            if isinstance(backing.system, KafkaCluster)
        }

    def cut(self, positions: Mapping[StreamPartition, EpochPosition]) -> dict[StreamPartition, LogCut]:
        """Return the partitions whose systems do not have the records before a position, as of its leader epoch."""
        of_kafka: dict[KafkaCluster, dict[StreamPartition, StreamPartition]] = {}
        for partition in positions:
            backing = self._held[partition.stream]
            if isinstance(backing.system, KafkaCluster):
                of_kafka.setdefault(backing.system, {})[partition] = StreamPartition(backing.topic, partition.partition)
        cuts: dict[StreamPartition, LogCut] = {}
        for system, topic_partitions in of_kafka.items():
            cut = system.cut(
                {topic_partition: positions[partition] for partition, topic_partition in topic_partitions.items()}
            )
            cuts |= {
                partition: cut[topic_partition]
                for partition, topic_partition in topic_partitions.items()
                if topic_partition in cut
            }
        return cuts

    def fetch(self, offset_range: OffsetRange) -> pa.RecordBatch:
        """Return exactly the records of a range, as they are stored."""
        backing = self._held[offset_range.partition.stream]
        return backing.system.fetch(_in(backing, offset_range))

    def expect(self, offset_ranges: Sequence[OffsetRange]) -> None:
        """Announce which ranges are fetched next, so that a system can prefetch them."""
        of_kafka: dict[KafkaCluster, list[OffsetRange]] = {}
        for offset_range in offset_ranges:
            backing = self._held[offset_range.partition.stream]
            if isinstance(backing.system, KafkaCluster):
                of_kafka.setdefault(backing.system, []).append(_in(backing, offset_range))
        for system, ranges in of_kafka.items():
            system.expect(ranges)

    def rows(self, offset_range: OffsetRange) -> pa.RecordBatch | None:
        """Return the rows of a range if the system has rows rather than records; None means fetch and decode."""
        backing = self._held[offset_range.partition.stream]
        return backing.system.rows(_in(backing, offset_range)) if isinstance(backing.system, Generator) else None

    def write(self, sender: AttemptSlot, writes: Writes, at: WriteHook, decided: Decided) -> None:
        """Write a slot's outputs, skipping batches that are already written. `at` is called at each step."""
        of_kafka: dict[KafkaCluster, dict[StreamPartition, Sequence[tuple[pa.RecordBatch, Marker]]]] = {}
        for partition, parts in writes.items():
            backing = self._written(partition.stream)
            topic_partition = StreamPartition(backing.topic, partition.partition)
            if isinstance(backing.system, EmbeddedLog):
                decided()
                backing.system.append_all(topic_partition, parts)
                at("partition written")
            elif isinstance(backing.system, KafkaCluster):
                of_kafka.setdefault(backing.system, {})[topic_partition] = parts
        for system, kafka_writes in of_kafka.items():
            system.write(sender, kafka_writes, at, decided)

    def hold(self, system: str, sender: AttemptSlot, *, anew: bool = False) -> TaskMarkers:
        """Hold a slot's name in a Kafka system; return what the slot has committed in this attempt."""
        clusters = (backing.system for backing in self._held.values() if isinstance(backing.system, KafkaCluster))
        return next(cluster for cluster in clusters if cluster.settings.system == system).hold(sender, anew=anew)

    def deciding(self, streams: Collection[str]) -> str | None:
        """Return the Kafka system whose transactions have all that is written to these streams; None: none has."""
        systems = [self._held[stream].system for stream in streams]
        names = {
            system.settings.system if isinstance(system, KafkaCluster) and system.exactly_once else None
            for system in systems
        }
        return names.pop() if len(names) == 1 else None

    def in_log(self, stream: str) -> bool:
        """Whether the embedded log holds the stream."""
        backing = self._held.get(stream)
        return backing is not None and isinstance(backing.system, EmbeddedLog)

    def log_marker(self, partition: StreamPartition, owner: str, task: str) -> Marker | None:
        """Return the last marker of a task in a partition; None also if another system than the log holds it."""
        backing = self._held.get(partition.stream)
        if backing is None or not isinstance(backing.system, EmbeddedLog):
            return None
        return backing.system.written(StreamPartition(backing.topic, partition.partition), owner, task)

    def ensure(self, stream: str, partitions: int, now: int) -> None:
        """Create a stream with this many partitions if it is missing; a smaller one in the log grows.

        Raise `StreamMissingError` for a missing topic of Kafka that the app does not make.
        """
        backing = self._held[stream]
        if isinstance(backing.system, KafkaCluster):
            backing.system.ensure(backing.topic, partitions, backing.use, backing.retention, is_made=backing.is_made)
        if not isinstance(backing.system, EmbeddedLog):
            return
        if backing.system.has(backing.topic) and backing.system.meta(backing.topic).partitions < partitions:
            backing.system.grow(backing.topic, partitions)
        backing.system.ensure(backing.topic, partitions, now=now)

    def begin(self, streams: Sequence[str], who: AttemptId, slots: int, owner: str) -> EarlierWrites:
        """From now on, refuse writes to these streams by earlier attempts; return what those have written.

        `slots` is the most slots this attempt has; `owner` is the owner of the app.
        """
        kafkas: dict[str, KafkaCluster] = {}
        logs: dict[str, EmbeddedLog] = {}
        for stream in streams:
            backing = self._written(stream)
            if isinstance(backing.system, EmbeddedLog):
                backing.system.fence([backing.topic], who.owner, who.number)
                logs[backing.topic] = backing.system
            elif isinstance(backing.system, KafkaCluster):
                kafkas[backing.system.settings.system] = backing.system
        # After all fences: from now on nothing is added.
        log_markers = [pair for topic, log in logs.items() for pair in log.markers(topic, who.owner).items()]
        return EarlierWrites(
            {name: system.begin(who, slots, owner) for name, system in kafkas.items()},
            tuple(PlacedMarker(str(partition), marker) for partition, markers in log_markers for marker in markers),
        )

    def limits(self, streams: Sequence[str]) -> dict[str, dict[str, TopicLimits]]:
        """Return the limits of these streams' topics, by Kafka system."""
        topics: dict[KafkaCluster, list[str]] = {}
        for stream in streams:
            backing = self._held[stream]
            if isinstance(backing.system, KafkaCluster):
                topics.setdefault(backing.system, []).append(backing.topic)
        return {system.settings.system: system.limits_of(names) for system, names in topics.items()}

    def record_limit(self, stream: str) -> RecordLimit | None:
        """Return how large a record of a stream may be, or None if there is no limit."""
        backing = self._held[stream]
        return backing.system.record_limit(backing.topic) if isinstance(backing.system, KafkaCluster) else None

    def lifetime(self, stream: str) -> int | None:
        """Return after how many milliseconds a record of a stream is deleted, or None if not for its age."""
        backing = self._held[stream]
        return backing.system.limits_in(backing.topic).lifetime if isinstance(backing.system, KafkaCluster) else None

    def tidy(self, positions: Mapping[StreamPartition, int]) -> None:
        """Take everything before these positions as processed for good: publish the positions and clean up."""
        offsets_by_cluster: dict[KafkaCluster, tuple[dict[tuple[str, int], int], dict[tuple[str, int], int]]] = {}
        for partition, offset in positions.items():
            backing = self._held.get(partition.stream)
            if backing is not None and isinstance(backing.system, KafkaCluster):
                read, own_offsets = offsets_by_cluster.setdefault(backing.system, ({}, {}))
                (own_offsets if backing.use is TopicUse.INTERMEDIATE else read)[backing.topic, partition.partition] = (
                    offset
                )
        for system, (read, own_offsets) in offsets_by_cluster.items():
            system.tidy(read, own_offsets)

    def partitions(self, stream: str) -> int | None:
        """Return the number of partitions of a stream in its system, or None if it does not exist yet."""
        backing = self._held[stream]
        if isinstance(backing.system, EmbeddedLog):
            return backing.system.meta(backing.topic).partitions if backing.system.has(backing.topic) else None
        return len(self.bounds([stream]))

    def _written(self, stream: str) -> _Held:
        backing = self._held[stream]
        if isinstance(backing.system, Generator):
            message = f"stream {stream} can't be written: its system makes rows up; move it to a log system"
            raise UserActionError(message, code="ReadOnlyError")
        return backing


def is_timed(planned: PlannedStream, declared: Stream | None) -> bool:
    """Whether readers may know event times only by record timestamps, so that these must arrive unchanged."""
    if declared is None or declared.control:
        return True
    return planned.role == "intermediate" and declared.event_time is None


def _in(backing: _Held, offset_range: OffsetRange) -> OffsetRange:
    return offset_range._replace(partition=StreamPartition(backing.topic, offset_range.partition.partition))
