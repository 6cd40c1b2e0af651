"""Why: what is done for brokers and their tools when batches are processed, though no batch depends on it.

How far an app has read is published as offsets of the consumer group of its name, so that tools that show lag know it;
nobody reads them back. Records of the streams an app makes for itself are deleted once it has read them: their times
are event times, by which nothing would ever be old, or all of it at once. Must not be in the path of a batch.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from holdfast_runtime.streams.kafka.quiet import QUIET
from holdfast_runtime.streams.kafka.settings import KafkaSettings
from holdfast_runtime.streams.kafka.trouble import trouble

_PATIENCE = 10.0
Places = Mapping[tuple[str, int], int]
"""Topic and partition -> the next offset to be read."""


@dataclass(slots=True)
class Tidying:
    """Of one Kafka system."""

    settings: KafkaSettings
    _client: AdminClient | None = None
    _done: dict[tuple[str, str, int], int] = field(default_factory=dict)
    """Deed, topic and partition -> up to where it was done last."""

    def publish(self, group: str, places: Places) -> None:
        """Say that this group has read so far."""
        if moved := self._moved("publish", places):
            asked = self._admin().alter_consumer_group_offsets(
                [ConsumerGroupTopicPartitions(group, moved)], request_timeout=_PATIENCE
            )
            self._finish(asked[group].result, f"consumer group {group}")
            self._remember("publish", moved)

    def delete(self, places: Places) -> None:
        """Delete what is before these offsets."""
        if moved := self._moved("delete", places):
            for place, asked in self._admin().delete_records(moved, request_timeout=_PATIENCE).items():
                self._finish(asked.result, f"records of topic {place.topic}")
            self._remember("delete", moved)

    def _moved(self, deed: str, places: Places) -> list[TopicPartition]:
        return [
            TopicPartition(topic, number, offset)
            for (topic, number), offset in sorted(places.items())
            if self._done.get((deed, topic, number)) != offset
        ]

    def _remember(self, deed: str, places: list[TopicPartition]) -> None:
        self._done |= {(deed, place.topic, place.partition): place.offset for place in places}

    def _finish(self, wait, what: str) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
        try:
            wait(_PATIENCE + 1.0)
        except KafkaException as error:
            said = error.args[0]
            text = self.settings.without_values(said.str())
            raise trouble(said.code(), f"Kafka system {self.settings.system}: {what}", text) from None

    def _admin(self) -> AdminClient:
        if self._client is None:
            self._client = AdminClient(self.settings.asking(), logger=QUIET)
        return self._client
