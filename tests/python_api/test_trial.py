"""Rows tried on an app: what each step shows is what the engine computes, and showing it changes nothing."""

from datetime import UTC, datetime
from typing import Any

import pandas as pd
import pytest

from holdfast.planning.plan import plan
from holdfast.spec.parse import parse_app
from holdfast_api import App, DeclaredStream, EventTime
from holdfast_api.trial import TrialError, ends, shown_rows, watched
from holdfast_cli.plan.app_file import app_document
from holdfast_runtime.testing import TestDriver
from tests.apps.case import Case, cases

CASES = {case.name: case for case in cases()}
ALSO_RUN = (
    "broadcast-parcel-rates", "count-by-product", "deduplicate-behind-repartition", "go-on-behind-outputs",
    "keep-unanswered-offers", "put-failing-moves-aside", "remind-of-unpaid-orders", "update-open-windows",
)  # fmt: skip
DAY = datetime(2026, 1, 1, tzinfo=UTC)


def copy_of(case: Case, ending: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the copy of a case's app that keeps the rows of each step."""
    text = (case.folder / "app.yaml").read_text(encoding="utf-8")
    return watched(app_document(text, case.name).tree, shown_rows(case.app, plan(case.app)), ending)


@pytest.mark.parametrize("name", CASES)
def test_the_copy_of_an_app_is_valid(name: str) -> None:
    case = CASES[name]
    assert plan(parse_app(copy_of(case, ends(case.app)))).problems == ()


@pytest.mark.parametrize("name", ALSO_RUN)
def test_showing_rows_changes_no_output(name: str) -> None:
    case = CASES[name]
    with TestDriver(parse_app(copy_of(case)), now=case.arrivals[0][0]) as driver:
        for moment, arrivals in case.arrivals:
            driver.advance(moment - driver.now)
            for arrival in arrivals:
                arrival.feed(driver)
            driver.run_until_idle()
        for stream in case.inputs:
            if stream.bounded:
                driver.end(stream.name)
        driver.run_until_idle()
        assert case.result(driver) == case.expected


def app_of_clicks() -> tuple[App, DeclaredStream]:
    app = App("clicks-app")
    kafka = app.kafka("events", "kafka:9092")
    clicks = kafka.stream(
        "clicks",
        key="ad",
        schema="ad STRING, n INT, price DOUBLE, ts TIMESTAMP",
        event_time=EventTime(column="ts"),
        on_decode_error="DeadLetter",
        dead_letter="unread",
    )
    kafka.stream("counts", key="ad")
    kafka.stream("unread")
    return app, clicks


def frame(*rows: tuple[str | None, int | None, float | None, str]) -> pd.DataFrame:
    table = pd.DataFrame(rows, columns=["ad", "n", "price", "ts"])
    table["ts"] = pd.to_datetime(table["ts"])
    return table


def test_each_step_shows_its_rows() -> None:
    app, clicks = app_of_clicks()
    clicks.filter("n > 1", name="large").aggregate(
        name="counted", by="ad", window="1m", compute="count(*) AS rows"
    ).to("counts", name="out")  # fmt: skip
    tried = app.try_rows(
        {
            "clicks": frame(
                ("a", 1, 1.0, "2026-01-01 00:00:01"),
                ("a", 2, 2.0, "2026-01-01 00:00:02"),
                ("b", None, None, "2026-01-01 00:00:03"),
                ("a", 3, None, "2026-01-01 00:01:00"),
            )
        },
        now=DAY,
    )
    assert list(tried) == ["large", "counted", "out", "unread"]
    assert [(row["ad"], row["n"], row["price"]) for row in tried.rows("large")] == [("a", 2, 2.0), ("a", 3, None)]
    assert [row["rows"] for row in tried.rows("out")] == [1, 1]
    assert tried["counted"]["rows"].tolist() == [1, 1]
    assert tried["unread"].empty
    assert "<b>large</b>: 2 rows" in tried._repr_html_()
    assert "counted: 2 rows" in str(tried)


def test_windows_stay_open_where_inputs_do_not_end() -> None:
    app, clicks = app_of_clicks()
    clicks.aggregate(name="counted", by="ad", window="1m", compute="count(*) AS rows").to("counts")
    rows = {"clicks": [{"ad": "a", "n": 1, "price": None, "ts": DAY}]}
    assert len(app.try_rows(rows, now=DAY)["counted"]) == 1
    open_windows = app.try_rows(rows, now=DAY, end=False)["counted"]
    assert list(open_windows.columns) == ["ad", "window_start", "window_end", "rows"]
    assert open_windows.empty


def test_rows_that_come_together_are_not_late() -> None:
    app, clicks = app_of_clicks()
    clicks.deduplicate(name="first", by="ad", within="1m").to("counts")
    tried = app.try_rows({"clicks": frame(("a", 1, 1.0, "2026-01-01"), ("b", 1, 1.0, "2025-12-31"))}, now=DAY)
    assert (len(tried["first"]), tried.notes) == (2, ())


def test_rows_that_do_not_come_through_are_noted() -> None:
    app, clicks = app_of_clicks()
    clicks.filter("n > 0", name="large").to("counts")
    tried = app.try_rows({"clicks": frame(("a", 1, 1.0, "2026-01-01"), ("a", 2, 1.0, "2030-01-01"))}, now=DAY)
    assert (len(tried["large"]), len(tried["unread"])) == (1, 1)
    assert tried.notes == ("rows ahead of the clock: 1",)


def test_a_column_that_does_not_fit_is_named() -> None:
    app, clicks = app_of_clicks()
    clicks.filter("n > 0", name="large").to("counts")
    half = frame(("a", 1, 1.0, "2026-01-01"), ("a", None, 1.0, "2026-01-01"))
    half["n"] = [0.5, None]
    with pytest.raises(TrialError, match="rows of clicks, column n: "):
        app.try_rows({"clicks": half}, now=DAY)


def test_a_rejected_app_shows_its_plan() -> None:
    app, clicks = app_of_clicks()
    clicks.filter("m > 1").to("counts")
    with pytest.raises(TrialError, match="UnknownColumn at clicks-filter"):
        app.try_rows({"clicks": []})


def test_rows_of_what_there_is_not_are_refused() -> None:
    app, clicks = app_of_clicks()
    clicks.filter("n > 1", name="large").to("counts")
    tried = app.try_rows({"clicks": []}, now=DAY)
    with pytest.raises(TrialError, match=r"there are no rows of lage; did you mean large\?"):
        tried["lage"]


def test_what_steps_read_ends_and_what_feeds_tables_does_not() -> None:
    app, clicks = app_of_clicks()
    prices = app.log("local").stream("prices", partitions=1, key="ad", schema="ad STRING, cents INT")
    table = app.table("price-of", sources=prices, key="ad")
    clicks.lookup(table, by="ad", name="priced", select=["ad", "right.cents"]).to("counts")
    assert ends(app.spec()) == ("clicks",)
    tried = app.try_rows({"prices": [{"ad": "a", "cents": 5}], "clicks": [{"ad": "a"}, {"ad": "b"}]}, now=DAY)
    assert tried.rows("priced") == [{"ad": "a", "cents": 5}, {"ad": "b", "cents": None}]
