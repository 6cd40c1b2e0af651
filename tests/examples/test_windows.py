"""The examples with windows and sessions run as they stand, and count what their rows say."""

import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from holdfast_runtime.streams.log.embedded_log import EmbeddedLog
from holdfast_runtime.streams.records import OffsetRange
from holdfast_runtime.testing import TestDriver
from tests.engine.runs import Run
from tests.examples.rows import card_payments, plays
from tests.examples.test_examples import FOLDER, app_of
from tests.segments.conftest import small_session

PAGES = ("/", "/docs", "/docs/start", "/blog", "/healthz", "/about")
START = datetime(2026, 1, 1, tzinfo=UTC)


def counted(data: Path) -> list[dict[str, Any]]:
    """What the app has put out."""
    log = EmbeddedLog(data / "log")
    parts = log.bounds("views-per-minute").items()
    ranges = [OffsetRange(partition, oldest, end) for partition, (oldest, end, _) in parts]
    return [json.loads(value) for offsets in ranges for value in log.fetch(offsets).column("value").to_pylist()]


def test_page_views_counts_each_page_of_a_minute(tmp_path: Path) -> None:
    app = tmp_path / "app.yaml"  # twenty times as fast, or a minute of it takes one
    text = (FOLDER / "page-views" / "app.yaml").read_text(encoding="utf-8")
    app.write_text(text.replace("rowsPerSecond: 2000", "rowsPerSecond: 40000"), encoding="utf-8")
    with Run(app, tmp_path) as run:
        run.until("progress")
        while len(counted(tmp_path)) < len(PAGES) - 1:
            run.until("progress")
        run.killed()
    first = [row for row in counted(tmp_path) if row["window_start"].startswith("2026-01-01T00:00")]
    views = {row["page"]: row["views"] for row in first}
    assert len(views) == len(first), "a window comes out once"
    expected = Counter(PAGES[(n * 31 + partition) % len(PAGES)] for partition in range(4) for n in range(30_000))
    del expected["/healthz"]
    assert views == expected


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with small_session() as session:
        yield session


def test_listening_sessions_counts_sittings_once() -> None:
    with TestDriver(app_of("listening-sessions")) as driver:
        driver.feed("plays", plays()["plays"])
        driver.end("plays")
        driver.run_until_idle()
        assert driver.completed
        sittings = sorted(
            (row["listener"], row["plays"], row["seconds"], row["artists"], row["first_track"])
            for row in driver.rows("sittings")
        )
    assert sittings == [("ann", 1, 200, 1, "track-4"), ("ann", 2, 400, 2, "track-1"), ("bob", 2, 400, 2, "track-5")]


def test_card_fraud_tells_of_a_large_payment_abroad(spark: SparkSession) -> None:
    with TestDriver(FOLDER / "card-fraud" / "app.yaml", spark=spark) as driver:
        driver.feed("payments", card_payments()["payments"])
        driver.run_until_idle()
        assert [(row["payment"], row["score"]) for row in driver.rows("suspicious")] == [("large", 1.0)]
