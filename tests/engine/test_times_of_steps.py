"""Steps that give their rows another event time: what comes behind them goes by it, from the next batch on."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast_runtime.testing import TestDriver
from tests.engine.log_apps import app_on_log

START = datetime(2026, 1, 1, tzinfo=UTC)
CODE = """
import pyarrow as pa

def decode(batch):
    texts = [value.decode().split() for value in batch["value"].to_pylist()]
    columns = [batch["k"], pa.array([int(n) for n, _ in texts]), pa.array([int(at) for _, at in texts])]
    return pa.RecordBatch.from_arrays(columns, ["k", "n", "at"])

def later(key, rows, state):
    for row in rows:
        yield {"k": key, "n": row["n"], "at": row["at"] + 3600}
        state.at_event_time(row["at"] * 1_000, str(row["at"]))
    for timer in state.fired:
        yield {"k": key, "n": -1, "at": timer.time // 1_000 + 3600}
"""
DECODE = {"function": "f:decode", "schema": "k STRING, n BIGINT, at BIGINT", "keeps": ["k"]}
TIMED = {"from": "at", "unit": "Seconds", "lateness": "10s"}
COUNT = {"by": ["k"], "window": "1m", "compute": ["sum(n) AS n"]}


@contextmanager
def driven(data: Path, *between: dict[str, Any], behind: str = "decoded", **event_time: str) -> Iterator[TestDriver]:
    """An app that decodes records and counts what comes behind, by minute."""
    streams: list[dict[str, Any]] = [
        {"name": "in", "key": None, "metadata": ["key AS k"], "format": "binary", "bounded": True},
        {"name": "out"},
    ]
    steps = [
        {"name": "decoded", "from": ["in"], "apply": DECODE, "eventTime": TIMED | event_time},
        *between,
        {"name": "counted", "from": [behind], "aggregate": COUNT},
        {"name": "written", "from": ["counted"], "to": "out"},
    ]
    with TestDriver(app_on_log("times", streams, steps, CODE), data, now=START) as driver:
        yield driver


def feed(driver: TestDriver, *rows: tuple[int, int], key: str = "a") -> None:
    """Records of numbers and seconds."""
    seconds = int(START.timestamp())
    driver.feed_bytes("in", [f"{n} {seconds + at}".encode() for n, at in rows], key.encode())


def sums(driver: TestDriver) -> list[tuple[int, int]]:
    """The minutes that are over, with their sums."""
    return [((row["window_start"] - START) // timedelta(minutes=1), row["n"]) for row in driver.rows("out")]


def test_windows_close_by_the_time_of_the_step(tmp_path: Path) -> None:
    with driven(tmp_path) as driver:
        feed(driver, (1, 5), (2, 59), (4, 3))
        driver.run_until_idle()
        assert (sums(driver), driver.watermark("decoded")) == ([], START + timedelta(seconds=49))
        feed(driver, (8, 69))
        driver.run_until_idle()
        assert sums(driver) == []
        feed(driver, (16, 70))
        driver.run_until_idle()
        assert sums(driver) == [(0, 7)]


def test_a_row_is_late_by_the_batches_before_it(tmp_path: Path) -> None:
    with driven(tmp_path) as driver:
        feed(driver, (1, 5), (2, 200), (4, 50))
        driver.run_until_idle()
        driver.restart()
        driver.lose_local_state()
        feed(driver, (8, 55), (16, 195))
        driver.run_until_idle()
        assert (sums(driver), driver.late) == ([(0, 5)], 1)
        feed(driver, (32, 400))
        driver.run_until_idle()
        assert sums(driver) == [(0, 5), (3, 18)]


def test_a_row_far_ahead_moves_no_watermark(tmp_path: Path) -> None:
    with driven(tmp_path, maxAhead="1h") as driver:
        feed(driver, (1, 5), (2, 3_601), (4, 30))
        results = driver.run_until_idle()
        feed(driver, (8, 20))
        driver.run_until_idle()
        assert (driver.ahead, driver.late, driver.watermark("decoded")) == (1, 1, START + timedelta(seconds=20))
    (first_ahead,) = {task.first_ahead for result in results for task in result.tasks if task.first_ahead}
    assert first_ahead == (
        "row 1 of step decoded: at is 2026-01-01T01:00:01.000Z, 60 min ahead of the clock, and eventTime.maxAhead is 1h"
    )


def test_an_idle_step_holds_nothing_back(tmp_path: Path) -> None:
    other = {"name": "second", "from": ["decoded"], "select": ["*"], "eventTime": TIMED | {"idleAfter": "30s"}}
    odd = {"name": "odd", "from": ["second"], "filter": "n < 0"}
    merged = {"name": "both", "from": ["decoded", "odd"], "merge": {}}
    with driven(tmp_path, other, odd, merged, behind="both") as driver:
        feed(driver, (1, 5), (2, 300))
        driver.run_until_idle()
        assert sums(driver) == [(0, 1)]
    never = {"name": "never", "from": ["in"], "filter": "k = 'nobody'"}
    second = other | {"from": ["never-decoded"]}
    decoded = {"name": "never-decoded", "from": ["never"], "apply": DECODE}
    merged = {"name": "both", "from": ["decoded", "second"], "merge": {}}
    with driven(tmp_path / "never", never, decoded, second, merged, behind="both") as driver:
        feed(driver, (1, 5), (2, 300))
        driver.run_until_idle()
        assert sums(driver) == []
        driver.advance(timedelta(seconds=29))
        driver.run_until_idle()
        assert sums(driver) == []
        driver.advance(timedelta(seconds=2))
        driver.run_until_idle()
        assert sums(driver) == [(0, 1)]


def test_its_watermark_travels_through_a_repartition(tmp_path: Path) -> None:
    moved = {"name": "moved", "from": ["decoded"], "repartition": {"by": ["k"]}}
    with driven(tmp_path, moved, behind="moved") as driver:
        for number in range(4):
            feed(driver, (1, number * 60), (1, number * 60 + 30), key=f"k{number}")
            driver.run_until_idle()
        assert sums(driver) == [(0, 2), (1, 2), (2, 2)]


def test_timers_go_by_the_time_before_it(tmp_path: Path) -> None:
    process = {"function": "f:later", "by": ["k"], "schema": "k STRING, n BIGINT, at BIGINT", "keeps": ["k"]}
    shifted = {"name": "shifted", "from": ["decoded"], "process": process, "eventTime": TIMED}
    with driven(tmp_path, shifted, behind="shifted") as driver:
        feed(driver, (10, 0), (10, 30))
        driver.run_until_idle()
        feed(driver, (10, 100))
        driver.run_until_idle()
        feed(driver, (10, 200))
        driver.run_until_idle()
        assert sums(driver) == [(60, 18), (61, 9)]
        assert driver.watermark("shifted") == START + timedelta(seconds=3_790)


@pytest.mark.parametrize("chain", [[], [{"name": "again", "from": ["decoded"], "select": ["*"], "eventTime": TIMED}]])
def test_the_end_of_streams_is_the_end_behind_steps_too(tmp_path: Path, chain: list[dict[str, Any]]) -> None:
    with driven(tmp_path, *chain, behind="again" if chain else "decoded") as driver:
        feed(driver, (1, 5), (2, 65))
        driver.end("in")
        driver.run_until_idle()
        assert (sums(driver), driver.completed) == ([(0, 1), (1, 2)], True)


def test_joined_sides_wait_by_the_time_of_steps(tmp_path: Path) -> None:
    """The stream of the side has a time of its own, of years later: that must not make it wait for the other."""
    read: dict[str, Any] = {"name": "in", "key": None, "metadata": ["key AS k", "timestamp"], "format": "binary"}
    other = {"name": "other", "schema": "k STRING, ts TIMESTAMP", "eventTime": {"column": "ts"}}
    steps: list[dict[str, Any]] = [
        {"name": "decoded", "from": ["in"], "apply": DECODE, "eventTime": TIMED},
        {"name": "pairs", "from": ["decoded", "other"], "join": {"by": ["k"], "within": "1m", "select": ["k", "n"]}},
        {"name": "written", "from": ["pairs"], "to": "out"},
    ]
    streams = [read | {"eventTime": {"column": "timestamp"}}, other, {"name": "out"}]
    app = app_on_log("sides", streams, steps, CODE)
    app["spec"]["runtime"]["trigger"] = {"maxRecordsPerPartition": 1}
    with TestDriver(app, tmp_path, now=START + timedelta(days=365)) as driver:
        feed(driver, *((n, 20 * n) for n in range(6)))
        driver.feed("other", [{"k": "a", "ts": START + timedelta(seconds=20 * n)} for n in range(40)])
        driver.run(12)
        assert {row["n"] for row in driver.rows("out")} == set(range(6))
        driver.run_until_idle()
    with TestDriver(app, tmp_path / "far", now=START + timedelta(days=365)) as driver:
        feed(driver, *((n, 3_600 * n) for n in range(1, 6)))
        driver.feed("other", [{"k": "a", "ts": START + timedelta(seconds=n)} for n in range(40)])
        driver.run(12)
        assert driver.watermark("decoded") == START + timedelta(seconds=7_190), "it waits, a batch later"
