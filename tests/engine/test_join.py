"""`join` in whole apps: each pair, and each row without one, comes out once, whatever dies or lies between."""

from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from holdfast_runtime.steps.joins import join
from holdfast_runtime.testing import Lab, SparkNeededError, TestDriver
from holdfast_runtime.testing.failures import TASK_STEPS
from tests.apps.lives import OFTEN, Death, outlived
from tests.engine.pairs import START, WITHIN, app, came, drawn, fed, paired

KINDS = ("Inner", "Left", "Right", "Full")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("repartitioned", [False, True])
def test_pairs_come_at_once_and_lone_rows_once_none_can(kind: str, repartitioned: bool) -> None:
    orders, payments = fed(drawn(200, "orders")), fed(drawn(200, "payments", orders=30))
    with TestDriver(app({"type": kind}, repartitioned=repartitioned), slots=2) as driver:
        for start in range(0, 200, 40):
            driver.feed("orders", orders[start : start + 40])
            driver.feed("payments", payments[start : start + 40])
            driver.run_until_idle()
        early = came(driver)
        expected = paired(orders, payments, kind)
        assert set(early) <= set(expected)
        assert {one for one in expected if None not in one} == {one for one in early if None not in one}
        assert kind == "Inner" or any(None in one for one in early)
        driver.end("orders")
        driver.end("payments")
        driver.run_until_idle()
        assert driver.completed
        assert came(driver) == expected
        assert not any(task.late for batch in driver.run_until_idle() for task in batch.tasks)


def test_a_side_may_be_waited_for_longer_than_the_other() -> None:
    orders, payments = fed(drawn(200, "one")), fed(drawn(200, "other"))
    with TestDriver(app({"within": None, "before": "5s", "after": "1m", "type": "Full"})) as driver:
        driver.feed("orders", orders)
        driver.feed("payments", payments)
        driver.end("orders")
        driver.end("payments")
        driver.run_until_idle()
        assert came(driver) == paired(orders, payments, "Full", (5, 60))


def test_an_expression_behind_a_join_is_sparks(small_spark: SparkSession) -> None:
    select = ["upper(id) AS id", "left.n + coalesce(right.n, 1000) AS o", "right.ts - left.ts < INTERVAL 1 SECOND AS p"]
    orders, payments = fed([("a", 0), ("b", 5)]), fed([("a", 0.5), ("a", 7)])
    with TestDriver(app({"select": select, "type": "Left"}), spark=small_spark) as driver:
        driver.feed("orders", orders)
        driver.feed("payments", payments)
        driver.end("orders")
        driver.end("payments")
        driver.run_until_idle()
        assert came(driver) == [("A", 0, True), ("A", 1, False), ("B", 1001, None)]
    with pytest.raises(SparkNeededError, match=r"matched \(select\)"):
        TestDriver(app({"select": select}))


def test_joins_in_a_row_and_an_aggregate_behind_them() -> None:
    """Each order has its payments, and those their refunds; what is counted has waited in two outer joins."""
    refunds = {"by": ["id"], "within": "20s", "type": "Left", "select": ["id", "left.o", "left.p", "right.n AS r"]}
    steps = [
        {"name": "refunded", "from": ["matched", "refunds"], "join": refunds},
        {
            "name": "counts",
            "from": ["refunded"],
            "aggregate": {"by": ["id"], "window": "1m", "compute": ["count(*) AS n", "count(p) AS o", "count(r) AS p"]},
        },
    ]
    spec = app({"type": "Left"}, steps=steps)
    spec["spec"]["streams"].append(spec["spec"]["streams"][1] | {"name": "refunds"})
    orders, payments, refunded = fed(drawn(150, "o")), fed(drawn(100, "p")), fed(drawn(50, "r"))
    late = 0
    with TestDriver(spec, slots=2) as driver:
        for part in range(5):
            driver.feed("orders", orders[30 * part : 30 * part + 30])
            driver.feed("payments", payments[20 * part : 20 * part + 20])
            driver.feed("refunds", refunded[10 * part : 10 * part + 10])
            late += sum(sum(task.late.values()) for batch in driver.run_until_idle() for task in batch.tasks)
        for stream in ("orders", "payments", "refunds"):
            driver.end(stream)
        late += sum(sum(task.late.values()) for batch in driver.run_until_idle() for task in batch.tasks)
        assert late == 0
        assert driver.completed
        at = {one["n"]: one["ts"] for one in orders}, {one["n"]: one["ts"] for one in payments}
        counts: Counter[tuple[Any, ...]] = Counter()
        for order, order_n, payment_n in paired(orders, payments, "Left"):
            time = max(at[0][order_n], START if payment_n is None else at[1][payment_n])
            order_refunds = [r for r in refunded if r["id"] == order and abs(r["ts"] - time) <= timedelta(seconds=20)]
            for when in [max(time, refund["ts"]) for refund in order_refunds] or [time]:
                start = START + (when - START) // timedelta(minutes=1) * timedelta(minutes=1)
                counts.update(
                    {
                        (start, order, "n"): 1,
                        (start, order, "o"): payment_n is not None,
                        (start, order, "p"): bool(order_refunds),
                    }
                )
        expected = {key: count for key, count in counts.items() if count}
        assert expected == {
            (row["window_start"], row["id"], column): row[column]
            for row in driver.rows("paired")
            for column in ("n", "o", "p")
            if row[column]
        }


def test_rows_behind_a_join_keep_the_pairs_time() -> None:
    """Not that of a column which was the event time of one side."""
    steps = [
        {"name": "same", "from": ["matched"], "apply": {"function": "f:first", "keeps": ["id", "ts"]}},
        {
            "name": "counts",
            "from": ["same"],
            "aggregate": {"by": ["id"], "window": "10s", "compute": ["count(*) AS n"]},
        },
    ]
    spec = app({"select": ["id", "left.ts", "right.n AS p"]}, steps=steps)
    spec["spec"]["runtime"] = {"code": {"f": "def first(batch):\n    return batch.slice(0, 1)\n"}}
    with TestDriver(spec) as driver:
        driver.feed("orders", fed([("a", 5)]))
        driver.feed("payments", fed([("a", 25)]))
        driver.end("orders")
        driver.end("payments")
        driver.run_until_idle()
        assert [(row["window_start"] - START).total_seconds() for row in driver.rows("paired")] == [20]


def test_a_stream_joined_with_itself_finds_each_pair_both_ways() -> None:
    spec = app()
    spec["spec"]["steps"][0]["from"] = ["orders", "orders"]
    spec["spec"]["streams"] = [one for one in spec["spec"]["streams"] if one["name"] != "payments"]
    orders = fed(drawn(100, "self"))
    with TestDriver(spec) as driver:
        for start in (0, 50):
            driver.feed("orders", orders[start : start + 50])
            driver.run_until_idle()
        driver.end("orders")
        driver.run_until_idle()
        assert came(driver) == paired(orders, orders)


def test_rows_of_a_broadcast_stream_meet_those_of_all_tasks() -> None:
    spec = app({"by": ["n"], "select": ["left.id", "n"]}, partitions=4)
    spec["spec"]["steps"][0]["from"] = ["orders", "everywhere"]
    spec["spec"]["steps"].insert(0, {"name": "everywhere", "from": ["payments"], "broadcast": {}})
    spec["spec"]["streams"][1]["partitions"] = 1
    orders, payments = fed(drawn(60, "orders", seconds=20)), fed(drawn(40, "payments", seconds=20))
    with TestDriver(spec, slots=2) as driver:
        driver.feed("orders", orders)
        driver.feed("payments", payments)
        driver.end("orders")
        driver.end("payments")
        driver.run_until_idle()
        assert driver.completed
        expected = sorted(((one["id"], one["n"]) for one in orders[:40]), key=str)
        assert came(driver, "id", "n") == expected


def test_late_rows_are_counted_by_side_and_kept_on_request() -> None:
    with TestDriver(app({"type": "Full"}, late="DeadLetter", deadLetter="letters", partitions=1)) as driver:
        driver.feed("orders", fed([("a", 100)]))
        driver.feed("payments", fed([("a", 100)]))
        driver.run_until_idle()
        driver.feed("orders", fed([("a", 80), ("a", 95)], since=1))
        driver.feed("payments", fed([("a", 89.9), ("a", 90), ("a", 10)], since=1))
        batches = driver.run_until_idle()
        assert [task.late for batch in batches for task in batch.tasks if task.late] == [
            {"matched.left": 1, "matched.right": 2}
        ]
        driver.end("orders")
        driver.end("payments")
        driver.run_until_idle()
        assert came(driver) == [("a", n, p) for n in (0, 2) for p in (0, 2)]
        letters = driver.rows("letters")
        assert len(letters) == 3
        assert all("no partner is waited for" in letter["reason"] for letter in letters)


def test_what_waits_is_told_and_can_be_looked_at() -> None:
    with TestDriver(app({"type": "Left"}, partitions=1)) as driver:
        driver.feed("orders", fed([("a", 0), ("b", 1)]))
        driver.feed("payments", fed([("a", 2)]))
        (*_, batch) = driver.run_until_idle()
        (task,) = batch.tasks
        assert {side: rows.rows for side, rows in task.buffered.items()} == {"matched.left": 2, "matched.right": 1}
        assert task.buffered["matched.left"].bytes > 0
        assert task.buffered["matched.left"].oldest == int(START.timestamp() * 1000)
        assert sorted(row["n"] for row in driver.kept_rows("matched.left")) == [0, 1]
        assert [(row["id"], row["time"]) for row in driver.kept_rows("matched.right", "a")] == [
            ("a", START + timedelta(seconds=2))
        ]


def test_a_side_that_is_read_faster_waits_for_the_other() -> None:
    """Ten payments for each order: read as fast as records come, orders would be hours ahead."""
    spec = app({"within": "1m"}, partitions=1)
    spec["spec"]["runtime"] = {"trigger": {"maxRecordsPerPartition": 50}}
    orders = fed([(f"o{n}", 60 * n) for n in range(300)])
    payments = fed([(f"o{n // 10}", 6 * n) for n in range(3000)])
    with TestDriver(spec) as driver:
        driver.feed("orders", orders)
        driver.feed("payments", payments)
        driver.end("orders")
        driver.end("payments")
        most = 0
        for batch in driver.run_until_idle():
            for task in batch.tasks:
                most = max(most, *(rows.rows for rows in task.buffered.values()))
        assert len(came(driver)) == 3000
        assert driver.completed
    assert most <= 2 * 50


def test_a_hot_key_comes_out_over_commits_without_further_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(join, "_MOST_PAIRS", 100)
    spec = app({"type": "Full"}, partitions=1)
    spec["spec"]["runtime"] = {"trigger": {"maxRecordsPerPartition": 20}}
    orders, payments = fed([("hot", n / 10) for n in range(40)]), fed([("hot", n / 10) for n in range(50)])
    with TestDriver(spec) as driver:
        driver.feed("orders", orders)
        driver.feed("payments", payments)
        driver.end("orders")
        driver.end("payments")
        tasks = [task for batch in driver.run_until_idle() for task in batch.tasks]
        assert driver.completed
        assert came(driver) == paired(orders, payments)
    assert max(task.rows_out.get("paired", 0) for task in tasks) <= 100
    aside = [bool(task.unjoined) for task in tasks]
    assert any(aside)
    assert all(not task.rows_in for task, waited in zip(tasks[1:], aside, strict=False) if waited)


@pytest.mark.parametrize("life", range(4))
def test_each_pair_comes_once_whatever_dies_among_rows_put_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, life: int
) -> None:
    monkeypatch.setattr(join, "_MOST_PAIRS", 5)
    orders, payments = list[dict[str, Any]](), list[dict[str, Any]]()
    often, died = Lab(snapshots=OFTEN), 0
    steps = TASK_STEPS[life::4][::-1]  # those of restoring last: then there is a snapshot
    with TestDriver(app({"type": "Full"}, repartitioned=True), tmp_path, slots=2, lab=often) as driver:
        for batch, step in enumerate(steps):
            for stream, stream_rows in (("orders", orders), ("payments", payments)):
                rows = fed(drawn(20, f"{step}{stream}", batch * 40, 40, orders=12), since=len(stream_rows))
                driver.feed(stream, rows)
                stream_rows.extend(rows)
            died += outlived(driver, Death(step, disks_lost=True))
            driver.run_until_idle()
        driver.end("orders")
        driver.end("payments")
        driver.run_until_idle()
        assert came(driver) == paired(orders, payments, "Full")
    assert died >= len(steps) - 1


@pytest.mark.parametrize("within", [10, 60])
def test_what_waits_is_judged_by_the_new_attempts_bounds(tmp_path: Path, within: int) -> None:
    """The watermark is at 40 s at the restart: an order of 10 s has waited 30 s and stays, one of 9.9 s does not."""
    with TestDriver(app({"type": "Left"}, partitions=1), tmp_path) as driver:
        driver.feed("orders", fed([("a", 9.9), ("b", 10), ("c", 35)]))
        driver.feed("payments", fed([("none", 50)]))
        driver.feed("orders", fed([("none", 50)], since=3))
        driver.run_until_idle()
        assert came(driver) == [("a", 0, None), ("none", 3, 0)]
    with TestDriver(app({"type": "Left", "within": f"{within}s"}, partitions=1), tmp_path) as driver:
        driver.feed("payments", fed([("a", 40), ("b", 41), ("c", 44)], since=1))
        driver.end("orders")
        driver.end("payments")
        driver.run_until_idle()
        expected: dict[int, list[tuple[Any, ...]]] = {
            10: [("b", 1, None), ("c", 2, 3)],
            WITHIN * 2: [("b", 1, 2), ("c", 2, 3)],
        }
        assert came(driver) == sorted([("a", 0, None), ("none", 3, 0), *expected[within]], key=str)
