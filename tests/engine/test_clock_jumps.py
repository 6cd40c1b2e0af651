"""What becomes of timers and of state with a ttl when the host's clock is set wrong, and put right."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast_runtime.testing import TestDriver
from tests.engine.log_apps import app_on_log

START = datetime(2026, 1, 1, tzinfo=UTC)
YEARS = timedelta(days=3650)
CODE = """
def remind(key, rows, state):
    for timer in state.fired:
        yield {"k": key, "what": "timer " + timer.name, "at": state.now}
    for row in rows:
        state["n"] = state.get("n", 0) + 1
        state.at_time(state.now + 300_000, str(state["n"]))
        yield {"k": key, "what": str(state["n"]), "at": state.now}
"""


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[TestDriver]:
    function = {"function": "f:remind", "by": ["k"], "schema": "k STRING, what STRING, at BIGINT", "keeps": ["k"]}
    streams: list[dict[str, Any]] = [{"name": "calls", "schema": "k STRING"}, {"name": "said"}]
    steps: list[dict[str, Any]] = [
        {"name": "reminded", "from": ["calls"], "process": function | {"ttl": "1h"}},
        {"name": "out", "from": ["reminded"], "to": "said"},
    ]
    app = app_on_log("reminders", streams, steps, CODE)
    with TestDriver(app, tmp_path / "data") as test_driver:
        yield test_driver


def call(driver: TestDriver) -> list[str]:
    """One row; what has been said since then."""
    driver.feed("calls", [{"k": "a"}])
    return run(driver)


def run(driver: TestDriver) -> list[str]:
    before = len(driver.rows("said"))
    driver.run_until_idle()
    return [row["what"] for row in driver.rows("said")[before:]]


def test_timers_and_ttl_survive_a_clock_put_right_by_years(driver: TestDriver) -> None:
    assert call(driver) == ["1"]
    driver.advance(60)
    driver.set_clock(START + YEARS)
    assert call(driver) == ["2"], "no timer fires, and no state is dropped, because of the jump"
    assert "put ahead by 3,649 d" in str(driver.clock_jumped)
    driver.advance(60)
    driver.set_clock(START + timedelta(seconds=120))
    assert call(driver) == ["3"]
    assert "put back by 3,649 d" in str(driver.clock_jumped)
    assert driver.rows("said")[-1]["at"] == int(START.timestamp() * 1000) + 120_000, "functions see the host's clock"
    driver.advance(180)
    assert run(driver) == ["timer 1"]
    driver.advance(60)
    assert run(driver) == ["timer 2"]
    driver.advance(60)
    assert run(driver) == ["timer 3"]
    driver.advance(timedelta(hours=1, minutes=5))
    assert run(driver) == []
    assert driver.state("reminded", "a") is None, "the ttl has passed"


def test_a_clock_in_the_future_stops_no_later_attempt(driver: TestDriver) -> None:
    driver.advance(YEARS)
    assert call(driver) == ["1"]
    driver.set_clock(START)
    driver.restart()
    assert call(driver) == ["2"]
    assert "3,650 d earlier than it was in the last batch" in str(driver.clock_jumped)
    assert [timer.time for timer in driver.timers("reminded", "a")] == [int(START.timestamp() * 1000) + 300_000] * 2
    driver.advance(150)
    driver.restart()
    driver.advance(150)
    fired = run(driver)
    assert fired == ["timer 1", "timer 2"]
