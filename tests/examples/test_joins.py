"""The examples with joins run as they stand."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession

from holdfast_runtime.testing import TestDriver
from tests.examples.test_examples import app_of
from tests.segments.conftest import small_session

START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with small_session() as session:
        yield session


def at(minute: float) -> datetime:
    return START + timedelta(minutes=minute)


def test_paid_orders_parts_settled_orders_from_those_that_nobody_paid_in_time(spark: SparkSession) -> None:
    def order(name: str, amount: str, minute: float) -> dict[str, Any]:
        return {"order_id": name, "customer": f"of {name}", "amount": Decimal(amount), "ts": at(minute)}

    def payment(name: str, amount: str, minute: float) -> dict[str, Any]:
        return {"account": f"of {name}", "order_id": name, "amount": Decimal(amount), "ts": at(minute)}

    # Later ones in all partitions: with them the half hour has passed.
    orders = [order(f"last-{number}", "1", 90) for number in range(200)]
    payments = [payment(f"of nobody-{number}", "1", 90) for number in range(60)]
    with TestDriver(app_of("paid-orders"), spark=spark) as driver:
        driver.feed("orders", [order("a", "10", 0), order("b", "20", 1), order("c", "30", 2), *orders])
        driver.feed("payments", [payment("a", "10", 5), payment("b", "19", 6), payment("c", "30", 40), *payments])
        driver.run_until_idle()
        settled = [(row["order_id"], row["account"], row["paid"]) for row in driver.rows("settled")]
        assert settled == [("a", "of a", Decimal("10.00"))]
        unpaid = sorted((row["order_id"], row["paid"]) for row in driver.rows("unpaid"))
        assert unpaid == [("b", Decimal("19.00")), ("c", None)]
