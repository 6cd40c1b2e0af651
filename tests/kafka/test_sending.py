"""Records of Arrow batches go into a producer of librdkafka as they are, in any slice."""

import contextlib
import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError

from holdfast_runtime.streams.kafka.client.librdkafka import Library, destroy_client, library, new_client
from holdfast_runtime.streams.kafka.write.channel import SendResult, open_channel, send
from holdfast_runtime.streams.records import HEADERS, written_batch
from tests.kafka.broker import Broker
from tests.kafka.known import create, reader, settings_of
from tests.kafka.reached import ANSWER_TIMEOUT
from tests.waiting import wait_until

pytestmark = pytest.mark.kafka
with_and_without_headers = pytest.mark.parametrize("headers", [False, True])


@contextlib.contextmanager
def producing(bootstrap: str, topic: str, **config: str) -> Iterator[tuple[Library, int, int]]:
    loaded = library()
    assert loaded is not None, "the loops are not built: `make setup`"
    settings = settings_of(bootstrap, **config)
    client = new_client(loaded, "producer", settings, settings.client({}, {}))
    handle = loaded.kafka.topic_new(client, topic.encode(), None)
    try:
        yield loaded, client, handle
    finally:
        loaded.kafka.topic_destroy(handle)
        destroy_client(loaded, client)


def flush(loaded: Library, client: int) -> None:
    def empty() -> bool:
        loaded.kafka.poll(client, 0)  # what became of a record waits to be heard
        left: int = loaded.kafka.outq_len(client)
        return left == 0

    wait_until(empty, ANSWER_TIMEOUT, "all records are written")


def rows(count: int, *, headers: bool = False) -> pa.RecordBatch:
    chance = random.Random(5)  # noqa: S311 - no secret

    def some() -> bytes | None:
        return chance.choice((None, b"", b"short", chance.randbytes(chance.randrange(300))))

    def pairs() -> list[dict[str, Any]] | None:
        pairs = [{"key": f"h\u00e4{n}", "value": some()} for n in range(chance.randrange(4))]
        return pairs or None

    keys, values, times = [some() for _ in range(count)], [some() for _ in range(count)], list(range(1, count + 1))
    return written_batch(
        keys, values, times, pa.array([pairs() for _ in range(count)], HEADERS.type) if headers else None
    )


def seen(broker: Broker, topic: str, count: int) -> Any:
    fetcher = reader("plain", settings_of(broker.bootstrap))
    records = fetcher.fetch(topic, 0, 0, count)
    fetcher.close()
    return records.select([name for name in records.schema.names if name != "offset"])


@with_and_without_headers
def test_what_is_sent_is_there(broker: Broker, headers: bool) -> None:
    create(broker, f"sent-{headers}")
    batch = rows(500, headers=headers)
    with producing(broker.bootstrap, f"sent-{headers}") as (loaded, client, topic):
        assert send(loaded, client, topic, 0, batch) == SendResult(500, 0)
        flush(loaded, client)
    assert seen(broker, f"sent-{headers}", 500).equals(batch)


@with_and_without_headers
def test_slices_send_their_rows_alone(broker: Broker, headers: bool) -> None:
    create(broker, f"slices-{headers}")
    batch = rows(100, headers=headers)
    with producing(broker.bootstrap, f"slices-{headers}") as (loaded, client, topic):
        for start, count in ((0, 3), (3, 0), (3, 50), (53, 47)):
            assert send(loaded, client, topic, 0, batch.slice(start, count)) == SendResult(count, 0)
        flush(loaded, client)
    assert seen(broker, f"slices-{headers}", 100).equals(batch)


@with_and_without_headers
def test_the_client_without_loops_sends_the_same(broker: Broker, headers: bool) -> None:
    create(broker, f"plain-{headers}")
    batch, settings = rows(100, headers=headers), settings_of(broker.bootstrap)
    channel = open_channel(settings, settings.client({}, {}), fast=False)
    channel.give(f"plain-{headers}", 0, batch)
    assert channel.flush(ANSWER_TIMEOUT) == 0
    channel.close()
    assert seen(broker, f"plain-{headers}", 100).equals(batch)


def test_a_full_queue_takes_the_rest_later(broker: Broker) -> None:
    create(broker, "full")
    batch, first, full = rows(100), 0, 0
    with producing(broker.bootstrap, "full", queue_buffering_max_messages="7") as (loaded, client, topic):
        while first < 100:
            sent = send(loaded, client, topic, 0, batch, first)
            assert 0 <= sent.rows <= 7
            first += sent.rows
            if first < 100:
                assert sent.err == KafkaError._QUEUE_FULL  # noqa: SLF001 - it has no other name
                full += 1
                loaded.kafka.poll(client, 10)
        flush(loaded, client)
    assert full > 0
    assert seen(broker, "full", 100).equals(batch)


def test_a_partition_that_is_not_there_takes_nothing(broker: Broker) -> None:
    create(broker, "narrow")
    with producing(broker.bootstrap, "narrow") as (loaded, client, topic):
        assert send(loaded, client, topic, 0, rows(1)).rows == 1
        flush(loaded, client)
        sent = send(loaded, client, topic, 5, rows(1))
        assert sent == SendResult(0, KafkaError._UNKNOWN_PARTITION)  # noqa: SLF001 - it has no other name
