"""What steps with rows show of their state, beside what they put out if their streams end at that moment.

Reading must change nothing, and one key must be shown as it is among all.
"""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import UserActionError
from holdfast.planning.aggregation import AggregateCall, Aggregation
from holdfast.spec.steps import Aggregate
from holdfast.times import FARTHEST, MICROS_PER_MILLI
from holdfast_runtime.state.sorted import key_rows
from holdfast_runtime.steps.joins import join, side_buffer
from holdfast_runtime.steps.joins.join_plan import LEFT, RIGHT
from holdfast_runtime.steps.joins.waiting_rows import waiting_rows
from holdfast_runtime.steps.timed_rows import TimedRows
from holdfast_runtime.steps.windows.aggregate import AggregateStep
from holdfast_runtime.steps.windows.aggregate_plan import AggregatePlan
from tests.error_codes import has_code
from tests.steps import test_deduplicate as once
from tests.steps.test_aggregate import (
    SCHEMA,
    SHAPES,
    came,
    marked,
    outcome_of,
    rows_of,
    step,
)
from tests.steps.test_deduplicate import Tables
from tests.steps.test_join import KINDS, Model, Row, Task, histories, plan
from tests.steps.window_models import Out


@pytest.fixture(autouse=True, params=[1, key_rows._MOST_ROWS], ids=["short ranges", "long ranges"])  # noqa: SLF001
def rows_of_ranges(request: pytest.FixtureRequest) -> Iterator[None]:
    """Ranges of hashes have one row, or many, at whatever hypothesis draws."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(key_rows, "_FIRST_ROWS", request.param)
        patch.setattr(key_rows, "_MOST_ROWS", request.param)
        yield


USERS = [None, "a", "b", "c"]


def key_of(column: str, value: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([value], pa.string())], names=[column])


def shown(verb: AggregateStep, tables: Tables, key: pa.RecordBatch | None = None) -> list[Out]:
    batches = [results.rows for results in verb.unfinished(tables.table("counts"), key)]
    return [row for rows in batches for row in came(timed_rows(rows))]


def timed_rows(rows: pa.RecordBatch) -> Any:
    return TimedRows(rows, pa.nulls(rows.num_rows, pa.int64()))


def to_the_end(verb: AggregateStep, tables: Tables) -> Iterator[Out]:
    """What still comes out if no more rows come."""
    quiet = 0
    while quiet < 2:  # a round that is under way may end with nothing, and the last one begins then
        outcome = outcome_of(verb, tables, [], None, ended=True)
        quiet = 0 if outcome.rows.count else quiet + 1
        yield from came(outcome.rows)


@given(
    st.lists(rows_of, max_size=6),
    st.sampled_from(SHAPES),
    st.integers(0, 3000),
    st.sampled_from([1, 2, 4, 1000]),
)
def test_shown_results_are_those_that_come_out(
    drawn: list[list[Any]], shape: dict[str, str], lateness: int, most: int
) -> None:
    """Also in the middle of a round, of which some groups have left."""
    verb, tables = step(shape, most), Tables()
    for rows, mark, _ in marked(drawn, lateness):
        outcome_of(verb, tables, rows, mark)
        before = deepcopy(tables)
        results = shown(verb, tables)
        by_key = [row for user in USERS for row in shown(verb, tables, key_of("user", user))]
        assert {name: table.rows for name, table in tables.tables.items()} == {
            name: table.rows for name, table in before.tables.items()
        }
        assert sorted(results, key=str) == sorted(by_key, key=str) == sorted(to_the_end(verb, before), key=str)


def test_a_row_during_a_round_shows_in_later_windows() -> None:
    """Its pane is held by a window that is leaving, too."""
    verb, tables = step({"window": "1s", "slide": "400ms"}, 1), Tables()
    early, late = 500 * MICROS_PER_MILLI, 900 * MICROS_PER_MILLI
    outcome_of(verb, tables, [("a", 1, early), ("b", 1, early)], 1000)
    outcome_of(verb, tables, [("c", 1, late)], 1000)
    ends = [row[1] for row in shown(verb, tables, key_of("user", "c"))]
    assert ends == [1400 * MICROS_PER_MILLI, 1800 * MICROS_PER_MILLI]
    assert sorted(shown(verb, tables), key=str) == sorted(to_the_end(verb, tables), key=str)


@given(st.lists(rows_of, max_size=6), st.sampled_from([{}, {"window": "1s"}, {"window": "1s", "slide": "400ms"}]))
def test_shown_results_are_the_last_updates_of_open_windows(drawn: list[list[Any]], shape: dict[str, str]) -> None:
    verb, tables = step({**shape, "emit": "Update"}), Tables()
    last: dict[Any, Out] = {}
    for rows, mark, _ in marked(drawn, 1000):
        for row in came(outcome_of(verb, tables, rows, mark).rows):
            last[row[:3]] = row
        open_windows = [
            row for row in last.values() if row[1] is None or mark is None or row[1] > mark * MICROS_PER_MILLI
        ]
        assert sorted(shown(verb, tables), key=str) == sorted(open_windows, key=str)


def test_a_result_that_can_not_be_given_is_null() -> None:
    """The step itself stops there; who looks sees the other results, and why."""
    verb, tables = step({"window": "1s"}), Tables()
    outcome_of(verb, tables, [("a", 2**62, 1), ("a", 2**62, 2), ("b", 1, 3)], None)
    results = [*verb.unfinished(tables.table("counts"))]
    assert sorted((row[4] for row in shown(verb, tables)), key=str) == [1, None]
    why = [reason for part in results for reason in part.impossible.items()]
    assert why == [("total", "is more than BIGINT holds, 9223372036854775807")]


def test_state_of_other_columns_is_refused() -> None:
    tables = Tables()
    outcome_of(step({"window": "1s"}), tables, [("a", 1, 1)], None)
    verb = Aggregate.model_validate({"by": ["user"], "window": "1s", "compute": ["count(*) AS rows"]})
    parts = Aggregation((), (AggregateCall("count"),), ("rows",), ())
    other = AggregateStep("counts", AggregatePlan(verb, parts, SCHEMA), "counts")
    with pytest.raises(UserActionError, check=has_code("RunsSchemaError")):
        list(other.unfinished(tables.table("counts")))


def waiting(task: Task, key: pa.RecordBatch | None = None) -> list[list[Any]]:
    """Side, key, number, time, until when and whether it had a partner: null where nobody asks."""
    rows = []
    for side, name in ((LEFT, "left"), (RIGHT, "right")):
        for batch in waiting_rows(task.tables.table(f"j.{name}"), task.plan, side, key):
            columns = [column.to_pylist() for column in batch.columns]
            marks = columns[5] if task.plan.outer[side] else [None] * batch.num_rows
            rows += [list(row) for row in zip(*columns[:5], marks, strict=True)]
    return rows


@pytest.mark.parametrize("kind", KINDS)
@given(history=histories(), bounds=st.tuples(st.integers(0, 15), st.integers(0, 15)), small=st.booleans())
def test_shown_rows_of_a_join_are_those_that_wait(
    kind: Any, history: list[tuple[list[Row], list[Row], int | None]], bounds: tuple[int, int], small: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(side_buffer, "_LEAST_WIDTH", MICROS_PER_MILLI if small else 1000 * MICROS_PER_MILLI)
        if small:
            patch.setattr(side_buffer, "_ROUND", 1)
            patch.setattr(join, "_MOST_PAIRS", 3)
        shape = plan(kind, *bounds)
        task, model = Task(shape), Model(shape)
        for left, right, mark in history:
            task.run(left, right, mark)
            model.run(left, right, mark)
            expected = [
                [name, key, number, time, time + shape.waits[side], met if shape.outer[side] else None]
                for side, name in ((LEFT, "left"), (RIGHT, "right"))
                for _, number, time, met, key in model.sides[side]
            ]
            before = task.tables.content()
            assert sorted(map(str, waiting(task))) == sorted(map(str, expected))
            by_key = [row for key in "abc" for row in waiting(task, key_of("k", key))]
            assert sorted(map(str, by_key)) == sorted(map(str, expected))
            assert task.tables.content() == before


@given(
    st.lists(once.rows_of, max_size=6),
    st.sampled_from([None, "1s", "100ms", "5s"]),
    st.integers(0, 3000),
)
def test_shown_rows_of_deduplicate_are_those_that_have_passed(
    drawn: list[list[Any]], within: str | None, lateness: int
) -> None:
    """All that can still make a row a duplicate; of others, those whose bucket has not gone."""
    verb, tables = once.step(within), Tables()
    length = {None: None, "1s": 1000, "100ms": 100, "5s": 5000}[within]
    passed: list[list[Any]] = []
    newest, before = -FARTHEST, None
    for drawn_rows in drawn:
        rows = [(user, number, time) for number, (user, time) in enumerate(drawn_rows)]
        newest = max([newest, *(time for _, time in drawn_rows if time is not None)])
        after = newest // MICROS_PER_MILLI - lateness if newest > -FARTHEST else None
        outcome = once.outcome_of(verb, tables, rows, before, after)
        before = after
        times = outcome.rows.times.fill_null(0).to_pylist()
        for user, time in zip(outcome.rows.rows["user"].to_pylist(), times, strict=True):
            passed.append([user, time] + ([] if length is None else [time + length * MICROS_PER_MILLI]))
        batches = verb.remembered(tables.table("once"))
        shown_rows = [[*row] for batch in batches for row in zip(*(c.to_pylist() for c in batch.columns), strict=True)]
        still = [row for row in passed if length is None or after is None or row[2] >= after * MICROS_PER_MILLI]
        assert len({str(row) for row in shown_rows}) == len(shown_rows)
        assert {str(row) for row in still} <= {str(row) for row in shown_rows} <= {str(row) for row in passed}
        for user in USERS:
            of_key = verb.remembered(tables.table("once"), key_of("user", user))
            assert sum(batch.num_rows for batch in of_key) == sum(row[0] == user for row in shown_rows)
