"""Rows and due timers of a key come in one order, however the rows of a partition are cut into batches."""

from collections.abc import Iterator
from itertools import accumulate, pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.spec.steps import Process
from holdfast.times import micros
from holdfast_runtime.steps.context import StepClock
from holdfast_runtime.steps.keyed.process import ProcessStep
from holdfast_runtime.steps.timed_rows import TimedRows
from tests.steps.memory import MemoryTables, listed, timed
from tests.steps.naive_process import NaiveProcess
from tests.steps.running import NOON

GIVEN = pa.schema([("key", pa.string()), ("act", pa.string()), ("n", pa.int64())])
OUT = pa.schema([("key", pa.string()), ("what", pa.string())])
ACTS = ("count", "timer", "timer", "moved", "cancel", "clear", "boom")

Row = tuple[dict[str, Any], int]
Found = list[tuple[dict[str, Any], int | None]]


def act(key: Any, rows: list[dict[str, Any]], state: Any) -> Iterator[dict[str, Any]]:
    """Does what rows say; whatever it tells depends on the rows and timers before, and on nothing else."""
    for timer in state.fired:
        state["fired"] = [*state.get("fired", ()), timer.time]
        yield {"key": key, "what": f"{timer.name} of {timer.time} after {state.get('rows', 0)} rows"}
        if timer.name == "chain":
            state.at_event_time(timer.time + 3, "chain")
    for row in rows:
        what, n = row["act"], row["n"]
        state["rows"] = state.get("rows", 0) + 1
        if what == "boom" and state["rows"] % 3 == 1:
            raise ValueError(what)
        if what == "timer":
            state.at_event_time(n, ("one", "two", "chain")[n % 3])
        elif what == "moved":
            state.at_event_time(n + 10, "idle")
        elif what == "cancel":
            state.cancel_event_time(("one", "two", "chain")[n % 3])
        elif what == "clear":
            state.clear()
        row["act"] = "changed by the function"
        yield {"key": key, "what": f"{what} {n} {state.is_late(row)} {sorted(state.items())}"}


drawn_rows = st.lists(
    st.tuples(
        st.fixed_dictionaries(
            {"key": st.sampled_from("ab"), "act": st.sampled_from(ACTS), "n": st.integers(0, 60)},
        ),
        st.integers(0, 60),
    ),
    max_size=14,
)


def marks_of(rows: list[Row], lateness: int) -> list[int | None]:
    """The watermark before any row, and at each."""
    highest = accumulate((time for _, time in rows), max)
    return [None, *(time - lateness for time in highest)]


def in_batches(rows: list[Row], lateness: int, cuts: list[int]) -> tuple[Found, list[int], MemoryTables]:
    """What comes out, which rows failed, and what is kept."""
    marks, tables = marks_of(rows, lateness), MemoryTables()
    step = ProcessStep("s", Process(function="tests:act", by=("key",)), act, GIVEN, OUT)
    outputs, failed = Found(), list[int]()
    for start, end in pairwise([0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]):
        part = timed(GIVEN, [row for row, _ in rows[start:end]], [micros(time) for _, time in rows[start:end]])
        part = TimedRows(part.rows, part.times, marks=pa.array(marks[start + 1 : end + 1], pa.int64()))
        clock = StepClock(NOON, marks[end], before=marks[start], marked=True)
        outcome = step.run_apart(part, tables, clock)
        tables.keep()
        outputs += listed(outcome.rows)
        failed += sorted(start + int(str(failure.row)) for rows in outcome.failed for failure in rows.failures)
    return outputs, failed, tables


def by_key(outputs: Found) -> dict[str, list[str]]:
    return {key: [row["what"] for row, _ in outputs if row["key"] == key] for key in "ab"}


@given(drawn_rows, st.integers(0, 10), st.lists(st.integers(0, 14), max_size=5))
def test_where_batches_end_changes_nothing(rows: list[Row], lateness: int, cuts: list[int]) -> None:
    outputs, failed, tables = in_batches(rows, lateness, cuts)
    one_by_one = in_batches(rows, lateness, list(range(len(rows))))
    assert (by_key(outputs), failed) == (by_key(one_by_one[0]), one_by_one[1])
    assert tables.content() == one_by_one[2].content()


@given(drawn_rows, st.integers(0, 10))
def test_rows_and_timers_come_as_the_naive_way_has_them(rows: list[Row], lateness: int) -> None:
    rows = [(row | {"act": "count"} if row["act"] == "boom" else row, time) for row, time in rows]
    marks = marks_of(rows, lateness)
    naive = NaiveProcess(act, "key", None)
    expected = naive.run([(drawn_row, micros(time)) for drawn_row, time in rows], StepClock(NOON, marks[-1]), marks[1:])
    assert by_key(in_batches(rows, lateness, [])[0]) == by_key(expected)


def row(n: int, act: str = "count") -> Row:
    return {"key": "a", "act": act, "n": n}, n


@pytest.mark.parametrize("cuts", [[], [1], [2], [1, 2, 3]])
def test_a_silent_key_is_told_before_its_next_row(cuts: list[int]) -> None:
    """The usual way to end a session by hand: each row moves the timer."""
    rows = [row(0, "moved"), row(5, "moved"), row(40, "moved"), row(41, "moved")]
    calls = by_key(in_batches(rows, 0, cuts)[0])["a"]
    assert [one for one in calls if "idle" in one and "after" in one] == ["idle of 15 after 2 rows"]


def test_a_row_behind_a_timer_that_has_fired_is_late() -> None:
    rows = [row(0, "timer"), row(30), row(10)]
    calls = by_key(in_batches(rows, 5, [])[0])["a"]
    assert [one.split()[:3] for one in calls][-1] == ["count", "10", "True"]
