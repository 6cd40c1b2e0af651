"""The topics an app writes: made as planned, and taken as they are only where they fit what the spec asks for.

What a topic needs for its use and what the spec asks for stand in one place; where the spec says nothing, brokers
decide and nothing is checked. A topic appears at one broker before it does at another, so whoever makes one waits
until it can be used. Must not change a topic of others that is there; the app's own marker topic may get more
partitions.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TypeVar

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # it exports them unsaid
    AdminClient,
    ConfigResource,
    ResourceType,
)
from confluent_kafka.cimpl import NewPartitions, NewTopic

from holdfast.errors import UserActionError, WorldChangeError
from holdfast.spec.values import millis
from holdfast_runtime.streams.kafka.client.connection import ConnectionState, admin_client, answered
from holdfast_runtime.streams.kafka.client.errors import KafkaBusyError, KafkaForbiddenError, trouble
from holdfast_runtime.streams.kafka.client.settings import KafkaSettings
from holdfast_runtime.streams.kafka.client.topic_limits import AHEAD, BEHIND, TYPE, topic_limits
from holdfast_runtime.streams.limits import ANY_TIME, TopicLimits
from holdfast_runtime.streams.records import StreamMissingError

FOR_EVER = "-1"
_RETENTION = "retention.ms"
MARKERS = {"cleanup.policy": "compact", "segment.ms": "600000", "min.cleanable.dirty.ratio": "0.1"}
TIMED = {TYPE: "CreateTime", AHEAD: str(ANY_TIME), BEHIND: str(ANY_TIME)}
"""Of topics in whose records' timestamps event times travel: whatever they are, and as they are."""
# By event times, a history that is read again would be old at once.
INTERMEDIATE = {_RETENTION: FOR_EVER, **TIMED}


class TopicUse(Enum):
    """What a topic is for."""

    READ = auto()
    """Others write it: how many brokers hold it is theirs to say."""
    WRITTEN = auto()
    """The app writes it for others."""
    TIMED = auto()
    """The app writes it, and readers know event times by the timestamps of its records."""
    INTERMEDIATE = auto()
    """The app writes and reads it."""
    MARKERS = auto()
    """The app notes there what it has written."""


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """How a topic is to be."""

    partitions: int
    replication: int | None
    """None: as brokers make it."""
    config: Mapping[str, str]
    """What it gets if it is made."""
    checked: Mapping[str, str]
    """What of it must be so too if it is there."""
    others: bool = False
    """Whether others decide about its replicas where it is there."""


def wanted(use: TopicUse, partitions: int, replication: int | None, retention: str | None = None) -> TopicSpec:
    """A topic of this use, as the spec says of its system and of itself."""
    if use is TopicUse.MARKERS:
        return TopicSpec(partitions, replication, MARKERS, {})
    if use is TopicUse.INTERMEDIATE:
        # Checked unasked: records would be gone before they are read, or event times be others, or be refused.
        return TopicSpec(partitions, replication, INTERMEDIATE, INTERMEDIATE)
    kept = _kept(retention)
    if use is TopicUse.TIMED:
        kept = {**kept, **TIMED}
    return TopicSpec(partitions, replication, kept, kept, others=use is TopicUse.READ)


def _kept(retention: str | None) -> dict[str, str]:
    if retention is None:
        return {}
    return {_RETENTION: FOR_EVER if retention == "Forever" else str(millis(retention))}


_PATIENCE, _GRACE = 30.0, 1.0
_DEFAULT = -1
_T = TypeVar("_T")
_FIELDS = "kafka.replication of the system, retention of the stream"


class TopicPartitionsError(UserActionError):
    """A topic has another number of partitions than it must have."""


class TopicDiffersError(UserActionError):
    """A topic has other replicas, or another retention, than the spec asks for."""


class TooFewBrokersError(WorldChangeError):
    """The cluster has fewer brokers than a topic is to have replicas."""


@dataclass(slots=True)
class KafkaTopics:
    """The topics of one Kafka system, to be made."""

    settings: KafkaSettings
    _client: AdminClient | None = None
    _said: ConnectionState = field(init=False)

    def __post_init__(self) -> None:
        self._said = ConnectionState(self.settings)

    def count(self, topic: str) -> int | None:
        """How many partitions a topic has; None: it is not there."""
        with self._explained(topic):
            found = self._found(topic)
        return None if found is None else len(found)

    def ensure(self, topic: str, wanted: TopicSpec, *, ours: bool = False) -> int:
        """The topic, made as it is wanted if it is not there; how many partitions it has.

        `ours`: nobody else uses it; more partitions are well, and where they are fewer it gets more.
        """
        with self._explained(topic):
            replicas = self._found(topic)
            if not replicas:
                self._make(topic, wanted)
                replicas = self._awaited(topic)
            # Also one that was just made: somebody else may have been sooner.
            self._check(topic, wanted, replicas)
            if ours and len(replicas) < wanted.partitions:
                more = NewPartitions(topic, wanted.partitions)
                self._answer(topic, self._asked().create_partitions([more])[topic])
                replicas = self._awaited(topic, wanted.partitions)
        found = len(replicas)
        if found == wanted.partitions or (ours and found > wanted.partitions):
            return found
        message = (
            f"{self._where(topic)} has {found} partitions, but {wanted.partitions} are planned; set "
            f"partitions: {found} for its stream, or write to another topic"
        )
        raise TopicPartitionsError(message)

    def limits(self, topic: str) -> TopicLimits:
        """What a topic takes, as far as the login may know it."""
        try:
            with self._explained(topic):
                return topic_limits(self._config(topic))
        except (KafkaForbiddenError, StreamMissingError):
            return TopicLimits()

    def _asked(self) -> AdminClient:
        if self._client is None:
            self._client = admin_client(self.settings, self._said)
        return self._client

    def _answer(self, topic: str, future: "Future[_T]") -> _T:
        if not answered(self._asked(), self._said, [future], _PATIENCE + _GRACE):
            raise self._said.silent(topic, _PATIENCE)
        found = future.result()
        self._said.answered()
        return found

    def _where(self, topic: str) -> str:
        return f"Kafka system {self.settings.system}: topic {topic}"

    @contextmanager
    def _explained(self, topic: str) -> Iterator[None]:
        try:
            yield
        except KafkaException as error:
            text = self.settings.without_values(error.args[0].str())
            raise trouble(error.args[0].code(), self._where(topic), text) from None

    def _make(self, topic: str, wanted: TopicSpec) -> None:
        client, replication = self._asked(), _DEFAULT if wanted.replication is None else wanted.replication
        new = NewTopic(topic, wanted.partitions, replication, config=dict(wanted.config))
        try:
            self._answer(topic, client.create_topics([new], operation_timeout=_PATIENCE)[topic])
        except KafkaException as error:
            code = error.args[0].code()
            if code == KafkaError.INVALID_REPLICATION_FACTOR:
                raise self._too_few(topic, wanted, len(client.list_topics(topic, _PATIENCE).brokers)) from None
            if code != KafkaError.TOPIC_ALREADY_EXISTS:
                raise

    def _too_few(self, topic: str, wanted: TopicSpec, brokers: int) -> TooFewBrokersError:
        replicas = "the brokers' default number of" if wanted.replication is None else wanted.replication
        return TooFewBrokersError(
            f"{self._where(topic)} can't be made with {replicas} replicas, as the cluster has {brokers} "
            f"broker{'' if brokers == 1 else 's'}: set kafka.replication of the system to at most {brokers}, or "
            "add brokers"
        )

    def _check(self, topic: str, wanted: TopicSpec, replicas: Sequence[int]) -> None:
        """Refuse a topic that is otherwise than the spec says."""
        differs: list[tuple[str, object, object]] = []
        if wanted.replication is not None and not wanted.others:
            differs += [("replication", one, wanted.replication) for one in {*replicas} - {wanted.replication}]
        if wanted.checked:
            said = self._config(topic)
            # A setting that a broker does not have is one of a newer release.
            differs += [
                (key, said[key], value) for key, value in wanted.checked.items() if said.get(key, value) != value
            ]
        if differs:
            told = ", and ".join(f"{name} {found}, but {value} is asked for" for name, found, value in differs)
            why = (
                "; event times travel as timestamps of its records"
                if TIMED.keys() & {one[0] for one in differs}
                else ""
            )
            message = (
                f"{self._where(topic)} has {told}{why}. Holdfast changes no topic that is there: change it with "
                f"Kafka's tools, or let the spec ask for what it has ({_FIELDS})"
            )
            raise TopicDiffersError(message)

    def _config(self, topic: str) -> dict[str, str]:
        resource = ConfigResource(ResourceType.TOPIC, topic)
        found = self._answer(topic, self._asked().describe_configs([resource], request_timeout=_PATIENCE)[resource])
        return {key: str(one.value) for key, one in found.items()}

    def _awaited(self, topic: str, at_least: int = 1) -> list[int]:
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            found = self._found(topic)
            if found is not None and len(found) >= at_least:
                return found
        message = f"{self._where(topic)} was made, but no broker shows it within {_PATIENCE:.0f} s"
        raise KafkaBusyError(message)

    def _found(self, topic: str) -> list[int] | None:
        """The number of replicas of each partition; none: it is just being made; None: there is no such topic."""
        asked = self._asked().describe_topics(TopicCollection([topic]), request_timeout=_PATIENCE)[topic]
        try:
            said = self._answer(topic, asked)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                return None
            raise
        # One that is just being made has partitions without a leader.
        made = all(one.leader is not None for one in said.partitions)
        return [len(one.replicas) for one in said.partitions] if made else []
