"""Event time that Spark SQL computes: rows have it behind the select that says so, whatever Spark does next."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from holdfast_runtime.testing import TestDriver

START = datetime(2026, 1, 1, tzinfo=UTC)
PICKED = ["host", "CAST(get(split(value, ' '), 0) AS TIMESTAMP) AS at", "upper(get(split(value, ' '), 1)) AS page"]
COUNT = {"by": ["host"], "window": "1m", "compute": ["count(*) AS views"]}


def app(*between: dict[str, Any]) -> dict[str, Any]:
    views = {"name": "views", "from": ["lines"], "select": PICKED, "eventTime": {"column": "at", "lateness": "10s"}}
    last = between[-1]["name"] if between else "views"
    placed = {"system": "here", "partitions": 2}
    return {
        "apiVersion": "holdfast.dev/v1alpha1",
        "kind": "StreamApp",
        "metadata": {"name": "views"},
        "spec": {
            "systems": [{"name": "here", "log": {}}],
            "streams": [
                {"name": "lines", **placed, "metadata": ["key AS host"], "format": "string"},
                {"name": "counts", **placed, "key": ["host"]},
            ],
            "steps": [
                views,
                *between,
                {"name": "counted", "from": [last], "aggregate": COUNT},
                {"name": "out", "from": ["counted"], "to": "counts"},
            ],
        },
    }


@pytest.mark.parametrize("filtered", [False, True])
def test_windows_go_by_a_time_that_spark_computed(spark: SparkSession, tmp_path: Path, filtered: bool) -> None:
    pages = {"name": "pages", "from": ["views"], "filter": "regexp_count(page, 'HEALTH') = 0"}
    with TestDriver(app(*([pages] if filtered else [])), tmp_path, spark=spark) as driver:

        def arrive(*views: tuple[int, str]) -> list[tuple[int, int]]:
            lines = [f"{(START + timedelta(seconds=at)).isoformat()} {page}".encode() for at, page in views]
            driver.feed_bytes("lines", lines, b"s1")
            driver.run_until_idle()
            rows = driver.rows("counts")
            return [((row["window_start"] - START) // timedelta(minutes=1), row["views"]) for row in rows]

        health = 0 if filtered else 1
        assert arrive((1, "/a"), (2, "/health"), (59, "/b")) == []
        assert arrive((69, "/a")) == []
        assert arrive((50, "/c"), (135, "/health")) == [(0, 3 + health), (1, 1)]
        assert (driver.late, arrive((20, "/late"))[2:], driver.late) == (0, [], 1)
