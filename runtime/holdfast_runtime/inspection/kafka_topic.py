"""A topic as people read it: its offsets and its committed records, with the app's own login and settings.

Loads the Kafka client, so it is imported only where an app has a stream in Kafka. Must not create a topic by asking for
it, and must not decode records.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from holdfast.errors import UserActionError, WorldChangeError
from holdfast.suggest import near_miss
from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.inspection.streams import Bounds, PartitionRecords, StreamContent, UnreadRange, unread_ranges
from holdfast_runtime.streams.kafka.admin.topics import KafkaTopics
from holdfast_runtime.streams.kafka.client.settings import KafkaSettings
from holdfast_runtime.streams.kafka.system import KafkaCluster
from holdfast_runtime.streams.records import StreamMissingError


@dataclass(slots=True, eq=False)
class KafkaTopic:
    """A topic that is read; the partitions of its records are named by the topic."""

    pause: ClassVar = 0.2
    """Seconds between looks for new records: each asks the brokers."""
    cluster: KafkaCluster
    topic: str
    _id: str | None = None
    """The topic's id when it was looked at first."""

    def bounds(self) -> Bounds:
        """Return the present committed offsets of each partition."""
        try:
            bounds, topic_id = self.cluster.bounds([self.topic])[self.topic], self.cluster.topic_id(self.topic)
        except StreamMissingError:
            raise topic_missing(self.cluster.settings, self.topic) from None
        self._id = self._id or topic_id
        if topic_id != self._id:
            message = (
                f"Kafka system {self.cluster.settings.system}: topic {self.topic} was created again, and its offsets "
                "begin anew: start again to read it"
            )
            raise WorldChangeError(message, code="TopicCreatedAgainError")
        return {StreamPartition(self.topic, number): bounds[number] for number in bounds}

    def content(self) -> StreamContent | None:
        """Return what the topic holds."""
        bounds = self.bounds()
        return StreamContent.of(bounds, None) if bounds else None

    def records(
        self,
        since: Mapping[StreamPartition, int] | None = None,
        until: Mapping[StreamPartition, int] | None = None,
        most: int | None = None,
    ) -> Iterator[PartitionRecords]:
        """Yield the next records of each partition that has any; see `unread_ranges`."""
        ranges = unread_ranges(self.bounds(), since, until, most)
        self.cluster.expect([unread.offsets for unread in ranges])
        for unread in ranges:
            yield self._fetched(unread)

    def _fetched(self, unread: UnreadRange) -> PartitionRecords:
        """Return the records of a range that are kept when it is read: oldest offsets are known as of some seconds."""
        while True:
            try:
                return PartitionRecords(unread.offsets, unread.since, self.cluster.fetch(unread.offsets))
            except UserActionError as error:
                if error.code != "OffsetAgedOutError":
                    raise
                self.cluster.close()  # forgets offsets
                start, end = self.bounds()[unread.offsets.partition].oldest, unread.offsets.end
                if start <= unread.offsets.start:
                    raise
                unread = replace(unread, offsets=unread.offsets._replace(start=min(start, end)))


def topic_missing(settings: KafkaSettings, topic: str) -> StreamMissingError:
    """Return the error for a topic that is not there, with the name of one that may be meant."""
    near = near_miss(topic, KafkaTopics(settings).names()) or "."
    return StreamMissingError(
        f"Kafka system {settings.system}: there is no topic {topic} at {settings.bootstrap}{near} Create it, correct "
        "the stream's topic, or let the system's login see it"
    )
