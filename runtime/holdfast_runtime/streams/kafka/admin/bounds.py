"""The bounds of Kafka partitions: where each begins, and up to where it is committed.

One client per process and system asks for all topics of an app at once: for ends each time, for what changes slowly
(oldest offsets, partition counts, topic ids) now and then. Must not create topics by asking.
"""

import os
import time
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from threading import Lock
from typing import Any, TypeVar

from confluent_kafka import IsolationLevel, KafkaError, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]  # it exports it unsaid

from holdfast_runtime.streams.kafka.client.errors import trouble
from holdfast_runtime.streams.kafka.client.questions import NEW_TOPIC, Ask, BrokerQuestions, QuestionRefusedError
from holdfast_runtime.streams.kafka.client.settings import KafkaSettings
from holdfast_runtime.streams.records import OffsetBounds, StreamMissingError

_FRESH = 10.0
"""Seconds for which slowly changing facts are cached."""
_LEARNT = 60.0
"""Seconds after which all brokers know of a new topic."""
_PAUSE = 0.1
"""Seconds before a topic that was created again is asked for."""
_ASK_OLDEST, _ASK_END = OffsetSpec.earliest(), OffsetSpec.latest()  # type: ignore[no-untyped-call]

_Offsets = dict[TopicPartition, Any]
_K = TypeVar("_K")
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
        self._settings = settings
        self._questions = BrokerQuestions(settings, timeout)
        self._lock, self._process = Lock(), os.getpid()
        self._known: dict[str, _Topic] = {}
        self._made: dict[str, float] = {}

    def made(self, topic: str) -> None:
        """Be patient with this topic, which was found or made just now, though perhaps at another broker."""
        self._made[topic] = time.monotonic()

    def bounds(self, topics: Collection[str]) -> dict[str, dict[int, OffsetBounds]]:
        """Return the current committed offsets of each partition of these topics."""
        return self._patiently(topics, lambda: self._bounds(sorted(set(topics))))

    def written_ends(self, topic: str) -> dict[int, int]:
        """Return the ends of a topic's partitions, with records of transactions that are not over."""

        def asked() -> dict[int, int]:
            self._describe([topic])
            ends = dict.fromkeys(self._partitions([topic]), _ASK_END)

            def ask(client: AdminClient, seconds: float) -> "dict[TopicPartition, Future[Any]]":
                isolation = IsolationLevel.READ_UNCOMMITTED
                return client.list_offsets(ends, isolation_level=isolation, request_timeout=seconds)

            answers = self._answers([topic], ask)
            return {topic_partition.partition: end.offset for topic_partition, end in answers.items()}

        return self._patiently([topic], asked)

    def topic_id(self, topic: str) -> str:
        """Return the id of a topic, at most 10 s old. It changes if the topic is created again."""

        def asked() -> str:
            self._describe([topic])
            return self._known[topic].id

        return self._patiently([topic], asked)

    def _patiently(self, topics: Collection[str], ask: Callable[[], _T]) -> _T:
        """Return the answer, asking again for topics that were created again."""
        if self._process != os.getpid():  # after a fork
            self._process, self._lock = os.getpid(), Lock()
        with self._lock:
            while True:
                try:
                    return ask()
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
        oldest, ends = self._offsets(stale, topics)
        for topic_partition, begin in oldest.items():
            self._known[topic_partition.topic].oldest[topic_partition.partition] = begin.offset
        bounds: dict[str, dict[int, OffsetBounds]] = {topic: {} for topic in topics}
        for topic_partition, end in ends.items():
            begin = self._known[topic_partition.topic].oldest[topic_partition.partition]
            if end.offset < begin:
                message = (
                    f"Kafka system {self._settings.system}: topic {topic_partition.topic} was created again while it "
                    f"was asked for"
                )
                raise StreamMissingError(message)
            epoch = end.leader_epoch  # negative or missing: of a release that says none
            bounds[topic_partition.topic][topic_partition.partition] = OffsetBounds(
                begin, end.offset, epoch if (epoch or 0) >= 0 else None
            )
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

            def ask(client: AdminClient, seconds: float) -> "dict[str, Future[Any]]":
                return client.describe_topics(TopicCollection(stale), request_timeout=seconds)

            for topic, description in self._answers(stale, ask).items():
                self._known[topic] = _Topic(str(description.topic_id), len(description.partitions), now, {})
        # If only its id was asked for, a topic is known without its oldest offsets.
        return [topic for topic in topics if len(self._known[topic].oldest) < self._known[topic].partitions]

    def _offsets(self, stale: Iterable[str], topics: Collection[str]) -> tuple[_Offsets, _Offsets]:
        """Return the oldest offsets of the partitions of stale topics, and the ends of those of all."""
        oldest, ends = self._partitions(stale), self._partitions(topics)

        def ask(client: AdminClient, seconds: float) -> "dict[tuple[bool, TopicPartition], Future[Any]]":
            return {
                (is_end, topic_partition): future
                for is_end, topic_partitions, spec in ((False, oldest, _ASK_OLDEST), (True, ends, _ASK_END))
                if topic_partitions
                for topic_partition, future in client.list_offsets(
                    dict.fromkeys(topic_partitions, spec),
                    isolation_level=IsolationLevel.READ_COMMITTED,
                    request_timeout=seconds,
                ).items()
            }

        answers = self._answers(topics, ask)
        return {topic_partition: answers[False, topic_partition] for topic_partition in oldest}, {
            topic_partition: answers[True, topic_partition] for topic_partition in ends
        }

    def _partitions(self, topics: Iterable[str]) -> list[TopicPartition]:
        return [TopicPartition(topic, number) for topic in topics for number in range(self._known[topic].partitions)]

    def _answers(self, topics: Collection[str], ask: Ask[_K, Any]) -> dict[_K, Any]:
        made = any(time.monotonic() - self._made.get(topic, -_LEARNT) < _LEARNT for topic in topics)
        try:
            return self._questions.answers(", ".join(topics), topics, ask, NEW_TOPIC if made else ())
        except QuestionRefusedError as refusal:
            what = f"Kafka system {self._settings.system}: no answer about {_name(refusal.part)}"
            raise trouble(refusal.code, what, refusal.text) from None


def _name(part: object) -> str:
    match part:
        case (_, TopicPartition() as at):
            return f"{at.topic}/{at.partition}"
        case _:
            return str(part)
