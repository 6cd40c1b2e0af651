"""The examples with tables run as they stand."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from holdfast_runtime.testing import TestDriver
from tests.examples.rows import clicks_of_campaigns, orders_and_products, positions_and_calls, transfers_and_accounts
from tests.examples.test_examples import app_of
from tests.segments.conftest import small_session


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with small_session() as session:
        yield session


def test_taxi_pickups_tells_how_far_away_known_drivers_are(spark: SparkSession) -> None:
    rows = positions_and_calls()
    with TestDriver(app_of("taxi-pickups"), spark=spark) as driver:
        driver.feed("positions", rows["positions"])
        driver.run_until_idle()
        driver.feed("calls", rows["calls"])
        driver.run_until_idle()
        assert [(row["call"], round(row["km"], 3)) for row in driver.rows("distances")] == [("from ann", 111.0)]


def test_priced_orders_tells_what_orders_are_worth_and_unknown_products() -> None:
    with TestDriver(app_of("priced-orders")) as driver:
        for stream, rows in orders_and_products().items():
            driver.feed(stream, rows)
        driver.run_until_idle()
        assert [(row["order_id"], row["title"], str(row["total"])) for row in driver.rows("priced")] == [
            ("of mug", "A mug", "13.50")
        ]
        assert [row["order_id"] for row in driver.rows("unknown-products")] == ["of jug"]


def test_account_limits_refuses_what_exceeds_limits_or_lacks_an_account() -> None:
    with TestDriver(app_of("account-limits")) as driver:
        for stream, rows in transfers_and_accounts().items():
            driver.feed(stream, rows)
        driver.run_until_idle()
        assert {row["transfer"]: row["reason"] for row in driver.rows("refused")} == {
            "large": "above the limit",
            "lost": "no such account",
        }


def test_ad_clicks_counts_clicks_and_their_users_by_campaign() -> None:
    with TestDriver(app_of("ad-clicks")) as driver:
        for stream, rows in clicks_of_campaigns().items():
            driver.feed(stream, rows)
        driver.run_until_idle()
        spring = [row for row in driver.rows("attributed") if row["campaign"] == "spring"]
        assert [(row["n"], row["users"]) for row in spring] == [(3, 2)]
