"""A `Counted` app under load for as long as a test wants, and a reader that compares each record with the one due.

The load is bounded, so that an app that is killed all the time keeps up. Rows are produced idempotently: a broker that
dies in between has each once, or what the app is said to double would be the test's own.
"""

import json
import threading
from collections.abc import Iterator
from types import TracebackType
from typing import Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from holdfast_runtime.streams.kafka.client.connection import QUIET
from holdfast_runtime.streams.kafka.client.errors import END_OF_PARTITION
from tests.engine.runs import KEYS
from tests.kafka.counted import Counted, produce
from tests.kafka.reached import Reached
from tests.waiting import patience

_PER_SECOND = 160
_TICK = 0.05
_AWAY = {KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT}  # noqa: SLF001 - are called so
_PATIENCE = 300_000
"""Milliseconds: a broker may be away for longer than a minute."""


class Load:
    """Feeds rows from a thread until it is left; `count` is how many there are."""

    def __init__(self, counted: Counted) -> None:
        self.count = 0
        self._counted = counted
        self._over = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._feed, name="load", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if error is None:
            self.end()
        self._over.set()

    def end(self) -> int:
        """Feed no more; how many rows there are, all of them with the broker. Raises what went wrong."""
        self._over.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure
        return self.count

    def _feed(self) -> None:
        try:
            settings = {"enable.idempotence": True, "message.timeout.ms": _PATIENCE, "reconnect.backoff.max.ms": 500}
            bootstrap = {"bootstrap.servers": self._counted.broker.bootstrap, "partitioner": "murmur2_random"}
            producer = Producer({**bootstrap, **settings}, logger=QUIET)
            while not self._over.wait(_TICK):
                for _ in range(int(_PER_SECOND * _TICK)):
                    produce(producer, self._counted.rows, self.count)
                    self.count += 1
            assert producer.flush(_PATIENCE / 1000) == 0
        except BaseException as error:  # noqa: BLE001 - it is raised where the load ends
            self._failure = error


class Reader:
    """Reads committed records, each once, and fails at the first that is not the one due."""

    def __init__(self, counted: Counted) -> None:
        self.rows = 0
        self.newest = -1
        """The highest id that was read."""
        self._broker: Reached = counted.broker
        self._topic = counted.numbered
        self._positions: dict[int, int] = {}
        self._due = {f"key-{key}": _due(key) for key in range(KEYS)}
        self._stamps: set[str] = set()
        self._last: dict[str, str] = {}
        """Key -> the stamp of its last row."""

    def catch_up(self) -> int:
        """Read what there is now, or can be had while a broker is away; how many rows there were so far."""
        settings = {"group.id": "reader", "enable.auto.commit": False, "enable.partition.eof": True}
        consumer = Consumer(
            {"bootstrap.servers": self._broker.bootstrap, **settings, "isolation.level": "read_committed"}
        )
        try:
            open_ = set(consumer.list_topics(self._topic, timeout=patience(30)).topics[self._topic].partitions)
            consumer.assign([TopicPartition(self._topic, one, self._positions.get(one, 0)) for one in open_])
            while open_:
                message = consumer.poll(60)
                error = None if message is None else message.error()
                if message is None or (error is not None and error.code() in _AWAY):
                    break
                partition, offset = message.partition(), message.offset()
                assert partition is not None
                assert offset is not None
                if error is None:
                    self._take(message.value() or b"")
                    self._positions[partition] = offset + 1
                else:
                    assert error.code() == END_OF_PARTITION, error
                    open_.discard(partition)
        except KafkaException as failed:
            if failed.args[0].code() not in _AWAY:
                raise
        finally:
            consumer.close()
        return self.rows

    def _take(self, value: bytes) -> None:
        row = json.loads(value)
        due = next(self._due[row["k"]])
        assert (row["id"], row["nth"]) == due, f"{row['k']}: {due} is due, and {row} is there"
        assert row["before"] == self._last.get(row["k"], ""), f"the state is not what wrote the row before: {row}"
        self._last[row["k"]] = row["stamp"]
        assert row["stamp"] not in self._stamps, f"two rows were computed as one: {row}"
        self._stamps.add(row["stamp"])
        self.newest = max(self.newest, row["id"])
        self.rows += 1


def kept(count: int) -> int:
    """How many of so many rows the app writes."""
    return count - count // 10 - (count % 10 > 3)


def _due(key: int) -> Iterator[tuple[int, int]]:
    """The rows of a key, in order: id, and the how many-th."""
    number, nth = key, 0
    while True:
        if number % 10 != 3:
            nth += 1
            yield number, nth
        number += KEYS
