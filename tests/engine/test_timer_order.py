"""Rows and timers of a `process` step come in one order, whatever a batch holds, also behind Spark SQL."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

from pyspark.sql import SparkSession

from holdfast_runtime.testing import TestDriver
from tests.engine.log_apps import app_on_log

START = datetime(2026, 1, 1, tzinfo=UTC)
CODE = """
def sessions(key, rows, state):
    for timer in state.fired:
        yield {"k": key, "what": f"{timer.name} {state.get('rows', 0)}"}
        if timer.name == "idle":
            state.clear()
        elif timer.time % 60_000:
            state.at_event_time(timer.time + 1_000, "tick")
    for row in rows:
        state["rows"] = state.get("rows", 0) + 1
        state.at_event_time(row["ts"] + GAP, "idle")
        if state["rows"] == 3:
            state.at_event_time(row["ts"], "tick")
        yield {"k": key, "what": f"row {row['n']} {state.is_late(row)}"}
"""
CODE = f"from datetime import timedelta\nGAP = timedelta(seconds=4)\n{CODE}"
READINGS = 400


def readings() -> list[dict[str, Any]]:
    """Rows up to three seconds out of order, and a few that are later than is allowed."""
    draw, made = Random(7), []  # noqa: S311 - rows, no secrets
    for n in range(READINGS):
        behind = 20 if draw.random() < 0.02 else draw.random() * 3
        ts = START + timedelta(seconds=100 + n * 0.5 - behind)
        made.append({"k": f"k{draw.randrange(5)}", "n": n, "ts": ts})
    return made


def told(data: Path, at_once: int, *before: dict[str, Any], spark: SparkSession | None = None) -> dict[str, list[str]]:
    """What the function told of each key, with so many records in a batch; `before`: steps in front of it."""
    readings_stream = {
        "name": "readings",
        "schema": "k STRING, n BIGINT, ts TIMESTAMP",
        "eventTime": {"column": "ts", "lateness": "3s"},
    }
    process = {"function": "f:sessions", "by": ["k"], "schema": "k STRING, what STRING", "keeps": ["k"]}
    steps = [
        *before,
        {"name": "told", "from": [before[-1]["name"] if before else "readings"], "process": process},
        {"name": "out", "from": ["told"], "to": "seen"},
    ]
    app = app_on_log("sessions", [readings_stream, {"name": "seen"}], steps, CODE)
    app["spec"]["runtime"]["trigger"] = {"maxRecordsPerPartition": at_once}
    with TestDriver(app, data / str(at_once), spark=spark) as driver:
        driver.feed("readings", readings())
        driver.run_until_idle()
        rows = driver.rows("seen")
    return {key: [row["what"] for row in rows if row["k"] == key] for key in sorted({row["k"] for row in rows})}


def test_batches_of_ten_and_of_all_rows_agree(tmp_path: Path) -> None:
    small, large = told(tmp_path, 10), told(tmp_path, 5_000)
    assert small == large
    assert sum(line.startswith("idle") for lines in large.values() for line in lines) > READINGS / 20
    assert any(line.endswith("True") for lines in large.values() for line in lines), "some rows are late"


SIFTED = {"name": "some", "from": ["readings"], "filter": "n % 7 != 3"}


def test_filtered_rows_move_the_watermark_where_they_were(tmp_path: Path) -> None:
    assert told(tmp_path, 10, SIFTED) == told(tmp_path, 5_000, SIFTED)


def test_rows_that_passed_spark_sql_meet_timers_as_others_do(tmp_path: Path, small_spark: SparkSession) -> None:
    computed = {"name": "some", "from": ["readings"], "filter": "md5(k) IS NOT NULL AND n % 7 != 3"}
    assert told(tmp_path / "sql", 5_000, computed, spark=small_spark) == told(tmp_path, 10, SIFTED)
