"""The bounds of Kafka partitions: where each begins, and up to where it is committed.

One client per process and system asks for all topics of an app at once: for ends each time, for what changes slowly
(oldest offsets, partition counts, topic ids) now and then. Must not create topics by asking.
"""

import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from threading import Lock
from typing import Any, TypeVar

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]  # it exports it unsaid

from holdfast_runtime.streams.kafka.client.connection import ConnectionState, admin_client, answered, keep_for_ever
from holdfast_runtime.streams.kafka.client.errors import KafkaBusyError, is_unknown, trouble
from holdfast_runtime.streams.kafka.client.settings import KafkaSettings
from holdfast_runtime.streams.records import OffsetBounds, StreamMissingError

_FRESH = 10.0
"""Seconds for which slowly changing facts are cached."""
_GRACE = 0.5
"""Seconds to allow on top of the client's own timeout."""
_PAUSE = 0.1
"""Seconds before a question is asked again."""
_ASK_OLDEST, _ASK_END = OffsetSpec.earliest(), OffsetSpec.latest()  # type: ignore[no-untyped-call]

_Offsets = dict[TopicPartition, "Future[Any]"]
_T = TypeVar("_T")


@dataclass(slots=True)
class _Topic:
    """What is cached of a topic."""

    id: str
    partitions: int
    asked: float
    oldest: dict[int, int]


class TopicBounds:
    """Asks about the topics of one system."""

    def __init__(self, settings: KafkaSettings, timeout: float = 10.0) -> None:
        """`timeout`: seconds until an unanswered question is given up."""
        self._settings, self._timeout = settings, timeout
        self._lock, self._process = Lock(), os.getpid()
        self._said = ConnectionState(settings)
        self._client: AdminClient | None = None
        self._known: dict[str, _Topic] = {}

    def bounds(self, topics: Collection[str]) -> dict[str, dict[int, OffsetBounds]]:
        """Return the current committed offsets of each partition of these topics."""
        return self._patiently(topics, lambda: self._bounds(sorted(set(topics))))

    def topic_id(self, topic: str) -> str:
        """Return the id of a topic, at most 10 s old. It changes if the topic is created again."""

        def asked() -> str:
            self._describe([topic])
            return self._known[topic].id

        return self._patiently([topic], asked)

    def _patiently(self, topics: Collection[str], ask: Callable[[], _T]) -> _T:
        """Return the answer, asking again while brokers are in a moment of change."""
        if self._process != os.getpid():  # after a fork
            if self._client is not None:
                keep_for_ever(self._client)
            self._process, self._lock, self._client = os.getpid(), Lock(), None
        deadline = time.monotonic() + self._timeout
        with self._lock:
            while True:
                try:
                    return ask()
                except KafkaBusyError:
                    if time.monotonic() >= deadline:
                        raise
                except StreamMissingError:
                    # Known topics that are gone, or have fewer partitions, were created again; unknown ones never
                    # existed.
                    if not any(self._known.pop(topic, None) for topic in topics):
                        raise
                time.sleep(_PAUSE)

    def _bounds(self, topics: list[str]) -> dict[str, dict[int, OffsetBounds]]:
        if not topics:
            return {}
        stale = self._describe(topics)
        oldest = self._offsets(stale, _ASK_OLDEST)
        ends = self._offsets(topics, _ASK_END)
        for at, found in self._answered(oldest, stale).items():
            self._known[at.topic].oldest[at.partition] = found.offset
        bounds: dict[str, dict[int, OffsetBounds]] = {topic: {} for topic in topics}
        for at, end in self._answered(ends, topics).items():
            begin = self._known[at.topic].oldest[at.partition]
            if end.offset < begin:
                message = (
                    f"Kafka system {self._settings.system}: topic {at.topic} was created again while it was asked for"
                )
                raise StreamMissingError(message)
            epoch = end.leader_epoch  # negative or missing: of a release that says none
            bounds[at.topic][at.partition] = OffsetBounds(begin, end.offset, epoch if (epoch or 0) >= 0 else None)
        return bounds

    def _describe(self, topics: list[str]) -> list[str]:
        """Learn counts and ids of these topics; return those whose oldest offsets must be asked for, too."""
        if "" in topics:  # the client refuses to ask for it
            raise trouble(
                KafkaError.UNKNOWN_TOPIC_OR_PART, f"Kafka system {self._settings.system}: no topic has no name"
            )
        now = time.monotonic()
        stale = [topic for topic in topics if topic not in self._known or now - self._known[topic].asked >= _FRESH]
        if stale:
            # Not list_topics(name): on a broker with auto.create.topics.enable that creates the topic.
            futures = self._connected().describe_topics(TopicCollection(stale), request_timeout=self._timeout)
            for topic, found in self._answered(futures, stale).items():
                self._known[topic] = _Topic(str(found.topic_id), len(found.partitions), now, {})
        # If only its id was asked for, a topic is known without its oldest offsets.
        return [topic for topic in topics if len(self._known[topic].oldest) < self._known[topic].partitions]

    def _offsets(self, topics: Iterable[str], which: OffsetSpec) -> _Offsets:
        wanted = {
            TopicPartition(topic, partition): which
            for topic in topics
            for partition in range(self._known[topic].partitions)
        }
        if not wanted:
            return {}
        return self._connected().list_offsets(
            wanted, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=self._timeout
        )

    def _answered(self, futures: Mapping[Any, "Future[Any]"], topics: Collection[str]) -> dict[Any, Any]:
        """Return all answers, or raise the first refusal."""
        if not answered(self._connected(), self._said, futures.values(), self._timeout + _GRACE):
            raise self._silent(topics)
        for asked, future in futures.items():
            error = future.exception()
            if isinstance(error, KafkaException) and isinstance(error.args[0], KafkaError):
                raise self._refused(asked, error.args[0], topics)
            if error is not None:
                raise error
        self._said.answered()
        return {asked: future.result() for asked, future in futures.items()}

    def _refused(self, asked: object, error: KafkaError, topics: Collection[str]) -> Exception:
        code = error.code()
        # The topic was described a moment ago, so the client can't reach its leader.
        if code in {KafkaError._TIMED_OUT, KafkaError._TRANSPORT} or is_unknown(code):  # noqa: SLF001 - no other names
            return self._silent(topics)
        of = f"{asked.topic}/{asked.partition}" if isinstance(asked, TopicPartition) else str(asked)
        text = self._settings.without_values(error.str())
        return trouble(code, f"Kafka system {self._settings.system}: no answer about {of}", text)

    def _silent(self, topics: Collection[str]) -> Exception:
        return self._said.silent(", ".join(topics), self._timeout)

    def _connected(self) -> AdminClient:
        if self._client is None:
            self._client = admin_client(self._settings, self._said)
        return self._client
