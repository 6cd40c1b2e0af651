"""The consumer of partitions through one client of librdkafka, each partition with its own queue.

So the records fetched ahead of one partition stay in its queue while another is read. Must not be used by two threads
at once, nor after a fork. Must not know ranges: the caller decides where to begin and when to stop.

What it takes are addresses of messages, and two calls into gather.c make Arrow batches of them: buffers are allocated
here, filled there and never copied again.
"""

import ctypes
import os
import select
from ctypes import byref, c_int64
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.streams.kafka.client.connection import unanswered
from holdfast_runtime.streams.kafka.client.errors import END_OF_PARTITION, trouble
from holdfast_runtime.streams.kafka.client.librdkafka import (
    Binary,
    Handle,
    Library,
    Message,
    MessageColumns,
    Sizes,
    destroy_client,
    new_client,
    troubles,
)
from holdfast_runtime.streams.kafka.client.settings import KafkaSettings
from holdfast_runtime.streams.kafka.read.range_read import WITH_HEADERS
from holdfast_runtime.streams.records import FETCHED, HEADERS, MOST_BYTES, BatchTooLargeError, OffsetBounds

Pointers = np.ndarray[Any, np.dtype[np.int64]]
"""Addresses of messages."""


def measured(library: Library, messages: Pointers, end: int) -> Sizes:
    """Return the space for the messages before the first that is an error or is not below `end`."""
    sizes = Sizes()
    library.loops.measure(byref(library.functions), messages.ctypes.data, len(messages), end, byref(sizes))
    return sizes


def require_fitting(sizes: Sizes, what: str) -> None:
    """Refuse messages of sizes that no batch can hold."""
    largest: int = max(sizes.key_bytes, sizes.value_bytes, sizes.name_bytes, sizes.content_bytes)
    if largest > MOST_BYTES:
        raise BatchTooLargeError.of(what, largest)


def gathered(library: Library, messages: Pointers, sizes: Sizes) -> pa.RecordBatch:
    """Return the measured messages as a batch and destroy them."""
    count = sizes.records
    offsets, timestamps = np.empty(count, np.int64), np.empty(count, np.int64)
    keys = _Binary(count, sizes.key_bytes, sizes.null_keys)
    values = _Binary(count, sizes.value_bytes, sizes.null_values)
    columns = MessageColumns(offsets.ctypes.data, timestamps.ctypes.data, keys.addresses(), values.addresses())
    headers = None
    if sizes.with_headers:
        headers = _Headers(sizes)
        headers.put_into(columns)
    library.loops.gather(byref(library.functions), messages.ctypes.data, count, byref(columns))
    made = [pa.array(offsets), keys.array(pa.binary()), values.array(pa.binary()), pa.array(timestamps)]
    if headers is None:
        return pa.RecordBatch.from_arrays(made, schema=FETCHED)
    return pa.RecordBatch.from_arrays([*made, headers.array()], schema=WITH_HEADERS)


def without_ends(library: Library, messages: Pointers) -> int:
    """Take out and destroy each end of the partition that another message follows; return how many are left.

    A reader that is ahead of its writers meets the end behind each few records; once they go on, that says nothing.
    """
    left: int = library.loops.without_ends(
        byref(library.functions), messages.ctypes.data, len(messages), END_OF_PARTITION
    )
    return left


def destroy(library: Library, messages: Pointers) -> None:
    """Destroy messages that are not needed."""
    library.loops.destroy(byref(library.functions), messages.ctypes.data, len(messages))


class _Binary:
    """The buffers of a binary column."""

    def __init__(self, rows: int, size: int, nulls: int) -> None:
        self.rows, self.nulls = rows, nulls
        self.ends, self.bytes = np.empty(rows + 1, np.int32), np.empty(size, np.uint8)
        self.valid = _bitmap(rows) if nulls else None

    def addresses(self) -> Binary:
        valid = None if self.valid is None else self.valid.ctypes.data
        return Binary(self.ends.ctypes.data, self.bytes.ctypes.data, valid)

    def array(self, kind: pa.DataType) -> pa.Array:
        valid = None if self.valid is None else pa.py_buffer(self.valid)
        buffers = [valid, pa.py_buffer(self.ends), pa.py_buffer(self.bytes)]
        return pa.Array.from_buffers(kind, self.rows, buffers, self.nulls)


class _Headers:
    """The buffers of the column of headers."""

    def __init__(self, sizes: Sizes) -> None:
        self.sizes = sizes
        self.ends, self.there = np.empty(sizes.records + 1, np.int32), _bitmap(sizes.records)
        self.names = _Binary(sizes.headers, sizes.name_bytes, 0)
        self.contents = _Binary(sizes.headers, sizes.content_bytes, sizes.null_contents)

    def put_into(self, columns: MessageColumns) -> None:
        columns.header_ends, columns.with_headers = self.ends.ctypes.data, self.there.ctypes.data
        columns.names, columns.contents = self.names.addresses(), self.contents.addresses()

    def array(self) -> pa.Array:
        children = [_text(self.names.array(pa.binary())), self.contents.array(pa.binary())]
        structs = pa.Array.from_buffers(HEADERS.type.value_type, self.sizes.headers, [None], 0, children=children)
        buffers = [pa.py_buffer(self.there), pa.py_buffer(self.ends)]
        without = self.sizes.records - self.sizes.with_headers
        return pa.Array.from_buffers(HEADERS.type, self.sizes.records, buffers, without, children=[structs])


def _text(names: pa.Array) -> pa.Array:
    """Return header names as text. By convention they are UTF-8; other bytes become replacement characters."""
    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([name.decode(errors="replace") for name in names.to_pylist()], pa.string())


def _bitmap(rows: int) -> "np.ndarray[Any, np.dtype[np.uint8]]":
    return np.zeros((rows + 7) // 8, np.uint8)


_MOST = 10_000
"""Messages taken at once: enough to make the call cheap, few enough to stay in a core's cache."""


class Notice(NamedTuple):
    """A message seen from outside: a record, or an event of the partition."""

    code: int
    """0 for a record."""
    text: str
    offset: int


@dataclass(slots=True)
class PartitionFetch:
    """A partition that is being fetched."""

    topic: str
    partition: int
    handle: Handle
    queue: Handle
    list: Handle
    """The list used to ask for the position."""
    entry: Any
    held: Pointers
    """Messages that were taken but not used yet."""
    told: bool = False
    """Whether the position is of this start: the client forgets the earlier one when a partition is stopped."""


class PartitionConsumer:
    """A client and the partitions it reads."""

    def __init__(self, library: Library, settings: KafkaSettings) -> None:
        self._library, self._kafka, self._settings = library, library.kafka, settings
        self._client = new_client(library, "consumer", settings, settings.reading())
        self._main = self._kafka.queue_get_main(self._client)
        self._topics: dict[str, Handle] = {}
        self._running: list[PartitionFetch] = []
        self._taken: Pointers = np.empty(_MOST, np.int64)
        # The client writes a byte when a queue is no longer empty. Waiting in its own call would miss that a partition
        # advanced by control records alone, which no call returns.
        self._woken, self._waker = os.pipe()
        for end in (self._woken, self._waker):
            os.set_blocking(end, False)
        self._poll = select.poll()
        self._poll.register(self._woken, select.POLLIN)
        self._wakes(self._main)

    def start(self, topic: str, partition: int, offset: int) -> PartitionFetch:
        """Fetch a partition from an offset on; the next message may have a later offset."""
        kafka, name = self._kafka, topic.encode()
        if topic not in self._topics:
            handle = kafka.topic_new(self._client, name, None)
            if handle is None:
                raise self._trouble(topic, partition)
            self._topics[topic] = handle
        queue, partitions = kafka.queue_new(self._client), kafka.topic_partition_list_new(1)
        entry = kafka.topic_partition_list_add(partitions, name, partition)
        running = PartitionFetch(
            topic, partition, self._topics[topic], queue, partitions, entry, self._taken[:0].copy()
        )
        self._wakes(queue)
        if kafka.consume_start_queue(running.handle, partition, offset, queue):
            error = self._trouble(topic, partition)
            self._freed(running)
            raise error
        self._running.append(running)
        running.told = self._position(running) < 0
        return running

    def stop(self, running: PartitionFetch) -> None:
        """Stop fetching a partition, and drop what was fetched ahead."""
        self._running.remove(running)
        self._kafka.consume_stop(running.handle, running.partition)
        self._freed(running)

    def take(self, running: PartitionFetch, most: int) -> Pointers:
        """Return available messages without waiting. They stay `held` until the caller removes those it has used.

        An undestroyed message would keep the client from closing.
        """
        if not len(running.held):
            with_ends = min(2 * most, _MOST)
            count = self._kafka.consume_batch_queue(running.queue, 0, self._taken.ctypes.data, with_ends)
            left = without_ends(self._library, self._taken[: max(count, 0)])
            running.held = self._taken[:left].copy()
        return running.held

    @staticmethod
    def peek(address: int) -> Notice:
        """Return the message at an address; the text is that of an error."""
        message = Message.from_address(address)
        text = ctypes.string_at(message.value, message.value_size) if message.err and message.value else b""
        return Notice(message.err, text.decode(errors="replace"), message.offset)

    def position(self, running: PartitionFetch) -> int:
        """Return the offset below which everything was taken, including control records; negative if unknown."""
        return self._position(running) if running.told else -1

    def wait(self, seconds: float) -> None:
        """Return when something has arrived for any partition, or when the time is over."""
        if self._poll.poll(max(0, int(seconds * 1000))):
            os.read(self._woken, 4096)

    def troubles(self) -> list[tuple[int, str]]:
        """Return the client's messages about its connections since the last call."""
        return troubles(self._library, self._main)

    def bounds(self, topic: str, partition: int, seconds: float) -> OffsetBounds:
        """Ask the broker for the offsets of a partition."""
        oldest, end = c_int64(), c_int64()
        code = self._kafka.query_watermark_offsets(
            self._client, topic.encode(), partition, byref(oldest), byref(end), int(seconds * 1000)
        )
        if code:
            raise unanswered(self._settings, StreamPartition(topic, partition), code, seconds)
        return OffsetBounds(oldest.value, end.value)

    def close(self) -> None:
        """Close the client and everything it reads."""
        for running in list(self._running):
            self.stop(running)
        for handle in self._topics.values():
            self._kafka.topic_destroy(handle)
        self._kafka.queue_destroy(self._main)
        destroy_client(self._library, self._client)
        self.abandon()

    def abandon(self) -> None:
        """Release the process's own resources. After a fork there is no client behind the rest."""
        for end in (self._woken, self._waker):
            os.close(end)

    def _position(self, running: PartitionFetch) -> int:
        self._kafka.position(self._client, running.list)
        offset: int = running.entry.contents.offset
        return offset

    def _freed(self, running: PartitionFetch) -> None:
        destroy(self._library, running.held)
        self._kafka.queue_destroy(running.queue)
        self._kafka.topic_partition_list_destroy(running.list)

    def _wakes(self, queue: Handle) -> None:
        self._kafka.queue_io_event_enable(queue, self._waker, b"!", 1)

    def _trouble(self, topic: str, partition: int) -> Exception:
        return trouble(self._kafka.last_error(), self._what(topic, partition))

    def _what(self, topic: str, partition: int) -> str:
        return f"Kafka system {self._settings.system}: {topic}/{partition} can't be read"
