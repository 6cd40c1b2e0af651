"""Rows on which Spark SQL fails in a `filter` or `select`: put aside, each with the column, or said by name."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from holdfast.errors import UserActionError
from holdfast_runtime.testing import TestDriver
from tests.error_codes import has_code

LETTERS = {"onError": "DeadLetter", "deadLetter": "failed"}
SCHEMA = "k STRING, text STRING, a INT, b INT, numbers ARRAY<INT>"


def app(*steps: dict[str, Any], **written: str) -> dict[str, Any]:
    names = ("out", "other", "failed")
    return {
        "apiVersion": "holdfast.dev/v1alpha1",
        "kind": "StreamApp",
        "metadata": {"name": "sums"},
        "spec": {
            "systems": [{"name": "here", "log": {}}],
            "streams": [
                {"name": "given", "system": "here", "partitions": 2, "key": ["k"], "schema": SCHEMA},
                *({"name": name, "system": "here", "partitions": 1} for name in names),
            ],
            "steps": [*steps, *({"name": f"to-{to}", "from": [step], "to": to} for step, to in written.items())],
        },
    }


def row(text: str, a: int, b: int, *numbers: int, k: str = "k") -> dict[str, Any]:
    return {"k": k, "text": text, "a": a, "b": b, "numbers": list(numbers)}


ROWS = [row("1", 4, 2, 7), row("x", 1, 1, 7), row("3", 1, 0, 7), row("4", 2**31 - 1, 1, 7), row("5", 6, 2, 8)]


def letters(driver: TestDriver) -> list[tuple[Any, ...]]:
    return [(one["step"], one["column"], json.loads(one["value"])) for one in driver.rows("failed")]


def test_rows_a_select_cannot_compute_are_put_aside(spark: SparkSession, tmp_path: Path) -> None:
    texts = ["*", "cast(text AS INT) AS number", "a / b AS ratio", "a / b + 1 AS more", "a + b AS sum"]
    made = {"name": "made", "from": ["given"], "select": texts}
    with TestDriver(app(made | LETTERS, made="out"), tmp_path, spark=spark) as driver:
        driver.feed("given", ROWS)
        (batch,) = driver.run_until_idle()
        assert [(one["number"], one["ratio"], one["more"], one["sum"]) for one in driver.rows("out")] == [
            (1, 2.0, 3.0, 6),
            (5, 3.0, 4.0, 8),
        ]
        assert letters(driver) == [
            ("made", "number", ROWS[1]),
            ("made", "ratio", ROWS[2]),
            ("made", "sum", ROWS[3]),
        ]
        reasons = [letter["reason"].partition(" can't be computed for this row")[0] for letter in driver.rows("failed")]
        assert reasons == ["cast(text AS INT) AS number", "a / b AS ratio", "a + b AS sum"]
        assert sum(task.failed.get("made", 0) for task in batch.tasks) == driver.failed == 3


def test_a_filter_puts_failing_rows_aside_and_null_never_fails(spark: SparkSession, tmp_path: Path) -> None:
    filter_step = {"name": "kept", "from": ["given"], "filter": "a / b > 1 AND cast(text AS INT) > 0 AND a / b < 100"}
    with TestDriver(app(filter_step | LETTERS, kept="out"), tmp_path, spark=spark) as driver:
        driver.feed("given", [*ROWS, {"k": "k", "a": None, "b": 1, "text": None, "numbers": None}])
        driver.run_until_idle()
        assert [one["text"] for one in driver.rows("out")] == ["1", "5"]
        assert [(step, column, value["text"]) for step, column, value in letters(driver)] == [("kept", None, "3")]
        assert "filter a / b > 1" in driver.rows("failed")[0]["reason"]


def test_a_row_fails_in_one_step_and_goes_on_elsewhere(spark: SparkSession, tmp_path: Path) -> None:
    steps = (
        {"name": "numbers", "from": ["given"], "select": ["k", "cast(text AS INT) AS n"]} | LETTERS,
        {"name": "small", "from": ["numbers"], "filter": "10 / (n - 5) < 100"} | LETTERS,
        {"name": "ratios", "from": ["given"], "select": ["k", "text", "a / b AS ratio"]} | LETTERS,
        {"name": "first", "from": ["given"], "select": ["numbers[0] AS head"]},
    )
    with TestDriver(app(*steps, small="out", ratios="other"), tmp_path, spark=spark) as driver:
        driver.feed("given", ROWS)
        driver.run_until_idle()
        assert [one["n"] for one in driver.rows("out")] == [1, 3, 4]
        assert [one["text"] for one in driver.rows("other")] == ["1", "x", "4", "5"]
        failures = sorted((step, column) for step, column, _ in letters(driver))
        assert failures == [("numbers", "n"), ("ratios", "ratio"), ("small", None)]


def test_a_select_of_columns_alone_never_fails(spark: SparkSession, tmp_path: Path) -> None:
    with TestDriver(
        app({"name": "made", "from": ["given"], "select": ["k", "text"]} | LETTERS, made="out"), tmp_path, spark=spark
    ) as driver:
        driver.feed("given", ROWS)
        driver.run_until_idle()
        assert len(driver.rows("out")) == len(ROWS)
        assert driver.rows("failed") == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cast(text AS INT) AS number", r"step made: Spark SQL fails on a row in .*cast\(text AS INT\).*The value 'x'"),
        (
            "1 / (a - 1) AS ratio",
            r"step made: 1 / \(a - 1\) AS ratio can't be computed .*division by zero. The row is .*\"a\":1",
        ),
    ],
)
def test_without_dead_letters_the_message_names_step_expression_and_value(
    spark: SparkSession, tmp_path: Path, text: str, message: str
) -> None:
    other = {"name": "whole", "from": ["given"], "select": ["a + b AS sum"]}
    steps = ({"name": "made", "from": ["given"], "select": ["k", text]}, other)
    with TestDriver(app(*steps, made="out", whole="other"), tmp_path, spark=spark) as driver:
        driver.feed("given", ROWS[:2])
        with pytest.raises(UserActionError, match=message, check=has_code("ExpressionFailedError")) as raised:
            driver.run()
        assert "\n" not in str(raised.value)
