"""`holdfast offsets`: where an app stands, and setting it: what is refused, and what a real run makes of it."""

import json
import shutil
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from holdfast.tasks.partitions import StreamPartition
from holdfast_cli.local.local_app import RunFiles
from holdfast_runtime.checkpoint.directories import DataDir
from holdfast_runtime.checkpoint.offset_log import OffsetLogState
from holdfast_runtime.checkpoint.offsets import Jump, JumpFile, Offsets
from holdfast_runtime.driver.jumps import (
    PositionSetting,
    SettingRefusedError,
    decide_jump,
    parse_setting,
    with_offsets_command,
)
from holdfast_runtime.inspection.positions import AppPositions, PartitionPosition, StreamPositions
from holdfast_runtime.loop.lost_positions import LostPosition, PositionTrouble, lost_error
from holdfast_runtime.streams.kafka.admin.bounds import TopicBounds
from holdfast_runtime.streams.log.embedded_log import EmbeddedLog, close_under
from holdfast_runtime.streams.records import OffsetBounds, OffsetRange
from tests.cli.conftest import Holdfast, Ran
from tests.engine.runs import APP, Run, feed, unfinished, written
from tests.engine.test_offset_log import done, planned
from tests.kafka.broker import free_ports

ROWS = [StreamPartition("rows", number) for number in range(2)]
A0, A1, A2 = (StreamPartition("a", number) for number in range(3))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("clicks=oldest", PositionSetting("clicks=oldest", "clicks", None, "oldest")),
        ("clicks/3=end", PositionSetting("clicks/3=end", "clicks", 3, "end")),
        ("shop=eu/clicks/3=017", PositionSetting("shop=eu/clicks/3=017", "shop=eu/clicks", 3, 17)),
        ("eu/clicks=end", PositionSetting("eu/clicks=end", "eu/clicks", None, "end")),
    ],
)
def test_a_setting_names_a_stream_or_partition_and_a_place(text: str, expected: PositionSetting) -> None:
    assert parse_setting(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", "clicks", "=oldest", "clicks=", "a/3=newest", "a/3=-1", "a/3=+5", "a/1=²", "a/1=" + "9" * 19],
)
def test_what_is_no_setting_is_refused_with_the_forms(text: str) -> None:
    with pytest.raises(ValueError, match="write STREAM/PARTITION=oldest"):
        parse_setting(text)


def test_a_number_is_of_one_partition() -> None:
    with pytest.raises(ValueError, match="write clicks/PARTITION=10"):
        parse_setting("clicks=10")


def stream(*stands: PartitionPosition, name: str = "a", role: str = "input", **more: Any) -> StreamPositions:
    known: dict[str, Any] = {"kind": "kafka", "control": False} | more
    return StreamPositions(name, role, stands=stands, **known)


def standing(*streams: StreamPositions, pending: Offsets | None = None) -> AppPositions:
    return AppPositions("shop", "1", OffsetLogState(Offsets(7), pending), streams)


def decided(settings: str, positions: AppPositions) -> tuple[Jump, list[tuple[int, int]]]:
    jump, changes = decide_jump([parse_setting(one) for one in settings.split()], positions, "j1")
    return jump, [(one.skipped, one.again) for one in changes]


TWO = standing(stream(PartitionPosition(A0, 10, OffsetBounds(5, 40)), PartitionPosition(A1, 20, OffsetBounds(0, 20))))


@pytest.mark.parametrize(
    ("settings", "to", "amounts"),
    [
        ("a=oldest", {A0: 5, A1: 0}, [(0, 5), (0, 20)]),
        ("a=end", {A0: 40, A1: 20}, [(30, 0), (0, 0)]),
        ("a/1=7 a/0=12", {A0: 12, A1: 7}, [(2, 0), (0, 13)]),
        ("a/0=40", {A0: 40}, [(30, 0)]),
    ],
)
def test_a_jump_leads_from_where_the_app_stands(
    settings: str, to: dict[StreamPartition, int], amounts: list[tuple[int, int]]
) -> None:
    assert decided(settings, TWO) == (Jump("j1", {one: {A0: 10, A1: 20}[one] for one in to}, to), amounts)


def test_records_that_are_gone_are_not_counted_as_skipped() -> None:
    trimmed = standing(stream(PartitionPosition(A0, 10, OffsetBounds(25, 40))))
    assert decided("a/0=30", trimmed) == (Jump("j1", {A0: 10}, {A0: 30}), [(5, 0)])


def test_a_partition_unknown_to_this_run_is_left_out() -> None:
    grown = standing(
        stream(PartitionPosition(A0, 10, OffsetBounds(0, 10)), PartitionPosition(A1, None, OffsetBounds(0, 3)))
    )
    assert decided("a=oldest", grown)[0].to == {A0: 0}


def test_a_topic_made_anew_is_taken_over_as_a_whole() -> None:
    anew = stream(
        PartitionPosition(A0, 10, OffsetBounds(0, 3), recreated=True),
        PartitionPosition(A1, 20, OffsetBounds(0, 90), recreated=True),
        id="two",
    )
    assert decided("a/0=oldest a/1=30", standing(anew)) == (
        Jump("j1", {A0: 10, A1: 20}, {A0: 0, A1: 30}, {"a": "two"}),
        [(0, 0), (30, 0)],
    )


@pytest.mark.parametrize(
    ("settings", "positions", "message"),
    [
        ("b=end", TWO, "shop reads no stream b"),
        ("a/2=end", TWO, "has not seen a/2 yet; it has a/0, a/1"),
        ("a/0=4", TWO, "a/0 has records from 5, and ends at 40"),
        ("a/0=41", TWO, "a/0 has records from 5, and ends at 40"),
        ("a=end a/1=3", TWO, "a/1 is set twice"),
        ("a=end", standing(stream(PartitionPosition(A0, None, OffsetBounds(0, 3)))), "has not seen stream a yet"),
        (
            "a=end",
            standing(stream(PartitionPosition(A0, 3, OffsetBounds(0, 3)), role="intermediate")),
            "makes stream a itself",
        ),
        ("a=end", standing(stream(PartitionPosition(A0, 3, None), kind="generator")), "generated as time goes on"),
        ("a=end", standing(stream(PartitionPosition(A0, 3, None), unknown="no broker")), "not known .* no broker"),
        ("a=end", standing(stream(PartitionPosition(A0, 3, None))), "a/0 is not there any more"),
        (
            "a=oldest",
            standing(stream(PartitionPosition(A0, 9, OffsetBounds(0, 12), last=9))),
            "of a bounded stream and has ended",
        ),
        ("a/0=11", standing(stream(PartitionPosition(A0, 3, OffsetBounds(0, 12), last=9))), "ends at 9"),
        (
            "a/0=end",
            standing(
                stream(*(PartitionPosition(one, 3, OffsetBounds(0, 9), recreated=True) for one in (A0, A1)), id="two")
            ),
            r"set all of its partitions at once \(--set a=oldest\); left out: a/1",
        ),
        (
            "a=end",
            standing(stream(PartitionPosition(A0, 3, OffsetBounds(0, 9), recreated=True), id="two", grown=True)),
            "it had grown in this run",
        ),
        ("a=end", standing(*TWO.streams, pending=Offsets(8)), "batch 8 of shop is planned and not done"),
    ],
)
def test_what_can_not_be_set_is_refused(settings: str, positions: AppPositions, message: str) -> None:
    with pytest.raises(SettingRefusedError, match=message):
        decided(settings, positions)


KAFKA_TOO = (
    (
        "- {name: here, log: {}}",
        '- {name: here, log: {}}\n  - {name: far, kafka: {bootstrapServers: "127.0.0.1:PORT"}}',
    ),
    ("  steps:", '  - {name: clicks, system: far, key: [k], schema: "k STRING"}\n  steps:'),
    ("  planning:", "  - {name: seen, from: [clicks], filter: \"k <> ''\"}\n  planning:"),
)


def fed(data: Path, count: int, first: int = 0) -> None:
    """Rows in the log, which is then closed: the command opens it otherwise than `feed`, and a process has one way."""
    close_under(data / "log")
    feed(data, count, first)
    close_under(data / "log")


def made(trimmed: int = 0) -> None:
    """As a run would have found its streams."""
    log = EmbeddedLog(Path("data/log"))
    log.ensure("counted-moved", 3, now=0)
    log.trim(ROWS[0], trimmed)


def checkpoint(offsets: Offsets) -> Path:
    query = DataDir(Path("data")).app("counted").run("1").query
    planned(query, 3, offsets)
    done(query, 3)
    return query


def test_brokers_that_are_away_leave_the_rest_to_be_seen(holdfast: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TopicBounds.__init__, "__defaults__", (1.0,))
    text = APP
    for old, new in KAFKA_TOO:
        text = text.replace(old, new.replace("PORT", str(free_ports(1)[0])))
    Path("counted.yaml").write_text(text)
    fed(Path("data"), 20)
    made()
    checkpoint(Offsets(5, 1000, {ROWS[0]: 4, ROWS[1]: 99, StreamPartition("clicks", 0): 3}))
    ran = holdfast("offsets", "counted.yaml", "--data", "data", "-o", "json")
    assert ran.code == 3
    tree = json.loads(ran.out)
    partitions = {one["partition"]: one for one in tree["partitions"]}
    assert (partitions["rows/0"]["lag"], partitions["rows/0"]["trouble"]) == (partitions["rows/0"]["end"] - 4, None)
    assert partitions["rows/1"]["trouble"] == "beyondEnd"
    assert (partitions["clicks/0"]["next"], partitions["clicks/0"]["end"]) == (3, None)
    assert "Kafka system far" in tree["unknown"]["clicks"]
    assert "Kafka system far" in ran.err


def test_what_can_not_go_on_is_shown_and_set(holdfast: Holdfast) -> None:
    Path("counted.yaml").write_text(APP)
    fed(Path("data"), 100)
    made(trimmed=30)
    query = checkpoint(Offsets(5, 1000, {ROWS[0]: 10, ROWS[1]: 20}))
    shown = holdfast("offsets", "counted.yaml", "--data", "data")
    assert shown.code == 1
    (row,) = [line.split(maxsplit=6) for line in shown.out.splitlines() if line.startswith("rows/0")]
    assert row == ["rows/0", "input", "10", "30", "50", "20", "records are gone unread"]
    tried = holdfast("offsets", "counted.yaml", "--data", "data", "--set", "rows/0=oldest")
    assert (tried.code, JumpFile.beside(query).read()) == (1, None)
    assert "add --yes" in tried.err
    (query.parent / "jump.json").write_text("half a f")
    assert "set them once more" in holdfast("offsets", "counted.yaml", "--data", "data").err
    assert holdfast("offsets", "counted.yaml", "--data", "data", "--set", "rows/0=oldest", "--yes").code == 0
    jump = JumpFile.beside(query).read()
    assert jump is not None
    assert (jump.found, jump.to) == ({ROWS[0]: 10}, {ROWS[0]: 30})
    assert "the next run goes to rows/0 to 30" in holdfast("offsets", "counted.yaml", "--data", "data").out


def test_an_app_that_never_ran_has_no_positions(holdfast: Holdfast) -> None:
    Path("counted.yaml").write_text(APP)
    for more in ((), ("--set", "rows=end", "--yes")):
        ran = holdfast("offsets", "counted.yaml", *more)
        assert ran.code == 2
        assert "run 1 of counted has not read anything" in ran.err
    assert not Path(".holdfast").exists()


def test_a_form_that_is_not_there_is_bad_usage(holdfast: Holdfast) -> None:
    Path("counted.yaml").write_text(APP)
    ran = holdfast("offsets", "counted.yaml", "--set", "rows=newest")
    assert ran.code == 2
    assert "--set 'rows=newest': write STREAM/PARTITION=oldest" in ran.err


def test_a_stuck_app_names_the_command_for_streams_of_others() -> None:
    files = RunFiles("my app.yaml", "data", data_given=True, prints="spark.log", logs=frozenset())
    lost = [LostPosition(one, 9, OffsetBounds(0, 5), PositionTrouble.BEYOND_END) for one in (A1, A0)]
    error = with_offsets_command(lost_error(lost), files.offsets, {"b"})
    assert "holdfast offsets 'my app.yaml' --data data --set a/0=end --set a/1=end (" in str(error)
    assert "another spec.runId" in str(error)
    assert "holdfast offsets" not in str(with_offsets_command(lost_error(lost), files.offsets, {"a"}))


def read_rows(data: Path, parts: dict[StreamPartition, list[tuple[int, int]]]) -> list[dict[str, Any]]:
    """What an app has read that read these offsets of the partitions, in this order."""
    log = EmbeddedLog(data / "log")
    return [
        json.loads(value)
        for partition, ranges in parts.items()
        for begin, end in ranges
        for value in log.fetch(OffsetRange(partition, begin, end)).column("value").to_pylist()
    ]


def check(data: Path, parts: dict[StreamPartition, list[tuple[int, int]]]) -> None:
    """Each row that was read has its effect, numbered on by the state that stayed."""
    expected = [row for row in read_rows(data, parts) if row["id"] % 10 != 3]
    rows = written(data)
    assert Counter(row["id"] for row in rows) == Counter(row["id"] for row in expected)
    for key in {row["k"] for row in expected}:
        key_rows = [row for row in rows if row["k"] == f"key-{key}"]
        assert [row["id"] for row in key_rows] == [row["id"] for row in expected if row["k"] == key]
        assert [row["nth"] for row in key_rows] == list(range(1, len(key_rows) + 1))


def test_a_run_is_set_once_whatever_is_killed(holdfast: Holdfast, tmp_path: Path) -> None:
    app, data = tmp_path / "counted.yaml", tmp_path / "data"
    app.write_text(APP)

    def offsets(*more: str) -> Ran:
        return holdfast("offsets", str(app), "--data", str(data), *more)

    fed(data, 1_000)
    with Run(app, data) as run:
        run.until("progress")
        refused = offsets("--set", "rows=oldest", "--yes")
        assert refused.code == 1
        assert f"in use by process {run.process.pid}" in refused.err
        assert offsets().code == 0, "a run may be looked at"
        run.process.send_signal(signal.SIGTERM)
        run.ended()
    assert not unfinished(data)
    tree = json.loads(offsets("-o", "json").out)
    at = {one["partition"]: one["next"] for one in tree["partitions"]}
    assert all(one["trouble"] is None for one in tree["partitions"])

    fed(data, 500, first=1_000)
    ends = {partition: bounds.end for partition, bounds in EmbeddedLog(data / "log").bounds("rows").items()}
    assert offsets("--set", f"rows/0={at['rows/0'] - 60}", "--set", "rows/1=end", "--yes").code == 0
    file = JumpFile.beside(DataDir(data).app("counted").run("1").query)
    assert file.read() is not None
    parts = {
        ROWS[0]: [(0, at["rows/0"]), (at["rows/0"] - 60, ends[ROWS[0]])],
        ROWS[1]: [(0, at["rows/1"])],
    }
    copy = tmp_path / "jump.json"
    shutil.copy(next(data.rglob("jump.json")), copy)
    with Run(app, data) as run:
        run.until("started")
        run.killed()
    with Run(app, data, "--until-idle") as run:
        run.ended()
    check(data, parts)
    assert file.read() is None

    # As if it had died before the file was removed.
    shutil.copy(copy, DataDir(data).app("counted").run("1").query.parent / "jump.json")
    fed(data, 100, first=1_500)
    with Run(app, data, "--until-idle") as run:
        run.ended()
    now = {partition: bounds.end for partition, bounds in EmbeddedLog(data / "log").bounds("rows").items()}
    for partition in ROWS:
        parts[partition].append((ends[partition], now[partition]))
    check(data, parts)
    assert file.read() is None


def test_replan_takes_a_planned_batch_and_no_other_option(holdfast: Holdfast, tmp_path: Path) -> None:
    app, data = tmp_path / "counted.yaml", tmp_path / "data"
    app.write_text(APP)

    def replan(*more: str) -> Ran:
        return holdfast("offsets", str(app), "--data", str(data), "--replan", *more)

    never = replan("--yes")
    assert (never.code, "there are no positions yet" in never.err) == (2, True)
    query = DataDir(data).app("counted").run("1").query
    planned(query, 0, Offsets(1))
    done(query, 0)
    nothing = replan("--yes")
    assert (nothing.code, "there is nothing to plan again" in nothing.err) == (1, True)
    planned(query, 1, Offsets(2, turns={"partition-0": 1}, taking_part=("partition-0",)))
    shown = replan()
    assert (shown.code, "nothing was changed; add --yes" in shown.err) == (1, True)
    assert "partition-0  not decided  planned again" in shown.out
    with DataDir(data).app("counted").taken():
        busy = replan("--yes")
        assert (busy.code, "only while the app does not run" in busy.err) == (1, True)
    ran = replan("--yes", "-o", "json")
    assert (ran.code, json.loads(ran.out)["tasks"]) == (
        0,
        [{"task": "partition-0", "is": "not decided", "plannedAnew": True}],
    )
    assert [path.name for path in (query / "offsets").iterdir() if not path.name.startswith(".")] == ["0"]
    assert replan("--set", "rows=end").code == 2
