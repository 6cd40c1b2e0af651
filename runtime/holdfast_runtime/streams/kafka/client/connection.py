"""The connection of a Kafka client: its last message, and what a silent one may mean.

A client without an answer keeps trying silently. Its last message tells why, and whether to wait, so a refused login is
noticed at once. A consumer reports "unknown" both for a missing partition and for one whose broker it can't reach; only
a broker knows which it is. After a fork a client's threads exist only in the parent, and closing the client would wait
for them for ever, so it is kept. Must not let a config value into a message (librdkafka's own log, which is off, could
hold passwords), nor decide what follows from an answer.
"""

import ctypes
import logging

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from holdfast.errors import HoldfastError, UserActionError
from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.streams.kafka.client.errors import (
    NOT_ENCRYPTED,
    NOT_REACHED,
    KafkaBusyError,
    is_refused_login,
    is_unknown,
    trouble,
)
from holdfast_runtime.streams.kafka.client.settings import KafkaSettings


class ConnectionState:
    """The last message of a process's client about its connections."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._last: tuple[int, str] | None = None
        self._answered = False

    def heard(self, code: int, text: str) -> None:
        """Note a message of the client. "No broker is reached" does not replace one that says why."""
        if code != NOT_REACHED or self._last is None:
            self._last = code, text

    def answered(self) -> None:
        """Note that a broker answered, so that earlier messages no longer count."""
        self._answered, self._last = True, None

    @property
    def is_broken(self) -> bool:
        """Whether the client has named a fault since a broker last answered."""
        return self._last is not None

    def check(self) -> None:
        """Raise if waiting is useless because the login was refused from the start.

        Later, a broker that is starting may refuse for a moment what it will accept.
        """
        if not self._answered and self._last is not None and is_refused_login(self._last[0]):
            raise self.refused()

    def refused(self) -> UserActionError:
        """Return the error for a refused login."""
        code, client_text = self._last or (0, "")
        text, broker = self._settings.without_values(client_text), f"the broker at {self._settings.bootstrap}"
        what = f"no encrypted connection to {broker}" if code == NOT_ENCRYPTED else f"{broker} refused the login"
        keys = self._settings.login_keys() or "security.protocol"
        return UserActionError(
            f"Kafka system {self._settings.system}: {what}: {text}. Correct {keys} in the system's config or secret.",
            code="KafkaLoginError",
        )

    def silent(self, what: str, seconds: float) -> KafkaBusyError | UserActionError:
        """Return the error for an answer that does not come."""
        if self._last is not None and is_refused_login(self._last[0]):
            return self.refused()
        last = f"; the Kafka client last said: {self._settings.without_values(self._last[1])}" if self._last else ""
        return KafkaBusyError(
            f"Kafka system {self._settings.system}: nothing about {what} came from {self._settings.bootstrap} "
            f"in {seconds:g} s{last}. Check that a broker runs there, and that it can be reached from here."
        )


QUIET = logging.Logger("holdfast.kafka")
QUIET.addHandler(logging.NullHandler())


def keep_for_ever(client: object) -> None:
    """Prevent garbage collection of a client that belongs to this process's parent."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(client))


def unanswered(settings: KafkaSettings, partition: StreamPartition, code: int, seconds: float) -> HoldfastError:
    """Return the error for a consumer whose question for a partition's bounds ended with this code."""
    if is_unknown(code):
        code = _said_by_a_broker(settings, partition, seconds)
    return trouble(code, f"Kafka system {settings.system}: {partition} can't be read")


def _said_by_a_broker(settings: KafkaSettings, partition: StreamPartition, seconds: float) -> int:
    client = AdminClient(settings.asking(), logger=QUIET)
    # Not list_topics(name): on a broker with auto.create.topics.enable that creates the topic.
    (future,) = client.describe_topics(TopicCollection([partition.stream]), request_timeout=seconds).values()
    try:
        description = future.result()
    except KafkaException as error:
        return int(error.args[0].code())
    exists = partition.partition in {info.id for info in description.partitions}
    return int(KafkaError.LEADER_NOT_AVAILABLE if exists else KafkaError.UNKNOWN_TOPIC_OR_PART)
