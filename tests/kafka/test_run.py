"""Whole runs on real Spark and a real broker: whatever dies, readers of committed records see each row once."""

import json
import re
import shlex
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # it exports them unsaid
    ConfigResource,
    OffsetSpec,
    ResourceType,
)

from holdfast_runtime.streams.record_keys import misplaced
from tests.engine.runs import KEYS, Run, check_rows
from tests.kafka.broker import Broker
from tests.kafka.counted import Counted
from tests.kafka.reached import ANSWER_TIMEOUT
from tests.kafka.sent import seen_by_partition
from tests.waiting import patience, wait_until

pytestmark = pytest.mark.kafka
ROWS = 6_000
BOTH_ENDS = OffsetSpec.earliest(), OffsetSpec.latest()  # type: ignore[no-untyped-call]


@pytest.fixture
def own_broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


def test_a_killed_broker_that_comes_back_is_waited_for(own_broker: Broker, tmp_path: Path) -> None:
    counted = Counted.new(own_broker)
    counted.feed(ROWS)
    with Run(counted.file(tmp_path), tmp_path / "data", "--until-idle") as run:
        run.until("progress", 3)
        own_broker.kill()
        assert "Kafka system here" in run.until("waiting")["why"]
        own_broker.restart()
        run.ended()
    counted.check(ROWS)


def test_offsets_are_published_for_lag_tools_and_own_records_deleted(broker: Broker, tmp_path: Path) -> None:
    counted = Counted.new(broker)
    counted.feed(1_000)
    with Run(counted.file(tmp_path), tmp_path / "data", "--until-idle") as run:
        run.ended()
    moved = f"{counted.name}-moved"
    with broker.admin() as admin:
        group = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(counted.name)])[counted.name].result(
            ANSWER_TIMEOUT
        )
        offsets = {(one.topic, one.partition): one.offset for one in group.topic_partitions or ()}
        for topic, partitions in ((counted.rows, 2), (moved, 3)):
            for number in range(partitions):
                place = TopicPartition(topic, number)
                oldest, end = (
                    admin.list_offsets({place: spec})[place].result(ANSWER_TIMEOUT).offset for spec in BOTH_ENDS
                )
                assert offsets[topic, number] == end
                assert oldest == (0 if topic == counted.rows else end)
    counted.check(1_000)


def test_a_new_run_begins_behind_intermediate_records_of_the_last(broker: Broker, tmp_path: Path) -> None:
    counted = Counted.new(broker)
    app = counted.file(tmp_path)
    counted.feed(ROWS)
    with Run(app, tmp_path / "data") as run:
        run.until("progress", 2)
        run.process.send_signal(signal.SIGTERM)
        run.ended()
    before = seen_by_partition(broker, counted.numbered)
    assert any(seen_by_partition(broker, f"{counted.name}-moved").values()), "nothing was left between the steps"
    app.write_text(counted.text().replace("\nspec:\n", '\nspec:\n  runId: "2"\n'))
    with Run(app, tmp_path / "data", "--until-idle") as run:
        run.ended()
    after = sorted(seen_by_partition(broker, counted.numbered).items())
    check_rows([json.loads(value) for number, values in after for value in values[len(before[number]) :]], ROWS)


def test_topics_are_made_by_the_spec_and_refused_if_otherwise(broker: Broker, tmp_path: Path) -> None:
    counted = Counted.new(broker)
    counted.feed(100)
    app = counted.file(tmp_path)
    plain = app.read_text()
    address = f'bootstrapServers: "{broker.bootstrap}"'

    def said(replication: int, retention: str) -> None:
        text = plain.replace(address, f"{address}, replication: {replication}")
        app.write_text(
            text.replace(f"topic: {counted.numbered},", f"topic: {counted.numbered}, retention: {retention},")
        )

    said(1, "36h")
    with Run(app, tmp_path / "data", "--until-idle") as run:
        run.ended()
    # They are months old, so the broker deletes them as soon as it looks, 30 s after its start.
    assert sum(event["expired"].get("numbered", 0) for event in run.events if event["event"] == "progress") == 90
    with broker.admin() as admin:
        resources = [ConfigResource(ResourceType.TOPIC, f"{counted.name}-{one}") for one in ("numbered", "moved")]
        retentions = [
            one.result(ANSWER_TIMEOUT)["retention.ms"].value for one in admin.describe_configs(resources).values()
        ]
    assert sorted(retentions) == ["-1", "129600000"]
    said(2, "48h")
    with Run(app, tmp_path / "data", "--until-idle") as run:
        message = run.until("failed")["message"]
    assert "has replication 1, but 2 is asked for" in message
    said(1, "48h")
    with Run(app, tmp_path / "data", "--until-idle") as run:
        message = run.until("failed")["message"]
    assert f"{counted.numbered} has retention.ms 129600000, but 172800000 is asked for" in message


def test_a_topic_made_anew_or_shortened_stops_with_the_choice(broker: Broker, tmp_path: Path) -> None:
    counted = Counted.new(broker)
    counted.feed(500)
    app = counted.file(tmp_path)
    with Run(app, tmp_path / "data", "--until-idle") as run:
        run.ended()
    with broker.admin() as admin:
        admin.delete_topics([counted.rows])[counted.rows].result(ANSWER_TIMEOUT)
        wait_until(lambda: counted.rows not in admin.list_topics(timeout=patience(30)).topics, 30, "the topic is gone")
    broker.create_topic(counted.rows, 2)
    counted.feed(2_000)
    with Run(app, tmp_path / "data", "--until-idle") as run:
        message = run.until("failed")["message"]
    assert "the topic of stream rows was deleted and created again" in message
    assert "spec.runId" in message
    assert troubles(app, tmp_path) == {"rows/0": "recreated", "rows/1": "recreated"}
    go_on(message)
    with Run(app, tmp_path / "data", "--until-idle") as run:
        run.ended()
    ids = [*range(500), *range(2_000)]
    check_ids(counted, ids)

    counted.feed(600, first=2_000)
    place = TopicPartition(counted.rows, 1)
    with broker.admin() as admin:
        end = admin.list_offsets({place: BOTH_ENDS[1]})[place].result(ANSWER_TIMEOUT).offset
        admin.delete_records([TopicPartition(counted.rows, 1, end - 20)])[place].result(ANSWER_TIMEOUT)
    values = seen_by_partition(broker, counted.rows)
    left = [json.loads(value)["id"] for value in values[1]]
    assert len(left) == 20
    with Run(app, tmp_path / "data", "--until-idle") as run:
        message = run.until("failed")["message"]
    assert "records are gone unread" in message
    assert troubles(app, tmp_path) == {"rows/1": "gone"}
    go_on(message)
    with Run(app, tmp_path / "data", "--until-idle") as run:
        run.ended()
    unread = [json.loads(value)["id"] for value in values[0]]
    check_ids(counted, [*ids, *(one for one in unread if one >= 2_000), *left])
    assert troubles(app, tmp_path) == {}


def holdfast(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = str(Path(sys.executable).with_name("holdfast"))
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False, timeout=patience(120))


def troubles(app: Path, folder: Path) -> dict[str, str]:
    """What `holdfast offsets` says is wrong."""
    ran = holdfast("offsets", str(app), "--data", str(folder / "data"), "-o", "json")
    trouble_of = {one["partition"]: one["trouble"] for one in json.loads(ran.stdout)["partitions"] if one["trouble"]}
    assert ran.returncode == (1 if trouble_of else 0), ran.stderr
    return trouble_of


def go_on(message: str) -> None:
    """Run the very command that the message names."""
    command = re.search(r"holdfast (offsets .*) \(docs", message)
    assert command is not None, message
    ran = holdfast(*shlex.split(command[1]), "--yes")
    assert ran.returncode == 0, ran.stderr


def check_ids(counted: Counted, ids: Sequence[int]) -> None:
    """Each row that was read has its effect as often as it was, numbered on by the state that stayed."""
    rows, expected = counted.written(), [one for one in ids if one % 10 != 3]
    assert Counter(row["id"] for row in rows) == Counter(expected)
    for key in range(KEYS):
        key_rows = [row for row in rows if row["k"] == f"key-{key}"]
        assert [row["id"] for row in key_rows] == [one for one in expected if one % KEYS == key]
        assert [row["nth"] for row in key_rows] == list(range(1, len(key_rows) + 1))


def test_partitions_added_under_load_are_read_by_the_same_run(broker: Broker, tmp_path: Path) -> None:
    counted = Counted.new(broker)
    counted.feed(2_000)
    with Run(counted.file(tmp_path), tmp_path / "data") as run:
        run.until("progress", 2)
        first = 2_000
        for partitions in (4, 12):
            broker.grow_topic(counted.rows, partitions)
            started = run.until("started")
            assert started["tasks"] == 3  # of the widest stream, which is the app's own
            counted.feed(2_000, first)
            first += 2_000
        wait_until(lambda: len(counted.written()) == first - first // 10, 120, "all is written")
        run.process.send_signal(signal.SIGTERM)
        assert run.ended()["ending"] == "drained"
    counted.check(first)


def test_a_producer_unaware_of_growth_is_waited_for_then_counted(broker: Broker, tmp_path: Path) -> None:
    counted = Counted.new(broker, partitions=1)
    counted.feed(500)
    app = counted.file(tmp_path)
    app.write_text(f"{app.read_text()}  expansion: {{grace: 15s}}\n")
    with Run(app, tmp_path / "data") as run:
        run.until("progress")
        broker.grow_topic(counted.rows, 2)
        run.until("started")
        # One producer knows it, and its rows go to the new partition; one does not, whose rows belong before them.
        counted.feed(400, 1_100, partition=1)
        counted.feed(600, 500, partition=0)
        wait_until(lambda: len(counted.written()) == 1_350, 120, "all is written")
        counted.check(1_500)
        assert not any(event.get("misplaced") for event in run.events)
        counted.feed(300, 1_500, partition=0)
        expected = misplaced(pa.array([b"%d" % (n % KEYS) for n in range(1_500, 1_800)]), 0, 2, "murmur2")
        count = 0
        while count < expected:
            count += run.until("progress")["misplaced"].get("rows", 0)
        run.process.send_signal(signal.SIGTERM)
        run.ended()
    assert 0 < count == expected


def test_growth_by_a_non_multiple_is_said_and_ends_nothing(broker: Broker, tmp_path: Path) -> None:
    counted = Counted.new(broker)
    counted.feed(500)
    with Run(counted.file(tmp_path, keeping=True), tmp_path / "data") as run:
        run.until("progress")
        broker.grow_topic(counted.rows, 3)
        message = run.until("growthRefused")["why"]
        wait_until(lambda: len(counted.written()) == 450, 60, "it goes on until all rows are written")
        run.process.send_signal(signal.SIGTERM)
        run.ended()
    assert "rows has grown from 2 to 3 partitions" in message
    assert "NotAMultiple" in message
    counted.check(500)


def test_a_run_may_move_with_its_data_but_not_without(broker: Broker, tmp_path: Path) -> None:
    counted = Counted.new(broker)
    counted.feed(300)
    app = counted.file(tmp_path)
    with Run(app, tmp_path / "data", "--until-idle") as run:
        run.ended()
    (tmp_path / "data").rename(tmp_path / "moved")
    with Run(app, tmp_path / "moved", "--until-idle") as run:
        run.ended()
    with Run(app, tmp_path / "elsewhere", "--until-idle") as run:
        message = run.until("failed")["message"]
    assert "attempt 2 of run 1 does" in message
    assert "start under a new spec.runId" in message
    counted.check(300)
