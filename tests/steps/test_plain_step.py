"""Steps of plain expressions over rows that some of them can't be computed for."""

from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import UserActionError
from holdfast.planning.sql.plain.reading import plain_filter, plain_select
from holdfast.spec.steps import Step
from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.steps.outcome import StepOutcome
from holdfast_runtime.steps.plain import plain_texts
from holdfast_runtime.steps.plain.plain_sql import plain_kinds
from holdfast_runtime.steps.plain.plain_step import PlainStep
from holdfast_runtime.steps.plain.plain_texts import TEXT_FUNCTIONS
from holdfast_runtime.steps.timed_rows import RowOrigin, TimedRows
from tests.error_codes import has_code
from tests.planning.apps import step

MOST = 2**63 - 1
APART = {"onError": "DeadLetter", "deadLetter": "failed"}


def run(*rows: tuple[int | None, int | None], **verb: Any) -> StepOutcome:
    """The outcome for rows of `v` and `w`, read from offset 7 on at the times 0, 10 and so on."""
    schema = pa.schema([("v", pa.int64()), ("w", pa.int64())])
    batch = pa.RecordBatch.from_pylist([{"v": v, "w": w} for v, w in rows], schema)
    kinds, items = plain_kinds(schema), verb.get("select")
    made = (plain_filter(verb["filter"], kinds),) if items is None else plain_select(items, kinds)
    assert made is not None
    expressions = [expression for expression in made if expression is not None]
    result = schema if items is None else pa.schema([(item.split()[-1], pa.int64()) for item in items])
    offsets = pa.array(range(7, 7 + len(rows)), pa.int64())
    times = pa.array(range(0, 10 * len(rows), 10), pa.int64())
    timed = TimedRows(batch, times, (RowOrigin(StreamPartition("a", 0), offsets),), times)
    return PlainStep(Step.model_validate(step("made", "a", **verb)), expressions, result).run(timed)


def failures(outcome: StepOutcome) -> list[tuple[Any, ...]]:
    (failed,) = outcome.failed
    return [(one.row, one.column, one.reason.rpartition(": ")[2]) for one in failed.failures]


def test_failing_rows_are_put_aside_and_others_keep_their_order() -> None:
    rows = ((1, 1), (MOST, 1), (None, 0), (3, 0), (4, None), (5, 2))
    outcome = run(*rows, select=["v + 1 AS more", "v % w AS rest"], **APART)
    good = outcome.rows
    assert good.rows.to_pydict() == {"more": [2, None, 5, 6], "rest": [0, None, None, 1]}
    assert (good.times.to_pylist(), [one.offsets.to_pylist() for one in good.origins]) == (
        [0, 20, 40, 50],
        [[7, 9, 11, 12]],
    )
    assert good.marks is not None
    assert good.marks.to_pylist() == [0, 20, 40, 50]
    assert failures(outcome) == [
        (1, "more", "a number too large for its type"),
        (3, "rest", "a division by zero"),
    ]


def test_a_row_is_put_aside_once_with_its_first_column() -> None:
    outcome = run((MOST, 0), select=["v + 1 AS more", "v % w AS rest"], **APART)
    assert (outcome.rows.count, failures(outcome)) == (0, [(0, "more", "a number too large for its type")])


def test_a_filter_keeps_true_rows_and_puts_failing_ones_aside() -> None:
    outcome = run((1, 5), (MOST, 5), (7, 0), (8, None), (9, 9), filter="v + 1 < 9 AND w <> 0", **APART)
    assert outcome.rows.rows.to_pylist() == [{"v": 1, "w": 5}]
    assert failures(outcome) == [(1, None, "a number too large for its type")]


def test_the_other_side_of_a_null_does_not_fail() -> None:
    outcome = run((None, MOST), (2, MOST), (3, 1), select=["v * (w + 1) AS x"], **APART)
    assert outcome.rows.rows.to_pydict() == {"x": [None, 6]}
    assert [row for row, *_ in failures(outcome)] == [1]
    outcome = run((None, MOST), (2, MOST), select=["(w + 1) % v AS x"], **APART)
    assert (outcome.rows.rows.to_pydict(), [row for row, *_ in failures(outcome)]) == ({"x": [None]}, [1])


@pytest.mark.parametrize(
    ("verb", "text"),
    [
        ({"select": ["v AS w", "v div w AS parts"]}, "v div w AS parts"),
        ({"filter": "v div w > 1"}, "the filter v div w > 1"),
    ],
    ids=["select", "filter"],
)
def test_without_dead_letters_the_first_row_is_the_error(verb: dict[str, Any], text: str) -> None:
    with pytest.raises(UserActionError, check=has_code("ExpressionFailedError")) as raised:
        run((4, 2), (5, 0), (6, 0), **verb)
    assert str(raised.value).startswith(
        f"step made: {text} can't be computed for this row: a division by zero. The row is"
    )
    assert '{"v":5,"w":0} (a/0, offset 8)' in str(raised.value)


def test_without_failures_nothing_is_put_aside() -> None:
    outcome = run((1, 2), (None, 0), select=["v + w AS sum"], **APART)
    assert (outcome.rows.rows.to_pydict(), list(outcome.failed)) == ({"sum": [3, None]}, [])


@given(st.lists(st.none() | st.sampled_from(["", "a", "b=1", "ab=2&a=3", "é=1", "b"]), max_size=40))
def test_texts_that_come_again_are_searched_as_each_alone(texts: list[str | None]) -> None:
    searches = {"extract": ["(?P<found>[a-z]=[0-9])"], "rlike": ["b=[0-9]"], "regexp_replace": ["[ab]", "c"]}
    for name, patterns in searches.items():
        search, scalars = TEXT_FUNCTIONS[name], list(map(pa.scalar, patterns))
        with patch.object(plain_texts, "_SAMPLE", 4):
            together = search(pa.array(texts, pa.string()), *scalars)
        assert together.to_pylist() == [
            value for text in texts for value in search(pa.array([text], pa.string()), *scalars).to_pylist()
        ]
