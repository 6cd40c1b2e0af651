"""One Kafka cluster as the runtime sees it: its clients, opened when they are used, once per process.

Combines reading, writing and administration, which do not know each other. Must not be carried across a fork: each
process makes its own.
"""

import pickle
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.clocks import now
from holdfast_runtime.streams.app_streams import TopicLimits
from holdfast_runtime.streams.kafka.admin.bounds import TopicBounds
from holdfast_runtime.streams.kafka.admin.housekeeping import NextOffsets, TopicHousekeeping
from holdfast_runtime.streams.kafka.admin.topics import KafkaTopics, TopicUse, wanted
from holdfast_runtime.streams.kafka.client.settings import KafkaSettings
from holdfast_runtime.streams.kafka.client.topic_limits import event_times, record_limit, request_bytes
from holdfast_runtime.streams.kafka.read.fetcher import RangeFetcher, make_fetcher
from holdfast_runtime.streams.kafka.read.moments import offsets_since
from holdfast_runtime.streams.kafka.read.position_check import PositionCheck
from holdfast_runtime.streams.kafka.write.agent import RemoteWriter, Writer, agent
from holdfast_runtime.streams.kafka.write.fencing import begin_attempt, claim_name
from holdfast_runtime.streams.kafka.write.marker_notes import slot_partition
from holdfast_runtime.streams.kafka.write.marker_topic import MarkerTopic
from holdfast_runtime.streams.kafka.write.producer import REQUEST_BYTES
from holdfast_runtime.streams.kafka.write.slot_writers import PlainWriter, TransactionalWriter
from holdfast_runtime.streams.markers import (
    AttemptId,
    AttemptSlot,
    Decided,
    TaskMarkers,
    WriteHook,
    Writes,
    marker_topic,
)
from holdfast_runtime.streams.records import (
    WRITTEN,
    EpochPosition,
    LogCut,
    Marker,
    OffsetBounds,
    OffsetRange,
    RecordLimit,
)

Parts = Sequence[tuple[pa.RecordBatch, Marker]]


@dataclass(frozen=True, slots=True)
class WriterFactory:
    """Makes the writer of a process."""

    settings: KafkaSettings
    app: str
    exactly_once: bool
    before: TaskMarkers
    request_bytes: int = REQUEST_BYTES
    """The most bytes in one batch of records."""

    def __call__(self) -> Writer:
        """Return a writer that has no connection yet."""
        if not self.exactly_once:
            return PlainWriter(self.settings, self.request_bytes)
        markers = MarkerTopic(self.settings, marker_topic(self.app))
        return TransactionalWriter(self.settings, self.before, markers, self.request_bytes)


@dataclass(slots=True, eq=False)
class KafkaCluster:
    """One Kafka system of an app."""

    settings: KafkaSettings
    app: str
    exactly_once: bool = True
    before: TaskMarkers = field(default_factory=dict)
    """What earlier attempts of the run have written into it."""
    replication: int | None = None
    """The number of replicas of topics that are created here; None for the brokers' default."""
    limits: Mapping[str, TopicLimits] = field(default_factory=dict)
    """The limits of written topics, as the attempt found them when it began."""
    timed: Collection[str] = ()
    """Topics whose record timestamps are event times and stay unchanged."""
    _topics: KafkaTopics | None = None
    _fetcher: RangeFetcher | None = None
    _bounds: TopicBounds | None = None
    _tidying: TopicHousekeeping | None = None
    _writer: Writer | None = None

    def bounds(self, topics: Collection[str]) -> dict[str, dict[int, OffsetBounds]]:
        """Return the current committed offsets of each partition of these topics."""
        return self._asked().bounds(topics)

    def written_ends(self, topic: str) -> dict[int, int]:
        """Return the ends of a topic's partitions, with records of transactions that are not over."""
        return self._asked().written_ends(topic)

    def since(self, topic: str, moment: int) -> dict[int, int]:
        """Return the first offsets with a timestamp at this moment or later, of partitions that have one."""
        return offsets_since(self.settings, topic, self.bounds([topic])[topic], moment)

    def topic_id(self, topic: str) -> str:
        """Return the id of a topic. It changes if the topic is created again."""
        return self._asked().topic_id(topic)

    def cut(self, positions: Mapping[StreamPartition, EpochPosition]) -> dict[StreamPartition, LogCut]:
        """Return the partitions of topics that do not have the records before a position, as of its leader epoch."""
        return PositionCheck(self.settings).cut(positions)

    def fetch(self, offset_range: OffsetRange) -> pa.RecordBatch:
        """Return exactly the records of a range; the stream of its partition is the topic."""
        topic, number = offset_range.partition
        records = self._reader().fetch(topic, number, offset_range.start, offset_range.end, offset_range.epoch)
        column = records.schema.get_field_index("timestamp")
        return records.set_column(column, records.schema.field(column), event_times(records.column(column)))

    def expect(self, ranges: Sequence[OffsetRange]) -> None:
        """Start fetching these ranges in parallel."""
        if len(ranges) > 1:
            self._reader().begin(ranges)

    def ensure(
        self, topic: str, partitions: int, use: TopicUse, retention: str | None = None, *, is_made: bool = True
    ) -> None:
        """Create the topic as the spec says if it does not exist and `is_made`; refuse it if it differs."""
        self._made().ensure(topic, wanted(use, partitions, self.replication, retention), is_made=is_made)
        self._asked().made(topic)

    def limits_of(self, topics: Iterable[str]) -> dict[str, TopicLimits]:
        """Return the current limits of topics."""
        return {topic: self._made().limits(topic) for topic in topics}

    def begin(self, who: AttemptId, slots: int, owner: str) -> TaskMarkers:
        """Shut out earlier attempts and other owners; return what earlier attempts of the run had written."""
        if not self.exactly_once:
            return {}
        markers = MarkerTopic(self.settings, marker_topic(self.app))
        marker_spec = wanted(TopicUse.MARKERS, slot_partition(slots), self.replication)
        partitions = self._made().ensure(markers.topic, marker_spec, ours=True)
        try:
            claim_name(who.app, owner, markers)
            return begin_attempt(who, slots, self.settings, markers, partitions)
        finally:
            markers.close()

    def write(self, sender: AttemptSlot, writes: Writes, at: WriteHook, decided: Decided) -> None:
        """Write what has not been written; everything is written when this returns."""
        self._writing().send(
            sender,
            {topic_partition: self._taken(topic_partition, parts) for topic_partition, parts in writes.items()},
            at,
            decided,
        )

    def hold(self, sender: AttemptSlot, *, anew: bool) -> TaskMarkers:
        """Hold a slot's name; return what the slot has committed in this attempt."""
        return self._writing().hold(sender, anew=anew)

    def record_limit(self, topic: str) -> RecordLimit:
        """Return how large a record of a topic may be."""
        return record_limit(topic, self.limits_in(topic), self.settings)

    def limits_in(self, topic: str) -> TopicLimits:
        """Return the limits of a topic when the attempt began."""
        return self.limits.get(topic, TopicLimits())

    def tidy(self, read: NextOffsets, own_offsets: NextOffsets) -> None:
        """Publish how far the app has read, and delete what it has read of its own streams."""
        if self._tidying is None:
            self._tidying = TopicHousekeeping(self.settings)
        self._tidying.publish(self.app, {**read, **own_offsets})
        self._tidying.delete(own_offsets)

    def close(self) -> None:
        """Close all clients."""
        for client in (self._fetcher, self._writer, self._tidying):
            if client is not None:
                client.close()
        self._fetcher = self._writer = self._tidying = self._bounds = self._topics = None

    def _taken(self, topic_partition: StreamPartition, parts: Parts) -> Parts:
        """Return records with timestamps that their topic accepts now; the time of the decision may have passed."""
        if topic_partition.stream in self.timed:
            return parts
        limits, column, moment = self.limits_in(topic_partition.stream), WRITTEN.get_field_index("timestamp"), now()
        return [
            (
                records.set_column(column, WRITTEN.field(column), limits.timestamps(records.column(column), moment)),
                marker,
            )
            for records, marker in parts
        ]

    def _writing(self) -> Writer:
        if self._writer is None:
            size = request_bytes(self.limits, REQUEST_BYTES)
            make, address = WriterFactory(self.settings, self.app, self.exactly_once, self.before, size), agent()
            self._writer = (
                make() if address is None else RemoteWriter(address, self.settings.system, pickle.dumps(make))
            )
        return self._writer

    def _made(self) -> KafkaTopics:
        if self._topics is None:
            self._topics = KafkaTopics(self.settings)
        return self._topics

    def _reader(self) -> RangeFetcher:
        if self._fetcher is None:
            self._fetcher = make_fetcher(self.settings)
        return self._fetcher

    def _asked(self) -> TopicBounds:
        if self._bounds is None:
            self._bounds = TopicBounds(self.settings)
        return self._bounds
