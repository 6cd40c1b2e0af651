"""What a stream that is silent, or has no event time, means for those it is merged with behind repartitions."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

from holdfast_runtime.testing import TestDriver

START = datetime(2026, 1, 1, tzinfo=UTC)
IDLE = 10
"""Seconds."""
TIMED = {"column": "ts", "idleAfter": f"{IDLE}s"}


def app(second: dict[str, Any], depth: int) -> dict[str, Any]:
    """Counts of two streams by minute; the second one comes behind so many repartitions, the first behind one."""
    first = {"eventTime": TIMED}
    streams = [
        {"name": name, "system": "here", "partitions": 2, "key": ["k"], "schema": "k STRING, ts TIMESTAMP", **more}
        for name, more in (("first", first), ("second", second))
    ]
    names = ["second", *(f"moved-{number}" for number in range(depth))]
    moved = [{"name": name, "from": [before], "repartition": {"by": ["k"]}} for before, name in pairwise(names)]
    steps = [
        {"name": "by-k", "from": ["first"], "repartition": {"by": ["k"]}},
        *moved,
        {"name": "both", "from": ["by-k", names[-1]], "merge": {}},
        {"name": "counts", "from": ["both"], "aggregate": {"by": ["k"], "window": "1m", "compute": ["count(*) AS n"]}},
        {"name": "out", "from": ["counts"], "to": "counted"},
    ]
    spec = {
        "systems": [{"name": "here", "log": {}}],
        "streams": [*streams, {"name": "counted", "system": "here", "partitions": 2}],
        "steps": steps,
    }
    return {"apiVersion": "holdfast.dev/v1alpha1", "kind": "StreamApp", "metadata": {"name": "idle"}, "spec": spec}


def rows(*minutes: int) -> list[dict[str, Any]]:
    """One of each of four keys in these minutes."""
    return [{"k": f"k{key}", "ts": START + timedelta(minutes=minute)} for minute in minutes for key in range(4)]


def counted(driver: TestDriver) -> list[tuple[int, int]]:
    """Minute and count of the windows that have left, of all keys."""
    minutes = timedelta(minutes=1)
    return sorted(((row["window_start"] - START) // minutes, row["n"]) for row in driver.rows("counted"))


def test_a_silent_stream_behind_three_repartitions_holds_nothing_back(tmp_path: Path) -> None:
    with TestDriver(app({"eventTime": TIMED}, depth=3), tmp_path) as driver:
        driver.feed("first", rows(0, 1))
        driver.run_until_idle()
        assert counted(driver) == [], "the second one may still come"
        driver.advance(IDLE + 1)
        driver.feed("first", rows(2))
        driver.run_until_idle()
        assert counted(driver) == [(0, 1)] * 4 + [(1, 1)] * 4
        driver.feed("second", rows(2))
        driver.run_until_idle()
        driver.feed("first", rows(4))
        driver.run_until_idle()
        assert counted(driver) == [(0, 1)] * 4 + [(1, 1)] * 4, "it has come back, and is waited for"
        driver.feed("second", rows(4))
        driver.run_until_idle()
        assert counted(driver) == [(0, 1)] * 4 + [(1, 1)] * 4 + [(2, 2)] * 4
        assert driver.late == 0


def test_rows_on_their_way_are_not_late_in_long_batches(tmp_path: Path) -> None:
    with TestDriver(app({"eventTime": TIMED}, depth=3), tmp_path) as driver:
        for minute in range(9):
            driver.feed("first", rows(minute))
            driver.feed("second", rows(minute))
            driver.run()
            driver.advance(IDLE + 5)
        driver.run_until_idle()
        assert driver.late == 0
        assert counted(driver) == [(minute, 2) for minute in range(8) for _ in range(4)]


CODE = """
def leave(k, rows, state):
    for timer in state.fired:
        yield {"k": k, "minute": timer.name}
    for row in rows:
        state.at_event_time(row["ts"], str(row["ts"].minute))
"""


def test_a_stream_without_event_time_holds_no_timer_back(tmp_path: Path) -> None:
    tree = app({}, depth=2)
    steps = tree["spec"]["steps"]
    process = {"function": "code:leave", "by": ["k"], "schema": "k STRING, minute STRING", "keeps": ["k"]}
    (at,) = (number for number, step in enumerate(steps) if "aggregate" in step)
    steps[at] = {"name": "counts", "from": ["both"], "process": process}
    tree["spec"]["runtime"] = {"code": {"code": CODE}}
    with TestDriver(tree, tmp_path) as driver:
        for minutes in (0, 1), (2,):
            driver.feed("first", rows(*minutes))
            driver.run_until_idle()
        assert sorted(row["minute"] for row in driver.rows("counted")) == sorted("012" * 4)
