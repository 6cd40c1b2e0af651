"""The examples with tables that they write themselves run as they stand."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from holdfast_runtime.testing import TestDriver
from tests.examples.rows import positions_and_calls
from tests.examples.test_examples import app_of
from tests.segments.conftest import small_session


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with small_session() as session:
        yield session


def test_taxi_pickups_tells_how_far_away_the_drivers_are_that_it_knows(spark: SparkSession) -> None:
    rows = positions_and_calls()
    with TestDriver(app_of("taxi-pickups"), spark=spark) as driver:
        driver.feed("positions", rows["positions"])
        driver.run_until_idle()
        driver.feed("calls", rows["calls"])
        driver.run_until_idle()
        assert [(row["call"], round(row["km"], 3)) for row in driver.rows("distances")] == [("from ann", 111.0)]
