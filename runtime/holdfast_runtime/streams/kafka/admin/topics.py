"""The topics of an app: created as planned, and accepted as they are only if they fit what the spec asks for.

What a topic needs for its use and what the spec asks for are defined in one place; where the spec says nothing, brokers
decide and nothing is checked. A topic appears at one broker before another, so its creator waits until it can be used.
Must not change an existing topic of others; the app's own marker topic may get more partitions.
"""

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TypeVar

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # it exports them unsaid
    AdminClient,
    ClusterMetadata,
    ConfigResource,
    ResourceType,
)
from confluent_kafka.cimpl import NewPartitions, NewTopic

from holdfast.errors import HoldfastError, UserActionError, WorldChangeError
from holdfast.spec.values import millis
from holdfast_runtime.streams.app_streams import ANY_TIME, TopicLimits
from holdfast_runtime.streams.kafka.client.errors import KafkaBusyError, KafkaForbiddenError, trouble
from holdfast_runtime.streams.kafka.client.questions import NEW_TOPIC, BrokerQuestions, QuestionRefusedError
from holdfast_runtime.streams.kafka.client.settings import KafkaSettings
from holdfast_runtime.streams.kafka.client.topic_limits import (
    AHEAD,
    BEHIND,
    CLEANUP,
    FOR_EVER,
    RETENTION,
    TYPE,
    topic_limits,
)
from holdfast_runtime.streams.records import StreamMissingError

MARKERS = {CLEANUP: "compact", "segment.ms": "600000", "min.cleanable.dirty.ratio": "0.1"}
TIMED = {TYPE: "CreateTime", AHEAD: str(ANY_TIME), BEHIND: str(ANY_TIME)}
"""For topics whose record timestamps are event times: accept any time, and keep it unchanged."""
CHANGELOG = {CLEANUP: "delete", RETENTION: FOR_EVER, "retention.bytes": FOR_EVER}
# Retention goes by event time, so a history that is read again would expire at once.
INTERMEDIATE = {RETENTION: FOR_EVER, **TIMED}


class TopicUse(Enum):
    """What a topic is for."""

    READ = auto()
    """Others write it, and they decide on its replication."""
    TIMED_READ = auto()
    """Another app writes it with control messages. Whichever of the two comes first makes it, as `TIMED`."""
    WRITTEN = auto()
    """The app writes it for others."""
    TIMED = auto()
    """The app writes it, and readers take event times from the timestamps of its records."""
    INTERMEDIATE = auto()
    """The app writes and reads it."""
    MARKERS = auto()
    """The app notes there what it has written."""
    CHANGELOG = auto()
    """The app keeps there what it needs of its checkpoint in each batch."""


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """The required properties of a topic."""

    partitions: int
    replication: int | None
    """None: the brokers' default."""
    config: Mapping[str, str]
    """Settings for creating it."""
    checked: Mapping[str, str]
    """Those of them that an existing topic must have too."""
    others: bool = False
    """Whether others decide about the replicas of an existing topic."""


def wanted(use: TopicUse, partitions: int, replication: int | None, retention: str | None = None) -> TopicSpec:
    """Return the spec of a topic for this use, with the settings of its system and stream."""
    if use is TopicUse.MARKERS:
        return TopicSpec(partitions, replication, MARKERS, {})
    if use is TopicUse.CHANGELOG:
        # Always checked: a record that the brokers delete would be missing in a restore.
        return TopicSpec(partitions, replication, CHANGELOG, CHANGELOG)
    if use is TopicUse.INTERMEDIATE:
        # Always checked: otherwise records could be deleted before they are read, or event times changed or refused.
        return TopicSpec(partitions, replication, INTERMEDIATE, INTERMEDIATE)
    checked = _kept(retention)
    timed = {**checked, **TIMED}
    if use is TopicUse.TIMED:
        return TopicSpec(partitions, replication, timed, timed)
    made = timed if use is TopicUse.TIMED_READ else checked
    return TopicSpec(partitions, replication, made, checked, others=use in (TopicUse.READ, TopicUse.TIMED_READ))


def _kept(retention: str | None) -> dict[str, str]:
    if retention is None:
        return {}
    return {RETENTION: FOR_EVER if retention == "Forever" else str(millis(retention))}


_DEFAULT = -1
_T = TypeVar("_T")
_FIELDS = "kafka.replication of the system, retention of the stream"


@dataclass(slots=True)
class KafkaTopics:
    """Creates and checks the topics of one Kafka system."""

    settings: KafkaSettings
    patience: float = 30.0
    """Seconds until an unanswered question is given up; a person at a terminal waits less."""
    _questions: BrokerQuestions = field(init=False)

    def __post_init__(self) -> None:
        self._questions = BrokerQuestions(self.settings, self.patience)

    def count(self, topic: str) -> int | None:
        """Return the number of partitions of a topic, or None if it does not exist."""
        with self._explained(topic):
            replicas = self._found(topic)
        return None if replicas is None else len(replicas)

    def names(self) -> list[str]:
        """Return the names of the topics that the login may see, without those of Kafka itself."""
        with self._explained("names"):
            return [name for name in self._cluster("the names of topics").topics if name[:2] != "__"]

    def ensure(self, topic: str, spec: TopicSpec, *, ours: bool = False, is_made: bool = True) -> int:
        """Create the topic if it does not exist, check it, and return its number of partitions.

        `ours` says that nobody else uses it: more partitions are fine, and missing ones are added. Unless `is_made`,
        raise `StreamMissingError` in place of creating it.
        """
        with self._explained(topic):
            # One that others have made may be there for one broker before another.
            replicas = self._found(topic, () if is_made else NEW_TOPIC)
            if not replicas:
                if is_made:
                    self._make(topic, spec)
                replicas = self._awaited(topic)
            # Check a new one too: somebody else may have created it first.
            self._check(topic, spec, replicas)
            if ours and len(replicas) < spec.partitions:
                self._grow(topic, spec.partitions)
                replicas = self._awaited(topic, spec.partitions)
        count = len(replicas)
        if count == spec.partitions or (ours and count > spec.partitions):
            return count
        message = (
            f"{self._full_name(topic)} has {count} partitions, but {spec.partitions} are planned; set "
            f"partitions: {count} for its stream, or write to another topic"
        )
        raise UserActionError(message, code="TopicPartitionsError")

    def limits(self, topic: str) -> TopicLimits:
        """Return the limits of a topic, as far as the login may read them."""
        try:
            with self._explained(topic):
                return topic_limits(self._config(topic))
        except (KafkaForbiddenError, StreamMissingError):
            return TopicLimits()

    def _answer(
        self, topic: str, ask: Callable[[AdminClient, float], "Future[_T]"], patient_with: Collection[int] = ()
    ) -> _T:
        return self._questions.answer(f"topic {topic}", [topic], ask, patient_with)

    def _full_name(self, topic: str) -> str:
        return f"Kafka system {self.settings.system}: topic {topic}"

    @contextmanager
    def _explained(self, topic: str) -> Iterator[None]:
        try:
            yield
        except QuestionRefusedError as refusal:
            raise trouble(refusal.code, self._full_name(topic), refusal.text) from None

    def _make(self, topic: str, spec: TopicSpec) -> None:
        replication = _DEFAULT if spec.replication is None else spec.replication
        new = NewTopic(topic, spec.partitions, replication, config=dict(spec.config))
        try:
            self._answer(topic, lambda client, seconds: client.create_topics([new], operation_timeout=seconds)[topic])
        except QuestionRefusedError as refusal:
            if refusal.code == KafkaError.INVALID_REPLICATION_FACTOR:
                raise self._no_room(topic, spec, refusal.text) from None
            if refusal.code != KafkaError.TOPIC_ALREADY_EXISTS:
                raise

    def _grow(self, topic: str, partitions: int) -> None:
        more = NewPartitions(topic, partitions)
        try:
            self._answer(
                topic, lambda client, seconds: client.create_partitions([more], operation_timeout=seconds)[topic]
            )
        except QuestionRefusedError as refusal:
            # Also when the first of two requests was served and its answer lost.
            if refusal.code != KafkaError.INVALID_PARTITIONS or len(self._found(topic) or ()) < partitions:
                raise

    def _cluster(self, what: str) -> ClusterMetadata:
        def ask(client: AdminClient, seconds: float) -> "Future[ClusterMetadata]":
            answer = Future[ClusterMetadata]()
            try:
                # Without a name, no broker creates a topic.
                answer.set_result(client.list_topics(timeout=seconds))
            except KafkaException as error:
                answer.set_exception(error)
            return answer

        return self._questions.answer(what, [], ask)

    def _no_room(self, topic: str, spec: TopicSpec, why: str) -> HoldfastError:
        """Return why there are not enough brokers for the replicas of a topic."""
        # The controller takes for dead those that are only slow; they may be back a moment later.
        if "fenced" in why:
            return trouble(KafkaError.BROKER_NOT_AVAILABLE, self._full_name(topic), why)
        brokers = len(self._cluster("brokers").brokers)
        replicas = "the brokers' default number of" if spec.replication is None else spec.replication
        return WorldChangeError(
            f"{self._full_name(topic)} can't be made with {replicas} replicas, as the cluster has {brokers} "
            f"broker{'' if brokers == 1 else 's'}: set kafka.replication of the system to at most {brokers}, or "
            "add brokers",
            code="TooFewBrokersError",
        )

    def _check(self, topic: str, spec: TopicSpec, replicas: Sequence[int]) -> None:
        """Refuse a topic that differs from the spec."""
        differs: list[tuple[str, object, object]] = []
        if spec.replication is not None and not spec.others:
            differs += [("replication", actual, spec.replication) for actual in {*replicas} - {spec.replication}]
        if spec.checked:
            config = self._config(topic)
            # A setting that a broker does not have belongs to a newer release.
            differs += [
                (key, config[key], value) for key, value in spec.checked.items() if config.get(key, value) != value
            ]
        if differs:
            differences = ", and ".join(f"{name} {actual}, but {value} is asked for" for name, actual, value in differs)
            why = (
                "; event times travel as timestamps of its records"
                if TIMED.keys() & {difference[0] for difference in differs}
                else ""
            )
            message = (
                f"{self._full_name(topic)} has {differences}{why}. Holdfast changes no topic that is there: change it "
                f"with Kafka's tools, or let the spec ask for what it has ({_FIELDS})"
            )
            raise UserActionError(message, code="TopicDiffersError")

    def _config(self, topic: str) -> dict[str, str]:
        """Return the settings of a topic that is there, though perhaps not yet for the broker that is asked."""
        resource = ConfigResource(ResourceType.TOPIC, topic)
        settings = self._answer(
            topic,
            lambda client, seconds: client.describe_configs([resource], request_timeout=seconds)[resource],
            NEW_TOPIC,
        )
        return {key: str(setting.value) for key, setting in settings.items()}

    def _awaited(self, topic: str, at_least: int = 1) -> list[int]:
        deadline = time.monotonic() + self.patience
        while time.monotonic() < deadline:
            replicas = self._found(topic)
            if replicas is not None and len(replicas) >= at_least:
                return replicas
        message = f"{self._full_name(topic)} was made, but no broker shows it within {self.patience:.0f} s"
        raise KafkaBusyError(message)

    def _found(self, topic: str, patient_with: Collection[int] = ()) -> list[int] | None:
        """Return the replicas of each partition; empty while the topic is being created, None if it does not exist."""
        named = TopicCollection([topic])
        try:
            description = self._answer(
                topic,
                lambda client, seconds: client.describe_topics(named, request_timeout=seconds)[topic],
                patient_with,
            )
        except QuestionRefusedError as refusal:
            if refusal.code == KafkaError.UNKNOWN_TOPIC_OR_PART:
                return None
            raise
        # While it is being created, it has partitions without a leader.
        made = all(partition.leader is not None for partition in description.partitions)
        return [len(partition.replicas) for partition in description.partitions] if made else []
