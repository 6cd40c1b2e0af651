"""`aggregate` in whole apps: rows that come too late, and what can't be computed."""

import json
from datetime import timedelta

import pytest
from pyspark.sql import SparkSession

from holdfast.errors import HoldfastError
from holdfast_runtime.testing import TestDriver
from tests.engine.clicks import START, app, came, fed
from tests.error_codes import has_code


def test_late_rows_are_dropped_and_counted() -> None:
    with TestDriver(app()) as driver:
        driver.feed("clicks", fed([("a", 0), ("a", 100)]))
        driver.run_until_idle()
        driver.feed("clicks", fed([("a", 59), ("a", 61)]))
        batches = driver.run_until_idle()
        assert sum(sum(task.late.values()) for batch in batches for task in batch.tasks) == 1
        driver.end("clicks")
        driver.run_until_idle()
        assert came(driver) == [(0.0, "a", 1), (60.0, "a", 2)]


def test_late_rows_are_kept_as_they_came_on_request(small_spark: SparkSession) -> None:
    for compute in (["count(*) AS n"], ["sum(cents + 1) AS n"]):
        spec = app({"compute": compute}, late="DeadLetter", deadLetter="letters")
        with TestDriver(spec, spark=small_spark) as driver:
            driver.feed("clicks", fed([("a", 0), ("a", 100)]))
            driver.run_until_idle()
            driver.feed("clicks", fed([("a", 59), ("a", 61)]))
            driver.run_until_idle()
            (letter,) = driver.rows("letters")
            assert "its window has closed" in letter["reason"]
            assert set(json.loads(letter["value"])) == {"campaign", "user", "cents", "ts"}


def test_an_overflowing_sum_stops_the_app_with_column_and_key() -> None:
    rows = [{"campaign": "a", "user": "u", "cents": 2**62, "ts": START + timedelta(seconds=at)} for at in range(3)]
    with TestDriver(app()) as driver:
        driver.feed("clicks", rows)
        driver.run_until_idle()
        driver.end("clicks")
        with pytest.raises(
            HoldfastError, match="cents can't be computed for campaign 'a'", check=has_code("AggregateOverflowError")
        ):
            driver.run_until_idle()


def test_overflowing_results_become_dead_letters_where_the_step_says_so() -> None:
    rows = [
        {"campaign": name, "user": "u", "cents": cents, "ts": START + timedelta(seconds=at)}
        for at in range(3)
        for name, cents in (("a", 2**62), ("b", 1))
    ]
    with TestDriver(app(onError="DeadLetter", deadLetter="letters")) as driver:
        driver.feed("clicks", rows)
        driver.end("clicks")
        driver.run_until_idle()
        assert came(driver) == [(0.0, "b", 3)]
        (letter,) = driver.rows("letters")
        assert (letter["step"], letter["column"]) == ("counts", "cents")
        assert "is more than BIGINT holds" in letter["reason"]


def test_an_uncomputable_argument_names_step_and_expression(small_spark: SparkSession) -> None:
    failing = {
        "sum(CAST(user AS INT)) AS n": "Spark SQL fails on a row in .*CAST",
        "1 / (count(*) - count(*)) AS n": "1 / .* AS `n` can't be computed for this row: a division by zero",
    }
    for compute, why in failing.items():
        with TestDriver(app({"compute": [compute]}), spark=small_spark) as driver:
            driver.feed("clicks", fed([("a", 0)]))
            driver.end("clicks")
            with pytest.raises(HoldfastError, match=rf"step counts: {why}.*onError: DeadLetter"):
                driver.run_until_idle()


@pytest.mark.parametrize("repartitioned", [False, True])
def test_expressions_before_and_behind_that_fail_are_put_aside(small_spark: SparkSession, repartitioned: bool) -> None:
    """Both are parts of one step; behind a repartition they run in the same segment of Spark SQL."""
    compute = ["sum(CAST(substr(user, 2) AS INT)) AS n", "10 / (count(*) - 1) AS share"]
    clicks = fed([("a", 0), ("a", 1), ("a", 2), ("b", 3)])
    clicks[0]["user"] = "nobody"
    spec = app({"compute": compute}, repartitioned=repartitioned, onError="DeadLetter", deadLetter="letters")
    with TestDriver(spec, spark=small_spark) as driver:
        driver.feed("clicks", clicks)
        driver.end("clicks")
        driver.run_until_idle()
        assert came(driver, "campaign", "n", "share") == [("a", 3, 10.0)]
        second, first = sorted(driver.rows("letters"), key=lambda letter: letter["reason"])
        assert "substr" in first["reason"].lower()
        assert (second["step"], second["column"]) == ("counts", "share")
