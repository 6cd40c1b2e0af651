"""`aggregate` in whole apps: what comes out once, whatever dies, restarts, grows or lies between."""

import json
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from holdfast.errors import HoldfastError
from holdfast_runtime.testing import ALL_STEPS, Crashed, SparkNeededError, TestDriver
from tests.error_codes import has_code
from tests.segments.conftest import small_session

START = datetime(2026, 1, 1, tzinfo=UTC)
Click = tuple[str | None, float]
"""Campaign, and second after the start."""


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """Gone before other tests want a session of another shape."""
    with small_session() as session:
        yield session


def app(
    verb: dict[str, Any] | None = None,
    *,
    repartitioned: bool = False,
    partitions: int = 2,
    bounded: bool = True,
    more: list[dict[str, Any]] | None = None,
    **step: Any,
) -> dict[str, Any]:
    aggregate = {"by": ["campaign"], "window": "1m", "compute": ["count(*) AS n", "sum(cents) AS cents"]} | (verb or {})
    aggregate = {field: value for field, value in aggregate.items() if value is not None}
    steps: list[dict[str, Any]] = [{"name": "counts", "from": ["clicks"], "aggregate": aggregate, **step}]
    if repartitioned:
        steps[0]["from"] = ["spread"]
        steps.insert(0, {"name": "spread", "from": ["clicks"], "repartition": {"by": ["campaign"]}})
    steps += more or []
    steps.append({"name": "out", "from": [steps[-1]["name"]], "to": "counted"})
    clicks = {
        "name": "clicks",
        "system": "here",
        "partitions": partitions,
        "key": ["user"] if repartitioned else ["campaign"],
        "schema": "campaign STRING, user STRING, cents BIGINT, ts TIMESTAMP",
        "eventTime": {"column": "ts", "lateness": "10s"},
        "bounded": bounded,
    }
    other = clicks | {"name": "taps"}
    streams = [clicks, {"name": "counted", "system": "here", "partitions": 2, "key": ["campaign"]}]
    streams.append({"name": "letters", "system": "here", "partitions": 1})
    if any("taps" in one["from"] for one in steps):
        streams.append(other)
    return {
        "apiVersion": "holdfast.dev/v1alpha1",
        "kind": "StreamApp",
        "metadata": {"name": "clicks-per-minute"},
        "spec": {"systems": [{"name": "here", "log": {}}], "streams": streams, "steps": steps},
    }


def fed(clicks: Iterable[Click]) -> list[dict[str, Any]]:
    return [
        {"campaign": campaign, "user": f"u{at % 23}", "cents": 1, "ts": START + timedelta(seconds=second)}
        for at, (campaign, second) in enumerate(clicks)
    ]


def came(driver: TestDriver, *columns: str) -> list[tuple[Any, ...]]:
    return sorted(
        (
            tuple(
                (value - START).total_seconds() if isinstance(value := row[column], datetime) else value
                for column in columns or ("window_start", "campaign", "n")
            )
            for row in driver.rows("counted")
        ),
        key=str,
    )


def counted(clicks: Iterable[Click], window: int = 60) -> list[tuple[Any, ...]]:
    found = Counter((second // window * window, campaign) for campaign, second in clicks)
    return sorted(((start, campaign, n) for (start, campaign), n in found.items()), key=str)


def drawn(count: int, seed: str, start: float = 0, seconds: float = 300, *, null: bool = False) -> list[Click]:
    """Null keys are spread over partitions, and meet only behind a repartition."""
    random_numbers = random.Random(seed)  # noqa: S311 - the same numbers each time
    return [
        (
            random_numbers.choice(["a", "b", "c", "d", None if null else "e"]),
            start + seconds * at / count + random_numbers.uniform(0, 9),
        )
        for at in range(count)
    ]


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


def test_late_rows_are_kept_where_the_step_says_so_and_as_they_came(spark: SparkSession) -> None:
    for compute in (["count(*) AS n"], ["sum(cents + 1) AS n"]):
        spec = app({"compute": compute}, late="DeadLetter", deadLetter="letters")
        with TestDriver(spec, spark=spark) as driver:
            driver.feed("clicks", fed([("a", 0), ("a", 100)]))
            driver.run_until_idle()
            driver.feed("clicks", fed([("a", 59), ("a", 61)]))
            driver.run_until_idle()
            (letter,) = driver.rows("letters")
            assert "its window has closed" in letter["reason"]
            assert set(json.loads(letter["value"])) == {"campaign", "user", "cents", "ts"}


def test_results_that_overflow_become_dead_letters_where_the_step_says_so() -> None:
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


def test_hopping_windows_count_a_row_in_each() -> None:
    clicks = drawn(300, "hopping")
    with TestDriver(app({"window": "1m", "slide": "20s"})) as driver:
        driver.feed("clicks", fed(clicks))
        driver.end("clicks")
        driver.run_until_idle()
        found = Counter(
            (start, campaign)
            for campaign, second in clicks
            for start in range(int(second // 20 * 20) - 40, int(second // 20 * 20) + 1, 20)
        )
        assert came(driver) == sorted(((float(start), name, n) for (start, name), n in found.items()), key=str)


def test_sessions_end_when_nothing_came_for_their_gap() -> None:
    clicks: list[Click] = [("a", 0), ("a", 25), ("b", 30), ("a", 60), ("a", 90), ("b", 59), (None, 200)]
    with TestDriver(app({"window": None, "session": "30s"}), slots=2) as driver:
        driver.feed("clicks", fed(clicks))
        driver.run_until_idle()
        driver.end("clicks")
        driver.run_until_idle()
        assert came(driver, "window_start", "window_end", "campaign", "n") == sorted(
            [(0, 55, "a", 2), (60, 90, "a", 1), (90, 120, "a", 1), (30, 89, "b", 2), (200, 230, None, 1)], key=str
        )


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


def test_without_a_window_each_batch_brings_the_new_results_of_its_keys() -> None:
    with TestDriver(app({"window": None}, bounded=False)) as driver:
        driver.feed("clicks", fed([("a", 0), ("b", 1), ("a", 2)]))
        driver.run_until_idle()
        driver.feed("clicks", fed([("a", 3)]))
        driver.run_until_idle()
        assert came(driver, "campaign", "n", "cents") == [("a", 2, 2), ("a", 3, 3), ("b", 1, 1)]


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


def test_a_sum_that_overflows_stops_the_app_with_column_and_key() -> None:
    rows = [{"campaign": "a", "user": "u", "cents": 2**62, "ts": START + timedelta(seconds=at)} for at in range(3)]
    with TestDriver(app()) as driver:
        driver.feed("clicks", rows)
        driver.run_until_idle()
        driver.end("clicks")
        with pytest.raises(
            HoldfastError, match="cents can't be computed for campaign 'a'", check=has_code("AggregateOverflowError")
        ):
            driver.run_until_idle()


def survived(driver: TestDriver, *, lose: bool) -> None:
    try:
        driver.run_until_idle()
    except Crashed:
        driver.restart()
        if lose:
            driver.lose_local_state()
        driver.run_until_idle()


@pytest.mark.parametrize(
    ("verb", "repartitioned", "lose"),
    [
        ({}, False, False),
        ({}, True, True),
        ({"window": "1m", "slide": "20s"}, True, False),
        ({"window": None, "session": "4s"}, False, True),
    ],
    ids=["tumbling", "behind a repartition, store lost", "hopping, behind a repartition", "sessions, store lost"],
)
@pytest.mark.parametrize("step", ALL_STEPS)
def test_whatever_step_dies_each_window_comes_out_once_and_whole(
    tmp_path: Path, verb: dict[str, Any], step: str, lose: bool, repartitioned: bool
) -> None:
    columns = ("window_start", "window_end", "campaign", "n", "cents")

    def run(folder: Path, crashes: bool) -> list[tuple[Any, ...]]:
        with TestDriver(app(verb, repartitioned=repartitioned), folder, slots=2) as driver:
            for batch in range(6):
                driver.feed("clicks", fed(drawn(40, f"{step}{batch}", batch * 40, 40)))
                if crashes and batch in (2, 4):
                    driver.crash_at(step)
                survived(driver, lose=lose)
            driver.end("clicks")
            survived(driver, lose=lose)
            return came(driver, *columns)

    assert run(tmp_path / "died", crashes=True) == run(tmp_path / "alive", crashes=False)


@pytest.mark.parametrize("repartitioned", [False, True])
def test_growth_in_the_middle_of_a_window_loses_and_doubles_nothing(tmp_path: Path, repartitioned: bool) -> None:
    before, after = (drawn(100, seed, at, 45, null=repartitioned) for seed, at in (("before", 0), ("after", 10)))
    with TestDriver(app(repartitioned=repartitioned), tmp_path, slots=2) as driver:
        driver.feed("clicks", fed(before))
        driver.run_until_idle()
    with TestDriver(app(repartitioned=repartitioned, partitions=4), tmp_path, slots=2) as driver:
        driver.feed("clicks", fed(after))
        driver.run_until_idle()
        driver.end("clicks")
        driver.run_until_idle()
        assert came(driver) == counted([*before, *after])


def test_state_follows_a_step_that_says_its_old_name(tmp_path: Path) -> None:
    with TestDriver(app(), tmp_path) as driver:
        driver.feed("clicks", fed(drawn(100, "old", 0, 45)))
        driver.run_until_idle()
    renamed = app()
    renamed["spec"]["steps"][0] |= {"name": "per-minute", "was": "counts"}
    renamed["spec"]["steps"][1]["from"] = ["per-minute"]
    with TestDriver(renamed, tmp_path) as driver:
        driver.end("clicks")
        driver.run_until_idle()
        assert came(driver) == counted(drawn(100, "old", 0, 45))


def test_a_second_reader_of_a_repartition_needs_a_new_run(tmp_path: Path) -> None:
    """What is under way in its stream is aggregated already."""
    with TestDriver(app(repartitioned=True), tmp_path) as driver:
        driver.feed("clicks", fed(drawn(10, "way")))
        driver.run_until_idle()
    spec = app(repartitioned=True)
    spec["spec"]["steps"].append({"name": "also", "from": ["spread"], "to": "letters"})
    with pytest.raises(HoldfastError, match="aggregated for counts"):
        TestDriver(spec, tmp_path)


def test_expressions_in_an_aggregate_need_a_session_of_spark() -> None:
    with pytest.raises(SparkNeededError, match="more than columns"):
        TestDriver(app({"compute": ["sum(cents * 2) AS cents"]}))


def test_arguments_conditions_and_results_may_be_expressions(spark: SparkSession) -> None:
    compute = [
        "sum(cents * 2) FILTER (WHERE user <> 'u0') / count(*) AS mean",
        "max(struct(ts, user)).user AS last_user",
        "count(DISTINCT upper(user)) AS users",
        "count(*) AS n",
    ]
    clicks = drawn(100, "sql", seconds=50)
    with TestDriver(app({"compute": compute}), spark=spark) as driver:
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


def test_an_argument_that_can_not_be_computed_names_step_and_expression(spark: SparkSession) -> None:
    for compute in ("sum(CAST(user AS INT)) AS n", "1 / (count(*) - count(*)) AS n"):
        with TestDriver(app({"compute": [compute]}), spark=spark) as driver:
            driver.feed("clicks", fed([("a", 0)]))
            driver.end("clicks")
            with pytest.raises(HoldfastError, match=r"step counts: Spark SQL fails on a row in .*onError: DeadLetter"):
                driver.run_until_idle()


@pytest.mark.parametrize("repartitioned", [False, True])
def test_expressions_before_and_behind_that_fail_are_put_aside(spark: SparkSession, repartitioned: bool) -> None:
    """Both are parts of one step; behind a repartition they run in the same segment of Spark SQL."""
    compute = ["sum(CAST(substr(user, 2) AS INT)) AS n", "10 / (count(*) - 1) AS share"]
    clicks = fed([("a", 0), ("a", 1), ("a", 2), ("b", 3)])
    clicks[0]["user"] = "nobody"
    spec = app({"compute": compute}, repartitioned=repartitioned, onError="DeadLetter", deadLetter="letters")
    with TestDriver(spec, spark=spark) as driver:
        driver.feed("clicks", clicks)
        driver.end("clicks")
        driver.run_until_idle()
        assert came(driver, "campaign", "n", "share") == [("a", 3, 10.0)]
        second, first = sorted(driver.rows("letters"), key=lambda letter: letter["reason"])
        assert "substr" in first["reason"].lower()
        assert (second["step"], second["column"]) == ("counts", "share")


def test_what_is_kept_of_a_key_can_be_looked_at() -> None:
    with TestDriver(app()) as driver:
        driver.feed("clicks", fed([("a", 0), ("a", 1), ("b", 2)]))
        driver.run_until_idle()
        (row,) = driver.kept_rows("counts", "a")
        assert row["campaign"] == "a"
        assert 2 in row.values(), "the count so far"
