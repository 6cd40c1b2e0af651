"""The fetcher of exact ranges of Kafka topics: the fast one, and the choice between it and the plain one.

The fast one calls librdkafka itself and makes no Python object per record; the plain one needs only the confluent_kafka
package. They return the same. A fetcher lasts as long as its process, connects at its first fetch, and continues where
the last range of a partition ended, so that records the client has fetched ahead are used. Must not return part of a
range, and must not carry a client across a fork.
"""

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.streams.kafka.client.connection import ConnectionState
from holdfast_runtime.streams.kafka.client.errors import END_OF_PARTITION, KafkaBusyError
from holdfast_runtime.streams.kafka.client.librdkafka import Library, library
from holdfast_runtime.streams.kafka.client.settings import KafkaSettings
from holdfast_runtime.streams.kafka.read.consumer import (
    PartitionConsumer,
    PartitionFetch,
    destroy,
    gathered,
    measured,
    require_fitting,
)
from holdfast_runtime.streams.kafka.read.plain_fetcher import PlainFetcher
from holdfast_runtime.streams.kafka.read.range_read import FetchPatience, RangeRead
from holdfast_runtime.streams.records import OffsetRange, check_order, joined

_IDLE = 30.0
"""Seconds after which an unused partition is no longer fetched."""
_ASK = 1.0
"""Seconds that a question for a partition's bounds may take; records that arrive meanwhile wait."""
_NAP = 0.1
"""The longest wait in seconds, if nothing ends it earlier."""


@dataclass(slots=True)
class _FetchState:
    """How far a partition has been read."""

    running: PartitionFetch
    next: int
    epoch: int | None
    """The leader epoch of the range for which it was started: what is fetched ahead was there under that leader."""
    asked: float = 0.0
    passed: int = 0
    """Everything below was taken when the end of the partition was seen.

    The end is reported once, but several ranges may reach it.
    """


@dataclass(slots=True)
class _Client:
    """What belongs to one process."""

    process: int
    consumer: PartitionConsumer
    said: ConnectionState
    fetches: dict[tuple[str, int], _FetchState] = field(default_factory=dict)

    def close(self) -> None:
        if self.process == os.getpid():
            self.consumer.close()


class FastFetcher:
    """Reads with librdkafka's own calls."""

    def __init__(self, settings: KafkaSettings, limits: FetchPatience, library: Library) -> None:
        self._settings, self._limits, self._library = settings, limits, library
        self._lock = threading.Lock()
        self._client: _Client | None = None
        self._end: Callable[[], object] = tuple
        self._process = os.getpid()

    def fetch(self, topic: str, partition: int, start: int, end: int, epoch: int | None = None) -> pa.RecordBatch:
        """Return the records with start <= offset < end that a reader of committed records sees."""
        offset_range = OffsetRange(StreamPartition(topic, partition), start, end, epoch)
        check_order(offset_range)
        if start == end:
            return joined([], offset_range)
        self._leave_parent()
        with self._lock:
            client = self._connected()
            self._stop_idle(client, but=(topic, partition))
            reading = RangeRead(
                self._settings,
                offset_range,
                self._limits,
                client.said,
                lambda: client.consumer.bounds(topic, partition, min(_ASK, self._limits.silence)),
                time.monotonic,
            )
            try:
                self._read(client, reading)
            except KafkaBusyError:
                self._abandon_client()
                raise
            except BaseException:  # where its client stands is unknown now
                self._stop(client, (topic, partition))
                raise
            return reading.records()

    def begin(self, ranges: Iterable[OffsetRange]) -> None:
        """Start fetching these ranges in parallel, for the fetches that follow."""
        self._leave_parent()
        with self._lock:
            client = self._connected()
            for offset_range in ranges:
                self._at(client, offset_range)

    def close(self) -> None:
        """Close the client."""
        self._leave_parent()
        with self._lock:
            self._client = None
            self._end()

    def _read(self, client: _Client, reading: RangeRead) -> None:
        fetch = self._at(client, reading.left)
        while not reading.complete:
            if reading.restart:
                reading.restart = False
                self._stop(client, reading.wanted.partition)
                client.consumer.wait(_NAP)
                fetch = self._at(client, reading.left)
            if len(client.consumer.take(fetch.running, reading.wanted.end - reading.next)):
                self._use(client, fetch, reading)
                continue
            reading.reached(max(fetch.passed, client.consumer.position(fetch.running)))
            if not reading.complete:
                for code, text in client.consumer.troubles():
                    client.said.heard(code, text)
                reading.check()
                client.consumer.wait(_NAP)
        fetch.next = reading.wanted.end

    def _use(self, client: _Client, fetch: _FetchState, reading: RangeRead) -> None:
        """Use records up to the first message that is no record of the range; consume that one if it is no record."""
        running = fetch.running
        sizes = measured(self._library, running.held, reading.wanted.end)
        require_fitting(sizes, str(reading.wanted))
        if sizes.records:
            used, running.held = running.held[: sizes.records], running.held[sizes.records :]
            reading.add(gathered(self._library, used, sizes))
        if not len(running.held):
            return
        first = client.consumer.peek(int(running.held[0]))
        if first.code == 0:
            reading.reached(first.offset)
            return
        if reading.complete and first.code != END_OF_PARTITION:
            return  # what is wrong lies behind the range
        used, running.held = running.held[:1], running.held[1:]
        destroy(self._library, used)
        if first.code == END_OF_PARTITION:
            fetch.passed = first.offset
        reading.told(*first)

    def _at(self, client: _Client, offset_range: OffsetRange) -> _FetchState:
        """Return the partition positioned where a range starts, restarted if necessary."""
        key, offset = offset_range.partition, offset_range.start
        fetch = client.fetches.get(key)
        if fetch is None or fetch.next != offset or fetch.epoch != offset_range.epoch:
            self._stop(client, key)
            fetch = client.fetches[key] = _FetchState(client.consumer.start(*key, offset), offset, offset_range.epoch)
        fetch.asked = time.monotonic()
        return fetch

    def _stop(self, client: _Client, key: tuple[str, int]) -> None:
        fetch = client.fetches.pop(key, None)
        if fetch is not None:
            client.consumer.stop(fetch.running)

    def _stop_idle(self, client: _Client, but: tuple[str, int]) -> None:
        before = time.monotonic() - _IDLE
        for key in [key for key, fetch in client.fetches.items() if fetch.asked < before and key != but]:
            self._stop(client, key)

    def _connected(self) -> _Client:
        if self._client is None:
            consumer = PartitionConsumer(self._library, self._settings)
            self._client = _Client(os.getpid(), consumer, ConnectionState(self._settings))
            self._end = weakref.finalize(self, self._client.close)  # once, when closed or when this object is garbage
        return self._client

    def _abandon_client(self) -> None:
        """Let the next fetch open a new client: one was seen that fetched nothing any more after its broker was back.

        It is closed in a thread, as a client in that state may take long to end.
        """
        end, self._client, self._end = self._end, None, tuple
        threading.Thread(target=end, name="kafka-close", daemon=True).start()

    def _leave_parent(self) -> None:
        """After a fork, drop the client, whose threads are not here, and the lock, which may be held for ever."""
        if self._process == os.getpid():
            return
        self._process, self._lock = os.getpid(), threading.Lock()
        if self._client is not None:
            self._client.consumer.abandon()
            self._client, self._end = None, tuple


READER = "HOLDFAST_KAFKA_READER"
"""The environment variable that selects the reader: `plain`, or the best available."""


class RangeFetcher(Protocol):
    """Reads topics of one system in one process."""

    def fetch(self, topic: str, partition: int, start: int, end: int, epoch: int | None = None) -> pa.RecordBatch:
        """Return the records with start <= offset < end that a reader of committed records sees, as `FETCHED`.

        If any record has headers, there is one more column, `headers`. With another leader epoch than that of the last
        fetch, nothing that was fetched ahead is used.
        """
        ...

    def begin(self, ranges: Iterable[OffsetRange]) -> None:
        """Announce which ranges the next fetches are of, if there are several.

        Without it each fetch starts its own partition, and a new one may have to wait for a broker that holds a request
        for the others.
        """
        ...

    def close(self) -> None:
        """Close the client. A later fetch opens a new one."""
        ...


def make_fetcher(settings: KafkaSettings, limits: FetchPatience | None = None) -> RangeFetcher:
    """Return the fast fetcher if its libraries are available, else the plain one."""
    limits = limits or FetchPatience()
    libraries = None if os.environ.get(READER) == "plain" else library()
    return PlainFetcher(settings, limits) if libraries is None else FastFetcher(settings, limits, libraries)
