"""`deduplicate` beside a list of what has passed: any order, any cut into batches, late rows, nulls, many batches."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.spec.steps import Deduplicate
from holdfast.times import MICROS_PER_MILLI
from holdfast_runtime.steps.context import StepClock
from holdfast_runtime.steps.keyed.deduplicate import DeduplicateStep
from holdfast_runtime.steps.outcome import StepOutcome
from holdfast_runtime.steps.timed_rows import TimedRows
from tests.state.test_layered_rows import MemoryTable
from tests.steps.moments import moments

SCHEMA = pa.schema([("user", pa.string()), ("n", pa.int64())])
Row = tuple[str | None, int, int | None]
"""User, number, event time in microseconds."""
MS = MICROS_PER_MILLI


class Tables:
    """The tables of a task, in memory."""

    def __init__(self) -> None:
        self.tables: dict[str, MemoryTable] = {}

    def table(self, name: str) -> Any:
        return self.tables.setdefault(name, MemoryTable())


def timed(rows: Sequence[Row]) -> TimedRows:
    users, numbers, times = zip(*rows, strict=True) if rows else ((), (), ())
    batch = pa.RecordBatch.from_arrays([pa.array(users, pa.string()), pa.array(numbers, pa.int64())], schema=SCHEMA)
    return TimedRows(batch, pa.array(times, pa.int64()))


def step(within: str | None, *by: str) -> DeduplicateStep:
    return DeduplicateStep("once", Deduplicate(by=by or ("user",), within=within), SCHEMA, "once")


def outcome_of(
    verb: DeduplicateStep, tables: Tables, rows: Sequence[Row], before: int | None, after: int | None
) -> StepOutcome:
    return verb.run(timed(rows), tables, StepClock(0, after, before=before))


def run(verb: DeduplicateStep, tables: Tables, rows: Sequence[Row], before: int | None, after: int | None) -> list[int]:
    return numbers_of(outcome_of(verb, tables, rows, before, after).rows)


def numbers_of(rows: TimedRows) -> list[int]:
    return list(rows.rows["n"].to_pylist())


def expected(batches: Sequence[tuple[int | None, Sequence[Row]]], within: int | None) -> Iterator[list[int]]:
    """What passes of each batch, with the watermark before it."""
    passed: list[tuple[str | None, int | None]] = []
    for before, rows in batches:
        numbers = []
        for user, number, time in rows:
            if within is not None and (time is None or (before is not None and time < before * MS)):
                continue
            near = [passed_time for name, passed_time in passed if name == user]
            if any(within is None or abs((time or 0) - (one or 0)) <= within * MS for one in near):
                continue
            passed.append((user, time))
            numbers.append(number)
        yield numbers


rows_of = st.lists(st.tuples(st.none() | st.sampled_from("abc"), st.none() | moments(0, 12_000)), max_size=25)


@given(st.lists(rows_of, max_size=8), st.sampled_from([None, "1s", "100ms", "5s"]), st.integers(0, 3000))
def test_what_passes_is_what_a_list_says(
    drawn: list[list[tuple[str | None, int | None]]], within: str | None, lateness: int
) -> None:
    """The watermark follows the newest row, so that buckets expire and rows are late."""
    verb, tables = step(within), Tables()
    number, newest, before = 0, None, None
    batches: list[tuple[int | None, list[Row]]] = []
    passed = []
    for drawn_rows in drawn:
        rows: list[Row] = []
        for user, time in drawn_rows:
            number += 1
            rows.append((user, number, time))
            newest = time if newest is None else newest if time is None else max(newest, time)
        after = None if newest is None else newest // MS - lateness
        batches.append((before, rows))
        passed.append(run(verb, tables, rows, before, after))
        before = after
    assert passed == list(expected(batches, None if within is None else {"1s": 1000, "100ms": 100, "5s": 5000}[within]))


def test_late_rows_and_rows_without_time_are_dropped_and_counted() -> None:
    verb, tables = step("1h"), Tables()
    outcome = outcome_of(verb, tables, [("a", 1, 100 * MS - 1), ("b", 2, None), ("c", 3, 100 * MS)], 100, 100)
    assert (numbers_of(outcome.rows), outcome.late) == ([3], {"once": 2})
    (late,) = outcome.late_rows
    assert late.rows.rows.to_pylist() == [{"user": "a", "n": 1}, {"user": "b", "n": 2}]
    assert late.rows.times.to_pylist() == [100 * MS - 1, None]


def test_without_within_no_time_is_needed_and_nothing_is_late() -> None:
    verb, tables = step(None), Tables()
    assert run(verb, tables, [("a", 1, None), ("a", 2, 5), (None, 3, None), (None, 4, 1)], 100, 100) == [1, 3]
    outcome = outcome_of(verb, tables, [("a", 5, 9), (None, 6, 9), ("b", 7, 0)], 100, 100)
    assert (numbers_of(outcome.rows), outcome.late) == ([7], {"once": 0})


@pytest.mark.parametrize("first", [5_000_000, 4_999_700, -300])
def test_a_row_exactly_within_is_the_last_duplicate(first: int) -> None:
    second = 1000 * MS
    verb, tables = step("1s"), Tables()
    assert run(verb, tables, [("a", 1, first)], None, None) == [1]
    assert run(verb, tables, [("a", 2, first + second), ("a", 3, first - second)], None, None) == []
    assert run(verb, tables, [("a", 4, first + second + 1), ("a", 5, first - second - 1)], None, None) == [4, 5]
    together = [("b", 1, first), ("b", 2, first + second), ("b", 3, first + second + 1), ("b", 4, first - second - 1)]
    assert run(verb, tables, together, None, None) == [1, 3, 4]


def test_a_value_is_remembered_to_the_microsecond_of_its_end() -> None:
    verb, tables = step("1s"), Tables()
    assert run(verb, tables, [("a", 1, 999_700)], None, 1_999) == [1]
    assert run(verb, tables, [("a", 2, 1_999_700)], 1_999, 1_999) == []
    assert run(verb, tables, [("a", 3, 1_999_701)], 1_999, 1_999) == [3]


def test_what_the_watermark_has_left_behind_is_forgotten() -> None:
    verb, tables = step("1s"), Tables()
    for batch in range(200):
        start = batch * 500
        run(verb, tables, [(str(n), n, (start + n) * MS) for n in range(100)], start - 1000, start - 500)
    pieces = [key for key in tables.table("once").rows if key.startswith(b"p")]
    assert len(pieces) < 30


@pytest.mark.parametrize("by", [("user",), ("USER",), ("user", "n")])
def test_columns_are_found_by_sparks_rules(by: tuple[str, ...]) -> None:
    verb, tables = step(None, *by), Tables()
    passed = run(verb, tables, [("a", 1, None), ("a", 1, None), ("a", 2, None)], None, None)
    assert passed == ([1, 2] if len(by) == 2 else [1])


def test_many_keys_over_many_batches_pass_once() -> None:
    verb, tables = step("1h"), Tables()
    random = np.random.default_rng(6)
    passed = []
    for batch in range(60):
        users = random.integers(0, 5_000, 2_000)
        passed += run(verb, tables, [(str(user), int(user), batch) for user in users], 0, 0)
    assert len(passed) == len(set(passed)) == len(np.unique(passed)) > 4_900


@pytest.mark.parametrize(("before", "after"), [("1s", "10s"), ("10s", "1s"), ("1s", None), (None, "1s")])
def test_another_within_takes_over_what_has_passed(before: str | None, after: str | None) -> None:
    tables, was, now = Tables(), step(before), step(after)
    rows = [(str(n), n, n * 700 * MS) for n in range(100)]
    assert run(was, tables, rows, None, None) == list(range(100))
    # Each with its own time is a duplicate for any length.
    assert run(now, tables, rows, None, None) == []
    later = {"1s": 1_000 * MS + 1, "10s": 10_000 * MS + 1, None: 10**12}[after]
    passed = run(now, tables, [(user, n, time + later) for user, n, time in rows], None, None)
    assert passed == ([] if after is None else list(range(100)))
    assert run(now, tables, [(user, n, time + later) for user, n, time in rows], None, None) == []
