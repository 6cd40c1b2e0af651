"""Two apps joined by a stream with control messages: event time and the end of the first reach the second."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from holdfast.control.messages import EndOfStreamMessage
from holdfast_runtime.testing import Crashed, TestDriver

KEYS = "abcdefgh"


def app(name: str, streams: Sequence[dict[str, Any]], steps: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {
        "apiVersion": "holdfast.dev/v1alpha1",
        "kind": "StreamApp",
        "metadata": {"name": name},
        "spec": {
            "systems": [{"name": "here", "log": {}}],
            "streams": [{"system": "here", "key": ["k"], **stream} for stream in streams],
            "steps": list(steps),
            "planning": {"intermediatePartitions": 3},
        },
    }


TIMED: dict[str, Any] = {"schema": "k STRING, ts TIMESTAMP", "eventTime": {"column": "ts"}}
BETWEEN: dict[str, Any] = {"name": "between", "partitions": 2, "control": True}


def first() -> dict[str, Any]:
    """It repartitions its input before it writes, so tasks write that do not read the input."""
    streams = [{"name": "raw", "partitions": 4, "bounded": True, **TIMED}, BETWEEN]
    steps: list[dict[str, Any]] = [
        {"name": "spread", "from": ["raw"], "repartition": {"by": ["k"]}},
        {"name": "out", "from": ["spread"], "to": "between"},
    ]
    return app("first", streams, steps)


def second() -> dict[str, Any]:
    """It counts in windows of a minute."""
    window = {"by": ["k"], "window": "1m", "compute": ["count(*) AS n"]}
    steps: list[dict[str, Any]] = [
        {"name": "counts", "from": ["between"], "aggregate": window},
        {"name": "out", "from": ["counts"], "to": "counted"},
    ]
    return app("second", [{**BETWEEN, **TIMED}, {"name": "counted", "partitions": 1}], steps)


def feed(driver: TestDriver, *minutes: int) -> None:
    """A row of each key in each of these minutes."""
    at = [datetime(2026, 1, 1, 0, minute, tzinfo=UTC) for minute in minutes]
    driver.feed("raw", [{"k": key, "ts": ts} for key in KEYS for ts in at])


def ran(*drivers: TestDriver) -> None:
    for driver in drivers:
        driver.run_until_idle()


def counted(driver: TestDriver) -> list[tuple[str, str, int]]:
    """The windows that have left, none of them twice."""
    rows = [(str(row["k"]), str(row["window_start"]), int(row["n"])) for row in driver.rows("counted")]
    assert len(set(rows)) == len(rows)
    return rows


def test_windows_of_the_second_close_by_the_firsts_event_time(tmp_path: Path) -> None:
    with TestDriver(first(), tmp_path) as producer, TestDriver(second(), tmp_path) as reader:
        feed(producer, 0, 1, 2)
        ran(producer, reader)
        assert len(counted(reader)) == 2 * len(KEYS), "the third minute may get more rows"
        producer.end("raw")
        ran(producer, reader)
        assert (producer.completed, reader.completed) == (True, True)
        assert [n for *_, n in counted(reader)] == [1] * 3 * len(KEYS)


def test_a_restart_of_the_first_changes_nothing_for_the_second(tmp_path: Path) -> None:
    with TestDriver(first(), tmp_path) as producer, TestDriver(second(), tmp_path) as reader:
        feed(producer, 0, 1)
        ran(producer, reader)
        producer.restart()
        producer.lose_local_state()
        feed(producer, 2)
        ran(producer, reader)
        assert len(counted(reader)) == 2 * len(KEYS)
        producer.restart()
        producer.end("raw")
        ran(producer, reader)
        assert reader.completed
        assert [n for *_, n in counted(reader)] == [1] * 3 * len(KEYS)


def test_the_first_may_grow_while_the_second_runs(tmp_path: Path) -> None:
    with TestDriver(first(), tmp_path) as producer, TestDriver(second(), tmp_path) as reader:
        feed(producer, 0, 1)
        ran(producer, reader)
        producer.grow("raw", 8)
        producer.restart()
        producer.advance(3600)
        feed(producer, 2)
        producer.end("raw")
        ran(producer, reader)
        assert (producer.completed, reader.completed) == (True, True)
        assert [n for *_, n in counted(reader)] == [1] * 3 * len(KEYS)


def test_a_first_app_run_anew_is_heard_at_once(tmp_path: Path) -> None:
    anew = first()
    anew["spec"]["runId"] = "2"
    with TestDriver(second(), tmp_path) as reader:
        with TestDriver(first(), tmp_path) as producer:
            for minute in range(6):
                feed(producer, minute)
                ran(producer, reader)
            assert len(counted(reader)) == 5 * len(KEYS)
        with TestDriver(anew, tmp_path) as producer:
            feed(producer, 6, 7)
            ran(producer, reader)
            assert len(counted(reader)) == 7 * len(KEYS), "its first batch closes windows, although the old run had six"
            assert reader.late == 5 * len(KEYS), "it reads all there is, and the windows of five minutes had left"
            producer.end("raw")
            ran(producer, reader)
            assert (producer.completed, reader.completed) == (True, True)
        counts = counted(reader)
    assert {start[14:16]: n for _, start, n in counts} == {f"{minute:02}": 1 + (minute == 5) for minute in range(8)}
    assert len(counts) == 8 * len(KEYS)


def tasks_ended(driver: TestDriver) -> set[str | None]:
    """The tasks whose end stands in the stream between the apps."""
    messages = [one.message for one in driver.control("between")]
    return {one.task for one in messages if isinstance(one, EndOfStreamMessage)}


def test_a_run_stopped_half_ended_may_be_run_anew(tmp_path: Path) -> None:
    anew = first()
    anew["spec"]["runId"] = "2"
    with TestDriver(second(), tmp_path) as reader:
        with TestDriver(first(), tmp_path, slots=2) as producer:
            feed(producer, 0, 1)
            producer.end("raw")
            while not tasks_ended(reader):
                producer.crash_at("outputs committed")
                with pytest.raises(Crashed):
                    producer.run()
                producer.restart()
                if not tasks_ended(reader):
                    producer.run()
        assert 0 < len(tasks_ended(reader)) < 3
        ran(reader)
        assert not reader.completed
        with TestDriver(anew, tmp_path) as producer:
            producer.end("raw")
            ran(producer, reader)
            assert (producer.completed, reader.completed) == (True, True)


def fed_by(*inputs: tuple[str, int], grouping: str = "ByPartition") -> dict[str, Any]:
    """The first app, whose tasks are those of these inputs (name, partitions), each handed on where it is read."""
    streams = [{"name": name, "partitions": count, "bounded": True, **TIMED} for name, count in inputs]
    steps: list[dict[str, Any]] = [{"name": "out", "from": [name for name, _ in inputs], "to": "between"}]
    if len(inputs) > 1:
        steps = [{"name": "both", "from": [name for name, _ in inputs], "merge": {}}, {**steps[0], "from": ["both"]}]
    tree = app("first", [*streams, BETWEEN], steps)
    tree["spec"]["grouping"] = grouping
    return tree


def test_fewer_tasks_of_the_first_leave_no_reader_waiting(tmp_path: Path) -> None:
    """Two tasks read `raw` alone, and two more what `more` has had; the second reader begins when they are gone."""
    wide, narrow = fed_by(("raw", 2), ("more", 4)), fed_by(("raw", 2))
    late_reader = second()
    late_reader["metadata"]["name"] = "third"
    late_reader["spec"]["streams"][1] |= {"name": "counted-late"}
    late_reader["spec"]["steps"][1]["to"] = "counted-late"
    with TestDriver(wide, tmp_path) as producer, TestDriver(second(), tmp_path) as reader:
        feed(producer, 0, 1)
        producer.feed("more", [{"k": key, "ts": datetime(2026, 1, 1, tzinfo=UTC)} for key in KEYS])
        ran(producer, reader)
        assert counted(reader) == [], "the tasks of `more` are at the first minute"
        producer.restart(narrow)
        feed(producer, 2)
        ran(producer, reader)
        assert len(counted(reader)) == 2 * len(KEYS)
        with TestDriver(late_reader, tmp_path) as latecomer:
            ran(latecomer)
            assert {str(row["window_start"]) for row in latecomer.rows("counted-late")} == {
                at for _, at, _ in counted(reader)
            }
            producer.restart(wide)
            feed(producer, 3)
            ran(producer, reader, latecomer)
            assert len(counted(reader)) == 2 * len(KEYS), "tasks that are back are waited for"
            producer.end("raw")
            producer.restart(narrow)
            ran(producer, reader, latecomer)
            assert (producer.completed, reader.completed, latecomer.completed) == (True, True, True)
            assert len(counted(reader)) == len(latecomer.rows("counted-late")) == 4 * len(KEYS)


def test_tasks_of_other_names_replace_those_that_are_gone(tmp_path: Path) -> None:
    """With a task for each stream partition, an app that reads another stream has as many tasks, of other names."""
    before, after = (fed_by((name, 2), grouping="ByStreamPartition") for name in ("raw", "newer"))
    with TestDriver(before, tmp_path) as producer, TestDriver(second(), tmp_path) as reader:
        feed(producer, 0, 1)
        ran(producer, reader)
        producer.restart(after)
        producer.feed("newer", [{"k": key, "ts": datetime(2026, 1, 1, 0, 2, tzinfo=UTC)} for key in KEYS])
        ran(producer, reader)
        assert len(counted(reader)) == 2 * len(KEYS)
        producer.end("newer")
        ran(producer, reader)
        assert (producer.completed, reader.completed) == (True, True)
        assert [n for *_, n in counted(reader)] == [1] * 3 * len(KEYS)


def direct(partitions: int, between: int, **timed: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The first app hands its rows on in the task that reads them, so each of its tasks speaks of one partition."""
    producer, reader = first(), second()
    raw, joint = producer["spec"]["streams"]
    raw |= {"partitions": partitions, "eventTime": {"column": "ts", **timed}}
    joint["partitions"] = between
    producer["spec"]["steps"] = [{"name": "out", "from": ["raw"], "to": "between"}]
    reader["spec"]["streams"][0] |= joint | {"eventTime": {"column": "ts", **timed}}
    return producer, reader


def test_an_idle_producer_without_records_is_named_and_left_out(tmp_path: Path) -> None:
    silent, patient = direct(9, 2), direct(9, 2, idleAfter="10s")
    with TestDriver(silent[0], tmp_path) as producer, TestDriver(silent[1], tmp_path) as reader:
        feed(producer, 0, 1)
        producer.run_until_idle()
        (batch,) = reader.run()
        held = [(task.held_by, str(task.held_back)) for task in batch.tasks]
        assert held
        assert all(by == "first" and "of 9 producers of app first, never heard" in why for by, why in held), held
        ran(producer, reader)
        assert counted(reader) == []
        for driver, app in zip((producer, reader), patient, strict=True):
            driver.restart(app)
        feed(producer, 2)
        ran(producer, reader)
        for driver in (producer, reader):
            driver.advance(11)
        feed(producer, 3)
        ran(producer, reader)
        assert len(counted(reader)) == 3 * len(KEYS)


def test_many_producers_tell_every_partition_of_another_apps_stream(tmp_path: Path) -> None:
    """So many speak through a relay, but only in a stream that their own app reads: nobody else would relay."""
    apps = direct(65, 64)
    with TestDriver(apps[0], tmp_path) as producer, TestDriver(apps[1], tmp_path) as reader:
        feed(producer, 0, 1)
        producer.end("raw")
        ran(producer, reader)
        assert (producer.completed, reader.completed) == (True, True)
        assert [n for *_, n in counted(reader)] == [1] * 2 * len(KEYS)
