"""Housekeeping at the brokers after batches: published consumer offsets, and deletion of processed records.

How far an app has read is published as offsets of the consumer group with its name, so that tools that show lag know
it; nobody reads them back. Records of the streams an app makes for itself are deleted once it has read them: their
timestamps are event times, by which retention would delete nothing, or everything at once. Must not be in the path of a
batch.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from holdfast.errors import HoldfastError
from holdfast_runtime.streams.kafka.client.connection import QUIET
from holdfast_runtime.streams.kafka.client.errors import KafkaBusyError, trouble
from holdfast_runtime.streams.kafka.client.settings import KafkaSettings

_PATIENCE, _NAP = 10.0, 0.05
NextOffsets = Mapping[tuple[str, int], int]
"""Topic and partition -> the next offset to be read."""


@dataclass(slots=True)
class TopicHousekeeping:
    """The housekeeping of one Kafka system."""

    settings: KafkaSettings
    _client: AdminClient | None = None
    _committer: Consumer | None = None
    _said: list[KafkaError | None] = field(default_factory=list)
    """Results of commits; None is success."""
    _done: dict[tuple[str, str, int], int] = field(default_factory=dict)
    """Action, topic and partition -> the offset it was last done for."""

    def publish(self, group: str, places: NextOffsets) -> None:
        """Publish how far this group has read."""
        if moved := self._moved("publish", places):
            # Not with an admin client: librdkafka ends the process if its question about a group is not answered in
            # time (librdkafka issue 4605, seen with 2.16).
            self._consumer(group).commit(offsets=moved, asynchronous=True)
            self._await_commit(group)
            self._remember("publish", moved)

    def delete(self, places: NextOffsets) -> None:
        """Delete the records before these offsets."""
        if moved := self._moved("delete", places):
            for place, asked in self._admin().delete_records(moved, request_timeout=_PATIENCE).items():
                try:
                    asked.result(_PATIENCE + 1.0)
                except KafkaException as error:
                    raise self._trouble(error.args[0], f"records of topic {place.topic}") from None
            self._remember("delete", moved)

    def close(self) -> None:
        """Close the connections."""
        if self._committer is not None:
            self._committer.close()
        self._committer = self._client = None

    def _await_commit(self, group: str) -> None:
        deadline = time.monotonic() + _PATIENCE
        while not self._said and time.monotonic() < deadline:
            self._consumer(group).poll(_NAP)
        said, self._said = self._said, []
        if not said:
            message = f"Kafka system {self.settings.system}: consumer group {group}: no answer in {_PATIENCE:.0f} s"
            raise KafkaBusyError(message)
        if said[-1] is not None:
            raise self._trouble(said[-1], f"consumer group {group}")

    def _moved(self, deed: str, places: NextOffsets) -> list[TopicPartition]:
        return [
            TopicPartition(topic, number, offset)
            for (topic, number), offset in sorted(places.items())
            if self._done.get((deed, topic, number)) != offset
        ]

    def _remember(self, deed: str, places: list[TopicPartition]) -> None:
        self._done |= {(deed, place.topic, place.partition): place.offset for place in places}

    def _trouble(self, said: KafkaError, what: str) -> HoldfastError:
        text = self.settings.without_values(said.str())
        return trouble(said.code(), f"Kafka system {self.settings.system}: {what}", text)

    def _consumer(self, group: str) -> Consumer:
        if self._committer is None:
            own = {**self.settings.reading(), "group.id": group}
            told = {"on_commit": lambda error, _: self._said.append(error)}
            self._committer = Consumer({**own, **told}, logger=QUIET)
        return self._committer

    def _admin(self) -> AdminClient:
        if self._client is None:
            self._client = AdminClient(self.settings.asking(), logger=QUIET)
        return self._client
