"""Keys written by Java, librdkafka and Holdfast are in the same partitions of a real topic; where not, it is said."""

import os
import random
import shutil
import subprocess
import uuid
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, Message, Producer

from holdfast.spec.streams import Partitioner
from holdfast_runtime.streams.kafka.admin.bounds import TopicBounds
from holdfast_runtime.streams.kafka.read.fetcher import READER, make_fetcher
from holdfast_runtime.streams.kafka.write.producer import TransactionalProducer
from holdfast_runtime.streams.record_keys import place, split
from holdfast_runtime.streams.records import written_batch
from tests.kafka.broker import JVM, Broker, kafka_jars
from tests.kafka.sent import seen_by_partition, settings_of
from tests.streams.test_partitioner import PLACES
from tests.waiting import patience, wait_until

pytestmark = pytest.mark.kafka

PRODUCER = Path(__file__).with_name("JavaProducer.java")
COUNTS = (1, 2, 3, 7, 12)
Record = tuple[bytes | None, bytes | None]
Write = Callable[[Broker, str, Sequence[Record]], "list[Answer]"]


class Answer(NamedTuple):
    """Where the broker told a client that its record is."""

    partition: int
    offset: int


def some_keys() -> list[bytes]:
    """The same at each run: every length to 64, so every rest of a word of four bytes, and keys of common kinds."""
    chance = random.Random(12)  # noqa: S311 - no secret
    drawn = [chance.randbytes(length) for length in range(65) for _ in range(5)]
    edges = [bytes([byte]) * length for byte in (0x00, 0x7F, 0x80, 0xFF) for length in range(1, 10)]
    numbers = [str(number).encode() for number in (*range(-20, 60), 2**31 - 1, -(2**31), 2**63 - 1, -(2**63))]
    texts = [text.encode() for text in ("Straße", "ключ", "鍵", "🔑", "é", "e\u0301", "order 7", '["a",1]')]
    return list(dict.fromkeys([*(key for key, _, _ in PLACES), *drawn, *edges, *numbers, *texts]))


KEYS = some_keys()
TRUE_KEYS = [key for key in KEYS if key]


def topic_of(broker: Broker, partitions: int) -> str:
    name = f"interop-{uuid.uuid4().hex[:8]}"
    broker.create_topic(name, partitions)
    return name


def java(broker: Broker, topic: str, records: Sequence[Record]) -> list[Answer]:
    """Written by the Java client, as it comes."""
    program = shutil.which("java", path=f"{os.environ.get('JAVA_HOME', '')}/bin:{os.environ['PATH']}")
    assert program is not None
    lines = "".join(f"{_hex(key)}\t{_hex(value)}\n" for key, value in records)
    command = [program, *JVM, "-cp", f"{kafka_jars()}/*", str(PRODUCER), broker.bootstrap, topic]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=patience(120), check=False)
    assert done.returncode == 0, done.stderr
    answers = [Answer(*map(int, line.split("\t"))) for line in done.stdout.splitlines()]
    assert len(answers) == len(records)
    return answers


def librdkafka(broker: Broker, topic: str, records: Sequence[Record], **config: str) -> list[Answer]:
    """Written by librdkafka as it comes, unless `config` says otherwise; but a retry must not change the order."""
    answers: dict[int, Answer] = {}

    def told(number: int, error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        answers[number] = Answer(partition, offset)

    named = {name.replace("_", "."): value for name, value in config.items()}
    producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, **named})
    for number, (key, value) in enumerate(records):
        producer.produce(topic, value, key, on_delivery=partial(told, number))
    assert producer.flush(60) == 0
    return [answers[number] for number in range(len(records))]


def holdfast(
    broker: Broker, topic: str, records: Sequence[Record], places: Sequence[int], *, fast: bool = True
) -> None:
    """Written by Holdfast in a transaction, by its calls of librdkafka or those of the package."""
    producer = TransactionalProducer(settings_of(broker.bootstrap), f"{topic}-writer", fast=fast)
    producer.open()
    producer.begin()
    keys, values = zip(*records, strict=True)
    for number, part in split(written_batch(keys, values, 1_000), pa.array(places).to_numpy()):
        producer.put(topic, number, part)
    producer.commit()
    producer.close()


def places_of(keys: Sequence[bytes | None], count: int, partitioner: Partitioner = "murmur2") -> list[int]:
    """Where Holdfast puts them."""
    return [int(number) for number in place(pa.array(keys, pa.binary()), count, partitioner)]


def fetched(broker: Broker, topic: str, count: int) -> dict[int, list[Record]]:
    """Partition -> what Holdfast reads there, in order, once `count` records are there."""
    settings = settings_of(broker.bootstrap)
    bounds, fetcher = TopicBounds(settings), make_fetcher(settings)
    records_of: dict[int, list[Record]] = {}

    def all_are_there() -> bool:
        for number, (oldest, end, _) in bounds.bounds([topic])[topic].items():
            records = fetcher.fetch(topic, number, oldest, end)
            records_of[number] = list(
                zip(*(records.column(name).to_pylist() for name in ("key", "value")), strict=True)
            )
        return sum(map(len, records_of.values())) >= count

    try:
        # The broker answers a commit first, and shows what was committed a moment later.
        wait_until(all_are_there, 30, f"{topic} holds {count} records")
        return records_of
    finally:
        fetcher.close()


def assert_are_in(places: Sequence[int], answers: Sequence[Answer], broker: Broker, topic: str) -> None:
    """The client says so, and a consumer finds each record there; the value of each is its number."""
    assert [answer.partition for answer in answers] == list(places)
    values_of = seen_by_partition(broker, topic)
    assert [values_of[partition][offset] for partition, offset in answers] == [str(n) for n in range(len(places))]


def numbered(keys: Sequence[bytes | None]) -> list[Record]:
    return [(key, b"%d" % number) for number, key in enumerate(keys)]


def _hex(cell: bytes | None) -> str:
    return "-" if cell is None else cell.hex()


@pytest.mark.parametrize("count", COUNTS)
def test_a_key_of_java_is_where_holdfast_puts_it(broker: Broker, count: int) -> None:
    topic = topic_of(broker, count)
    assert b"" in KEYS  # to Java, an empty key is a key like others
    assert_are_in(places_of(KEYS, count), java(broker, topic, numbered(KEYS)), broker, topic)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("name", ["murmur2_random", "murmur2"])
def test_a_key_of_murmur2_librdkafka_is_where_holdfast_puts_it(broker: Broker, name: str, count: int) -> None:
    topic = topic_of(broker, count)
    answers = librdkafka(broker, topic, numbered(KEYS), partitioner=name)
    assert_are_in(places_of(KEYS, count), answers, broker, topic)


@pytest.mark.parametrize("count", COUNTS)
def test_a_key_of_default_librdkafka_is_where_holdfast_puts_it(broker: Broker, count: int) -> None:
    topic = topic_of(broker, count)
    answers = librdkafka(broker, topic, numbered(TRUE_KEYS))
    assert_are_in(places_of(TRUE_KEYS, count, "crc32"), answers, broker, topic)


def test_the_default_of_librdkafka_takes_an_empty_key_for_none(broker: Broker) -> None:
    # Holdfast takes it for a key: nobody can join by empty keys what such a producer wrote.
    topic = topic_of(broker, 12)
    empty: list[Record] = [(b"", b"")] * 200
    answers = librdkafka(broker, topic, empty, sticky_partitioning_linger_ms="0")
    assert len({answer.partition for answer in answers}) > 6
    assert places_of([b""], 12, "crc32") == [0]
    assert [record for records in fetched(broker, topic, 200).values() for record in records] == empty


def test_consistent_librdkafka_puts_an_empty_key_where_holdfast_does(broker: Broker) -> None:
    topic = topic_of(broker, 12)
    answers = librdkafka(broker, topic, numbered(KEYS), partitioner="consistent")
    assert_are_in(places_of(KEYS, 12, "crc32"), answers, broker, topic)


def test_the_golden_places_are_what_the_clients_say(broker: Broker) -> None:
    keys = [key for key, _, _ in PLACES]
    by_java = java(broker, topic_of(broker, 12), numbered(keys))
    by_librdkafka = librdkafka(broker, topic_of(broker, 12), numbered(keys), partitioner="consistent")
    placements = zip(keys, by_java, by_librdkafka, strict=True)
    assert [(key, java_answer.partition, c_answer.partition) for key, java_answer, c_answer in placements] == PLACES


@pytest.mark.parametrize("reader", ["fast", "plain"])
@pytest.mark.parametrize("partitioner", ["murmur2", "crc32"])
def test_records_and_tombstones_of_a_key_share_its_partition(
    broker: Broker, partitioner: Partitioner, reader: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(READER, reader)
    keys = KEYS if partitioner == "murmur2" else TRUE_KEYS
    places = places_of(keys, 7, partitioner)

    def then_deleted(value: bytes) -> list[Record]:
        return [(key, value) for key in keys] + [(key, None) for key in keys]

    topic = topic_of(broker, 7)
    history: list[bytes | None] = [b"by librdkafka", None, b"by holdfast", None]
    if partitioner == "murmur2":
        history = [b"by java", None, *history]
        java(broker, topic, then_deleted(b"by java"))
        librdkafka(broker, topic, then_deleted(b"by librdkafka"), partitioner="murmur2_random")
    else:
        librdkafka(broker, topic, then_deleted(b"by librdkafka"))
    holdfast(broker, topic, then_deleted(b"by holdfast"), [*places, *places])

    records_of = fetched(broker, topic, len(keys) * len(history))
    histories: dict[int, dict[bytes | None, list[bytes | None]]] = {number: {} for number in range(7)}
    for number, records in records_of.items():
        for key, value in records:
            histories[number].setdefault(key, []).append(value)
    expected: dict[int, dict[bytes | None, list[bytes | None]]] = {number: {} for number in range(7)}
    for key, number in zip(keys, places, strict=True):
        expected[number][key] = history
    assert histories == expected
    assert seen_by_partition(broker, topic) == {
        number: [(value or b"").decode() for _, value in records] for number, records in records_of.items()
    }


@pytest.mark.parametrize("write", [java, librdkafka])
def test_records_without_a_key_arrive_wherever_their_client_put_them(broker: Broker, write: Write) -> None:
    topic = topic_of(broker, 3)
    records: list[Record] = [*numbered([None] * 30), (None, None), (None, b"")]
    answers = write(broker, topic, records)
    records_of = fetched(broker, topic, len(records))
    assert [records_of[partition][offset] for partition, offset in answers] == records
    assert sum(len(part) for part in records_of.values()) == len(records)


@pytest.mark.parametrize("fast", [True, False])
def test_holdfast_puts_records_without_a_key_in_turn(broker: Broker, fast: bool) -> None:
    topic = topic_of(broker, 3)
    records: list[Record] = [*numbered([None] * 7), (None, None), (None, b"")]
    places = places_of([None] * 9, 3)
    assert places == [0, 1, 2] * 3
    holdfast(broker, topic, records, places, fast=fast)
    assert fetched(broker, topic, len(records)) == {number: records[number::3] for number in range(3)}
