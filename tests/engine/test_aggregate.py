"""`aggregate` in whole apps: what comes out, over one input or several, behind other steps or before them."""

import random
from decimal import Decimal

import pytest
from pyspark.sql import SparkSession

from holdfast_runtime.testing import SparkNeededError, TestDriver
from tests.engine.clicks import START, app, came, counted, drawn, fed


@pytest.mark.parametrize("repartitioned", [False, True])
def test_windows_come_out_when_their_time_has_passed_and_the_rest_at_the_end(repartitioned: bool) -> None:
    clicks = drawn(400, "windows", null=repartitioned)
    with TestDriver(app(repartitioned=repartitioned), slots=2) as driver:
        for start in range(0, 400, 50):
            driver.feed("clicks", fed(clicks[start : start + 50]))
            driver.run_until_idle()
        early = came(driver)
        assert early
        assert set(early) < set(counted(clicks))
        driver.end("clicks")
        driver.run_until_idle()
        assert driver.completed
        assert came(driver) == counted(clicks)


def test_behind_a_repartition_that_only_it_reads_a_row_a_key_and_batch_travels() -> None:
    clicks = drawn(1000, "travel", seconds=59, null=True)
    with TestDriver(app(repartitioned=True), slots=2) as driver:
        driver.feed("clicks", fed(clicks))
        (batch, *_) = driver.run()
        assert batch.rows_in == 1000
        assert batch.rows_out <= 2 * 5 * 2, "two tasks, five campaigns, two windows"
        driver.end("clicks")
        driver.run_until_idle()
        assert came(driver) == counted(clicks)


def test_whatever_is_computed_travels_whole() -> None:
    compute = [
        "count(*) AS n",
        "count(user) AS users",
        "count(DISTINCT user) AS distinct_users",
        "sum(cents) AS cents",
        "sum(price) AS price",
        "sum(score) AS score",
        "avg(cents) AS mean",
        "avg(price) AS mean_price",
        "min(user) AS least",
        "max(ts) AS latest",
        "min(price) AS cheapest",
        "max(score) AS best",
        "min_by(user, ts) AS first_user",
        "stddev_pop(score) AS spread",
        "bool_or(good) AS any_good",
        "bool_and(good) AS all_good",
        "count_if(good) AS good",
        "approx_count_distinct(user) AS about",
        "collect_set(cents) AS all_cents",
        "max(pair) AS pair",
    ]
    draw = random.Random("whole")  # noqa: S311 - the same numbers each time
    rows = [
        row
        | {
            "score": draw.choice([None, 0.25, -1.5, 3.0, float("nan"), float("inf")]),
            "price": draw.choice([None, Decimal("0.01"), Decimal("-99999999.99")]),
            "good": draw.choice([None, True, False]),
            "pair": draw.choice([None, {"a": 1, "b": "x"}, {"a": None, "b": "y"}]),
        }
        for row in fed(drawn(200, "whole", seconds=50))
    ]
    found = []
    for repartitioned in (False, True):
        spec = app({"compute": compute}, repartitioned=repartitioned)
        spec["spec"]["streams"][0]["schema"] = (
            "campaign STRING, user STRING, cents BIGINT, ts TIMESTAMP, score DOUBLE, price DECIMAL(10,2), "
            "good BOOLEAN, pair STRUCT<a: BIGINT, b: STRING>"
        )
        with TestDriver(spec) as driver:
            for start in (0, 100):
                driver.feed("clicks", rows[start : start + 100])
                driver.run_until_idle()
            driver.end("clicks")
            driver.run_until_idle()
            found.append(sorted(driver.rows("counted"), key=lambda row: (row["window_start"], row["campaign"])))
    plain, travelled = found
    for one, other in zip(plain, travelled, strict=True):
        spread, other_spread = one.pop("spread"), other.pop("spread")
        assert str(spread) == str(other_spread) or spread == pytest.approx(other_spread)
        assert sorted(one.pop("all_cents")) == sorted(other.pop("all_cents"))
        assert str(one) == str(other)


def test_a_repartition_that_others_read_too_carries_rows() -> None:
    more = [{"name": "also", "from": ["spread"], "to": "letters"}]
    spec = app(repartitioned=True)
    spec["spec"]["steps"] += more
    clicks = drawn(100, "rows", seconds=59)
    with TestDriver(spec) as driver:
        driver.feed("clicks", fed(clicks))
        driver.end("clicks")
        driver.run_until_idle()
        assert len(driver.rows("letters")) == 100
        assert came(driver) == counted(clicks)


def test_windows_over_windows_fall_into_the_right_ones() -> None:
    """The result for 09:59 to 10:00 belongs to the hour before ten."""
    hours = {"by": ["campaign"], "window": "5m", "compute": ["sum(n) AS n"]}
    clicks = drawn(500, "over", seconds=1200)
    with TestDriver(app(more=[{"name": "hours", "from": ["counts"], "aggregate": hours}])) as driver:
        for start in range(0, 500, 100):
            driver.feed("clicks", fed(clicks[start : start + 100]))
            driver.run_until_idle()
        driver.end("clicks")
        driver.run_until_idle()
        assert came(driver) == counted(clicks, 300)
        assert not any(task.late for batch in driver.run_until_idle() for task in batch.tasks)


def test_several_inputs_are_one_and_a_silent_one_holds_windows_back_unless_it_may_be_idle() -> None:
    spec = app(bounded=False)
    taps = next(stream for stream in spec["spec"]["streams"] if stream["name"] == "clicks") | {"name": "taps"}
    spec["spec"]["streams"].append(taps)
    spec["spec"]["steps"].insert(0, {"name": "both", "from": ["clicks", "taps"], "merge": {}})
    spec["spec"]["steps"][1]["from"] = ["both"]
    clicks = drawn(100, "both")
    with TestDriver(spec) as driver:
        driver.feed("clicks", fed(clicks))
        driver.run_until_idle()
        assert came(driver) == []
        driver.feed("taps", fed([(name, 301) for name in ("a", "b", "c", "d", "e", "f", None)]))
        driver.run_until_idle()
        assert came(driver) != []
    for stream in spec["spec"]["streams"]:
        if stream["name"] == "taps":
            stream["eventTime"] = stream["eventTime"] | {"idleAfter": "30s"}
    with TestDriver(spec) as driver:
        driver.feed("clicks", fed(clicks))
        driver.run_until_idle()
        assert came(driver) == []
        driver.advance(31)
        driver.run_until_idle()
        assert came(driver) != []


def test_expressions_in_an_aggregate_need_a_session_of_spark() -> None:
    with pytest.raises(SparkNeededError, match=r"counts \(select\)"):
        TestDriver(app({"compute": ["sum(cents * 2) AS cents"]}))


def test_arguments_conditions_and_results_may_be_expressions(small_spark: SparkSession) -> None:
    compute = [
        "sum(cents * 2) FILTER (WHERE user <> 'u0') / count(*) AS mean",
        "max(struct(ts, user)).user AS last_user",
        "count(DISTINCT upper(user)) AS users",
        "count(*) AS n",
    ]
    clicks = drawn(100, "sql", seconds=50)
    with TestDriver(app({"compute": compute}), spark=small_spark) as driver:
        driver.feed("clicks", fed(clicks))
        driver.end("clicks")
        driver.run_until_idle()
        rows = fed(clicks)
        found = driver.rows("counted")
        assert len(found) == 5
        for row in found:
            mine = [one for one in rows if one["campaign"] == row["campaign"]]
            assert row["n"] == len(mine)
            assert row["mean"] == pytest.approx(2 * sum(one["user"] != "u0" for one in mine) / len(mine))
            assert row["last_user"] == max(mine, key=lambda one: one["ts"])["user"]
            assert row["users"] == len({one["user"] for one in mine})


def test_what_is_kept_of_a_key_can_be_looked_at() -> None:
    with TestDriver(app()) as driver:
        driver.feed("clicks", fed([("a", 0), ("a", 1), ("b", 2)]))
        driver.run_until_idle()
        (row,) = driver.kept_rows("counts", "a")
        assert row["campaign"] == "a"
        assert 2 in row.values(), "the count so far"


@pytest.mark.parametrize("window", [None, "1m"])
def test_updates_of_the_null_group_are_in_one_partition_in_their_order(window: str | None) -> None:
    spec = app({"window": window, "emit": "Update"}, repartitioned=True)
    spec["spec"]["streams"][1]["partitions"] = 4
    with TestDriver(spec, slots=2) as driver:
        for batch in range(12):
            driver.feed("clicks", [{"campaign": None, "user": f"u{batch}", "cents": 1, "ts": START}])
            driver.run_until_idle()
        (partition,) = {record.partition for record in driver.records("counted")}
        assert [row["n"] for row in driver.rows("counted")] == [*range(1, 13)], partition
