"""`holdfast state` on tables: of tasks and of a location, by their own names, and queried with SQL."""

import json
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from holdfast_runtime.testing import TestDriver
from tests.cli.conftest import Holdfast
from tests.engine.fed_tables import app, order, products


@pytest.fixture(params=["Partitioned", "Broadcast"])
def priced(request: pytest.FixtureRequest, holdfast: Holdfast) -> Holdfast:
    """An app that has loaded two products and deleted a third; the Partitioned one also by another name in SQL."""
    tree = app(request.param, name="product-list", lookup={"table": "product-list"})
    with Path("app.yaml").open("w", encoding="utf-8") as file:
        YAML(typ="safe").dump(tree, file)
    with TestDriver(tree, Path(".holdfast/priced")) as driver:
        driver.feed("products", products({"a": 1, "b": 2, "c": 3}))
        order(driver, "a")
        driver.run_until_idle()
        driver.feed_bytes("products", [None], key=b"c")
        driver.run_until_idle()
    return holdfast


@pytest.mark.parametrize("source", [[], ["--durable"]], ids=["local", "durable"])
def test_a_table_is_shown_under_its_name(priced: Holdfast, source: list[str]) -> None:
    ran = priced("state", "get", "app.yaml", "--table", "product-list", "-o", "json", *source)
    rows = [json.loads(line) for line in ran.out.splitlines()]
    assert sorted((row["key"], row["price"]) for row in rows) >= [("a", 1), ("b", 2)]
    lookup = priced("state", "get", "app.yaml", "--table", "product-list", "--key", "b", "-o", "json", *source)
    assert [json.loads(line)["price"] for line in lookup.out.splitlines()] == [2]


def test_a_deleted_key_is_not_there(priced: Holdfast) -> None:
    ran = priced("state", "get", "app.yaml", "--table", "product-list", "--key", "c")
    assert (ran.code, "table product-list has no key c" in ran.err) == (2, True)


def test_tables_are_listed(priced: Holdfast) -> None:
    ran = priced("state", "ls", "app.yaml")
    assert ran.code == 0
    assert "product-list" in ran.out
    tree = json.loads(priced("state", "ls", "app.yaml", "-o", "json").out)
    named = [table["name"] for task in tree["tasks"] for table in task["tables"]]
    shared = [one["name"] for one in tree["broadcast"]]
    assert ("product-list.table" in named, shared) in ((True, []), (False, ["product-list"]))


def test_a_table_is_exported(priced: Holdfast) -> None:
    ran = priced("state", "export", "app.yaml", "--table", "product-list", "--to", "list.parquet")
    assert ran.out == "2 rows of product-list written to list.parquet\n"


def test_tables_are_queried(priced: Holdfast) -> None:
    ran = priced(
        "state", "sql", "app.yaml", "select sku, price * 2 as twice from product_list order by 1", "-o", "json"
    )
    assert [json.loads(line) for line in ran.out.splitlines()] == [{"sku": "a", "twice": 2}, {"sku": "b", "twice": 4}]
    few = priced("state", "sql", "app.yaml", "select * from product_list", "--max", "1")
    assert len(few.out.splitlines()) == 2
    summed = priced("state", "sql", "app.yaml", "with p as (select price from product_list) select sum(price) n from p")
    assert summed.out.split() == ["N", "3"]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("select * from product_lst", "there is no such table; did you mean product_list"),
        ("select from where", "the query is not SQL"),
        ("select nothing from product_list", "DuckDB can't run the query"),
        ("select * from read_csv('/etc/passwd')", "DuckDB can't run the query"),
        ("copy product_list to '/tmp/out.csv'", "DuckDB can't run the query"),
    ],
    ids=["unknown", "broken", "column", "file read", "file written"],
)
def test_a_query_that_can_not_be_answered_is_refused(priced: Holdfast, query: str, message: str) -> None:
    ran = priced("state", "sql", "app.yaml", query)
    assert (ran.code, message in ran.err) == (2, True), ran.err


def test_a_broadcast_table_before_any_batch_says_what_to_do(holdfast: Holdfast) -> None:
    with Path("app.yaml").open("w", encoding="utf-8") as file:
        YAML(typ="safe").dump(app("Broadcast"), file)
    ran = holdfast("state", "get", "app.yaml", "--table", "product")
    assert (ran.code, "run the app first" in ran.err) == (2, True)
