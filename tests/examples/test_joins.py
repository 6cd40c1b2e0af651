"""The examples with joins run as they stand."""

from collections.abc import Iterator, Mapping
from decimal import Decimal

import pytest
from pyspark.sql import SparkSession

from holdfast_runtime.testing import TestDriver
from tests.examples.rows import Rows, orders_and_payments, readings_and_limits
from tests.examples.test_examples import app_of
from tests.segments.conftest import small_session


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with small_session() as session:
        yield session


def fed(driver: TestDriver, rows: Mapping[str, Rows]) -> None:
    for stream, stream_rows in rows.items():
        driver.feed(stream, stream_rows)
    driver.run_until_idle()


def test_paid_orders_parts_settled_orders_from_those_unpaid_in_time() -> None:
    with TestDriver(app_of("paid-orders")) as driver:
        fed(driver, orders_and_payments())
        settled = [(row["order_id"], row["account"], row["paid"]) for row in driver.rows("settled")]
        assert settled == [("a", "of a", Decimal("10.00"))]
        unpaid = sorted((row["order_id"], row["paid"]) for row in driver.rows("unpaid"))
        assert unpaid == [("b", Decimal("19.00")), ("c", None)]


def test_cold_chain_warns_of_cargo_that_stays_too_warm(spark: SparkSession) -> None:
    with TestDriver(app_of("cold-chain"), spark=spark) as driver:
        fed(driver, readings_and_limits())
        alarms = [(row["lorry"], row["cargo"], row["readings"], row["celsius"]) for row in driver.rows("alarms")]
    # Windows of ten minutes, one each minute: those with five readings or six.
    assert sorted(alarms) == [("warm", "milk", 5, 12.0), ("warm", "milk", 5, 13.0), *[("warm", "milk", 6, 13.0)] * 5]
