"""Housekeeping at the brokers after batches: published consumer offsets, and deletion of processed records.

How far an app has read is published as offsets of the consumer group with its name, so that tools that show lag know
it; nobody reads them back. Records of the streams an app makes for itself are deleted once it has read them: their
timestamps are event times, by which retention would delete nothing, or everything at once. Must not be in the path of a
batch.
"""

import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, DeletedRecords  # type: ignore[attr-defined]  # it exports it unsaid

from holdfast.errors import HoldfastError
from holdfast_runtime.streams.kafka.client.connection import QUIET
from holdfast_runtime.streams.kafka.client.errors import KafkaBusyError, trouble
from holdfast_runtime.streams.kafka.client.questions import BrokerQuestions, QuestionRefusedError
from holdfast_runtime.streams.kafka.client.settings import KafkaSettings

_PATIENCE, _NAP = 10.0, 0.05
NextOffsets = Mapping[tuple[str, int], int]
"""Topic and partition -> the next offset to be read."""


@dataclass(slots=True)
class TopicHousekeeping:
    """The housekeeping of one Kafka system."""

    settings: KafkaSettings
    _questions: BrokerQuestions = field(init=False)
    _committer: Consumer | None = None
    _said: list[KafkaError | None] = field(default_factory=list)
    """Results of commits; None is success."""
    _done: dict[tuple[str, str, int], int] = field(default_factory=dict)
    """Action, topic and partition -> the offset it was last done for."""

    def __post_init__(self) -> None:
        self._questions = BrokerQuestions(self.settings, _PATIENCE)

    def publish(self, group: str, positions: NextOffsets) -> None:
        """Publish how far this group has read."""
        if moved := self._moved("publish", positions):
            # Not with an admin client: librdkafka ends the process if its question about a group is not answered in
            # time (librdkafka issue 4605, seen with 2.16).
            try:
                self._consumer(group).commit(offsets=moved, asynchronous=True)
                self._await_commit(group)
            except KafkaBusyError:
                self._abandon_committer()
                raise
            self._remember("publish", moved)

    def delete(self, positions: NextOffsets) -> None:
        """Delete the records before these offsets."""
        if moved := self._moved("delete", positions):

            def ask(client: AdminClient, seconds: float) -> "dict[TopicPartition, Future[DeletedRecords]]":
                return client.delete_records(moved, request_timeout=seconds)

            topics = sorted({topic_partition.topic for topic_partition in moved})
            names = ", ".join(topics)
            try:
                self._questions.answers(f"the deletion of records of {names}", topics, ask)
            except QuestionRefusedError as refusal:
                raise self._trouble(refusal.code, refusal.text, f"records of topic {names}") from None
            self._remember("delete", moved)

    def close(self) -> None:
        """Close the connections."""
        if self._committer is not None:
            self._committer.close()
        self._committer = None
        self._questions.close()

    def _await_commit(self, group: str) -> None:
        deadline = time.monotonic() + _PATIENCE
        while not self._said and time.monotonic() < deadline:
            self._consumer(group).poll(_NAP)
        errors = self._said.copy()
        self._said.clear()
        if not errors:
            message = f"Kafka system {self.settings.system}: consumer group {group}: no answer in {_PATIENCE:.0f} s"
            raise KafkaBusyError(message)
        if errors[-1] is not None:
            text = self.settings.without_values(errors[-1].str())
            raise self._trouble(errors[-1].code(), text, f"consumer group {group}")

    def _abandon_committer(self) -> None:
        """Let the next one be another, without a memory of coordinators, nor of this commit's late result."""
        committer, self._committer, self._said = self._committer, None, []
        if committer is not None:
            threading.Thread(target=committer.close, name="kafka-close", daemon=True).start()

    def _moved(self, deed: str, positions: NextOffsets) -> list[TopicPartition]:
        return [
            TopicPartition(topic, number, offset)
            for (topic, number), offset in sorted(positions.items())
            if self._done.get((deed, topic, number)) != offset
        ]

    def _remember(self, deed: str, moved: list[TopicPartition]) -> None:
        self._done |= {
            (deed, topic_partition.topic, topic_partition.partition): topic_partition.offset
            for topic_partition in moved
        }

    def _trouble(self, code: int, text: str, what: str) -> HoldfastError:
        return trouble(code, f"Kafka system {self.settings.system}: {what}", text)

    def _consumer(self, group: str) -> Consumer:
        if self._committer is None:
            config = {**self.settings.reading(), "group.id": group}
            results = self._said
            callback = {"on_commit": lambda error, _: results.append(error)}
            self._committer = Consumer({**config, **callback}, logger=QUIET)
        return self._committer
