"""Questions to brokers through an admin client that is replaced whenever it may be what is at fault.

librdkafka's admin client asks the leaders and the controller that it once learnt of. After a change of leader it is
refused for good (FENCED_LEADER_EPOCH). While the broker it wants is away it waits for that one, though others could
answer, and then may give an answer that no broker gave. A fresh client learns anew, from the addresses of the spec and
from those of all brokers seen before, as the former may be those of the broker that is away. Every question must be one
that may be asked twice. Must not decide what a refusal means, nor hold a transaction: a producer is replaced by taking
its name again (see write/slot_writers.py).
"""

import os
import threading
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future, wait
from functools import partial
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # it exports them unsaid
    AdminClient,
    DeletedRecords,
    ListOffsetsResultInfo,
    TopicDescription,
)

from holdfast.errors import HoldfastError
from holdfast_runtime.streams.kafka.client.connection import QUIET, ConnectionState, keep_for_ever
from holdfast_runtime.streams.kafka.client.errors import is_silence, is_worth_a_fresh_client, trouble
from holdfast_runtime.streams.kafka.client.settings import KafkaSettings

_FIRST_TRY = 2.0
"""Seconds after which a silent client is replaced. While no connection fails, each next one gets twice the time, in the
next question, too: brokers may just be slow."""
_GRACE = 0.5
"""Seconds to allow on top of the client's own timeout."""
_TICK = 0.02
"""Seconds between checks of the client's messages while nothing is answered."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 1.0
"""Seconds before a refused question is asked again; each pause is twice the one before."""

K = TypeVar("K")
V = TypeVar("V")
NEW_TOPIC = (KafkaError.UNKNOWN_TOPIC_OR_PART,)
"""Brokers learn of a new topic one after the other: who knows that it was made asks again."""
Ask = Callable[[AdminClient, float], Mapping[K, Future[V]]]
"""Sends the requests; the number is the timeout of each in seconds."""


class QuestionRefusedError(Exception):
    """A broker refused a part of a question, and another client would hear the same."""

    def __init__(self, part: object, code: int, text: str) -> None:
        self.part, self.code, self.text = part, code, text
        super().__init__(text)


class _PassingError(Exception):
    """A client that is worth replacing; `fault` is raised when there is no more time."""

    def __init__(self, fault: HoldfastError) -> None:
        self.fault = fault
        super().__init__(str(fault))


class BrokerQuestions:
    """Asks the brokers of one system, one question at a time."""

    def __init__(self, settings: KafkaSettings, patience: float) -> None:
        """`patience`: seconds until an unanswered question is given up."""
        self._settings, self._patience = settings, patience
        self._connection = ConnectionState(settings)
        self._client: AdminClient | None = None
        self._open: list[Future[Any]] = []
        """What this client was last asked."""
        self._longest = _FIRST_TRY
        """Seconds for the next try."""
        self._process = os.getpid()
        self._addresses: list[str] = []
        """Of the brokers that had a topic when one last answered."""

    def answers(
        self, what: str, topics: Collection[str], ask: Ask[K, V], patient_with: Collection[int] = ()
    ) -> dict[K, V]:
        """Return all answers, or raise the first refusal.

        `what` names the subject in errors, `topics` are those that it is about; `patient_with` has codes that will
        change, besides those that always do.
        """
        deadline = time.monotonic() + self._patience
        pause = _FIRST_PAUSE
        while True:
            try:
                left = max(_TICK, deadline - time.monotonic())
                return self._answers(what, topics, ask, min(self._longest, left), patient_with)
            except _PassingError as error:
                self.close()
                if not self._connection.is_broken:
                    self._longest = min(2 * self._longest, self._patience)
                if time.monotonic() + pause >= deadline:
                    raise error.fault from None
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def answer(
        self,
        what: str,
        topics: Collection[str],
        ask: Callable[[AdminClient, float], "Future[V]"],
        patient_with: Collection[int] = (),
    ) -> V:
        """Return the answer to a question of one part."""
        return self.answers(what, topics, lambda client, seconds: {what: ask(client, seconds)}, patient_with)[what]

    def close(self) -> None:
        """End the client; the next question makes another."""
        client, self._client = self._client, None
        if client is None:
            return
        if self._process != os.getpid():  # after a fork
            keep_for_ever(client)
            return
        # In a thread: a client whose broker is away may take long to end.
        threading.Thread(target=_end, args=(client, self._open), name="kafka-close", daemon=True).start()

    def _answers(
        self, what: str, topics: Collection[str], ask: Ask[K, V], seconds: float, patient_with: Collection[int]
    ) -> dict[K, V]:
        client, is_fresh = self._connected()
        began = time.monotonic()
        futures = ask(client, seconds)
        self._open = [*futures.values()]
        if not self._answered(client, futures.values(), seconds + _GRACE):
            raise _PassingError(self._silent(what))
        for part, future in futures.items():
            error = future.exception()
            if isinstance(error, KafkaException) and isinstance(error.args[0], KafkaError):
                raise self._refused(what, part, error.args[0], patient_with)
            if error is not None:
                raise error
        answers = {part: future.result() for part, future in futures.items()}
        if any(is_blank(answer) for answer in answers.values()):
            raise _PassingError(self._silent(what))
        self._connection.answered()
        self._longest = max(_FIRST_TRY, 2 * (time.monotonic() - began))
        if is_fresh and topics:
            # Not describe_cluster(): librdkafka ends the process (2.16, rdkafka_admin.c) if a broker that has just
            # started knows of no broker yet, as its answer then holds nothing at all.
            (replicas,) = client.describe_topics(
                TopicCollection([next(iter(topics))]), request_timeout=seconds
            ).values()
            replicas.add_done_callback(partial(_learn, self._addresses))
            self._open = [replicas]
        return answers

    def _answered(self, client: AdminClient, futures: "Collection[Future[Any]]", seconds: float) -> bool:
        """Whether all are answered or refused in time; raises if waiting is useless."""
        deadline = time.monotonic() + seconds
        while wait(futures, timeout=_TICK).not_done:
            client.poll(0)  # delivers messages to the connection's state
            self._connection.check()
            if time.monotonic() > deadline:
                return False
        client.poll(0)
        return True

    def _refused(self, what: str, part: object, error: KafkaError, patient_with: Collection[int]) -> Exception:
        code, text = error.code(), self._settings.without_values(error.str())
        if is_silence(code):
            return _PassingError(self._silent(what))
        if is_worth_a_fresh_client(code) or code in patient_with:
            no_answer = f"Kafka system {self._settings.system}: no answer about {what} from {self._settings.bootstrap}"
            return _PassingError(trouble(code, no_answer, text))
        return QuestionRefusedError(part, code, text)

    def _silent(self, what: str) -> HoldfastError:
        return self._connection.silent(what, self._patience)

    def _connected(self) -> tuple[AdminClient, bool]:
        """Return the client, and whether it is a new one."""
        if self._process != os.getpid():
            self.close()
            self._process = os.getpid()
        if self._client is not None:
            return self._client, False
        own_config: dict[str, Any] = {
            "bootstrap.servers": ",".join((self._settings.bootstrap, *self._addresses)),
            "error_cb": partial(_heard, self._connection),
        }
        try:
            self._client = AdminClient({**self._settings.asking(), **own_config}, logger=QUIET)
        except KafkaException as error:
            fault = error.args[0].str()
        else:
            return self._client, True
        # Not inside the handler, whose exception would show values.
        raise self._settings.invalid(fault)


def is_blank(answer: object) -> bool:
    """Whether an answer was never given: librdkafka fills it in, without an error, when a leader is away.

    Taken for an offset, it would make a topic look empty, and what is written would be written again.
    """
    match answer:
        case ListOffsetsResultInfo(offset=offset):
            return int(offset) < 0
        case DeletedRecords(low_watermark=offset):
            return int(offset) < 0
        case _:
            return False


def address(host: str, port: int) -> str:
    """Return a broker's address as `bootstrap.servers` takes it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _learn(addresses: list[str], topic: "Future[TopicDescription]") -> None:
    """Note where brokers are; called by a thread of the client.

    Not a method: with the last reference to the client, that thread would destroy the client, and end the process.
    """
    if topic.exception() is None:
        nodes = {replica.id: replica for partition in topic.result().partitions for replica in partition.replicas}
        # Of a broker that is away only the id is known.
        addresses[:] = [address(node.host, node.port) for _, node in sorted(nodes.items()) if node.host]


def _end(client: AdminClient, questions: "Collection[Future[Any]]") -> None:
    """Not before all is answered or timed out: librdkafka may end the process if an answer comes at the very moment."""
    wait(questions)
    client.__exit__(None, None, None)


def _heard(connection: ConnectionState, error: KafkaError) -> None:
    """Not a method: the client holds a reference to it, and would hold itself."""
    connection.heard(error.code(), error.str())
