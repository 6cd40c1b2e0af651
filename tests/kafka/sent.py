"""What tests send in transactions, and what others then see of it."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field

import pyarrow as pa
from confluent_kafka import Consumer, Message, TopicPartition

from holdfast.spec.streams import KafkaSystem, System
from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.streams.kafka.client.errors import END_OF_PARTITION
from holdfast_runtime.streams.kafka.client.settings import KafkaSettings
from holdfast_runtime.streams.kafka.system import KafkaCluster
from holdfast_runtime.streams.markers import AttemptId, AttemptSlot, Writes
from holdfast_runtime.streams.records import HEADERS, Marker, written_batch
from tests.kafka.reached import ANSWER_TIMEOUT, Reached
from tests.waiting import patience


def settings_of(bootstrap: str, **config: str) -> KafkaSettings:
    """As a spec would have them."""
    config = {name.replace("_", "."): value for name, value in config.items()}
    return KafkaSettings.of(System(name="events", kafka=KafkaSystem(bootstrap_servers=bootstrap, config=config)), {})


@dataclass
class Attempt:
    """One attempt of an app that writes to one topic of two partitions."""

    bootstrap: str
    app: str
    number: int
    slots: int = 2
    run: str = "1"
    owner: str = "namespace shop"
    life: str = "life"
    content: str = "planned"
    """Batches of other content have another digest."""
    before: dict[str, Marker] = field(default_factory=dict)

    @property
    def turns(self) -> dict[str, int]:
        """Task -> the last batch that earlier attempts have written."""
        return {task: marker.batch for task, marker in self.before.items()}

    @property
    def who(self) -> AttemptId:
        return AttemptId(self.app, self.run, self.number)

    def begin(self) -> "Attempt":
        """It may write from here on."""
        self.before = dict(KafkaCluster(settings_of(self.bootstrap), self.app).begin(self.who, self.slots, self.owner))
        return self

    @contextmanager
    def worker(self) -> Iterator["Worker"]:
        """One of its processes."""
        kafka = KafkaCluster(settings_of(self.bootstrap), self.app, before=self.before)
        try:
            yield Worker(self, kafka)
        finally:
            kafka.close()


@dataclass
class Worker:
    """A process that writes, as far as it matters here."""

    attempt: Attempt
    kafka: KafkaCluster

    def send(self, batch: int, tasks: str = "a", slot: int = 0, rows: int = 3, at=lambda _: None) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
        """The rows of these tasks, each named by task, batch and number."""
        self.kafka.write(
            AttemptSlot(self.attempt.who, slot), writes(self.attempt, batch, tasks, rows), at, lambda: None
        )


def writes(attempt: Attempt, batch: int, tasks: str, rows: int) -> Writes:
    """Each task's rows, half of them to each partition; those to the second have themselves as a header."""
    by_partition: dict[StreamPartition, list[tuple[object, Marker]]] = {}
    for task in tasks:
        marker = Marker(attempt.who.owner, task, batch, attempt.number, attempt.life, f"{attempt.content}-{batch}")
        for partition in (0, 1):
            values = [b"%s-%d-%d" % (task.encode(), batch, row) for row in range(partition, rows, 2)]
            if values:
                headers = pa.array([[{"key": "row", "value": value}] for value in values], HEADERS.type)
                keys = [task.encode()] * len(values)
                records = written_batch(keys, values, 1_000, headers if partition else None)
                by_partition.setdefault(StreamPartition(f"{attempt.app}-out", partition), []).append((records, marker))
    return by_partition


def rows_of(tasks: str, batches: range, rows: int = 3) -> list[str]:
    """What is to be seen when these batches are written."""
    return sorted(f"{task}-{batch}-{row}" for task in tasks for batch in batches for row in range(rows))


def consumed(broker: Reached, topic: str, partition: int, count: int) -> list[Message]:
    """The first records of a partition that a reader of committed records sees."""
    with closing(Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "consumed"})) as consumer:
        consumer.assign([TopicPartition(topic, partition, 0)])
        return consumer.consume(count, ANSWER_TIMEOUT)


def seen(broker: Reached, topic: str) -> list[str]:
    """The values a reader of committed records sees, of all partitions, sorted."""
    return sorted(value for values in seen_by_partition(broker, topic).values() for value in values)


def seen_by_partition(broker: Reached, topic: str) -> dict[int, list[str]]:
    """Partition -> the values a reader of committed records sees, in order."""
    return {
        number: [value.decode() for value in values] for number, values in bytes_by_partition(broker, topic).items()
    }


def bytes_by_partition(broker: Reached, topic: str) -> dict[int, list[bytes]]:
    """The same for values that are no text."""
    settings = {
        "group.id": "seen",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "earliest",
    }
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, **settings, "isolation.level": "read_committed"})
    try:
        known = consumer.list_topics(topic, timeout=patience(30)).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, 0) for number in known])
        values_of: dict[int, list[bytes]] = {number: [] for number in known}
        open_ = set(known)
        while open_:
            message = consumer.poll(30)
            assert message is not None, "the broker is silent"
            error, number = message.error(), message.partition() or 0
            if error is None:
                values_of[number].append(message.value() or b"")
            else:
                assert error.code() == END_OF_PARTITION, error
                open_.discard(number)
        return values_of
    finally:
        consumer.close()
