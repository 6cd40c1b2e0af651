"""What becomes of a fetcher while topics, brokers and processes come and go."""

import multiprocessing
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.streams.kafka.client.errors import KafkaBusyError
from holdfast_runtime.streams.kafka.read import fetcher as fast_module
from holdfast_runtime.streams.kafka.read.consumer import PartitionConsumer
from holdfast_runtime.streams.kafka.read.fetcher import READER, FastFetcher, RangeFetcher, make_fetcher
from holdfast_runtime.streams.kafka.read.plain_fetcher import PlainFetcher
from holdfast_runtime.streams.kafka.read.range_read import FetchPatience
from holdfast_runtime.streams.records import OffsetNotWrittenError, OffsetRange
from tests.kafka.broker import Broker
from tests.kafka.known import check, filled, reader, settings_of
from tests.kafka.reached import ANSWER_TIMEOUT
from tests.waiting import patience, wait_until

pytestmark = pytest.mark.kafka


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, int]]:
    """Where the fast fetcher has begun anew."""
    calls: list[tuple[str, int, int]] = []
    real = PartitionConsumer.start

    def start(self: PartitionConsumer, topic: str, partition: int, offset: int) -> Any:
        calls.append((topic, partition, offset))
        return real(self, topic, partition, offset)

    monkeypatch.setattr(PartitionConsumer, "start", start)
    return calls


def test_ranges_that_follow_each_other_begin_once(
    broker: Broker, opened: Callable[..., RangeFetcher], starts: list[tuple[str, int, int]]
) -> None:
    (known,) = filled(broker, "follow")
    fetcher = opened("fast", broker.bootstrap)
    for at in range(0, 100, 10):
        check(fetcher, known, at, at + 10)
    known.write([{"value": b"later"}] * 5)
    check(fetcher, known, 100, 105)
    assert starts == [("follow", 0, 0)]


def test_going_back_begins_anew(broker: Broker, opened: Callable[..., RangeFetcher], kind: str) -> None:
    (known,) = filled(broker, f"back-{kind}")
    fetcher = opened(kind, broker.bootstrap)
    for start, end in ((0, 50), (20, 60), (20, 60), (0, 100), (99, 100), (0, 1), (50, 60)):
        check(fetcher, known, start, end)


def test_going_back_behind_control_records_reads_from_there(
    broker: Broker, opened: Callable[..., RangeFetcher], kind: str
) -> None:
    # The client's own idea of where it is may be that of before.
    topic = f"back-control-{kind}"
    (known,) = filled(broker, topic, rows=3)
    producer = known.producer(transactional_id=topic)
    producer.init_transactions(ANSWER_TIMEOUT)
    producer.begin_transaction()
    rows = known.sent(producer, [{"value": b"in"}] * 2)
    producer.commit_transaction(ANSWER_TIMEOUT)
    known.rows |= rows
    fetcher = opened(kind, broker.bootstrap)
    for _ in range(5):
        check(fetcher, known, 0, 6)
        check(fetcher, known, 4, 6)
        check(fetcher, known, 5, 6)
        check(fetcher, known, 3, 6)


def test_partitions_by_turns_keep_what_was_fetched_ahead(
    broker: Broker, opened: Callable[..., RangeFetcher], kind: str, starts: list[tuple[str, int, int]]
) -> None:
    known = filled(broker, f"turns-{kind}", partitions=3)
    fetcher = opened(kind, broker.bootstrap)
    fetcher.begin(OffsetRange(StreamPartition(one.topic, one.partition), 0, 20) for one in known)
    for at in range(0, 100, 20):
        for topic_partition in known:
            check(fetcher, topic_partition, at, at + 20)
    if kind == "fast":
        assert starts == [(one.topic, one.partition, 0) for one in known]


def test_a_partition_that_nobody_asks_for_is_fetched_no_more(
    broker: Broker,
    opened: Callable[..., RangeFetcher],
    starts: list[tuple[str, int, int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read_partition, idle_partition = filled(broker, "idle", partitions=2)
    fetcher = opened("fast", broker.bootstrap)
    check(fetcher, read_partition, 0, 10)
    check(fetcher, idle_partition, 0, 10)
    check(fetcher, read_partition, 10, 20)
    assert len(starts) == 2
    monkeypatch.setattr(fast_module, "_IDLE", 0.0)
    check(fetcher, read_partition, 20, 30)
    check(fetcher, idle_partition, 10, 20)
    assert starts[2:] == [("idle", 1, 10)]


def test_a_killed_broker_is_waited_for(opened: Callable[..., RangeFetcher], kind: str) -> None:
    with Broker() as broker:
        (known,) = filled(broker, "killed")
        fetcher = opened(kind, broker.bootstrap, FetchPatience())  # it does not know its topics at once
        check(fetcher, known, 0, 10)
        broker.kill()
        answers: list[Any] = []
        waiting = threading.Thread(target=lambda: answers.append(fetcher.fetch("killed", 0, 5, 100)))
        waiting.start()
        broker.restart()
        waiting.join(ANSWER_TIMEOUT)
        assert answers[0].to_pylist() == known.expected(5, 100)
        known.write([{"value": b"after"}] * 20)
        check(fetcher, known, 100, 120)
        fetcher.close()


def test_an_end_that_comes_late_is_waited_for(broker: Broker, opened: Callable[..., RangeFetcher], kind: str) -> None:
    topic = f"late-{kind}"
    (known,) = filled(broker, topic)
    fetcher = opened(kind, broker.bootstrap, FetchPatience(silence=ANSWER_TIMEOUT, doubt=ANSWER_TIMEOUT))
    for start in (95, 101):
        fetching = threading.Event()
        answers: list[Any] = []

        def fetch(start: int = start, fetching: threading.Event = fetching, answers: list[Any] = answers) -> None:
            fetching.set()
            answers.append(fetcher.fetch(topic, 0, start, start + 10))

        waiting = threading.Thread(target=fetch)
        waiting.start()
        fetching.wait()
        known.write([{"value": b"late"}] * (start + 10 - known.end()))
        waiting.join(ANSWER_TIMEOUT)
        assert answers[0].to_pylist() == known.expected(start, start + 10)


def test_a_broker_that_is_away_is_no_missing_partition(opened: Callable[..., RangeFetcher], kind: str) -> None:
    # With its broker gone, the client says "unknown partition" of one it has read a moment ago.
    with Broker() as broker:
        (known,) = filled(broker, "away")
        fetcher = opened(kind, broker.bootstrap, FetchPatience(silence=6, doubt=1))
        check(fetcher, known, 0, 50)
        broker.kill()
        with pytest.raises(KafkaBusyError, match="nothing about away/0 from offset 10 on came"):
            fetcher.fetch("away", 0, 10, 50)
        broker.restart()
        check(fetcher, known, 10, 50)


def test_a_client_deaf_to_a_live_broker_is_replaced(broker: Broker, kind: str) -> None:
    (known,) = filled(broker, f"deaf-{kind}")
    before = threads()
    fetcher = reader(kind, settings_of(broker.bootstrap), FetchPatience(silence=2, doubt=1))
    check(fetcher, known, 0, 10)
    assert isinstance(fetcher, FastFetcher | PlainFetcher)
    client: Any = fetcher._client  # noqa: SLF001 - no broker does this when it is asked to
    if kind == "plain":
        client.consumer.pause([TopicPartition(known.topic, 0)])
        client._held = []  # noqa: SLF001
    else:
        client.consumer.take = lambda running, _: running.held[:0]
        client.consumer.position = lambda _: -1
    with pytest.raises(KafkaBusyError, match=r"nothing about .* came"):
        fetcher.fetch(known.topic, 0, 10, 50)
    check(fetcher, known, 10, 50)
    fetcher.close()
    wait_until(lambda: threads() <= before, ANSWER_TIMEOUT, "the threads of both clients are gone")


def test_a_topic_made_anew_is_read_anew(broker: Broker, opened: Callable[..., RangeFetcher], kind: str) -> None:
    topic = f"anew-{kind}"
    (known,) = filled(broker, topic)
    fetcher = opened(kind, broker.bootstrap)
    check(fetcher, known, 0, 50)
    with broker.admin() as admin:
        admin.delete_topics([topic])[topic].result(ANSWER_TIMEOUT)
        wait_until(
            lambda: topic not in admin.list_topics(timeout=ANSWER_TIMEOUT).topics, ANSWER_TIMEOUT, "the topic is gone"
        )
    (known,) = filled(broker, topic, rows=30)
    with pytest.raises(OffsetNotWrittenError, match="it was created again"):
        fetcher.fetch(topic, 0, 60, 70)
    check(fetcher, known, 0, 30)


def test_a_forked_process_reads_with_a_client_of_its_own(
    broker: Broker, opened: Callable[..., RangeFetcher], kind: str
) -> None:
    (known,) = filled(broker, f"forked-{kind}")
    fetcher = opened(kind, broker.bootstrap)
    check(fetcher, known, 0, 10)
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe()

    def child() -> None:
        rows = fetcher.fetch(known.topic, 0, 10, 20).to_pylist()
        more = fetcher.fetch(known.topic, 0, 0, 5).to_pylist()
        fetcher.close()
        sender.send((rows, more, os.getpid()))

    process = context.Process(target=child)
    process.start()
    assert receiver.poll(ANSWER_TIMEOUT)
    rows, more, pid = receiver.recv()
    process.join(ANSWER_TIMEOUT)
    assert process.exitcode == 0
    assert (rows, more, pid) == (known.expected(10, 20), known.expected(0, 5), process.pid)
    check(fetcher, known, 10, 30)


def test_a_closed_fetcher_begins_anew(broker: Broker, opened: Callable[..., RangeFetcher], kind: str) -> None:
    (known,) = filled(broker, f"closed-{kind}")
    fetcher = opened(kind, broker.bootstrap)
    fetcher.close()
    check(fetcher, known, 0, 10)
    fetcher.close()
    fetcher.close()
    check(fetcher, known, 10, 20)


def threads() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


def test_a_client_that_is_forgotten_ends(broker: Broker, kind: str) -> None:
    (known,) = filled(broker, f"forgotten-{kind}")
    before = threads()
    fetcher = reader(kind, settings_of(broker.bootstrap))
    check(fetcher, known, 0, 10)
    assert threads() > before
    del fetcher
    wait_until(lambda: threads() <= before, ANSWER_TIMEOUT, "its threads are gone")


def test_a_small_range_takes_no_longer_than_its_records(
    broker: Broker, opened: Callable[..., RangeFetcher], kind: str
) -> None:
    (known,) = filled(broker, f"small-{kind}")
    fetcher = opened(kind, broker.bootstrap)
    check(fetcher, known, 0, 1)
    started = time.monotonic()
    for at in range(1, 51):
        check(fetcher, known, at, at + 1)
    assert time.monotonic() - started < patience(1)  # 50 waits for a full batch would be 25 s


def test_the_environment_can_ask_for_the_plain_one(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_of("127.0.0.1:1")
    assert isinstance(make_fetcher(settings), FastFetcher)
    monkeypatch.setenv(READER, "plain")
    assert isinstance(make_fetcher(settings), PlainFetcher)


def test_records_fetched_ahead_under_another_epoch_are_not_used(
    broker: Broker, opened: Callable[..., RangeFetcher], kind: str, starts: list[tuple[str, int, int]]
) -> None:
    # What a leader had behind the range may be other records under the next one.
    topic = f"epochs-{kind}"
    (known,) = filled(broker, topic)
    fetcher = opened(kind, broker.bootstrap)
    for start, epoch in ((0, 0), (10, 0), (20, 1), (30, 1)):
        records = fetcher.fetch(topic, 0, start, start + 10, epoch)
        assert records.to_pylist() == known.expected(start, start + 10)
    if kind == "fast":
        assert starts == [(topic, 0, 0), (topic, 0, 20)]
