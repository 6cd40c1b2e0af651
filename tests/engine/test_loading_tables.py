"""While a table loads that inputs wait for, rows that earlier steps let out by themselves wait for it too."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast_runtime.testing import TestDriver
from tests.engine.fed_tables import each_kind

START = datetime(2026, 1, 1, tzinfo=UTC)
SKUS = [f"s{number}" for number in range(10)]
ADDED = "a look-up added by an edit"
CODE = """
def later(sku, rows, state):
    if state.fired:
        yield {"sku": sku, "n": state["n"]}
        return
    state["n"] = state.get("n", 0) + len(rows)
    state.at_time(state.now + 60_000)
"""
WINDOWS = {"aggregate": {"by": ["sku"], "window": "1m", "compute": ["count(*) AS n"]}}
TIMERS = {"process": {"function": "f:later", "by": ["sku"], "schema": "sku STRING, n BIGINT", "keeps": ["sku"]}}
BY_THEMSELVES = {"windows": WINDOWS, "timers": TIMERS}
"""What lets rows out: a window at the end of its inputs, a timer when its time has come."""


def app(verb: str, kind: str, **table: Any) -> dict[str, Any]:
    """Counts of clicks with the price of what was clicked; few records are read in a batch."""
    stream = {"system": "here", "partitions": 2, "key": ["sku"]}
    return {
        "apiVersion": "holdfast.dev/v1alpha1",
        "kind": "StreamApp",
        "metadata": {"name": "priced"},
        "spec": {
            "systems": [{"name": "here", "log": {}}],
            "streams": [
                {"name": "products", **stream, "schema": "sku STRING, price BIGINT"},
                {
                    "name": "clicks",
                    **stream,
                    "schema": "sku STRING, ts TIMESTAMP",
                    "eventTime": {"column": "ts"},
                    "bounded": True,
                },
                {"name": "out", "system": "here", "partitions": 1},
            ],
            "tables": [{"name": "product", "sources": ["products"], "key": ["sku"], "distribution": kind} | table],
            "steps": [
                {"name": "counted", "from": ["clicks"], **BY_THEMSELVES[verb]},
                {"name": "priced", "from": ["counted"], "lookup": {"table": "product", "by": ["sku"]}},
                {"name": "written", "from": ["priced"], "to": "out"},
            ],
            "runtime": {"code": {"f": CODE}, "trigger": {"maxRecordsPerPartition": 2}},
        },
    }


def without_lookup(made: dict[str, Any]) -> dict[str, Any]:
    spec = made["spec"]
    return made | {"spec": spec | {"tables": [], "steps": [spec["steps"][0], spec["steps"][2] | {"from": ["counted"]}]}}


def feed_products(driver: TestDriver, price: int) -> None:
    driver.feed("products", [{"sku": sku, "price": price} for sku in SKUS])


def price_of(driver: TestDriver) -> set[int | None]:
    """The price of everything that was counted."""
    rows = driver.rows("out")
    assert sorted(row["sku"] for row in rows) == sorted(SKUS)
    return {row["price"] for row in rows}


SITUATIONS: dict[str, tuple[dict[str, Any], Callable[[TestDriver], None], int]] = {
    "a table in memory": ({"persistent": False}, lambda _: None, 1),
    "maxAge passed": ({"maxAge": "1h"}, lambda driver: driver.advance(timedelta(hours=2)), 1),
    ADDED: ({}, lambda _: None, 1),
    "a side input that has gone on": ({}, lambda driver: feed_products(driver, 2), 2),
}
"""Table, what comes while the app is stopped, and the price that all rows must get."""


@each_kind
@pytest.mark.parametrize("verb", BY_THEMSELVES)
@pytest.mark.parametrize("situation", SITUATIONS)
def test_rows_that_come_by_themselves_meet_a_whole_table(situation: str, verb: str, kind: str) -> None:
    table, happens, price = SITUATIONS[situation]
    made = app(verb, kind, **table)
    with TestDriver(without_lookup(made) if situation == ADDED else made) as driver:
        feed_products(driver, 1)
        driver.run_until_idle()
        driver.feed("clicks", [{"sku": sku, "ts": START + timedelta(seconds=1)} for sku in SKUS])
        driver.run_until_idle()
        assert driver.rows("out") == []
        driver.end("clicks") if verb == "windows" else driver.advance(timedelta(minutes=2))
        happens(driver)
        driver.restart(made)
        driver.run_until_idle()
        assert price_of(driver) == {price}


@each_kind
def test_a_bounded_stream_may_feed_a_table_alone(kind: str) -> None:
    """The run ended with an error: a table has no end, and its task knew nobody to whom the stream's end was news."""
    made = app("windows", kind)
    made["spec"]["streams"][0]["bounded"] = True
    with TestDriver(made) as driver:
        driver.feed("products", [{"sku": sku, "price": 1} for sku in SKUS])
        driver.feed("clicks", [{"sku": sku, "ts": START} for sku in SKUS])
        driver.run_until_idle()
        completed = []
        for stream in ("products", "clicks"):
            driver.end(stream)
            driver.run_until_idle()
            completed.append(driver.completed)
        assert completed == [False, True]
        assert sorted(row["sku"] for row in driver.rows("out")) == sorted(SKUS)
