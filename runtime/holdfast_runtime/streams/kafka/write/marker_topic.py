"""The marker topic of an app, read to its very end and written outside of transactions.

What is read is complete: a reader that meets an open transaction before the end of a partition waits for it, or raises.
Must not know what notes mean.
"""

import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TypeVar

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # it exports it unsaid
    AdminClient,
    ListOffsetsResultInfo,
    OffsetSpec,
)

from holdfast.errors import AwayError
from holdfast_runtime.clocks import now
from holdfast_runtime.streams.kafka.client.connection import QUIET
from holdfast_runtime.streams.kafka.client.errors import END_OF_PARTITION, is_passing, trouble
from holdfast_runtime.streams.kafka.client.questions import NEW_TOPIC, BrokerQuestions, QuestionRefusedError
from holdfast_runtime.streams.kafka.client.settings import KafkaSettings
from holdfast_runtime.streams.kafka.write.channel import Channel, deliver, open_channel
from holdfast_runtime.streams.kafka.write.marker_notes import NoteRecord
from holdfast_runtime.streams.records import written_batch

_PATIENCE = 30.0
_TAIL = 32
_AT_ONCE = 500
_SURELY = {"enable.idempotence": "true", "acks": "all"}
_OLDEST, _END = OffsetSpec.earliest(), OffsetSpec.latest()  # type: ignore[no-untyped-call]
T = TypeVar("T")


@dataclass(slots=True)
class MarkerTopic:
    """One app's marker topic, as one process sees it."""

    settings: KafkaSettings
    topic: str
    patience: float = _PATIENCE
    _consumer: Consumer | None = None
    _questions: BrokerQuestions | None = None
    _channel: Channel | None = None
    """Stays open: a writer that is exactly once takes half a second to begin, and an attempt writes three times."""

    def close(self) -> None:
        """Close the connections."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        if self._questions is not None:
            self._questions.close()

    def read(self, partition: int) -> list[NoteRecord]:
        """Return all notes of a partition, the oldest first."""
        return self._explained(lambda: self._from(partition, None))

    def tail(self, partition: int) -> list[NoteRecord]:
        """Return the newest notes of a partition, possibly none."""
        return self._explained(lambda: self._from(partition, _TAIL))

    def write(self, notes: Iterable[tuple[int, NoteRecord]]) -> None:
        """Write notes to their partitions; they are durable when it returns."""
        placed = [(self.topic, partition, written_batch([key], [value], now())) for partition, (key, value) in notes]
        if not placed:
            return
        if self._channel is None:
            self._channel = open_channel(self.settings, self.settings.client({}, _SURELY))
        try:
            deliver(self._channel, self.settings, self._full_name, placed, self.patience)
        except BaseException:
            self.close()  # what was not delivered must not come with a later write
            raise

    @property
    def _full_name(self) -> str:
        return f"Kafka system {self.settings.system}: topic {self.topic}"

    def _from(self, partition: int, tail: int | None) -> list[NoteRecord]:
        """Return the notes among the last `tail` offsets, or all."""
        consumer, (oldest, end) = self._open(), self._bounds(partition)
        start = oldest if tail is None else max(oldest, end - tail)
        if start >= end:
            return []
        consumer.assign([TopicPartition(self.topic, partition, start)])
        try:
            return self._to_end(consumer, partition, end)
        finally:
            consumer.unassign()

    def _bounds(self, partition: int) -> tuple[int, int]:
        """Return the oldest offset and the end, committed or not: a consumer would only report what it may see."""
        if self._questions is None:
            self._questions = BrokerQuestions(self.settings, self.patience)
        topic_partition = TopicPartition(self.topic, partition)

        def ask(client: AdminClient, seconds: float) -> "dict[OffsetSpec, Future[ListOffsetsResultInfo]]":
            isolation = IsolationLevel.READ_UNCOMMITTED
            return {
                spec: client.list_offsets({topic_partition: spec}, isolation_level=isolation, request_timeout=seconds)[
                    topic_partition
                ]
                for spec in (_OLDEST, _END)
            }

        try:
            bounds = self._questions.answers(f"{self.topic}/{partition}", [self.topic], ask, NEW_TOPIC)
        except QuestionRefusedError as refusal:
            raise trouble(refusal.code, f"{self._full_name} can't be read", refusal.text) from None
        return bounds[_OLDEST].offset, bounds[_END].offset

    def _to_end(self, consumer: Consumer, partition: int, end: int) -> list[NoteRecord]:
        notes: list[NoteRecord] = []
        deadline = time.monotonic() + self.patience
        while time.monotonic() < deadline:
            for received in _some(consumer):
                error = received.error()
                if error is None:
                    notes.append((received.key() or b"", received.value()))
                elif error.code() == END_OF_PARTITION and (received.offset() or 0) >= end:
                    return notes
                elif error.code() != END_OF_PARTITION and not is_passing(error.code()):
                    raise KafkaException(error)
        message = (
            f"{self._full_name}: partition {partition} can't be read to its end at {end}: a transaction of another "
            f"process is still open there"
        )
        raise AwayError(message, code="MarkersHeldBackError")

    def _explained(self, read: Callable[[], T]) -> T:
        try:
            return read()
        except KafkaException as error:
            self.close()
            kafka_error: KafkaError = error.args[0]
            raise trouble(kafka_error.code(), f"{self._full_name} can't be read", kafka_error.str()) from None

    def _open(self) -> Consumer:
        if self._consumer is None:
            # The client requires a group, though it is not used.
            config = {**self.settings.reading(), "fetch.wait.max.ms": "10", "group.id": self.topic}
            self._consumer = Consumer(config, logger=QUIET)
        return self._consumer


def _some(consumer: Consumer) -> list[Message]:
    """Return available messages, else the next one: a request for many would wait for all of them."""
    return consumer.consume(_AT_ONCE, 0) or consumer.consume(1, 0.2)
