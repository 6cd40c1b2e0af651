"""Why: how many partitions topics have can only be known by asking their broker; this module asks.

Called by `holdfast plan` and by the operator's watch for growth, which import it only when a spec names a Kafka system:
it needs the Kafka client. Must not create topics by asking, wait longer than it was told to, print, or let a value of
the client's config (a password may be among them) into a message. What a count means is the planner's business.
"""

import logging
import threading
import time
from collections.abc import Collection, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from holdfast.errors import UserActionError, WorldChangeError
from holdfast.kafka_settings import login_keys, unacceptable, without_values

# The client prints to stderr unless it has a logger; this one is silent until someone gives it a handler.
_CLIENT_LOG = logging.getLogger("holdfast_operator.kafka_client")
_CLIENT_LOG.addHandler(logging.NullHandler())
_CLIENT_LOG.propagate = False

_TICK = 0.05  # seconds between looks at what the client says about its connections
_GRACE = 0.5  # the client ends its own wait at the timeout; this is how late that may be seen

# Answers that mean: not there. No topic can have an invalid name, so none has it.
_MISSING = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_EXCEPTION})


class BrokerUnreachableError(WorldChangeError):
    """No broker of the system gave an answer in time."""


class BrokerConfigInvalidError(UserActionError):
    """The Kafka client can't be made from the system's config."""


class BrokerLoginRefusedError(BrokerConfigInvalidError):
    """The broker is there, but does not accept the login the config gives."""


class TopicForbiddenError(WorldChangeError):
    """The broker knows who asks and does not let them see a topic, so whether it exists is unknown."""


def read_counts(
    system: str, bootstrap: str, config: Mapping[str, str], topics: Collection[str], *, timeout: float
) -> dict[str, int | None]:
    """Return how many partitions each topic has, None for one that does not exist; at most `timeout` seconds.

    `system` names the Kafka system in messages; `config` is the librdkafka config of its spec and secret.
    """
    counts: dict[str, int | None] = dict.fromkeys(topics)
    names = [name for name in counts if name]  # the client refuses to ask for the empty name, which no topic has
    if not names:
        return counts
    asked = _Asked(system, bootstrap, config)
    client = asked.client()
    started = time.monotonic()
    try:
        # Not list_topics(name): on a broker with auto.create.topics.enable that creates the topic.
        futures = client.describe_topics(TopicCollection(names), request_timeout=timeout)
        _wait(client, futures.values(), asked, started + timeout + _GRACE)
    finally:
        # Closing waits for name lookups under way: 8 s were measured with a name server that is silent.
        threading.Thread(target=_close, args=(client,), name="holdfast-kafka-close", daemon=True).start()
    counts.update(asked.counts(futures, waited=time.monotonic() - started))
    return counts


@dataclass(frozen=True)
class _Asked:
    """One question to one system: what is needed to ask it and to say why it has no answer."""

    system: str
    bootstrap: str
    config: Mapping[str, str] = field(repr=False)  # it may hold passwords
    said: list[KafkaError] = field(default_factory=list)
    """What the client said about its connections, oldest first."""

    def client(self) -> AdminClient:
        """Make the client, or say which key of the config it can't be made with."""
        fault = unacceptable(self.config)
        if fault is None:
            own: dict[str, Any] = {"bootstrap.servers": self.bootstrap, "error_cb": self.said.append}
            try:
                return AdminClient({**self.config, **own}, logger=_CLIENT_LOG)
            except KafkaException as error:
                fault = self._without_values(error.args[0])
        # Not inside the handler: a traceback would show the cause, and with it the values this message leaves out.
        raise self._invalid(fault)

    def refused(self) -> KafkaError | None:
        """Return the broker's refusal of the login, which no waiting cures."""
        return next((error for error in self.said if error.code() == KafkaError._AUTHENTICATION), None)  # noqa: SLF001 - it has no other name

    def counts(self, futures: Mapping[str, "Future[Any]"], waited: float) -> dict[str, int | None]:
        """Return the answers, or raise what kept a topic from having one."""
        found: dict[str, int | None] = {}
        forbidden: list[str] = []
        for name, future in futures.items():
            error = _error(future)
            if error is None:
                found[name] = len(future.result().partitions)
            elif error.code() in _MISSING:
                found[name] = None
            elif error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                forbidden.append(name)
            else:
                raise self._unanswered(error, waited)
        if forbidden:
            raise self._forbidden(forbidden)
        return found

    def _unanswered(self, error: KafkaError, waited: float) -> BrokerUnreachableError | BrokerLoginRefusedError:
        refused = self.refused()
        if refused is not None:
            return BrokerLoginRefusedError(
                f"Kafka system {self.system}: the broker at {self.bootstrap} refused the login: "
                f"{self._without_values(refused)}. Correct {login_keys(self.config)} in the system's config or secret."
            )
        # "All brokers down" follows each failed connection and says less than what came before it.
        told = [said for said in self.said if said.code() != KafkaError._ALL_BROKERS_DOWN]  # noqa: SLF001 - it has no other name
        last = (told or self.said or [error])[-1]
        return BrokerUnreachableError(
            f"Kafka system {self.system}: no answer from {self.bootstrap} in {waited:.1f} s; "
            f"the Kafka client last said: {self._without_values(last)}. "
            "Check that a broker runs there, that the address can be reached from here, "
            "and that security.protocol is the one of this listener."
        )

    def _forbidden(self, topics: list[str]) -> TopicForbiddenError:
        some = ", ".join(sorted(topics)[:10]) + (f" and {len(topics) - 10} more" if len(topics) > 10 else "")  # noqa: PLR2004
        return TopicForbiddenError(
            f"Kafka system {self.system}: the broker at {self.bootstrap} does not let this login see {some}. "
            "Grant it the operation Describe on these topics."
        )

    def _invalid(self, reason: str) -> BrokerConfigInvalidError:
        return BrokerConfigInvalidError(
            f"Kafka system {self.system}: its config can't be used: {reason}. Correct the system's config or secret."
        )

    def _without_values(self, error: KafkaError) -> str:
        """Return what the client said with every value of the config blanked: any of them may be a secret."""
        return without_values(error.str(), self.config)


def _wait(client: AdminClient, futures: Collection["Future[Any]"], asked: _Asked, deadline: float) -> None:
    """Return when all futures are done, when the login is refused, or at the deadline."""
    while wait(futures, timeout=_TICK).not_done:
        client.poll(0)  # fills asked.said
        if asked.refused() is not None or time.monotonic() > deadline:
            return
    client.poll(0)


def _error(future: "Future[Any]") -> KafkaError | None:
    if not future.done():
        return KafkaError(KafkaError._TIMED_OUT)  # noqa: SLF001 - it has no other name
    error = future.exception()
    if error is None:
        return None
    if isinstance(error, KafkaException) and isinstance(error.args[0], KafkaError):
        return error.args[0]
    raise error


def _close(client: AdminClient) -> None:
    with client:
        pass
