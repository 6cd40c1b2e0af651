"""More timers are due than fire in one batch: all fire in the next ones, and nothing downstream is late for it."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast.control.messages import EndOfStreamMessage, WatermarkMessage
from holdfast_runtime.steps.keyed import process
from holdfast_runtime.testing import TestDriver
from tests.engine.log_apps import app_on_log

START = datetime(2026, 1, 1, tzinfo=UTC)
KEYS, MOST = 10, 3
CODE = """
def remind(key, rows, state):
    for timer in state.fired:
        yield {"k": "one", "from": key, "ts": None}
    for row in rows:
        if key != "end":
            state.at_event_time(row["ts"]) if row["event"] else state.at_time(state.now + 5_000)

def total(key, rows, state):
    state["rows"] = state.get("rows", 0) + len(rows)
    if rows:
        state.at_event_time(HALF)
    for timer in state.fired:
        yield {"k": key, "from": str(state["rows"]), "late": False, "ended": state.ended}

def watch(key, rows, state):
    for row in rows:
        yield {"k": key, "from": row["from"], "late": state.is_late(row), "ended": state.ended}
"""


CODE = f"HALF = {int(START.timestamp() * 1000) + 50_000}\n{CODE}"


@contextmanager
def driven(
    data: Path, *, repartitioned: bool = False, bounded: bool = False, function: str = "watch"
) -> Iterator[TestDriver]:
    ticks = {
        "name": "ticks",
        "schema": "k STRING, event BOOLEAN, ts TIMESTAMP",
        "eventTime": {"column": "ts"},
        "bounded": bounded,
    }
    remind = {"function": "f:remind", "by": ["k"], "schema": "k STRING, `from` STRING, ts TIMESTAMP", "keeps": ["k"]}
    schema = "k STRING, `from` STRING, late BOOLEAN, ended BOOLEAN"
    watch = {"function": f"f:{function}", "by": ["k"], "schema": schema, "keeps": ["k"]}
    between: list[dict[str, Any]] = [{"name": "spread", "from": ["reminded"], "repartition": {"by": ["k"]}}]
    steps = [
        {"name": "reminded", "from": ["ticks"], "process": remind},
        *(between if repartitioned else []),
        {"name": "watched", "from": ["spread" if repartitioned else "reminded"], "process": watch},
        {"name": "out", "from": ["watched"], "to": "seen"},
    ]
    app = app_on_log("reminders", [ticks, {"name": "seen"}], steps, CODE)
    with TestDriver(app, data) as driver:
        yield driver


@pytest.fixture(autouse=True)
def few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_MOST_FIRED", MOST)


def tick(key: str, seconds: int, *, event: bool = True) -> dict[str, Any]:
    return {"k": key, "event": event, "ts": START + timedelta(seconds=seconds)}


def fed(driver: TestDriver, *, event: bool = True) -> list[str]:
    keys = [f"k{number}" for number in range(KEYS)]
    driver.feed("ticks", [tick(key, place + 1, event=event) for place, key in enumerate(keys)])
    return keys


@pytest.mark.parametrize("repartitioned", [False, True])
def test_due_timers_of_event_time_fire_over_batches_without_lateness(tmp_path: Path, repartitioned: bool) -> None:
    with driven(tmp_path, repartitioned=repartitioned) as driver:
        keys = fed(driver)
        driver.feed("ticks", [tick("end", 100)])
        results = driver.run_until_idle()
        timers = driver.rows("seen")
        assert [row["from"] for row in timers] == keys, "the earliest first"
        assert not any(row["late"] for row in timers)
        assert len(results) >= KEYS / MOST
        assert "timers, windows or rows are due" in str(results[0].tasks[0].held_back)
        assert driver.watermark(driver.tasks[0]) == START + timedelta(seconds=100), "and then it goes on"


@pytest.mark.parametrize("repartitioned", [False, True])
def test_timers_further_on_wait_for_those_that_have_not_fired(tmp_path: Path, repartitioned: bool) -> None:
    with driven(tmp_path, repartitioned=repartitioned, function="total") as driver:
        fed(driver)
        driver.feed("ticks", [tick("end", 100)])
        driver.run_until_idle()
        assert [row["from"] for row in driver.rows("seen")] == [str(KEYS)]


@pytest.mark.parametrize("repartitioned", [False, True])
def test_the_end_of_the_inputs_waits_for_all_timers(tmp_path: Path, repartitioned: bool) -> None:
    with driven(tmp_path, repartitioned=repartitioned, bounded=True) as driver:
        keys = fed(driver)
        driver.end("ticks")
        batches = 0
        while not driver.completed:
            assert driver.run(), "an app that has not ended has something to do"
            batches += 1
        timers = driver.rows("seen")
        assert [row["from"] for row in timers] == keys
        assert not any(row["late"] for row in timers)
        assert batches >= KEYS / MOST
        assert driver.run_until_idle() == ()


def test_no_message_overtakes_a_timer_that_has_not_fired(tmp_path: Path) -> None:
    with driven(tmp_path, repartitioned=True, bounded=True) as driver:
        fed(driver)
        driver.end("ticks")
        driver.run_until_idle()
        messages = [record.message for record in driver.control("spread")]
        marks = [int(one.timestamp) for one in messages if isinstance(one, WatermarkMessage)]
        assert marks == sorted(marks)
        assert isinstance(messages[-1], EndOfStreamMessage)
        times = [record.offset for record in driver.control("spread")]
        last = max(record.offset for record in driver.records("spread"))
        assert times[-1] == last, "the end is behind all rows"


def test_due_timers_of_processing_time_fire_over_batches_at_once(tmp_path: Path) -> None:
    with driven(tmp_path) as driver:
        keys = fed(driver, event=False)
        driver.run_until_idle()
        driver.advance(5)
        results = driver.run_until_idle()
        assert sorted(row["from"] for row in driver.rows("seen")) == keys
        assert [result.rows_out for result in results] == [3, 3, 3, 1]


def test_a_crash_between_these_batches_repeats_and_loses_nothing(tmp_path: Path) -> None:
    with driven(tmp_path) as driver:
        keys = fed(driver)
        driver.feed("ticks", [tick("end", 100)])
        driver.run(2)
        driver.crash_at("slots done")
        with pytest.raises(Exception, match="slots done"):
            driver.run()
        driver.lose_local_state()
        driver.restart()
        driver.run_until_idle()
        assert [row["from"] for row in driver.rows("seen")] == keys
