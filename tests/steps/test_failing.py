"""Rows on which a function fails are found, whichever they are: all others come out as they would have without them."""

from collections.abc import Iterator
from dataclasses import replace
from math import log2
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given
from hypothesis import strategies as st

from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.steps.context import StepClock
from holdfast_runtime.steps.failures import FailedRow, FailedRows, letters_of
from holdfast_runtime.steps.outcome import StepOutcome
from holdfast_runtime.steps.plain.apply import UserFunction, apply_apart, apply_or_name
from holdfast_runtime.steps.timed_rows import RowOrigin, TimedRows
from tests.steps.memory import timed
from tests.steps.running import GIVEN, NOON, Running

NUMBERS = pa.schema([("n", pa.int64())])


def failures_of(outcome: StepOutcome) -> list[FailedRow]:
    return [failure for failed in outcome.failed for failure in failed.failures]


@given(st.integers(1, 300), st.sets(st.integers(0, 299)))
def test_apply_gives_all_other_rows_in_order_after_few_calls(count: int, bad: set[int]) -> None:
    calls = 0

    def doubled(batch: pa.RecordBatch) -> pa.RecordBatch:
        nonlocal calls
        calls += 1
        if bad & set(batch["n"].to_pylist()):
            raise ValueError
        return pa.RecordBatch.from_arrays([pc.multiply(batch["n"], 2)], ["n"])

    rows = timed(NUMBERS, [{"n": n} for n in range(count)], list(range(count)))
    failing = bad & set(range(count))
    origins = tuple(RowOrigin(StreamPartition("s", part), pa.array(range(part, count, 3))) for part in range(3))
    outcome = apply_apart(UserFunction("doubled", "f:doubled", doubled, NUMBERS), replace(rows, origins=origins))
    made = outcome.rows
    good = [n for n in range(count) if n not in failing]
    assert made.rows["n"].to_pylist() == [2 * n for n in good]
    assert made.times.to_pylist() == good
    places = [(part, offset) for part in range(3) for offset in range(part, count, 3)]
    row_origins = [made.origin(row) for row in range(made.count)]
    assert [None if at is None else (at[0].partition, at[1]) for at in row_origins] == [places[n] for n in good]
    assert [failure.row for failure in failures_of(outcome)] == sorted(failing)
    assert calls <= 1 + len(failing) * 2 * (log2(count) + 1)


def test_a_failure_that_no_single_row_explains_leaves_no_letter() -> None:
    def crowded(batch: pa.RecordBatch) -> pa.RecordBatch:
        if batch.num_rows > 2:
            message = "too many at once"
            raise ValueError(message)
        return batch

    function = UserFunction("crowded", "f:crowded", crowded, NUMBERS)
    rows = timed(NUMBERS, [{"n": n} for n in range(5)])
    outcome = apply_apart(function, rows)
    assert (outcome.rows.rows["n"].to_pylist(), failures_of(outcome)) == ([0, 1, 2, 3, 4], [])
    try:
        apply_or_name(function, rows)
    except Exception as error:  # noqa: BLE001 - whatever it is
        assert "too many at once" in str(error)
        assert " on the row " not in str(error)


def _summed(sku: Any, rows: list[dict[str, Any]], state: Any) -> Iterator[dict[str, Any]]:
    for row in rows:
        row["cents"] += 1  # a function may change what it is given
        state["n"] = state.get("n", 0) + row["cents"]
        state.setdefault("seen", []).append(row["cents"])
        if row["cents"] % 5 == 0:
            state.at_event_time(row["cents"])
            raise ValueError(row["cents"])
        yield {"sku": sku, "n": state["n"]}


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 20)), min_size=1, max_size=30), st.integers(1, 4))
def test_process_goes_on_as_if_failed_rows_never_came(orders: list[tuple[str, int]], batches: int) -> None:
    whole, without = Running(_summed), Running(_summed)
    rows: list[dict[str, Any]] = [{"sku": sku, "shop": 1, "cents": cents} for sku, cents in orders]
    for batch in range(batches):
        batch_rows = rows[batch::batches]
        good = [row for row in batch_rows if (row["cents"] + 1) % 5]
        bad = [at for at, row in enumerate(batch_rows) if (row["cents"] + 1) % 5 == 0]
        clock = StepClock(NOON + batch, None, ended=False)
        outcome = whole.step.run_apart(timed(GIVEN, batch_rows), whole.tables, clock)
        assert sorted(outcome.rows.rows.to_pylist(), key=_by_sku) == sorted(
            without.step.run(timed(GIVEN, good), without.tables, clock).rows.rows.to_pylist(), key=_by_sku
        )
        assert sorted(failure.row for failure in failures_of(outcome) if failure.row is not None) == bad
        assert whole.tables.content() == without.tables.content()
        whole.tables.keep()


def _by_sku(row: dict[str, Any]) -> str:
    return str(row["sku"])


def test_a_row_json_cannot_express_is_a_letter_without_value() -> None:
    schema = pa.schema([("ts", pa.timestamp("us", tz="UTC"))])
    times = pa.array([0, 1 << 60, 1], pa.int64()).cast(schema.field("ts").type)
    rows = TimedRows(pa.RecordBatch.from_arrays([times], schema=schema), pa.nulls(3, pa.int64()))
    letters = letters_of("dated", FailedRows(rows, [FailedRow(row, "no date") for row in range(3)]))
    assert [value is None for value in letters["value"].to_pylist()] == [False, True, False]


def test_a_time_no_function_can_be_given_fails_its_row() -> None:
    at, known = pa.timestamp("us", tz="UTC"), pa.array([NOON] * 3, pa.int64())
    schema = pa.schema([("sku", pa.string()), ("shop", pa.int64()), ("cents", pa.int64()), ("at", at)])
    times = pa.array([0, 1 << 60, 1], pa.int64()).cast(at)
    columns = [pa.array(["a", "a", "b"]), pa.array([1, 1, 1]), pa.array([1, 2, 9]), times]
    step = Running(_summed, schema=schema)
    outcome = step.step.run_apart(
        TimedRows(pa.RecordBatch.from_arrays(columns, schema=schema), known), step.tables, StepClock(NOON, None)
    )
    assert outcome.rows.rows.to_pylist() == [{"sku": "a", "n": 2}]
    assert [(failure.row, failure.column) for failure in failures_of(outcome)] == [(1, "at"), (2, None)]
