"""`process` on batches gives what it gives key by key, on any tables, however the rows are cut into batches."""

import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.spec.steps import Process
from holdfast_runtime.state.store.directory import StoreDirectory, TaskIdentity
from holdfast_runtime.state.store.task_store import TaskStore
from holdfast_runtime.steps.context import StepClock
from holdfast_runtime.steps.keyed import key_table, process
from holdfast_runtime.steps.keyed.key_state import TimerKind, index_key
from holdfast_runtime.steps.keyed.key_table import read_rows
from holdfast_runtime.steps.keyed.process import ProcessStep
from tests.steps.memory import MemoryTables, listed, timed
from tests.steps.moments import moments
from tests.steps.naive_process import NaiveProcess

GIVEN = pa.schema([("key", pa.string()), ("act", pa.string()), ("n", pa.int64())])
OUT = pa.schema([("key", pa.string()), ("what", pa.string()), ("n", pa.int64())])
ACTS = ("add", "event", "time", "cancel", "clear", "boom", "tell", "again")

Row = tuple[dict[str, Any], int | None]
Batch = tuple[list[Row], int, int | None, bool]


def act(key: Any, rows: list[dict[str, Any]], state: Any) -> Iterator[dict[str, Any]]:
    """Does what rows say, and tells of its timers."""
    for timer in state.fired:
        assert not rows
        state["fired"] = state.get("fired", 0) + 1
        yield {"key": key, "what": f"{timer.kind} {timer.name}", "n": timer.time}
        if timer.name == "again":
            state.at_event_time(timer.time + 7, "again")
            state.at_time(timer.time, "stuck")
    for row in rows:
        what, n = row["act"], row["n"]
        if what == "add":
            state["sum"] = state.get("sum", 0) + n
            yield {"key": key, "what": "sum", "n": state["sum"]}
        elif what in ("event", "again"):
            state.at_event_time(n, "again" if what == "again" else f"e{n % 2}")
        elif what == "time":
            state.at_time(n, f"p{n % 2}")
        elif what == "cancel":
            state.cancel_event_time(f"e{n % 2}")
            state.cancel_time(f"p{n % 2}")
        elif what == "clear":
            state.clear()
        elif what == "tell":
            yield {"key": key, "what": f"{sorted(state.items())} {state.watermark} {state.is_late(row)}"}


rows = st.lists(
    st.tuples(
        st.fixed_dictionaries(
            {
                "key": st.sampled_from(["a", "b", "c", "", "é", None]),
                "act": st.sampled_from(ACTS),
                "n": st.integers(0, 60),
            }
        ),
        st.none() | moments(0, 60),
    ),
    max_size=8,
)
# Times move in seconds, timers lie within a minute of milliseconds: some at once, some after several batches.
steps_in_time = st.tuples(rows, st.integers(0, 40), st.none() | st.integers(0, 20), st.booleans())


def batches(drawn: list[tuple[list[Row], int, int | None, bool]]) -> list[Batch]:
    """Processing time and watermark only go forward; the end comes last."""
    now, watermark, made = 0, None, []
    for store_directory, (batch_rows, later, further, end) in enumerate(drawn):
        now += later
        if further is not None:
            watermark = (watermark or 0) + further
        made.append((batch_rows, now, watermark, end and store_directory == len(drawn) - 1))
    return made


def step(ttl: int | None) -> ProcessStep:
    verb = Process(function="tests:act", by=("key",), ttl=None if ttl is None else f"{ttl}ms")
    return ProcessStep("s", verb, act, GIVEN, OUT)


def check_index(tables: MemoryTables) -> None:
    """The index is what follows from the rows."""
    index = set()
    stored = tables.table("s").rows
    for key, row in zip(stored, read_rows(list(stored.values())), strict=True):
        assert row is not None
        for kind in (TimerKind.EVENT, TimerKind.PROCESSING):
            index |= {index_key(kind, time, key) for time in (row.timers[kind] if row.timers else {}).values()}
        index |= {index_key(TimerKind.TOUCHED, row.touched, key)} if row.touched else set()
    assert set(tables.table("s.timers").rows) == index


@given(st.lists(steps_in_time, max_size=8), st.none())
def test_batches_give_what_the_naive_way_gives(drawn: list[Any], ttl: int | None) -> None:
    compare(batches(drawn), ttl, 1)


@given(st.lists(steps_in_time, max_size=8), st.sampled_from([5_000, 64_000]))
def test_batches_give_what_the_naive_way_gives_with_a_ttl(drawn: list[Any], ttl: int) -> None:
    compare(batches(drawn), ttl, 1_000)


@settings(max_examples=60)
@given(st.lists(steps_in_time, max_size=8), st.sampled_from([None, 5_000]), st.integers(1, 3))
def test_serving_few_at_once_changes_nothing(drawn: list[Any], ttl: int | None, most: int) -> None:
    with patch.object(process, "_FIRED_AT_ONCE", most), patch.object(key_table, "_EXPIRED_AT_ONCE", most):
        compare(batches(drawn), ttl, 1 if ttl is None else 1_000)


@settings(max_examples=60)
@given(st.lists(steps_in_time, max_size=8), st.sampled_from([None, 5_000]), st.integers(1, 4), st.integers(1, 3))
def test_timers_beyond_a_batch_fire_in_the_next_ones(
    drawn: list[Any], ttl: int | None, most: int, at_once: int
) -> None:
    with patch.object(process, "_MOST_FIRED", most), patch.object(process, "_FIRED_AT_ONCE", at_once):
        compare(batches(drawn), ttl, 1 if ttl is None else 1_000, most)


def told(outputs: list[Row]) -> list[Row]:
    """Rows of one call have one time, and how many calls there are for the rows of a key is not said."""
    return [(row, time if row["what"].startswith(("event", "processing")) else None) for row, time in outputs]


def compare(made: list[Batch], ttl: int | None, pace: int, most: int = 1 << 60) -> None:
    tables, real, naive = MemoryTables(), step(ttl), NaiveProcess(act, "key", ttl, most)
    before = None
    for batch_rows, now, watermark, ended in made:
        clock = StepClock(now * pace, watermark, ended, before, horizon=50)
        before = watermark
        outcome = real.run(
            timed(GIVEN, [row for row, _ in batch_rows], [time for _, time in batch_rows]), tables, clock
        )
        expected = naive.run(batch_rows, clock)
        assert told(listed(outcome.rows)) == told(
            [({"key": None, "what": None, "n": None} | row, time) for row, time in expected]
        )
        check_index(tables)
        assert (outcome.late, outcome.unfired) == ({"s": naive.late}, naive.unfired)


@settings(max_examples=25)
@given(st.lists(steps_in_time, max_size=6), st.sampled_from([None, 5_000]))
def test_a_store_and_tables_in_memory_give_the_same(drawn: list[Any], ttl: int | None) -> None:
    with tempfile.TemporaryDirectory() as directory:
        store_directory = StoreDirectory(Path(directory) / "store", TaskIdentity("app", "1", "partition-0"), 1 << 26)
        with TaskStore.create(store_directory, -1) as store:
            tables, in_memory, in_store = MemoryTables(), step(ttl), step(ttl)
            for number, (batch_rows, now, watermark, ended) in enumerate(batches(drawn)):
                given_rows = timed(GIVEN, [row for row, _ in batch_rows], [time for _, time in batch_rows])
                clock = StepClock(now * 500, watermark, ended)
                store.begin(number, 1)
                outcomes = in_store.run(given_rows, store, clock), in_memory.run(given_rows, tables, clock)
                assert listed(outcomes[0].rows) == listed(outcomes[1].rows)
                assert outcomes[0].wake == outcomes[1].wake
                store.commit()
                for name in ("s", "s.timers"):
                    assert dict(store.table(name).scan()) == tables.table(name).rows


@given(rows, st.lists(st.integers(0, 8), max_size=4))
def test_cutting_rows_into_other_batches_changes_nothing(drawn_rows: list[Row], cuts: list[int]) -> None:
    """For a function that looks at one row after the other."""
    drawn_rows = [
        (row | {"act": "add" if row["act"] in ("event", "time", "again") else row["act"]}, t) for row, t in drawn_rows
    ]
    whole, parts = MemoryTables(), MemoryTables()
    at_once = listed(step(None).run(timed(GIVEN, [row for row, _ in drawn_rows]), whole, StepClock(0, None)).rows)
    bounds = [0, *sorted(min(cut, len(drawn_rows)) for cut in cuts), len(drawn_rows)]
    piecewise = []
    for start, end in pairwise(bounds):
        part = timed(GIVEN, [row for row, _ in drawn_rows[start:end]])
        piecewise += listed(step(None).run(part, parts, StepClock(0, None)).rows)
    for key in {row["key"] for row, _ in drawn_rows}:
        assert [one for one in piecewise if one[0]["key"] == key] == [one for one in at_once if one[0]["key"] == key]
    assert parts.content() == whole.content()
