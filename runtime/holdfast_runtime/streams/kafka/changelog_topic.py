"""A log that processes share, in a topic: what an app keeps there of its checkpoint.

A plain value, with the clients of each process beside it. A record is there for good once brokers have acknowledged it,
so the topic keeps all records until they are deleted here. Must not know what the records mean.
"""

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # it exports them unsaid
    AdminClient,
    ListOffsetsResultInfo,
    OffsetSpec,
)

from holdfast.errors import HoldfastError
from holdfast.spec.streams import System
from holdfast_runtime.per_process import PerProcess
from holdfast_runtime.shared_log import LogRecord, RecordsForgottenError
from holdfast_runtime.streams.kafka.admin.bounds import TopicBounds
from holdfast_runtime.streams.kafka.admin.housekeeping import TopicHousekeeping
from holdfast_runtime.streams.kafka.admin.topics import KafkaTopics, TopicUse, wanted
from holdfast_runtime.streams.kafka.client.connection import QUIET, keep_for_ever
from holdfast_runtime.streams.kafka.client.errors import KafkaBusyError, trouble
from holdfast_runtime.streams.kafka.client.questions import NEW_TOPIC, BrokerQuestions, QuestionRefusedError
from holdfast_runtime.streams.kafka.client.settings import KafkaSettings, kafka_settings
from holdfast_runtime.streams.kafka.read.fetcher import make_fetcher

_PATIENCE: Final = 20.0
"""Seconds until brokers are reported as away."""
_AT_ONCE: Final = 200
"""Records that are read at once: each may have half a MiB."""
_SOON = {"linger.ms": "0", "delivery.timeout.ms": str(int(_PATIENCE * 1000))}
_SURELY = {"enable.idempotence": "true", "acks": "all"}
_OLDEST, _END = OffsetSpec.earliest(), OffsetSpec.latest()  # type: ignore[no-untyped-call]


def changelog_topic(app: str) -> str:
    """Return the name of the topic; the dots keep it apart from streams that an app makes for itself."""
    return f"{app}.holdfast.changelog"


@dataclass(frozen=True, slots=True)
class ChangelogTopic:
    """The topic of one app."""

    system: System = field(compare=False)
    app: str
    partitions: int
    secrets: Path | None = None
    """Where the login of the system is."""

    @property
    def topic(self) -> str:
        """The name of the topic."""
        return changelog_topic(self.app)

    @property
    def title(self) -> str:
        """What it is, for people to read."""
        return f"topic {self.topic} of Kafka system {self.system.name}"

    def ensure(self) -> str:
        """Create the topic if it does not exist, refuse one that forgets records, and return its id."""
        assert self.system.kafka is not None  # noqa: S101 - the spec's rules say so
        settings = self.settings()
        spec = wanted(TopicUse.CHANGELOG, self.partitions, self.system.kafka.replication)
        KafkaTopics(settings).ensure(self.topic, spec, ours=True)
        bounds = TopicBounds(settings)
        bounds.made(self.topic)
        return bounds.topic_id(self.topic)

    def append(self, partition: int, key: bytes, value: bytes) -> LogRecord:
        """Write a record for good, and return it as it stands there."""
        offset, at = _CLIENTS.of(self).append(partition, key, value)
        return LogRecord(offset, at, key, value)

    def bounds(self, partition: int) -> tuple[int, int]:
        """Return the offset of the oldest record, and the one behind the newest."""
        return _CLIENTS.of(self).bounds(partition)

    def records(self, partition: int, start: int, end: int) -> Sequence[LogRecord]:
        """Return the records of these offsets; raise `RecordsForgottenError` if some of them are gone."""
        return _CLIENTS.of(self).records(partition, start, end)

    def forget(self, partition: int, before: int) -> None:
        """Delete the records before an offset."""
        _CLIENTS.of(self).forget(partition, before)

    def settings(self) -> KafkaSettings:
        """Return how to talk to the system, with its login, as this process has it."""
        return kafka_settings(self.system, self.secrets)


class _Clients:
    """What one process has of a topic. Threads may use it at once."""

    def __init__(self, settings: KafkaSettings, topic: str) -> None:
        self._settings, self._topic = settings, topic
        self._fetcher = make_fetcher(settings)
        self._questions, self._housekeeping = BrokerQuestions(settings, _PATIENCE), TopicHousekeeping(settings)
        self._producer: Producer | None = None
        self._making, self._asking = threading.Lock(), threading.Lock()

    def append(self, partition: int, key: bytes, value: bytes) -> tuple[int, int]:
        written, producer = Future[Message](), self._opened()
        try:
            producer.produce(self._topic, value, key, partition, on_delivery=partial(_delivered, written))
            message = written.result(_PATIENCE + 5)
        except KafkaException as error:
            self._drop(producer)
            reason: KafkaError = error.args[0]
            text = self._settings.without_values(reason.str())
            raise trouble(reason.code(), f"{self._name} can't be written", text) from None
        except (BufferError, FutureTimeoutError):
            self._drop(producer)
            why = f"{self._name}: what was written was not acknowledged in {_PATIENCE:g} s. Check that its brokers run"
            raise KafkaBusyError(why) from None
        return message.offset() or 0, message.timestamp()[1]

    def bounds(self, partition: int) -> tuple[int, int]:
        with self._asking:
            oldest = self._offset(partition, _OLDEST)
            return oldest, self._offset(partition, _END)

    def _offset(self, partition: int, spec: OffsetSpec) -> int:
        place = TopicPartition(self._topic, partition)

        def ask(client: AdminClient, seconds: float) -> "Future[ListOffsetsResultInfo]":
            return client.list_offsets({place: spec}, request_timeout=seconds)[place]

        try:
            return int(self._questions.answer(f"{self._topic}/{partition}", [self._topic], ask, NEW_TOPIC).offset)
        except QuestionRefusedError as refusal:
            raise trouble(refusal.code, f"{self._name} can't be read", refusal.text) from None

    def records(self, partition: int, start: int, end: int) -> list[LogRecord]:
        ranges = [(first, min(first + _AT_ONCE, end)) for first in range(start, end, _AT_ONCE)]
        return [record for first, last in ranges for record in self._fetched(partition, first, last)]

    def forget(self, partition: int, before: int) -> None:
        with self._asking:
            self._housekeeping.delete({(self._topic, partition): before})

    @property
    def _name(self) -> str:
        return f"Kafka system {self._settings.system}: topic {self._topic}"

    def _fetched(self, partition: int, start: int, end: int) -> list[LogRecord]:
        try:
            rows = self._fetcher.fetch(self._topic, partition, start, end)
        except HoldfastError as error:
            if self.bounds(partition)[0] <= start:
                raise
            raise RecordsForgottenError(str(error)) from error
        columns = (rows.column(name).to_pylist() for name in ("offset", "timestamp", "key", "value"))
        return [
            LogRecord(offset, at, key or b"", value or b"") for offset, at, key, value in zip(*columns, strict=True)
        ]

    def _opened(self) -> Producer:
        with self._making:
            if self._producer is None:
                self._producer = Producer(self._settings.client(_SOON, _SURELY), logger=QUIET)
                threading.Thread(target=self._poll, args=(self._producer,), name="changelog", daemon=True).start()
            return self._producer

    def _poll(self, producer: Producer) -> None:
        """Have what was delivered told as soon as it is known."""
        while producer is self._producer or len(producer):
            producer.poll(0.1)

    def _drop(self, producer: Producer) -> None:
        """Let the next record go by another producer: where this one stands is unknown."""
        with self._making:
            if self._producer is producer:
                self._producer = None
                producer.purge()


def _delivered(written: "Future[Message]", error: KafkaError | None, message: Message) -> None:
    if written.done():
        return
    if error is None:
        written.set_result(message)
    else:
        written.set_exception(KafkaException(error))


_CLIENTS: PerProcess[ChangelogTopic, _Clients] = PerProcess(
    lambda topic: _Clients(topic.settings(), topic.topic), abandon=keep_for_ever
)
