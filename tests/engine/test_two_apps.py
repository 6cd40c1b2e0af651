"""Two apps joined by a stream with control messages: event time and the end of the first reach the second."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from holdfast_runtime.testing import TestDriver

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


def test_windows_of_the_second_close_by_the_event_time_of_the_first_and_both_complete(tmp_path: Path) -> None:
    with TestDriver(first(), tmp_path) as one, TestDriver(second(), tmp_path) as two:
        feed(one, 0, 1, 2)
        ran(one, two)
        assert len(counted(two)) == 2 * len(KEYS), "the third minute may get more rows"
        one.end("raw")
        ran(one, two)
        assert (one.completed, two.completed) == (True, True)
        assert [n for *_, n in counted(two)] == [1] * 3 * len(KEYS)


def test_a_restart_of_the_first_changes_nothing_for_the_second(tmp_path: Path) -> None:
    with TestDriver(first(), tmp_path) as one, TestDriver(second(), tmp_path) as two:
        feed(one, 0, 1)
        ran(one, two)
        one.restart()
        one.lose_local_state()
        feed(one, 2)
        ran(one, two)
        assert len(counted(two)) == 2 * len(KEYS)
        one.restart()
        one.end("raw")
        ran(one, two)
        assert two.completed
        assert [n for *_, n in counted(two)] == [1] * 3 * len(KEYS)


def test_the_first_may_grow_while_the_second_runs(tmp_path: Path) -> None:
    with TestDriver(first(), tmp_path) as one, TestDriver(second(), tmp_path) as two:
        feed(one, 0, 1)
        ran(one, two)
        one.grow("raw", 8)
        one.restart()
        one.advance(3600)
        feed(one, 2)
        one.end("raw")
        ran(one, two)
        assert (one.completed, two.completed) == (True, True)
        assert [n for *_, n in counted(two)] == [1] * 3 * len(KEYS)
