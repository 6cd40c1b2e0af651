"""The consumer of partitions through one client of librdkafka, each partition into a queue of its own.

So what was fetched ahead of one partition stays where it is while another is read. Must not be used by two threads
at once, nor after a fork. Must not know ranges: where to begin and when to stop is the caller's business.
"""

import ctypes
import os
import select
from ctypes import byref, c_int64
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.streams.kafka.client.connection import unanswered
from holdfast_runtime.streams.kafka.client.errors import trouble
from holdfast_runtime.streams.kafka.client.librdkafka import (
    Handle,
    Library,
    Message,
    destroy_client,
    new_client,
    troubles,
)
from holdfast_runtime.streams.kafka.client.settings import KafkaSettings
from holdfast_runtime.streams.kafka.read.gathering import Pointers, destroy
from holdfast_runtime.streams.records import OffsetBounds

_MOST = 10_000
"""Messages taken at once: enough that a call costs nothing, few enough to stay in the cache of a core."""


class Notice(NamedTuple):
    """A message seen from outside: a record, or something that happened to the partition."""

    code: int
    """0: a record."""
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
    """For asking for the position."""
    entry: Any
    held: Pointers
    """Messages that were taken and not used yet."""
    told: bool = False
    """Whether the position is one of this start. The client forgets the former one when a partition is stopped."""


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
        # went on by control records alone, which no call returns.
        self._woken, self._waker = os.pipe()
        for end in (self._woken, self._waker):
            os.set_blocking(end, False)
        self._poll = select.poll()
        self._poll.register(self._woken, select.POLLIN)
        self._wakes(self._main)

    def start(self, topic: str, partition: int, offset: int) -> PartitionFetch:
        """Fetch a partition from an offset on, which the next message has, or a later one."""
        kafka, name = self._kafka, topic.encode()
        if topic not in self._topics:
            handle = kafka.topic_new(self._client, name, None)
            if handle is None:
                raise self._trouble(topic, partition)
            self._topics[topic] = handle
        queue, asked = kafka.queue_new(self._client), kafka.topic_partition_list_new(1)
        entry = kafka.topic_partition_list_add(asked, name, partition)
        running = PartitionFetch(topic, partition, self._topics[topic], queue, asked, entry, self._taken[:0].copy())
        self._wakes(queue)
        if kafka.consume_start_queue(running.handle, partition, offset, queue):
            error = self._trouble(topic, partition)
            self._freed(running)
            raise error
        self._running.append(running)
        running.told = self._position(running) < 0
        return running

    def stop(self, running: PartitionFetch) -> None:
        """Fetch no more of a partition, and forget what was fetched ahead of it."""
        self._running.remove(running)
        self._kafka.consume_stop(running.handle, running.partition)
        self._freed(running)

    def take(self, running: PartitionFetch, most: int) -> Pointers:
        """Messages that are here, without waiting. They stay `held` until the caller cuts off those it has used up.

        A message that nobody destroys would keep the client from ending.
        """
        if not len(running.held):
            count = self._kafka.consume_batch_queue(running.queue, 0, self._taken.ctypes.data, min(most, _MOST))
            running.held = self._taken[: max(count, 0)].copy()
        return running.held

    @staticmethod
    def peek(address: int) -> Notice:
        """What is at an address; the text is that of an error."""
        message = Message.from_address(address)
        text = ctypes.string_at(message.value, message.value_size) if message.err and message.value else b""
        return Notice(message.err, text.decode(errors="replace"), message.offset)

    def position(self, running: PartitionFetch) -> int:
        """Below which offset everything has been taken, control records too; negative: it is not known."""
        return self._position(running) if running.told else -1

    def wait(self, seconds: float) -> None:
        """Return when something has come, for whatever partition, or when the time is over."""
        if self._poll.poll(max(0, int(seconds * 1000))):
            os.read(self._woken, 4096)

    def troubles(self) -> list[tuple[int, str]]:
        """What the client has said about its connections since it was last asked."""
        return troubles(self._library, self._main)

    def bounds(self, topic: str, partition: int, seconds: float) -> OffsetBounds:
        """What there is of a partition, asked of its broker."""
        oldest, end = c_int64(), c_int64()
        code = self._kafka.query_watermark_offsets(
            self._client, topic.encode(), partition, byref(oldest), byref(end), int(seconds * 1000)
        )
        if code:
            raise unanswered(self._settings, StreamPartition(topic, partition), code, seconds)
        return OffsetBounds(oldest.value, end.value)

    def close(self) -> None:
        """End the client and everything it reads."""
        for running in list(self._running):
            self.stop(running)
        for handle in self._topics.values():
            self._kafka.topic_destroy(handle)
        self._kafka.queue_destroy(self._main)
        destroy_client(self._library, self._client)
        self.abandon()

    def abandon(self) -> None:
        """Let go of what is the process's own. After a fork there is no client behind the rest."""
        for end in (self._woken, self._waker):
            os.close(end)

    def _position(self, running: PartitionFetch) -> int:
        self._kafka.position(self._client, running.list)
        found: int = running.entry.contents.offset
        return found

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
