"""Leaders that change: positions whose records are gone though the topic is the same, and clients that go on asking."""

import os
import re
import shlex
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise, product
from pathlib import Path

import pytest
from confluent_kafka import Producer

from holdfast.tasks.partitions import StreamPartition
from holdfast_cli.main import main
from holdfast_runtime.streams.kafka.admin.bounds import TopicBounds
from holdfast_runtime.streams.kafka.admin.topics import KafkaTopics
from holdfast_runtime.streams.kafka.client.connection import QUIET
from holdfast_runtime.streams.kafka.read.fetcher import make_fetcher
from holdfast_runtime.streams.kafka.read.position_check import PositionCheck
from holdfast_runtime.streams.kafka.write.marker_topic import MarkerTopic
from holdfast_runtime.streams.records import EpochPosition
from tests.engine.runs import Run
from tests.kafka.counted import Counted
from tests.kafka.known import settings_of
from tests.kafka.load import Load, Reader, kept
from tests.kafka.three_brokers import ThreeBrokers
from tests.waiting import patience, wait_until

pytestmark = pytest.mark.kafka
UNCLEAN = {"unclean_leader_election_enable": "true", "min_insync_replicas": "1"}


@pytest.fixture(scope="module")
def three() -> Iterator[ThreeBrokers]:
    with ThreeBrokers() as running:
        yield running


@pytest.fixture
def whole(three: ThreeBrokers) -> Iterator[ThreeBrokers]:
    """All three, and all of them again for the next test."""
    yield three
    for node in three.nodes.values():
        if not node.running:
            node.restart()


def cut(three: ThreeBrokers, topic: str, offset: int, epoch: int) -> list[int]:
    """Where the log is another one than that of a position, as the brokers say; nothing if it is the same."""
    place = StreamPartition(topic, 0)
    cuts = PositionCheck(settings_of(three.first.bootstrap)).cut({place: EpochPosition(offset, epoch)})
    return [one.since for one in cuts.values()]


def test_a_log_that_was_lost_and_filled_again_is_noticed(whole: ThreeBrokers) -> None:
    whole.create("lost", [[2]])
    whole.write("lost", 100)
    before = whole.end("lost")
    assert cut(whole, "lost", 100, before.epoch) == []
    whole.lost(2, "lost-0")
    whole.write("lost", 300)
    after = whole.end("lost")
    assert (after.offset, after.epoch > before.epoch) == (300, True)
    assert cut(whole, "lost", 100, before.epoch) == [0]
    assert cut(whole, "lost", 100, after.epoch) == []


def test_what_an_unclean_election_cuts_and_others_fill_is_noticed(whole: ThreeBrokers) -> None:
    whole.create("unclean", [[2, 3]], **UNCLEAN)
    whole.write("unclean", 60)
    whole.in_sync("unclean", {2, 3})
    whole.nodes[3].kill()
    whole.write("unclean", 40)
    before = whole.end("unclean")
    whole.elect_uncleanly("unclean")
    whole.write("unclean", 90)
    assert whole.end("unclean").offset == 150
    assert cut(whole, "unclean", 100, before.epoch) == [60]
    assert cut(whole, "unclean", 60, before.epoch) == []


def test_a_new_leader_with_all_records_is_not_doubted(whole: ThreeBrokers) -> None:
    whole.create("clean", [[2, 3]])
    whole.write("clean", 100)
    whole.in_sync("clean", {2, 3})
    before = whole.end("clean")
    whole.nodes[2].kill()
    whole.leads(3, "clean")
    whole.write("clean", 10)
    assert whole.end("clean").epoch > before.epoch
    for offset in (0, 50, 100):
        assert cut(whole, "clean", offset, before.epoch) == []


def test_an_epoch_that_no_broker_has_had_is_noticed(whole: ThreeBrokers) -> None:
    whole.create("older", [[2]])
    whole.write("older", 10)
    assert cut(whole, "older", 5, whole.end("older").epoch + 3) == [0]


def test_positions_are_checked_while_all_partitions_are_written_on(whole: ThreeBrokers) -> None:
    """Partitions with new records kept those waiting that had not answered yet: an attempt began after a minute."""
    whole.create("busy", [[1]] * 16)
    over, written = threading.Event(), threading.Event()

    def write() -> None:
        producer = Producer({"bootstrap.servers": whole.first.bootstrap, "linger.ms": 0}, logger=QUIET)
        while not over.is_set():
            for partition in range(16):
                producer.produce("busy", b"a record", partition=partition)
            producer.flush()
            written.set()

    with ThreadPoolExecutor() as threads:
        writing = threads.submit(write)
        try:
            assert written.wait(patience(30))
            check = PositionCheck(settings_of(whole.first.bootstrap))
            positions = {StreamPartition("busy", partition): EpochPosition(1, 0) for partition in range(16)}
            checking = threads.submit(lambda: [check.cut(positions) for _ in range(10)])
            assert checking.result(patience(10)) == [{}] * 10
        finally:
            over.set()
            writing.result()


def test_an_app_ends_over_changed_records_and_resumes_where_told(whole: ThreeBrokers, tmp_path: Path) -> None:
    counted = Counted(whole.first, "cut")
    whole.create(counted.rows, [[2], [2]])
    whole.create(counted.numbered, [[1], [1]])
    counted.feed(240)
    app, data = counted.file(tmp_path), tmp_path / "data"
    with Run(app, data) as run:
        wait_until(lambda: len(counted.written()) == 216, 60, "all are read")
        # It sees nothing of what happens but the next leader, whose log goes beyond its position again.
        os.kill(run.process.pid, signal.SIGSTOP)
        whole.lost(2, f"{counted.rows}-0", f"{counted.rows}-1")
        counted.feed(480, 240)
        os.kill(run.process.pid, signal.SIGCONT)
        assert run.exit_code() == 3
        output = run.said()
    assert re.search(
        r"the next offset to read of rows/\d is \d+, of leader epoch \d+, but its leader of epoch \d+", output
    )
    assert "Also lost: rows/1" in output

    with Run(app, data, "--until-idle") as again:
        assert again.exit_code() == 3
        assert "its log was lost and filled again" in again.said()
    command = re.search(r"holdfast (offsets [^(\n]*) \(docs", output)
    assert command is not None
    assert main(["offsets", str(app), "--data", str(data)]) == 1
    assert main([*shlex.split(command[1]), "--yes"]) == 0
    with Run(app, data, "--until-idle") as last:
        last.ended()
    ids = [row["id"] for row in counted.written()]
    assert sorted(ids) == [number for number in range(720) if number % 10 != 3]


def test_questions_are_answered_in_seconds_while_a_leader_is_dead(whole: ThreeBrokers) -> None:
    names = ["asked-a", "asked-b"]
    for name in names:
        whole.create(name, [[2, 3, 1], [3, 1, 2]])
        for partition in (0, 1):
            whole.write(name, 10, partition=partition)
            whole.in_sync(name, {1, 2, 3}, partition)
    settings = settings_of(whole.cluster.bootstrap)
    markers, bounds, topics = MarkerTopic(settings, "asked-a"), TopicBounds(settings), KafkaTopics(settings)
    questions: dict[str, Callable[[], object]] = {
        "markers": lambda: [len(markers.read(partition)) for partition in (0, 1)],
        "bounds": lambda: {of: (at.oldest, at.end) for of, at in bounds.bounds(names)["asked-b"].items()},
        "topics": lambda: topics.count("asked-b"),
    }
    answers = {name: ask() for name, ask in questions.items()}
    assert answers == {"markers": [10, 10], "bounds": {0: (0, 10), 1: (0, 10)}, "topics": 2}
    whole.nodes[2].kill()
    longest = dict.fromkeys(questions, 0.0)
    for _ in range(3):
        for name, ask in questions.items():
            began = time.monotonic()
            assert ask() == answers[name], name
            longest[name] = max(longest[name], time.monotonic() - began)
    print(f"longest answers after a kill: {longest}")  # noqa: T201
    assert max(longest.values()) < 12
    markers.close()


@pytest.mark.long
def test_rolling_all_brokers_under_load_loses_and_doubles_no_row(whole: ThreeBrokers, tmp_path: Path) -> None:
    counted = Counted(whole.cluster, "rolled")
    whole.create(counted.rows, [[1, 2, 3], [2, 3, 1]])
    # What brokers stamp shows how long nothing was written.
    whole.create(counted.numbered, [[2, 3, 1], [3, 1, 2]], message_timestamp_type="LogAppendTime")
    with Load(counted) as load, Run(counted.file(tmp_path), tmp_path / "data") as run:
        run.until("progress", 5)
        for number in (2, 3, 1):
            whole.nodes[number].restart()
            for topic, partition in product((counted.rows, counted.numbered), (0, 1)):
                whole.in_sync(topic, {1, 2, 3}, partition)
            run.arrived()
            run.until("progress", 3)
        reader, count = Reader(counted), load.end()
        wait_until(lambda: reader.catch_up() == kept(count), 120, "all is written")
        run.process.send_signal(signal.SIGTERM)
        assert run.ended()["ending"] == "drained"
    assert not [event for event in run.events if event["event"] == "failed"]
    counted.check(count)
    stamps = sorted(appended(counted))
    print(f"{count} rows, longest pause {max(after - at for at, after in pairwise(stamps)) / 1000:.1f} s")  # noqa: T201


def appended(counted: Counted) -> list[int]:
    """When brokers took the records that the app has written, in milliseconds."""
    place = settings_of(counted.broker.bootstrap)
    fetcher = make_fetcher(place)
    bounds = TopicBounds(place).bounds([counted.numbered])[counted.numbered]
    try:
        fetched = [fetcher.fetch(counted.numbered, number, at.oldest, at.end) for number, at in bounds.items()]
    finally:
        fetcher.close()
    return [stamp for part in fetched for stamp in part.column("timestamp").to_pylist()]
