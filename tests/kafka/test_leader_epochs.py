"""Positions whose records are gone though the topic is the same: a log lost and filled again, an unclean election."""

import os
import re
import shlex
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.tasks.partitions import StreamPartition
from holdfast_cli.main import main
from holdfast_runtime.streams.kafka.read.position_check import PositionCheck
from holdfast_runtime.streams.records import EpochPosition
from tests.engine.runs import Run
from tests.kafka.counted import Counted
from tests.kafka.known import settings_of
from tests.kafka.three_brokers import ThreeBrokers
from tests.waiting import wait_until

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
    found = PositionCheck(settings_of(three.first.bootstrap)).cut({place: EpochPosition(offset, epoch)})
    return [one.since for one in found.values()]


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


def test_a_new_leader_that_has_all_records_is_none_to_doubt(whole: ThreeBrokers) -> None:
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


def test_an_app_ends_when_the_records_it_has_read_are_others_now_and_goes_on_where_it_is_told(
    whole: ThreeBrokers, tmp_path: Path
) -> None:
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
        said = run.said()
    assert re.search(
        r"the next offset to read of rows/\d is \d+, of leader epoch \d+, but its leader of epoch \d+", said
    )
    assert "Also lost: rows/1" in said

    with Run(app, data, "--until-idle") as again:
        assert again.exit_code() == 3
        assert "its log was lost and filled again" in again.said()
    command = re.search(r"holdfast (offsets [^(\n]*) \(docs", said)
    assert command is not None
    assert main(["offsets", str(app), "--data", str(data)]) == 1
    assert main([*shlex.split(command[1]), "--yes"]) == 0
    with Run(app, data, "--until-idle") as last:
        last.ended()
    ids = [row["id"] for row in counted.written()]
    assert sorted(ids) == [number for number in range(720) if number % 10 != 3]
