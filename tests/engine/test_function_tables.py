"""Tables of functions in running apps: at any time they hold what a `lookup` of the same rows finds."""

from typing import Any

import pytest

from holdfast.errors import UserActionError
from holdfast_runtime.testing import Crashed, TestDriver
from tests.engine import fed_tables
from tests.engine.fed_tables import products

FUNCTIONS = """
import pyarrow as pa

def price(sku, rows, state):
    for row in rows:
        product = state.tables.get("product", sku)
        yield {"n": row["n"], "price": product and product["price"]}

def price_batch(rows, states, batch):
    prices = batch.tables.lookup("product", rows["sku"])["price"]
    return pa.RecordBatch.from_arrays([rows["n"], prices], ["n", "price"]), states.drop_columns("sku")

def ask(sku, rows, state):
    state.tables.get("products", sku)

def ask_batch(rows, states, batch):
    batch.tables.lookup("products", rows["sku"])
"""
SCHEMA = "n BIGINT, price BIGINT"
ROWS: dict[str, Any] = {"by": ["sku"], "schema": SCHEMA, "tables": ["product"]}
BATCH: dict[str, Any] = {**ROWS, "form": "Batch", "state": "last BIGINT"}
VERBS: dict[str, dict[str, Any]] = {
    "rows": {"process": {"function": "m:price", **ROWS}},
    "batches": {"process": {"function": "m:price_batch", **BATCH}},
    "lookup": {"lookup": {"table": "product", "by": ["sku"], "select": ["n", "right.price"]}},
}


def app(verbs: dict[str, dict[str, Any]], **table: Any) -> dict[str, Any]:
    """Orders that each of these verbs finds prices for."""
    made = fed_tables.app("Broadcast", **table)
    spec, names = made["spec"], [*(f"out-{name}" for name in verbs), "dead"]
    spec["streams"] = [
        *(stream for stream in spec["streams"] if stream["name"] != "out"),
        *({"name": name, "system": "here", "partitions": 1} for name in names),
    ]
    spec["steps"] = [
        *({"name": name, "from": ["orders"], **verb} for name, verb in verbs.items()),
        *({"name": f"{name}-out", "from": [name], "to": f"out-{name}"} for name in verbs),
    ]
    spec["runtime"] = {"code": {"m": FUNCTIONS}}
    return made


def prices(driver: TestDriver, name: str) -> dict[int, int | None]:
    """What each order costs, as a step has found."""
    return {row["n"]: row.get("price") for row in driver.rows(f"out-{name}")}


def assert_found(driver: TestDriver, costs: dict[int, int | None]) -> None:
    assert {name: prices(driver, name) for name in VERBS} == dict.fromkeys(VERBS, costs)


def test_functions_and_look_ups_see_a_change_alike() -> None:
    with TestDriver(app(VERBS)) as driver:
        driver.feed("products", products({"a": 1, "b": 2}))
        driver.feed("orders", [{"sku": sku, "n": n} for n, sku in enumerate("abc")])
        driver.run_until_idle()
        assert_found(driver, {0: 1, 1: 2, 2: None})
        # In one batch with the orders, and then in one of its own.
        driver.feed("products", products({"a": 3}))
        driver.feed("orders", [{"sku": "a", "n": 3}])
        driver.run_until_idle()
        driver.feed("products", products({"c": 4}))
        driver.feed_bytes("products", [None], key=b"b")
        driver.run_until_idle()
        driver.feed("orders", [{"sku": sku, "n": n} for n, sku in enumerate("abc", 4)])
        driver.run_until_idle()
        assert_found(driver, {0: 1, 1: 2, 2: None, 3: 3, 4: 3, 5: None, 6: 4})


@pytest.mark.parametrize("step", ["offsets durable", "manifest renamed", "computed", "state committed"])
def test_a_batch_that_is_repeated_finds_the_same(step: str) -> None:
    with TestDriver(app(VERBS)) as driver:
        driver.feed("products", products({"a": 1}))
        driver.feed("orders", [{"sku": "a", "n": 0}])
        driver.run_until_idle()
        driver.feed("products", products({"a": 2}))
        driver.feed("orders", [{"sku": "a", "n": 1}])
        driver.crash_at(step)
        with pytest.raises(Crashed):
            driver.run_until_idle()
        driver.feed("products", products({"a": 3}))
        driver.restart()
        driver.run_until_idle()
        assert_found(driver, {0: 1, 1: 2})


def test_orders_wait_until_the_table_of_a_function_is_loaded() -> None:
    verbs = {name: VERBS[name] for name in ("rows", "batches")}
    with TestDriver(app(verbs)) as driver:
        driver.feed("products", products({"a": 1}))
        driver.feed("orders", [{"sku": "a", "n": 0}])
        reads = [{stream for task in batch.tasks for stream in task.read} for batch in driver.run_until_idle()]
        assert reads == [{"products"}, {"orders"}]


@pytest.mark.parametrize(("function", "settings"), [("m:ask", ROWS), ("m:ask_batch", BATCH)], ids=["rows", "batches"])
def test_no_order_is_put_aside_for_a_table_not_named(function: str, settings: dict[str, Any]) -> None:
    verb = {"process": {"function": function, **settings}, "onError": "DeadLetter", "deadLetter": "dead"}
    with TestDriver(app({"asking": verb})) as driver:
        driver.feed("orders", [{"sku": "a", "n": 0}])
        with pytest.raises(UserActionError, match="step asking has no table products; did you mean product"):
            driver.run_until_idle()
        assert driver.rows("dead") == []


def test_tables_come_and_go_while_state_stays() -> None:
    counting = (
        FUNCTIONS
        + """
def count(sku, rows, state):
    for row in rows:
        state["n"] = state.get("n", 0) + 1
        product = state.tables.get("product", sku) if "product" in state.tables.names else None
        yield {"n": state["n"], "price": product and product["price"]}
"""
    )
    process = {"function": "m:count", **ROWS}
    named, unnamed = (app({"rows": {"process": process | {"tables": tables}}}) for tables in (["product"], None))
    for tree in (named, unnamed):
        tree["spec"]["runtime"]["code"]["m"] = counting
    unnamed["spec"]["steps"][0]["process"].pop("tables")
    with TestDriver(unnamed) as driver:
        driver.feed("products", products({"a": 5}))
        for tree in (unnamed, named, unnamed):
            driver.restart(tree)
            driver.feed("orders", [{"sku": "a", "n": 0}])
            driver.run_until_idle()
        assert prices(driver, "rows") == {1: None, 2: 5, 3: None}
