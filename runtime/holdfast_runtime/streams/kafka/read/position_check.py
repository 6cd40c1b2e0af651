"""The check of positions against the epochs of their partitions' leaders (KIP-320), by librdkafka's own question.

No call asks a broker where an epoch ends. But a consumer that is given a position with its epoch asks for it before it
fetches, and refuses the position if the epoch ends before it, or if the broker knows no such epoch. It reports that by
the same code as an offset that is not there, so a refused position is tried without its epoch, too: what is accepted
then was refused because of the epoch. A consumer per check, as checks are rare; it fetches one batch of records of each
partition, of which only the offset counts. Must not decide what follows.
"""

import threading
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.streams.kafka.client.connection import QUIET, ConnectionState
from holdfast_runtime.streams.kafka.client.errors import (
    END_OF_PARTITION,
    is_about_offset,
    is_passing,
    is_unknown,
    trouble,
)
from holdfast_runtime.streams.kafka.client.settings import Config, KafkaSettings
from holdfast_runtime.streams.records import EpochPosition, LogCut

_PATIENCE, _NAP = 10.0, 0.1
"""Seconds without any answer after which the check is given up, and of one wait for it."""
_AT_ONCE = 500
_UNKNOWN_EPOCH = -1
_LITTLE: Config = {"max.partition.fetch.bytes": 1 << 14, "queued.min.messages": 1, "fetch.wait.max.ms": 10}
"""A broker sends a larger batch of records all the same, but only of the first partition that has any."""
_FROM_THE_CUT: Config = {"auto.offset.reset": "earliest"}
"""With this, a consumer goes on where the epoch of its position ends."""


class FirstAnswer(NamedTuple):
    """The first that a consumer says of a partition."""

    accepted: bool
    """Whether it fetches from the position."""
    offset: int
    """Of the first record, or of the end."""
    said: str = ""


Answers = Mapping[StreamPartition, FirstAnswer]


def refused_epochs(with_epochs: Answers, without: Answers) -> frozenset[StreamPartition]:
    """Return the partitions whose positions were refused because of their epochs."""
    return frozenset(
        partition
        for partition, answer in with_epochs.items()
        if not answer.accepted and partition in without and without[partition].accepted
    )


@dataclass(slots=True)
class PositionCheck:
    """Checks positions in the topics of one system."""

    settings: KafkaSettings
    patience: float = _PATIENCE

    def cut(self, positions: Mapping[StreamPartition, EpochPosition]) -> dict[StreamPartition, LogCut]:
        """Return the partitions that do not have the records before their positions, as of their epochs."""
        answers = self._answers(positions, {})
        doubted = {partition: positions[partition] for partition, answer in answers.items() if not answer.accepted}
        if not doubted:
            return {}
        without_epochs = {partition: position._replace(epoch=_UNKNOWN_EPOCH) for partition, position in doubted.items()}
        refused = refused_epochs(answers, self._answers(without_epochs, {}))
        begins = self._answers({partition: positions[partition] for partition in refused}, _FROM_THE_CUT)
        return {
            partition: LogCut(max(0, begins[partition].offset), self._said(partition, answers[partition].said))
            for partition in refused
        }

    def _said(self, partition: StreamPartition, text: str) -> str:
        # What the client then does with the position is of no interest.
        cause = self.settings.without_values(text.partition(". Reset")[0])
        return (
            f"Kafka system {self.settings.system}, topic {partition.stream}, partition {partition.partition}: {cause}"
        )

    def _answers(self, positions: Mapping[StreamPartition, EpochPosition], config: Config) -> Answers:
        if not positions:
            return {}
        connection = ConnectionState(self.settings)
        consumer = self._consumer(connection, config)
        try:
            consumer.assign(
                [
                    TopicPartition(*partition, position.offset, leader_epoch=position.epoch)
                    for partition, position in sorted(positions.items())
                ]
            )
            return self._heard(consumer, connection, frozenset(positions))
        finally:
            # In a thread: a client whose broker is away may take long to end.
            threading.Thread(target=consumer.close, name="kafka-close", daemon=True).start()

    def _consumer(self, connection: ConnectionState, config: Config) -> Consumer:
        own_config = {"group.id": "holdfast", "error_cb": partial(_noted, connection), "logger": QUIET}
        fault = None
        try:
            return Consumer({**self.settings.reading(), **_LITTLE, **config, **own_config})
        except KafkaException as error:
            fault = error.args[0].str()
        raise self.settings.invalid(fault)  # not inside the handler, whose exception would show values

    def _heard(
        self, consumer: Consumer, connection: ConnectionState, partitions: Collection[StreamPartition]
    ) -> dict[StreamPartition, FirstAnswer]:
        answers: dict[StreamPartition, FirstAnswer] = {}
        heard = time.monotonic()
        while len(answers) < len(partitions):
            done: list[TopicPartition] = []
            for message in consumer.consume(_AT_ONCE, 0) or consumer.consume(1, _NAP):
                partition = StreamPartition(message.topic() or "", message.partition() or 0)
                if partition not in partitions or partition in answers:
                    continue
                answer = self._answer(message, connection, partition)
                if answer is not None:
                    answers[partition], heard = answer, time.monotonic()
                    done.append(TopicPartition(*partition))
                    connection.answered()
            # What is written on and on would be fetched again and again, before partitions that have not answered.
            consumer.pause(done)
            connection.check()
            if time.monotonic() - heard > self.patience:
                left = ", ".join(map(str, sorted(set(partitions) - answers.keys())))
                what = f"the leader epochs of {left}"
                raise connection.silent(what, self.patience)
        return answers

    def _answer(self, message: Message, connection: ConnectionState, partition: StreamPartition) -> FirstAnswer | None:
        """Return what a message says about a position; None: nothing yet."""
        error, offset = message.error(), message.offset()
        if error is None or error.code() == END_OF_PARTITION:
            return FirstAnswer(accepted=True, offset=offset or 0)
        if is_about_offset(error.code()):
            return FirstAnswer(accepted=False, offset=-1, said=error.str())
        if not is_passing(error.code()) and not is_unknown(error.code()):
            what = f"Kafka system {self.settings.system}: {partition} can't be read"
            raise trouble(error.code(), what, self.settings.without_values(error.str()))
        connection.heard(error.code(), error.str())
        return None


def _noted(connection: ConnectionState, error: KafkaError) -> None:
    """Not a method: the consumer holds a reference to it, and would hold itself."""
    connection.heard(error.code(), error.str())
