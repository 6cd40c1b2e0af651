"""One transactional producer: records in, all of them written or none, and errors by what they mean for the caller.

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
"""Size of one batch of records, if all topics accept it."""
PATIENCE = 20.0
"""Seconds without progress until brokers are reported as away; the write is tried again after that."""


def usual(request_bytes: int) -> dict[str, str]:
    """Return defaults that users may override."""
    return {"linger.ms": "5", "batch.size": str(request_bytes), "queue.buffering.max.messages": "1000000"}


class TakenOverError(HoldfastError):
    """Another producer has taken this one's name: its open transaction is gone, and it can't write any more."""


@dataclass(slots=True)
class TransactionalProducer:
    """Writes under one name; opening it shuts out whoever wrote under that name before."""

    settings: KafkaSettings
    name: str
    request_bytes: int = REQUEST_BYTES
    fast: bool = True
    patience: float = PATIENCE
    _channel: Channel | None = None

    def open(self) -> None:
        """Take the name from any other producer, and abort what it left open."""
        config = self.settings.client(usual(self.request_bytes), {"transactional.id": self.name})
        channel = self._channel = open_channel(self.settings, config, fast=self.fast)
        self._patiently(channel.init, "can't begin to write")

    def begin(self) -> None:
        """Begin a transaction."""
        self._explained(self._open.begin, "can't begin a transaction")

    def put(self, topic: str, partition: int, records: pa.RecordBatch) -> None:
        """Add records, in order."""
        self._explained(lambda: self._open.give(topic, partition, records), f"can't write to {topic}/{partition}")

    def hurry(self) -> None:
        """Send at once what was put, instead of waiting for more; return when brokers have it, or a moment later."""
        self._explained(self._open.hurry, "can't write")

    def flush(self) -> None:
        """Wait until brokers have everything that was put; readers may not see it yet."""
        self._explained(lambda: self._open.flush(self.patience), "can't write")

    def commit(self) -> None:
        """Commit for good; readers see it at once or a moment later."""
        self._patiently(self._open.commit, "can't commit a transaction")

    def close(self) -> None:
        """Close; whoever opens the name next aborts what is not committed."""
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
        """Repeat a call that continues where it was."""
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
        system = f"Kafka system {self.settings.system}"
        if _is_lost(error.code):
            message = f"{system}: {self.name} has been taken over by another process"
            raise TakenOverError(message) from None
        text = self.settings.without_values(error.text)
        if error.again:
            message = f"{system}: {what}: {text}"
            raise KafkaBusyError(message) from None
        raise trouble(error.code, f"{system}: {what}", text) from None


def _is_lost(code: int) -> bool:
    """Whether somebody else has this name; after that, a client only reports that it can't continue."""
    return is_taken_over(code) or code == KafkaError._FATAL  # noqa: SLF001 - it has no other name
