"""What tests wrote into topics, record by record with the offsets the broker gave, to compare with what is read."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.cimpl import NewTopic

from holdfast.spec.streams import KafkaSystem, System
from holdfast_runtime.streams.kafka.admin.bounds import TopicBounds
from holdfast_runtime.streams.kafka.changelog_topic import ChangelogTopic
from holdfast_runtime.streams.kafka.client.connection import QUIET
from holdfast_runtime.streams.kafka.client.librdkafka import library
from holdfast_runtime.streams.kafka.client.settings import KafkaSettings
from holdfast_runtime.streams.kafka.read.fetcher import FastFetcher, RangeFetcher, make_fetcher
from holdfast_runtime.streams.kafka.read.plain_fetcher import PlainFetcher
from holdfast_runtime.streams.kafka.read.range_read import FetchPatience
from tests.kafka.broker import Broker
from tests.kafka.reached import ANSWER_TIMEOUT

Row = dict[str, Any]
Headers = list[tuple[str, bytes | None]]
LIMITS = FetchPatience(silence=30.0, doubt=0.5)
"""One broker never lags behind another, so what ends too early does so for good."""
READERS = ("fast", "plain")


def settings_of(bootstrap: str, **config: str) -> KafkaSettings:
    return KafkaSettings("events", bootstrap, {name.replace("_", "."): value for name, value in config.items()})


def changelog_in(bootstrap: str, app: str, partitions: int = 4) -> ChangelogTopic:
    """The changelog of an app; its name must be one that no other test uses."""
    return ChangelogTopic(System(name="events", kafka=KafkaSystem(bootstrap_servers=bootstrap)), app, partitions)


def reader(kind: str, settings: KafkaSettings, limits: FetchPatience = LIMITS) -> RangeFetcher:
    if kind == "plain":
        return PlainFetcher(settings, limits)
    assert library() is not None, "the loops are not built: `make setup`"
    made = make_fetcher(settings, limits)
    assert isinstance(made, FastFetcher)
    return made


def create(broker: Broker, topic: str, partitions: int = 1, **config: str) -> None:
    with broker.admin() as admin:
        new = NewTopic(topic, partitions, 1, config={name.replace("_", "."): value for name, value in config.items()})
        admin.create_topics([new])[topic].result(ANSWER_TIMEOUT)
        broker._wait_for_count(admin, topic, partitions)  # noqa: SLF001 - what `create_topic` does


@dataclass
class Known:
    """One partition, and the records in it that a reader of committed records sees."""

    broker: Broker
    topic: str
    partition: int = 0
    rows: dict[int, Row] = field(default_factory=dict)
    written: int = 0

    def write(self, records: Iterable[Mapping[str, Any]], **config: str) -> None:
        """As one producer does, with one batch at most."""
        producer = self.producer(**config)
        self.rows |= self.sent(producer, records)

    def producer(self, **config: str) -> Producer:
        """One that sends to the partition's broker."""
        settings = {name.replace("_", "."): value for name, value in config.items()}
        return Producer({"bootstrap.servers": self.broker.bootstrap, "linger.ms": "5", **settings}, logger=QUIET)

    def sent(self, producer: Producer, records: Iterable[Mapping[str, Any]]) -> dict[int, Row]:
        """Send, and return what is there now by offset; the caller knows whether it is committed."""
        rows: dict[int, Row] = {}

        def delivered(headers: Headers | None) -> Any:
            def put(error: KafkaError | None, message: Message) -> None:
                assert error is None, error
                offset, (_, time) = message.offset(), message.timestamp()
                assert offset is not None
                pairs = [{"key": key, "value": value} for key, value in headers] if headers else None
                rows[offset] = {
                    "offset": offset,
                    "key": message.key(),
                    "value": message.value(),
                    "timestamp": time,
                    "headers": pairs,
                }

            return put

        for record in records:
            done = delivered(record.get("headers"))
            producer.produce(self.topic, partition=self.partition, on_delivery=done, **record)
        assert producer.flush(ANSWER_TIMEOUT) == 0
        self.written += len(rows)
        return rows

    def expected(self, start: int, end: int) -> list[Row]:
        """The records of a range; without headers in any of them, they have none."""
        rows = [row for offset, row in sorted(self.rows.items()) if start <= offset < end]
        if any(row["headers"] for row in rows):
            return rows
        return [{name: value for name, value in row.items() if name != "headers"} for row in rows]

    def end(self) -> int:
        """The last stable offset."""
        return TopicBounds(settings_of(self.broker.bootstrap)).bounds([self.topic])[self.topic][self.partition].end


def filled(broker: Broker, topic: str, partitions: int = 1, rows: int = 100) -> list[Known]:
    """A topic, and what is in each of its partitions."""
    create(broker, topic, partitions)
    known = [Known(broker, topic, partition) for partition in range(partitions)]
    for topic_partition in known:
        topic_partition.write(
            [{"value": b"%s/%d: %d" % (topic.encode(), topic_partition.partition, i)} for i in range(rows)]
        )
    return known


def check(fetcher: RangeFetcher, known: Known, start: int, end: int) -> None:
    """A range has exactly its records."""
    assert fetcher.fetch(known.topic, known.partition, start, end).to_pylist() == known.expected(start, end)
