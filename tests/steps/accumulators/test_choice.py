"""min, max, min_by, max_by, first, last and any_value beside a walk over the rows, whatever cuts and merges."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import UserActionError
from holdfast.planning.aggregation import AggregateCall
from holdfast_runtime.steps.accumulators.accumulator import Accumulator
from holdfast_runtime.steps.accumulators.choice import MAKERS
from tests.error_codes import has_code
from tests.steps.accumulators.cuts import VALUES, array, cases, exact, gathered, grouped, rank, results

Rows = list[tuple[Any, ...]]
MAP = pa.map_(pa.string(), pa.int64())


def made(function: str, *types: pa.DataType, ignore_nulls: bool = False) -> Accumulator:
    call = AggregateCall(function, tuple("xy"[: len(types)]), ignore_nulls=ignore_nulls)
    return MAKERS[function](call, types)


def extreme(rows: Rows, *, largest: bool) -> Any:
    best: tuple[Any, ...] | None = None
    for row in rows:
        if row[-1] is None:
            continue
        if best is None or (rank(row[-1]) > rank(best[-1]) if largest else rank(row[-1]) < rank(best[-1])):
            best = row
    return None if best is None else best[0]


@pytest.mark.parametrize("name", VALUES)
@given(st.data())
def test_the_extreme_value_is_the_first_of_its_rank(name: str, data: st.DataObject) -> None:
    kind, values = VALUES[name]
    function = data.draw(st.sampled_from(["min", "max"]))
    case = data.draw(cases(values))
    chosen = case.run(made(function, kind), [kind], [values[-1]], data)
    expected = {key: extreme(rows, largest=function == "max") for key, rows in case.rows().items()}
    assert exact(chosen) == exact(expected)


@pytest.mark.parametrize("function", ["min_by", "max_by"])
@pytest.mark.parametrize(("x", "y"), [("texts", "doubles"), ("lists", "texts"), ("ints", "structs")])
@given(st.data())
def test_a_null_may_stand_beside_the_extreme_only(function: str, x: str, y: str, data: st.DataObject) -> None:
    (kind, values), (by, by_values) = VALUES[x], VALUES[y]
    case = data.draw(cases(values, by_values))
    chosen = case.run(made(function, kind, by), [kind, by], [values[-1], by_values[-1]], data)
    expected = {key: extreme(rows, largest=function == "max_by") for key, rows in case.rows().items()}
    assert exact(chosen) == exact(expected)


@given(st.data())
def test_calls_that_choose_alike_agree_with_each_alone(data: st.DataObject) -> None:
    kind, values = data.draw(st.sampled_from(list(VALUES.values())))
    keys = data.draw(st.lists(st.integers(0, 3), max_size=12))
    column = st.lists(st.none() | st.sampled_from(values), min_size=len(keys), max_size=len(keys))
    columns = data.draw(st.lists(column, min_size=1, max_size=2))
    masks = [None, *data.draw(st.lists(st.lists(st.booleans(), min_size=len(keys), max_size=len(keys)), max_size=2))]
    _, shared = grouped(keys)
    for _ in range(4):
        accumulator = made(data.draw(st.sampled_from(["min", "max"])), kind)
        compared = array(data.draw(st.sampled_from(columns)), kind, values[-1])
        mask = data.draw(st.sampled_from(masks))
        (chosen,) = accumulator.gather([compared], None if mask is None else np.array(mask, np.bool_), shared)
        (expected,) = gathered(accumulator, [compared], mask, keys).states
        assert exact(chosen.to_pylist()) == exact(expected.to_pylist())


def test_calls_over_one_column_choose_once() -> None:
    times = pa.array([3, 1, 2])
    _, groups = grouped([0, 1, 1])
    for value in ("a", "b"):
        made("max_by", pa.string(), pa.int64()).gather([pa.array([value] * 3), times], None, groups)
    assert [choice.rows.to_pylist() for choice in groups.chosen] == [[0, 2]]


@pytest.mark.parametrize("ignore_nulls", [False, True], ids=["nulls count", "nulls are passed over"])
@pytest.mark.parametrize("function", ["first", "last", "any_value"])
@given(st.data())
def test_the_ends_are_those_of_the_rows_that_count(function: str, ignore_nulls: bool, data: st.DataObject) -> None:
    kind, values = data.draw(st.sampled_from(list(VALUES.values())))
    case = data.draw(cases(values))
    chosen = case.run(made(function, kind, ignore_nulls=ignore_nulls), [kind], [values[-1]], data)
    expected = {}
    for key, rows in case.rows().items():
        candidates = [value for (value,) in rows if not (ignore_nulls and value is None)]
        expected[key] = candidates[-1 if function == "last" else 0] if candidates else None
    assert exact(chosen) == exact(expected)


def test_a_map_can_be_chosen_but_not_compared() -> None:
    maps = pa.array([[("a", 1)], None, [("b", 2)]], MAP)
    accumulator = made("max_by", MAP, pa.int64())
    part = gathered(accumulator, [maps, pa.array([1, 2, 3])], None, [0, 0, 0])
    assert results(accumulator, part) == {0: [("b", 2)]}
    for kinds in ([MAP], [pa.int64(), MAP], [pa.struct([("m", MAP)])]):
        with pytest.raises(
            UserActionError, match=r"can't compare column [xy], .*map<", check=has_code("AggregateTypeError")
        ):
            made("max" if len(kinds) == 1 else "max_by", *kinds)


def test_long_texts_that_begin_alike_are_compared_to_their_ends() -> None:
    texts = [f"{'a' * (n % 3)}{'é' * 300}{n:03d}" for n in range(200)]
    accumulator = made("max", pa.string())
    assert results(accumulator, gathered(accumulator, [pa.array(texts)], None, [0] * 200)) == {0: max(texts, key=rank)}
