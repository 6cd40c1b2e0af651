"""Which rows a table gets from its side inputs: from several, computed, chosen, and deleted by key."""

from datetime import date
from typing import Any

import pytest

from holdfast.errors import UserActionError
from holdfast_runtime.testing import TestDriver
from tests.engine.fed_tables import app, each_kind, priced, prices_of, products, started


@each_kind
def test_records_without_value_delete_and_those_without_key_are_counted(kind: str) -> None:
    with started(kind) as driver:
        driver.feed_bytes("products", [None], key=b"a")
        driver.feed_bytes("products", [None])
        driver.feed("products", [{"sku": None, "price": 3}])
        unkeyed: dict[str, int] = {}
        for batch in driver.run_until_idle():
            for task in batch.tasks:
                for name, rows in task.unkeyed.items():
                    unkeyed[name] = unkeyed.get(name, 0) + rows
        assert unkeyed == {"products": 1, "product": 1}
        assert driver.tombstones == 0, "that is for records that steps do not get"
        assert priced(driver, "a", "b", None) == [None, 2, None]
        driver.feed("products", products({"a": 9}))
        assert priced(driver, "a") == [9]


@each_kind
def test_deletions_and_writes_within_a_batch_follow_record_order(kind: str) -> None:
    with started(kind) as driver:
        driver.feed("products", products({"a": 5}))
        driver.feed_bytes("products", [None], key=b"a")
        driver.feed_bytes("products", [None], key=b"b")
        driver.feed("products", products({"b": 6}))
        assert priced(driver, "a", "b") == [None, 6]


def typed(spec: dict[str, Any], schema: str, key: list[str]) -> dict[str, Any]:
    for stream in spec["spec"]["streams"][:2]:
        stream["key"] = key
    spec["spec"]["streams"][0]["schema"] = schema
    spec["spec"]["streams"][1]["schema"] = f"{schema.replace(', price BIGINT', '')}, n BIGINT"
    spec["spec"]["tables"][0]["key"] = key
    spec["spec"]["steps"][0]["lookup"]["by"] = key
    return spec


@each_kind
@pytest.mark.parametrize(
    ("schema", "key"),
    [
        ("sku BIGINT, price BIGINT", {"sku": 7}),
        ("sku BOOLEAN, price BIGINT", {"sku": True}),
        ("sku BINARY, price BIGINT", {"sku": b"\xff\x00"}),
        ("sku DATE, price BIGINT", {"sku": date(2026, 1, 2)}),
        ("shop STRING, sku BIGINT, price BIGINT", {"shop": 'a "quoted", one', "sku": 7}),
    ],
    ids=["number", "boolean", "bytes", "date", "two columns"],
)
def test_keys_of_each_type_are_deleted(kind: str, schema: str, key: dict[str, Any]) -> None:
    with TestDriver(typed(app(kind), schema, list(key))) as driver:
        driver.feed("products", [{**key, "price": 4}])
        driver.run_until_idle()
        (record,) = driver.records("products")
        driver.feed("orders", [{**key, "n": 0}])
        driver.run_until_idle()
        driver.feed_bytes("products", [None], key=record.key)
        driver.run_until_idle()
        driver.feed("orders", [{**key, "n": 1}])
        driver.run_until_idle()
        assert prices_of(driver, range(2)) == [4, None]


@each_kind
@pytest.mark.parametrize("slots", [1, 2])
def test_two_sources_feed_one_table(kind: str, slots: int) -> None:
    spec = app(kind, sources=["products", "more"])
    spec["spec"]["streams"].append({**spec["spec"]["streams"][0], "name": "more"})
    with TestDriver(spec, slots=slots) as driver:
        driver.feed("products", products({"a": 1, "b": 2}))
        driver.feed("more", products({"c": 3}))
        assert priced(driver, "a", "b", "c") == [1, 2, 3]
        driver.feed("more", products({"a": 4}))
        assert priced(driver, "a", "b", "c") == [4, 2, 3]


@each_kind
def test_a_key_may_be_computed_of_a_sources_rows(kind: str) -> None:
    spec = app(kind, select=["after.id AS sku", "after.price AS price", "concat(after.id, '!') AS name"])
    spec["spec"]["streams"][0] |= {"key": ["id"], "schema": "id STRING, after STRUCT<id: STRING, price: BIGINT>"}
    if kind == "Partitioned":
        # By what its rows are partitioned, the planner can't tell.
        with pytest.raises(UserActionError, match="KeyMismatch"):
            TestDriver(spec)
        return
    with TestDriver(spec) as driver:
        driver.feed("products", [{"id": "r1", "after": {"id": "a", "price": 1}}])
        assert priced(driver, "a", "r1") == [1, None]
        driver.feed("products", [{"id": "r2", "after": {"id": "a", "price": 2}}, {"id": "r3", "after": None}])
        assert priced(driver, "a", "b") == [2, None]
        driver.lose_local_state()
        driver.restart()
        assert priced(driver, "a", "b") == [2, None]


def test_a_key_that_only_spark_computes_is_refused_by_name() -> None:
    with pytest.raises(UserActionError, match=r"key sku of table product is initcap\(sku\) AS sku, which only Spark"):
        TestDriver(app("Broadcast", select=["initcap(sku) AS sku", "price"]))


@each_kind
def test_a_table_keeps_what_its_select_says(kind: str) -> None:
    spec = app(kind, select=["sku", "price AS cost"], lookup={"select": ["sku", "n", "cost AS price"]})
    with TestDriver(spec) as driver:
        driver.feed("products", products({"a": 1}))
        assert priced(driver, "a", "b") == [1, None]
        if kind == "Partitioned":
            assert driver.kept_rows("product") == [{"sku": "a", "cost": 1}]
