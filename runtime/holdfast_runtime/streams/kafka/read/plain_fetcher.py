"""The fetcher of exact ranges for when librdkafka can't be called directly: it uses the confluent_kafka package alone.

It returns the same as the fast one, at a third of its speed, because each record becomes a Python object. It reads one
partition at a time, and restarts when the next range is of another. Must not carry a client across a fork.
"""

import os
import threading
import time
from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.streams.kafka.client.connection import QUIET, ConnectionState, keep_for_ever, unanswered
from holdfast_runtime.streams.kafka.client.errors import END_OF_PARTITION, KafkaBusyError
from holdfast_runtime.streams.kafka.client.settings import KafkaSettings
from holdfast_runtime.streams.kafka.read.range_read import WITH_HEADERS, FetchPatience, RangeRead
from holdfast_runtime.streams.records import FETCHED, HEADERS, OffsetBounds, OffsetRange, check_order, joined

_MOST = 2_000
"""Messages taken at once: more are slower, because of the garbage collector and the core's cache."""
_ASK = 1.0
"""Seconds that a question for a partition's bounds may take."""
_NAP = 0.01
"""Seconds of each wait: control records do not end one, but may end a range."""


class PlainFetcher:
    """Reads with the package's consumer."""

    def __init__(self, settings: KafkaSettings, limits: FetchPatience) -> None:
        self._settings, self._limits = settings, limits
        self._lock = threading.Lock()
        self._client: _Client | None = None
        self._process = os.getpid()

    def fetch(self, topic: str, partition: int, start: int, end: int, epoch: int | None = None) -> pa.RecordBatch:
        """Return the records with start <= offset < end that a reader of committed records sees."""
        offset_range = OffsetRange(StreamPartition(topic, partition), start, end, epoch)
        check_order(offset_range)
        if start == end:
            return joined([], offset_range)
        self._leave_parent()
        with self._lock:
            client = self._client = self._client or _Client(self._settings)
            reading = RangeRead(
                self._settings,
                offset_range,
                self._limits,
                client.said,
                lambda: client.bounds(offset_range.partition, min(_ASK, self._limits.silence)),
                time.monotonic,
            )
            try:
                client.read(reading)
            except KafkaBusyError:  # see FastFetcher
                self._client = None
                threading.Thread(target=client.consumer.close, name="kafka-close", daemon=True).start()
                raise
            except BaseException:
                client.leave()
                raise
            return reading.records()

    def begin(self, ranges: Iterable[OffsetRange]) -> None:
        """Do nothing: it reads one partition at a time."""

    def close(self) -> None:
        """Close the client."""
        self._leave_parent()
        with self._lock:
            client, self._client = self._client, None
            if client is not None:
                client.consumer.close()

    def _leave_parent(self) -> None:
        if self._process == os.getpid():
            return
        self._process, self._lock = os.getpid(), threading.Lock()
        if self._client is not None:
            keep_for_ever(self._client.consumer)
            self._client = None


class _Client:
    """A consumer and the one partition it reads."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings, self.said = settings, ConnectionState(settings)
        fault = None
        own_config: dict[str, Any] = {"group.id": "holdfast", "error_cb": partial(_heard, self.said), "logger": QUIET}
        try:
            self.consumer = Consumer({**settings.reading(), **own_config})
        except KafkaException as error:
            fault = error.args[0].str()
        if fault is not None:  # not inside the handler, whose exception would show values
            raise settings.invalid(fault)
        self._at: StreamPartition | None = None
        self._next = 0
        self._epoch: int | None = None
        """The leader epoch of the range for which it was started."""
        self._seen, self._passed = False, 0
        self._held: list[Message] = []

    def read(self, reading: RangeRead) -> None:
        """Read all records of a range."""
        offset_range = reading.wanted
        if (self._at, self._next, self._epoch) != (offset_range.partition, offset_range.start, offset_range.epoch):
            self._start(reading)
        while not reading.complete:
            if reading.restart:
                reading.restart = False
                self._start(reading)
            messages = self._take(reading.wanted.end - reading.next)
            if messages:
                self._use(messages, reading)
                continue
            # Before a record has come, the position may be that of an earlier start.
            reading.reached(max(self._passed, self._position() if self._seen else -1))
            if not reading.complete:
                reading.check()
        self._next = reading.wanted.end

    def leave(self) -> None:
        """Stop reading; the next range restarts."""
        self.consumer.unassign()
        self._at, self._held = None, []

    def bounds(self, partition: StreamPartition, seconds: float) -> OffsetBounds:
        """Ask the broker for the offsets of a partition."""
        error = None
        try:
            offsets = self.consumer.get_watermark_offsets(TopicPartition(*partition), timeout=seconds)
            return OffsetBounds(*offsets)
        except KafkaException as raised:
            error = raised.args[0].code()
        raise unanswered(self._settings, partition, error, seconds)

    def _start(self, reading: RangeRead) -> None:
        self._at, self._seen, self._passed, self._held = reading.wanted.partition, False, 0, []
        self._epoch = reading.wanted.epoch
        self.consumer.assign([TopicPartition(*self._at, reading.next)])

    def _take(self, most: int) -> list[Message]:
        if self._held:
            remaining, self._held = self._held, []
            return remaining
        # With a timeout, `consume` would wait for all of it unless it gets as many messages as allowed.
        messages = self.consumer.consume(min(most, _MOST), 0)
        if not messages and (first := self.consumer.poll(_NAP)) is not None:
            messages = [first]
        return [message for message in messages if (message.topic(), message.partition()) == self._at]

    def _use(self, messages: list[Message], reading: RangeRead) -> None:
        """Use records up to the first message that is no record of the range; consume that one if it is no record."""
        count = 0
        while (
            count < len(messages) and messages[count].error() is None and _offset(messages[count]) < reading.wanted.end
        ):
            count += 1
        self._held = messages[count:]
        if count:
            self._seen = True
            reading.add(_batch(messages[:count]))
        if count == len(messages):
            return
        error = messages[count].error()
        if error is None:
            reading.reached(_offset(messages[count]))
            return
        del self._held[0]
        if error.code() == END_OF_PARTITION:
            self._passed = _offset(messages[count])  # the end is reported once, but several ranges may reach it
        reading.told(error.code(), error.str(), _offset(messages[count]))

    def _position(self) -> int:
        assert self._at is not None  # noqa: S101 - a range is being read
        return int(self.consumer.position([TopicPartition(*self._at)])[0].offset)


def _heard(connection: ConnectionState, error: KafkaError) -> None:
    """Not a method: the consumer holds a reference to it, and would hold itself."""
    connection.heard(error.code(), error.str())


def _offset(message: Message) -> int:
    offset = message.offset()
    assert offset is not None  # noqa: S101 - records have one, and so has the end of a partition
    return offset


def _batch(messages: list[Message]) -> pa.RecordBatch:
    count = len(messages)
    columns = [
        pa.array(np.fromiter((message.offset() for message in messages), np.int64, count)),
        pa.array([message.key() for message in messages], pa.binary()),
        pa.array([message.value() for message in messages], pa.binary()),
        pa.array(np.fromiter((message.timestamp()[1] for message in messages), np.int64, count)),
    ]
    cells = [_cells(message) for message in messages]
    if not any(cells):
        return pa.RecordBatch.from_arrays(columns, schema=FETCHED)
    return pa.RecordBatch.from_arrays([*columns, pa.array(cells, HEADERS.type)], schema=WITH_HEADERS)


def _cells(message: Message) -> list[dict[str, object]] | None:
    headers = message.headers()
    if not headers:
        return None
    assert isinstance(headers, list)  # noqa: S101 - only those to write may be a mapping
    return [{"key": key, "value": value} for key, value in headers]
