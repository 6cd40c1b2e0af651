"""`holdfast state` on aggregates, joins and `deduplicate`: by their own columns, as JSON, text, files and SQL."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet as pq

from holdfast_runtime.testing import TestDriver
from tests.cli.conftest import Holdfast
from tests.cli.test_state import files

APP = """
apiVersion: holdfast.dev/v1alpha1
kind: StreamApp
metadata: {name: ads}
spec:
  systems: [{name: here, log: {}}]
  streams:
  - name: clicks
    system: here
    partitions: 2
    key: [campaign]
    schema: "campaign STRING, price BIGINT, task STRING, ts TIMESTAMP"
    eventTime: {column: ts, lateness: 1m}
  - name: sales
    system: here
    partitions: 2
    key: [campaign]
    schema: "campaign STRING, price DOUBLE, ts TIMESTAMP"
    eventTime: {column: ts, lateness: 1m}
  - {name: out, system: here, partitions: 2, key: [campaign]}
  - {name: pairs, system: here, partitions: 2, key: [campaign]}
  - {name: sessions, system: here, partitions: 2, key: [campaign]}
  - {name: firsts, system: here, partitions: 2, key: [campaign]}
  steps:
  - name: click-counts
    from: [clicks]
    aggregate: {by: [campaign], window: 1m, compute: [count(*) AS n, sum(price) / count(*) AS mean]}
  - name: visits
    from: [clicks]
    aggregate: {by: [campaign], session: 30s, compute: [sum(price) AS spent]}
  - {name: once, from: [clicks], deduplicate: {by: [campaign, task], within: 1h}}
  - name: sold
    from: [clicks, sales]
    join: {by: [campaign], within: 1m, type: Left, select: [campaign, left.price, left.task, right.price AS paid]}
  - {name: counted, from: [click-counts], to: out}
  - {name: paired, from: [sold], to: pairs}
  - {name: visited, from: [visits], to: sessions}
  - {name: first, from: [once], to: firsts}
"""
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
CLICKS = [("spring", 1, 5), ("spring", 2, 15), ("fall", 3, 30), ("spring", 4, 50), ("spring", 2**62, 70)]


@pytest.fixture
def ads(holdfast: Holdfast) -> Holdfast:
    """An app that has read some clicks in two batches, and one sale."""
    Path("app.yaml").write_text(APP, encoding="utf-8")
    with TestDriver(Path("app.yaml"), Path(".holdfast/ads")) as driver:
        for clicks in (CLICKS[:2], CLICKS[2:]):
            driver.feed("clicks", [click(*click_values) for click_values in clicks])
            driver.run_until_idle()
        driver.feed("sales", [{"campaign": "fall", "price": 1.5, "ts": NOON + timedelta(seconds=31)}])
        driver.run_until_idle()
    return holdfast


def click(campaign: str, price: int, seconds: int) -> dict[str, Any]:
    return {"campaign": campaign, "price": price, "task": "t", "ts": NOON + timedelta(seconds=seconds)}


def got(app: Holdfast, *arguments: str) -> list[dict[str, Any]]:
    ran = app("state", "get", "app.yaml", "-o", "json", *arguments)
    assert (ran.code, ran.err) == (0, "")
    return [json.loads(line) for line in ran.out.splitlines()]


@pytest.mark.parametrize("source", [[], ["--durable"]], ids=["local", "durable"])
def test_a_key_has_one_row_per_window(ads: Holdfast, source: list[str]) -> None:
    before = files(".holdfast")
    rows = got(ads, "--table", "click-counts", "--key", "spring", *source)
    (task,) = {row.pop("task") for row in rows}
    assert task.startswith("partition-")
    windows = ["2026-01-01T12:00:00.000Z", "2026-01-01T12:01:00.000Z", "2026-01-01T12:02:00.000Z"]
    assert rows == [
        {"campaign": "spring", "window_start": windows[0], "window_end": windows[1], "n": 3, "mean": 7 / 3},
        {"campaign": "spring", "window_start": windows[1], "window_end": windows[2], "n": 1, "mean": 2.0**62},
    ]
    assert files(".holdfast") == before


def test_open_sessions_are_whole(ads: Holdfast) -> None:
    rows = got(ads, "--table", "visits")
    assert sorted(
        (row["campaign"], row["window_start"][14:19], row["window_end"][14:19], row["spent"]) for row in rows
    ) == [
        ("fall", "00:30", "01:00", 3),
        ("spring", "00:05", "00:45", 3),
        ("spring", "00:50", "01:40", 4 + 2**62),
    ]


def test_sides_of_a_join_have_their_own_columns(ads: Holdfast) -> None:
    rows = got(ads, "--table", "sold", "--key", "fall")
    times = {
        f"12:0{minute}:{second}": f"2026-01-01T12:0{minute}:{second}.000Z" for minute in (0, 1) for second in (30, 31)
    }
    assert [{name: value for name, value in row.items() if name != "task_"} for row in rows] == [
        {
            "side": "left",
            "campaign": "fall",
            "left_price": 3,
            "task": "t",
            "time": times["12:00:30"],
            "waits_until": times["12:01:30"],
            "matched": True,
        },
        {
            "side": "right",
            "campaign": "fall",
            "right_price": 1.5,
            "time": times["12:00:31"],
            "waits_until": times["12:01:31"],
        },
    ]
    (row,) = got(ads, "--table", "sold.right")
    assert {*row} == {"task", "side", "campaign", "price", "time", "waits_until"}


def test_text_has_the_columns_of_both_sides(ads: Holdfast) -> None:
    ran = ads("state", "get", "app.yaml", "--table", "sold", "--max", "1")
    assert len(ran.out.splitlines()) == 2
    ran = ads("state", "get", "app.yaml", "--table", "sold")
    names = {"TASK_", "SIDE", "CAMPAIGN", "LEFT_PRICE", "TASK", "TIME", "WAITS_UNTIL", "MATCHED", "RIGHT_PRICE"}
    assert {*ran.out.splitlines()[0].split()} == names


def test_keys_of_deduplicate_give_way_to_no_column(ads: Holdfast) -> None:
    (row,) = got(ads, "--table", "once", "--key", '["fall","t"]')
    assert {name: value for name, value in row.items() if name != "task_"} == {
        "campaign": "fall",
        "task": "t",
        "time": "2026-01-01T12:00:30.000Z",
        "remembered_until": "2026-01-01T13:00:30.000Z",
    }


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("select campaign, sum(n)::int n from click_counts group by all order by 1", [("fall", 1), ("spring", 4)]),
        (
            "select campaign, count(*) n from sold where side = 'left' group by all order by 1",
            [("fall", 1), ("spring", 4)],
        ),
        ("select campaign, price from sold_right", [("fall", 1.5)]),
        ("select campaign, count(*) from visits group by all order by 1", [("fall", 1), ("spring", 2)]),
        ("select campaign, count(task_) from once group by all order by 1", [("fall", 1), ("spring", 1)]),
    ],
)
def test_steps_are_tables_of_sql(ads: Holdfast, query: str, expected: list[tuple[Any, ...]]) -> None:
    ran = ads("state", "sql", "app.yaml", query, "-o", "json")
    assert (ran.code, ran.err) == (0, "")
    assert [tuple(json.loads(line).values()) for line in ran.out.splitlines()] == expected


def test_a_step_is_exported(ads: Holdfast) -> None:
    assert ads("state", "export", "app.yaml", "--table", "sold", "--to", "sold.parquet").code == 0
    table = pq.read_table("sold.parquet")
    assert table.num_rows == 6
    assert table.schema.field("left_price").type == pa.int64()
    assert table.schema.field("right_price").type == pa.float64()
    assert table.schema.field("waits_until").type == pa.timestamp("us", "UTC")


def test_raw_shows_rows_as_they_are_kept(ads: Holdfast) -> None:
    rows = got(ads, "--table", "click-counts", "--key", "spring", "--raw")
    assert [(row["bucket"][14:16], row["0.0"]) for row in rows] == [("00", 2), ("00", 1), ("01", 1)]
    ran = ads("state", "get", "app.yaml", "--table", "sold", "--raw")
    assert (ran.code, "did you mean sold." in ran.err) == (2, True)


def test_a_step_that_is_gone_is_shown_raw(ads: Holdfast) -> None:
    Path("app.yaml").write_text(APP.replace("click-counts", "counts"), encoding="utf-8")
    ran = ads("state", "get", "app.yaml", "--table", "click-counts")
    assert (ran.code, "BUCKET" in ran.out) == (0, True)
    assert (
        ran.err == "note: table click-counts is of no step that the app has now: its rows are shown as they are kept\n"
    )
    assert got(ads, "--table", "counts") == []


def test_a_renamed_step_has_two_names(ads: Holdfast) -> None:
    renamed = APP.replace("name: click-counts", "name: counts\n    was: click-counts").replace(
        "[click-counts]", "[counts]"
    )
    Path("app.yaml").write_text(renamed, encoding="utf-8")
    assert got(ads, "--table", "counts") == got(ads, "--table", "click-counts") != []
    assert got(ads, "--table", "counts", "--raw") == got(ads, "--table", "click-counts", "--raw") != []


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (("count(*) AS n", "max(price) AS n"), "has the columns"),
        (
            ("sum(price) AS spent", "sum(price * 2) AS spent"),
            "(sum(price), now sum(`price` * 2)): show it with the app",
        ),
        (("window: 1m", "window: 2m"), "buckets of 60000000 µs, now 120000000"),
    ],
)
def test_state_of_another_app_is_not_misread(ads: Holdfast, edit: tuple[str, str], message: str) -> None:
    Path("app.yaml").write_text(APP.replace(*edit), encoding="utf-8")
    ran = ads("state", "get", "app.yaml", "--table", "visits" if "spent" in edit[0] else "click-counts")
    assert (ran.code, message in ran.err, "--raw" in ran.err) == (2, True, True), ran.err


def test_what_spark_computes_is_shown_by_its_calls(ads: Holdfast) -> None:
    text = APP.replace("sum(price) / count(*) AS mean", '"round(sum(price) / 3, 1) AS mean"')
    Path("app.yaml").write_text(text, encoding="utf-8")
    ran = ads("state", "get", "app.yaml", "--table", "click-counts", "--key", "fall", "-o", "json")
    assert ran.err == "note: Spark SQL computes mean of click-counts: shown is what it is computed from\n"
    (row,) = map(json.loads, ran.out.splitlines())
    assert (row["n"], row["sum(price)"]) == (1, 3)


def test_what_can_not_be_computed_is_null_with_a_note(ads: Holdfast) -> None:
    with TestDriver(Path("app.yaml"), Path(".holdfast/ads")) as driver:
        driver.feed("clicks", [click("spring", 2**62, 71)])
        driver.run_until_idle()
    ran = ads("state", "get", "app.yaml", "--table", "visits", "--key", "spring", "-o", "json")
    assert [json.loads(line)["spent"] for line in ran.out.splitlines()] == [3, None]
    assert ran.err.startswith("note: spent of visits is null where it can't be computed: is more than BIGINT holds")
