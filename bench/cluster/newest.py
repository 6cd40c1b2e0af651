"""The rows that go in and the committed rows that come out, as other programs see them.

Rows have numbers; a figure is over when one comes out that did not exist before the harm. Marks are rows with large
numbers that are put into partitions of one's choice. Must not know who writes the output.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count
from types import TracebackType
from typing import Self

import pyarrow as pa
from confluent_kafka import Consumer, Producer, TopicPartition

from holdfast_runtime.streams.kafka.client.connection import QUIET
from holdfast_runtime.streams.record_keys import place
from tests.kafka.counted import Counted
from tests.kafka.load import Load, kept
from tests.waiting import wait_until

MARK = 1_000_000_000
"""Numbers from here on are marks."""
BLOB = "blob-"
"""How keys begin whose rows only fill the state."""
FIRST, AGAIN = 300.0, 420.0
_FLUSH = 120.0
_AHEAD = 12  # a row in ten is dropped, one of twelve keys is not


@dataclass
class Rows:
    """Those that came out."""

    plain: set[int] = field(default_factory=set)
    marks: set[int] = field(default_factory=set)
    doubles: int = 0
    newest: int = -1
    """The highest number of a row that is no mark."""

    def take(self, value: bytes) -> None:
        """One more."""
        number = int(json.loads(value)["id"])
        numbers = self.marks if number >= MARK else self.plain
        self.doubles += number in numbers
        numbers.add(number)
        self.newest = max(self.newest, number) if number < MARK else self.newest


class Newest:
    """Reads the topic as far as it is there."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.rows = Rows()
        self._topic = topic
        self._assigned = False
        settings = {"group.id": "newest", "enable.auto.commit": False, "fetch.wait.max.ms": 10}
        settings |= {"isolation.level": "read_committed", "auto.offset.reset": "earliest"}
        self._consumer = Consumer({"bootstrap.servers": bootstrap, **settings}, logger=QUIET)

    def look(self) -> Rows:
        """What there is by now."""
        if not self._assigned:
            partitions = self._consumer.list_topics(self._topic, timeout=30).topics[self._topic].partitions
            self._consumer.assign([TopicPartition(self._topic, number, 0) for number in partitions])
            self._assigned = bool(partitions)
            if not partitions:
                return self.rows
        for message in self._consumer.consume(10_000, 0.05):
            if message.error() is None:
                self.rows.take(message.value() or b"")
        return self.rows

    def close(self) -> None:
        """No more."""
        self._consumer.close()


class Flow:
    """Rows for the app of a `Counted` until it is left, and what comes out of it."""

    def __init__(self, counted: Counted) -> None:
        self._counted = counted
        self._load = Load(counted)
        self._newest = Newest(counted.broker.bootstrap, counted.numbered)
        self._numbers = count(MARK, 10)  # the app drops a number in ten, none of these
        self._open = ExitStack()

    def __enter__(self) -> Self:
        self._open.callback(self._newest.close)
        self._open.enter_context(self._load)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._open.__exit__(kind, error, at)

    @property
    def doubles(self) -> int:
        """How many rows came out that had been there."""
        return self._newest.look().doubles

    def first(self, seconds: float = FIRST) -> None:
        """Wait for any row."""
        wait_until(lambda: self._newest.look().newest >= 0, seconds, "a first row comes out")

    def again(self, seconds: float = AGAIN) -> None:
        """Wait for a row that does not exist yet: no batch that was on its way can have it."""
        due = self._load.count + _AHEAD
        wait_until(lambda: self._newest.look().newest >= due, seconds, f"row {due} comes out")

    def marked(self, partitions: Sequence[int], of: int, seconds: float = AGAIN) -> None:
        """Put a mark into each of these of so many partitions, and wait until all have come out."""
        due = {next(self._numbers): partition for partition in partitions}
        rows = [(number, key_in(partition, of), partition) for number, partition in due.items()]
        self._produce((number, key, partition) for number, key, partition in rows)
        wait_until(lambda: due.keys() <= self._newest.look().marks, seconds, f"marks in {partitions} come out")

    def filled(self, keys: int, partitions: int) -> None:
        """A row for each of so many keys that begin with BLOB; back when what came behind them is out."""
        self._produce((0, f"{BLOB}{number}", -1) for number in range(keys))
        self.marked(range(partitions), partitions)
        self.again()

    def settles(self, seconds: float = AGAIN) -> None:
        """Feed no more, and wait until each row has come out: no figure for what loses some."""
        sent = self._load.end()
        due = kept(sent)
        wait_until(lambda: len(self._newest.look().plain) >= due, seconds, f"{due} rows come out of {sent}")

    def _produce(self, rows: Iterable[tuple[int, str, int]]) -> None:
        settings = {"partitioner": "murmur2_random", "enable.idempotence": True}
        producer = Producer({"bootstrap.servers": self._counted.broker.bootstrap, **settings}, logger=QUIET)
        for number, key, partition in rows:
            value = json.dumps({"id": number, "k": key, "ts": "2026-01-01T00:00:00Z"})
            producer.produce(self._counted.rows, value.encode(), key.encode(), partition)
            producer.poll(0)
        if left := producer.flush(_FLUSH):
            message = f"{left} rows did not reach the broker"
            raise TimeoutError(message)


def key_in(partition: int, of: int) -> str:
    """A key that Java clients put into this of so many partitions."""
    return next(key for key in _keys() if place(pa.array([key.encode()]), of)[0] == partition)


def _keys() -> Iterator[str]:
    yield from (f"mark-{number}" for number in count())
