"""Where a run begins with an input that it has not read yet, and that this is decided once."""

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast_runtime.testing import TestDriver
from holdfast_runtime.testing.driver import START
from tests.engine.totals import app, orders
from tests.pipelines.drawn import Tree


def begun_anew(run: str, **orders_stream: Any) -> Tree:
    """The app with another run."""
    tree = app(**orders_stream)
    tree["spec"]["runId"] = run
    return tree


def numbers(driver: TestDriver, before: Sequence[Tree] = ()) -> list[int]:
    """The orders that are summed now, and were not before."""
    driver.run_until_idle()
    summed = Counter(row["n"] for row in driver.rows("totals"))
    return sorted((summed - Counter(row["n"] for row in before)).elements())


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Orders 0 to 3 came at the start of the clock, 4 to 7 ten minutes later."""
    with TestDriver(app(), tmp_path) as driver:
        driver.feed("orders", orders(*range(4)))
        driver.advance(timedelta(minutes=10))
        driver.feed("orders", orders(*range(4, 8)))
        assert numbers(driver) == list(range(8))
    return tmp_path


MOMENTS = {
    "oldest": range(8),
    "latest": range(0),
    "1969-12-31T23:59:59.999Z": range(8),
    "2026-01-01T00:00:00Z": range(8),
    "2026-01-01T00:00:00.001Z": range(4, 8),
    "2026-01-01T00:10:00Z": range(4, 8),
    "2026-01-01T00:10:00.001Z": range(0),
}


@pytest.mark.parametrize("start", MOMENTS)
def test_a_new_run_begins_where_its_input_says(data: Path, start: str) -> None:
    with TestDriver(begun_anew("2", start=start), data, now=START + timedelta(hours=1)) as driver:
        before = driver.rows("totals")
        assert numbers(driver, before) == list(MOMENTS[start])
        driver.feed("orders", orders(8, 9))
        assert numbers(driver, before) == [*MOMENTS[start], 8, 9]


def test_the_start_is_found_once_for_a_run(data: Path) -> None:
    latest = begun_anew("2", start="latest")
    with TestDriver(latest, data) as driver:
        before = driver.rows("totals")
        driver.run()
        driver.feed("orders", orders(8))
        driver.restart()
        assert numbers(driver, before) == [8]
        driver.grow("orders", 4)
        driver.feed("orders", orders(9, 10, 11, 12))
        driver.restart()
        assert numbers(driver, before) == [8, 9, 10, 11, 12]
    with TestDriver(begun_anew("2", start="oldest", partitions=4), data) as driver:
        assert numbers(driver, before) == [8, 9, 10, 11, 12]
