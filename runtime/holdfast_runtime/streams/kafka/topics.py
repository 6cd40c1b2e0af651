"""Why: topics an app writes are made as it was planned, and those that are there are taken only if they fit.

A topic appears at one broker before it does at another, so whoever makes one waits until it can be used. Must not
change a topic that is there.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from holdfast.errors import UserActionError
from holdfast_runtime.streams.kafka.quiet import QUIET
from holdfast_runtime.streams.kafka.settings import KafkaSettings
from holdfast_runtime.streams.kafka.trouble import KafkaBusyError, trouble

_PATIENCE = 30.0
_DEFAULT = -1
FOR_EVER = "-1"
MARKERS = {"cleanup.policy": "compact", "segment.ms": "600000", "min.cleanable.dirty.ratio": "0.1"}
INTERMEDIATE = {
    # Event times are the timestamps of its records: by them, a history that is read again would be old at once.
    "retention.ms": FOR_EVER,
    "message.timestamp.type": "CreateTime",
    "message.timestamp.after.max.ms": str(2**63 - 1),
    "message.timestamp.before.max.ms": str(2**63 - 1),
}


class TopicPartitionsError(UserActionError):
    """A topic has another number of partitions than it must have."""


@dataclass(slots=True)
class Topics:
    """The topics of one Kafka system, to be made."""

    settings: KafkaSettings
    _client: AdminClient | None = None

    def count(self, topic: str) -> int | None:
        """How many partitions a topic has; None: it is not there."""
        try:
            return self._count(self._asked(), topic)
        except KafkaException as error:
            raise trouble(error.args[0].code(), self._where(topic), error.args[0].str()) from None

    def ensure(self, topic: str, partitions: int, config: Mapping[str, str], *, ours: bool = False) -> int:
        """The topic, made with so many partitions if it is not there; how many it has.

        `ours`: nobody else uses it; more partitions are well, and where they are fewer it gets more.
        """
        client = self._asked()
        try:
            found = self._count(client, topic)
            if not found:
                self._make(client, topic, partitions, config)
                found = self._awaited(client, topic)
            if ours and found < partitions:
                client.create_partitions([NewPartitions(topic, partitions)])[topic].result(_PATIENCE)
                found = self._awaited(client, topic, partitions)
        except KafkaException as error:
            raise trouble(error.args[0].code(), self._where(topic), error.args[0].str()) from None
        if found == partitions or (ours and found > partitions):
            return found
        message = (
            f"{self._where(topic)} has {found} partitions, but {partitions} are planned; set "
            f"partitions: {found} for its stream, or write to another topic"
        )
        raise TopicPartitionsError(message)

    def _asked(self) -> AdminClient:
        if self._client is None:
            self._client = AdminClient(self.settings.asking(), logger=QUIET)
        return self._client

    def _where(self, topic: str) -> str:
        return f"Kafka system {self.settings.system}: topic {topic}"

    def _make(self, client: AdminClient, topic: str, partitions: int, config: Mapping[str, str]) -> None:
        new = NewTopic(topic, partitions, _DEFAULT, config=dict(config))
        try:
            client.create_topics([new], operation_timeout=_PATIENCE)[topic].result(_PATIENCE)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise

    def _awaited(self, client: AdminClient, topic: str, at_least: int = 1) -> int:
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            found = self._count(client, topic)
            if found is not None and found >= at_least:
                return found
        message = f"{self._where(topic)} was made, but no broker shows it within {_PATIENCE:.0f} s"
        raise KafkaBusyError(message)

    @staticmethod
    def _count(client: AdminClient, topic: str) -> int | None:
        try:
            said = client.describe_topics(TopicCollection([topic]), request_timeout=_PATIENCE)[topic].result(_PATIENCE)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                return None
            raise
        # One that is just being made has partitions without a leader.
        return len(said.partitions) if all(one.leader is not None for one in said.partitions) else 0
