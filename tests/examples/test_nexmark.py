"""The queries of Nexmark, as the apps of `examples/nexmark`, give what SQL gives over the whole input."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from bench.nexmark.events import KINDS, Nexmark, side_input
from holdfast.planning.plan import PlanningFacts, plan
from holdfast_runtime.testing import TestDriver
from holdfast_runtime.testing.stand_ins import app_of
from tests.examples.nexmark_sql import QUERIES

FOLDER = Path(__file__).parents[2] / "examples" / "nexmark"
NAMES = sorted(path.stem for path in FOLDER.glob("*.yaml"))
NEXMARK = Nexmark(rate=500)
BATCHES, EVENTS = 3, 7_000
"""So many events in each batch: the last one ends twelve seconds after midnight."""


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        for kind in KINDS:
            connection.register(kind, local(NEXMARK.rows(kind, range(BATCHES * EVENTS))))
        connection.register("side_input", side_input())
        yield connection


def local(rows: pa.RecordBatch) -> pa.Table:
    """Times without a zone: DuckDB would show those with one as the host's."""
    table = pa.table(rows)
    plain = [pa.field(one.name, pa.timestamp("us")) if pa.types.is_timestamp(one.type) else one for one in table.schema]
    return table.cast(pa.schema(plain))


def test_every_query_is_compared_but_that_of_the_clock() -> None:
    assert set(NAMES) == {*QUERIES, "q12"}


def test_every_query_is_listed() -> None:
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^\| \[(.+)\]\(\1[.]yaml\) \|", text, re.MULTILINE)) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_query_plans_without_problems(name: str) -> None:
    app = app_of(FOLDER / f"{name}.yaml")
    result = plan(app, PlanningFacts())
    assert app.name == f"nexmark-{name}"
    assert result.problems == ()
    # Nobody says when a bidder has made the last bid.
    assert [one.reason for one in result.warnings] == (["KeptForEver"] if name == "q18" else [])


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_gives_what_sql_gives(name: str, database: duckdb.DuckDBPyConnection) -> None:
    expected, app = QUERIES[name], app_of(FOLDER / f"{name}.yaml")
    streams = [stream.name for stream in app.spec.streams if stream.name != "results"]
    with TestDriver(app) as driver:
        for stream in expected.first:
            driver.feed(stream, given(stream, range(BATCHES * EVENTS)))
        driver.run_until_idle()
        for batch in range(BATCHES):
            for stream in streams:
                if stream not in expected.first:
                    driver.feed(stream, given(stream, range(batch * EVENTS, (batch + 1) * EVENTS)))
            driver.run_until_idle()
        for declared in app.spec.streams:
            if declared.bounded:
                driver.end(declared.name)
        driver.run_until_idle()
        assert driver.completed
        assert driver.late == 0
        rows = driver.rows("results")
    answer = database.execute(expected.sql)
    names = [str(column[0]) for column in answer.description or ()]
    assert compared(last(rows, expected.by), names) == sorted(map(str, answer.fetchall()))


def given(stream: str, events: range) -> pa.RecordBatch:
    return NEXMARK.rows(stream, events) if stream in KINDS else side_input()


def last(rows: Iterable[dict[str, Any]], by: tuple[str, ...]) -> Iterable[dict[str, Any]]:
    """The rows that hold."""
    return {tuple(row[name] for name in by): row for row in rows}.values() if by else rows


def compared(rows: Iterable[Mapping[str, Any]], names: list[str]) -> list[str]:
    return sorted(str(tuple(without_zone(row[name]) for name in names)) for row in rows)


def without_zone(value: object) -> object:
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value


def test_query_12_counts_each_bid_by_processing_time() -> None:
    bid_rows = NEXMARK.rows("bid", range(2 * EVENTS))
    half = bid_rows.num_rows // 2
    with TestDriver(FOLDER / "q12.yaml") as driver:
        for rows in (bid_rows.slice(0, half), bid_rows.slice(half)):
            driver.feed("bid", rows)
            driver.run_until_idle()
            driver.advance(10)
            driver.run_until_idle()
        counted = driver.rows("results")
    bids: Counter[int] = Counter()
    for row in counted:
        bids[row["bidder"]] += row["bid_count"]
        assert (row["window_end"] - row["window_start"]).total_seconds() == 10
    assert bids == Counter(bid_rows["bidder"].to_pylist())
    assert len({row["window_end"] for row in counted}) == 2
