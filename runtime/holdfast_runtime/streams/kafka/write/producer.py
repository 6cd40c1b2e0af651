"""One transactional producer: records in, all of them there or none, and errors by what they mean for the caller.

Must not know what is written, nor decide what follows from an error.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

import pyarrow as pa
from confluent_kafka import KafkaError

from holdfast.errors import HoldfastError
from holdfast_runtime.streams.kafka.client.errors import KafkaBusyError, is_taken_over, trouble
from holdfast_runtime.streams.kafka.client.settings import KafkaSettings
from holdfast_runtime.streams.kafka.write.channel import Channel, ChannelError, open_channel

REQUEST_BYTES = 1 << 20
"""Of one batch of records, where all topics take so much."""
PATIENCE = 20.0
"""Seconds without getting anywhere until it is said that brokers are away; it is tried again after that."""


def usual(request_bytes: int) -> dict[str, str]:
    """What users may set otherwise."""
    return {"linger.ms": "5", "batch.size": str(request_bytes), "queue.buffering.max.messages": "1000000"}


class TakenOverError(HoldfastError):
    """Another producer has taken this one's name: what it had open is gone, and it can't write any more."""


@dataclass(slots=True)
class TransactionalProducer:
    """Writes in one name; who opens it shuts out whoever wrote in that name before."""

    settings: KafkaSettings
    name: str
    request_bytes: int = REQUEST_BYTES
    fast: bool = True
    patience: float = PATIENCE
    _channel: Channel | None = None

    def open(self) -> None:
        """From here on, nobody else writes in this name; what was left open in it is undone."""
        config = self.settings.client(usual(self.request_bytes), {"transactional.id": self.name})
        channel = self._channel = open_channel(self.settings, config, fast=self.fast)
        self._patiently(channel.init, "can't begin to write")

    def begin(self) -> None:
        """What is put from here on is one."""
        self._explained(self._open.begin, "can't begin a transaction")

    def put(self, topic: str, partition: int, records: pa.RecordBatch) -> None:
        """Records, in their order."""
        self._explained(lambda: self._open.give(topic, partition, records), f"can't write to {topic}/{partition}")

    def flush(self) -> None:
        """All that was put has reached the brokers when this returns, though nobody may see it."""
        self._explained(lambda: self._open.flush(self.patience), "can't write")

    def commit(self) -> None:
        """Nothing can undo what was put when this returns; readers see it at once or a moment later."""
        self._patiently(self._open.commit, "can't commit a transaction")

    def close(self) -> None:
        """Give up; what is not committed is undone by whoever opens the name next."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    @property
    def _open(self) -> Channel:
        if self._channel is None:
            message = f"{self.name} is not open"
            raise RuntimeError(message)
        return self._channel

    def _patiently(self, call: Callable[[float], None], what: str) -> None:
        """A call that goes on where it was when it is repeated."""
        deadline = time.monotonic() + self.patience
        while True:
            try:
                call(max(0.1, deadline - time.monotonic()))
            except ChannelError as error:
                if not error.again or _is_lost(error.code) or time.monotonic() > deadline:
                    self._raise(error, what)
            else:
                return

    def _explained(self, call: Callable[[], object], what: str) -> None:
        try:
            call()
        except ChannelError as error:
            self._raise(error, what)

    def _raise(self, error: ChannelError, what: str) -> NoReturn:
        where = f"Kafka system {self.settings.system}"
        if _is_lost(error.code):
            message = f"{where}: {self.name} has been taken over by another process"
            raise TakenOverError(message) from None
        text = self.settings.without_values(error.text)
        if error.again:
            message = f"{where}: {what}: {text}. It is tried again"
            raise KafkaBusyError(message) from None
        raise trouble(error.code, f"{where}: {what}", text) from None


def _is_lost(code: int) -> bool:
    """Whether somebody has this name; once told so, a client says to later calls only that it can't go on."""
    return is_taken_over(code) or code == KafkaError._FATAL  # noqa: SLF001 - it has no other name
