"""`aggregate` in whole apps: what comes out, over one input or several, behind other steps or before them."""

import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from holdfast_runtime.testing import SparkNeededError, TestDriver
from tests.engine.clicks import START, app, came, counted, drawn, fed


@pytest.mark.parametrize("repartitioned", [False, True])
def test_windows_come_out_by_their_time_or_at_the_end(repartitioned: bool) -> None:
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


def test_behind_its_own_repartition_one_row_a_key_travels() -> None:
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
    outputs = []
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
            outputs.append(sorted(driver.rows("counted"), key=lambda row: (row["window_start"], row["campaign"])))
    plain, travelled = outputs
    for plain_row, travelled_row in zip(plain, travelled, strict=True):
        spread, other_spread = plain_row.pop("spread"), travelled_row.pop("spread")
        assert str(spread) == str(other_spread) or spread == pytest.approx(other_spread)
        assert sorted(plain_row.pop("all_cents")) == sorted(travelled_row.pop("all_cents"))
        assert str(plain_row) == str(travelled_row)


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


def test_inputs_are_merged_and_silent_ones_hold_windows_unless_idle() -> None:
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
        TestDriver(app({"compute": ["sum(round(cents)) AS cents"]}))


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
        output = driver.rows("counted")
        assert len(output) == 5
        for row in output:
            campaign_rows = [one for one in rows if one["campaign"] == row["campaign"]]
            assert row["n"] == len(campaign_rows)
            assert row["mean"] == pytest.approx(
                2 * sum(one["user"] != "u0" for one in campaign_rows) / len(campaign_rows)
            )
            assert row["last_user"] == max(campaign_rows, key=lambda click: click["ts"])["user"]
            assert row["users"] == len({one["user"] for one in campaign_rows})


_TIMED = {
    "system": "here",
    "partitions": 2,
    "key": ["k"],
    "schema": "k STRING, n BIGINT, ts TIMESTAMP",
    "bounded": True,
}
_EDGES: dict[str, dict[str, Any]] = {
    "tumbling": {"from": ["left"], "aggregate": {"by": ["k"], "window": "1s", "compute": ["count(*) AS n"]}},
    "sliding": {
        "from": ["left"],
        "aggregate": {"by": ["k"], "window": "2s", "slide": "1s", "compute": ["count(*) AS n"]},
    },
    "sessions": {"from": ["left"], "aggregate": {"by": ["k"], "session": "1s", "compute": ["count(*) AS n"]}},
    "pairs": {
        "from": ["left", "right"],
        "join": {"by": ["k"], "within": "1s", "select": ["k", "left.n AS n", "right.n AS m"]},
    },
}
_BY_SPARK = {
    "tumbling": """SELECT k, unix_micros(w.start), unix_micros(w.end), n
        FROM (SELECT k, window w, count(*) n FROM left GROUP BY k, window(ts, '1 second'))""",
    "sliding": """SELECT k, unix_micros(w.start), unix_micros(w.end), n
        FROM (SELECT k, window w, count(*) n FROM left GROUP BY k, window(ts, '2 seconds', '1 second'))""",
    # Spark makes one session of rows that are exactly as far apart as its gap.
    "sessions": """SELECT k, unix_micros(w.start), unix_micros(w.end) + 1, n FROM
        (SELECT k, session_window w, count(*) n FROM left GROUP BY k, session_window(ts, '999999 microseconds'))""",
    "pairs": """SELECT l.k, l.n, r.n FROM left l JOIN right r ON l.k = r.k
        AND r.ts BETWEEN l.ts - INTERVAL 1 SECOND AND l.ts + INTERVAL 1 SECOND""",
}


def test_windows_sessions_and_joins_have_the_edges_of_spark(small_spark: SparkSession) -> None:
    draw, second = random.Random(12), timedelta(seconds=1)  # noqa: S311
    sides = {
        side: [
            {
                "k": draw.choice("abc"),
                "n": number,
                "ts": START + draw.randrange(30) * second + timedelta(microseconds=draw.choice((-1, 0, 1, 400, 999))),
            }
            for number in range(60)
        ]
        for side in ("left", "right")
    }
    streams = [{"name": side, "eventTime": {"column": "ts", "lateness": "1m"}, **_TIMED} for side in sides]
    outputs = [{"name": f"{name}-written", "system": "here", "partitions": 2} for name in _EDGES]
    steps = [{"name": name, **step} for name, step in _EDGES.items()]
    written = [{"name": f"{name}-out", "from": [name], "to": f"{name}-written"} for name in _EDGES]
    spec = {"systems": [{"name": "here", "log": {}}], "streams": [*streams, *outputs], "steps": [*steps, *written]}
    tree = {"apiVersion": "holdfast.dev/v1alpha1", "kind": "StreamApp", "metadata": {"name": "edges"}, "spec": spec}
    with TestDriver(tree, slots=2) as driver:
        for side, rows in sides.items():
            driver.feed(side, rows)
            driver.run_until_idle()
        for side in sides:
            driver.end(side)
        driver.run_until_idle()
        came_out = {
            name: [tuple(map(_micros, row.values())) for row in driver.rows(f"{name}-written")] for name in _EDGES
        }
    for side, rows in sides.items():
        table = pa.Table.from_pylist(
            rows, pa.schema([("k", "string"), ("n", "int64"), ("ts", pa.timestamp("us", "UTC"))])
        )
        small_spark.createDataFrame(table).createOrReplaceTempView(side)
    for name, query in _BY_SPARK.items():
        assert sorted(came_out[name]) == sorted(map(tuple, small_spark.sql(query).collect())), name


def _micros(value: Any) -> Any:
    return (value - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) if hasattr(value, "year") else value


def test_what_is_kept_of_a_key_can_be_looked_at() -> None:
    with TestDriver(app()) as driver:
        driver.feed("clicks", fed([("a", 0), ("a", 1), ("b", 2)]))
        driver.run_until_idle()
        (row,) = driver.kept_rows("counts", "a")
        assert row["campaign"] == "a"
        assert 2 in row.values(), "the count so far"


@pytest.mark.parametrize("window", [None, "1m"])
def test_updates_of_the_null_group_keep_order_in_one_partition(window: str | None) -> None:
    spec = app({"window": window, "emit": "Update"}, repartitioned=True)
    spec["spec"]["streams"][1]["partitions"] = 4
    with TestDriver(spec, slots=2) as driver:
        for batch in range(12):
            driver.feed("clicks", [{"campaign": None, "user": f"u{batch}", "cents": 1, "ts": START}])
            driver.run_until_idle()
        (partition,) = {record.partition for record in driver.records("counted")}
        assert [row["n"] for row in driver.rows("counted")] == [*range(1, 13)], partition
