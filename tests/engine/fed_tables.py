"""Apps whose orders look their product up in a table with a side input, for tests of such tables."""

from collections.abc import Sequence
from typing import Any

import pytest

from holdfast_runtime.testing import TestDriver

each_kind = pytest.mark.parametrize("kind", ["Partitioned", "Broadcast"])


def app(kind: str, *, partitions: int = 2, lookup: dict[str, Any] | None = None, **table: Any) -> dict[str, Any]:
    """`kind`: how it is distributed; `table`: other fields of the table."""
    stream = {"system": "here", "partitions": partitions, "key": ["sku"]}
    fed = {"name": "product", "sources": ["products"], "key": ["sku"], "distribution": kind} | table
    return {
        "apiVersion": "holdfast.dev/v1alpha1",
        "kind": "StreamApp",
        "metadata": {"name": "priced"},
        "spec": {
            "systems": [{"name": "here", "log": {}}],
            "streams": [
                {"name": "products", **stream, "schema": "sku STRING, price BIGINT"},
                {"name": "orders", **stream, "schema": "sku STRING, n BIGINT"},
                {"name": "out", "system": "here", "partitions": 1},
            ],
            "tables": [fed],
            "steps": [
                {"name": "priced", "from": ["orders"], "lookup": {"table": "product", "by": ["sku"]} | (lookup or {})},
                {"name": "written", "from": ["priced"], "to": "out"},
            ],
        },
    }


def without_table(made: dict[str, Any]) -> dict[str, Any]:
    """The app before it had a table."""
    spec = made["spec"]
    spec |= {"tables": [], "steps": [{"name": "written", "from": ["orders"], "to": "out"}]}
    spec["streams"] = [one for one in spec["streams"] if one["name"] != "products"]
    return made


def products(prices: dict[str, int]) -> list[dict[str, Any]]:
    return [{"sku": sku, "price": price} for sku, price in prices.items()]


def started(kind: str, **table: Any) -> TestDriver:
    """An app that has loaded two products."""
    driver = TestDriver(app(kind, **table))
    driver.feed("products", products({"a": 1, "b": 2}))
    driver.run_until_idle()
    return driver


def order(driver: TestDriver, *skus: str | None) -> None:
    """Feed orders, numbered on."""
    first = len(driver.rows("orders"))
    driver.feed("orders", [{"sku": sku, "n": first + at} for at, sku in enumerate(skus)])


def priced(driver: TestDriver, *skus: str | None) -> list[int | None]:
    """The prices that orders for these get now."""
    first = len(driver.rows("orders"))
    order(driver, *skus)
    driver.run_until_idle()
    return prices_of(driver, range(first, first + len(skus)))


def prices_of(driver: TestDriver, orders: Sequence[int]) -> list[int | None]:
    price_of = {row["n"]: row["price"] for row in driver.rows("out")}
    assert len(price_of) == len(driver.rows("out")), "an order came out twice"
    return [price_of[number] for number in orders]
