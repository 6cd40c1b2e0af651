"""collect_list, collect_set and count(DISTINCT ...) beside lists, whatever cuts, merges and hashes that meet."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.errors import UserActionError
from holdfast.planning.aggregation import AggregateCall
from holdfast_runtime.columns.key_columns import KeyColumns, Words
from holdfast_runtime.steps.accumulators.accumulator import Accumulator, TooManyValuesError
from holdfast_runtime.steps.accumulators.collected import MAKERS, CollectedValues
from tests.error_codes import has_code
from tests.steps.accumulators.cuts import VALUES, cases, exact, gathered, merged, rank, results

shared_fixture = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


def made(function: str, *types: pa.DataType) -> Accumulator:
    return MAKERS[function](AggregateCall(function, tuple("xyz"[: len(types)])), types)


def firsts(values: list[Any]) -> list[Any]:
    """The first of each set of equal values."""
    distinct: list[Any] = []
    for value in values:
        if not any(rank(value) == rank(other) for other in distinct):
            distinct.append(value)
    return distinct


@pytest.fixture(params=["their own hashes", "one hash for all"])
def hashes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also with hashes that tell nothing apart."""
    if request.param == "one hash for all":

        def colliding(self: KeyColumns) -> Words:
            return np.full(self.rows, 7, np.uint64)

        monkeypatch.setattr(KeyColumns, "hashes", colliding)


@given(st.data())
def test_a_list_has_the_values_in_the_order_they_came(data: st.DataObject) -> None:
    kind, values = data.draw(st.sampled_from(list(VALUES.values())))
    case = data.draw(cases(values))
    collected = case.run(made("collect_list", kind), [kind], [values[-1]], data)
    expected = {key: [value for (value,) in rows if value is not None] for key, rows in case.rows().items()}
    assert exact(collected) == exact(expected)


@pytest.mark.usefixtures("hashes")
@pytest.mark.parametrize("name", ["doubles", "decimals", "texts", "structs", "lists of structs", None])
@shared_fixture
@given(st.data())
def test_a_set_has_the_first_of_each_value(name: str | None, data: st.DataObject) -> None:
    kind, values = VALUES[name or data.draw(st.sampled_from(list(VALUES)))]
    case = data.draw(cases(values))
    collected = case.run(made("collect_set", kind), [kind], [values[-1]], data)
    expected = {key: firsts([value for (value,) in rows if value is not None]) for key, rows in case.rows().items()}
    assert exact(collected) == exact(expected)


@pytest.mark.usefixtures("hashes")
@pytest.mark.parametrize("names", [("doubles",), ("structs",), ("texts", "doubles"), ("lists", "bytes", "structs")])
@shared_fixture
@given(st.data())
def test_a_set_counts_equal_rows_once_and_no_nulls(names: tuple[str, ...], data: st.DataObject) -> None:
    types, values = [VALUES[name][0] for name in names], [VALUES[name][1] for name in names]
    case = data.draw(cases(*values))
    collected = case.run(made("count distinct", *types), types, [own[-1] for own in values], data)
    expected = {
        key: len(firsts([list(row) for row in rows if None not in [None if v is None else 0 for v in row]]))
        for key, rows in case.rows().items()
    }
    assert collected == expected


@pytest.mark.parametrize("distinct", [False, True])
def test_one_value_too_many_names_the_group(distinct: bool) -> None:
    accumulator = CollectedValues((pa.int64(),), distinct, most=3)
    values, keys = pa.array([1, 1, 2, 3, 4, 5, 6]), [0, 0, 0, 1, 1, 1, 1]
    full = gathered(accumulator, [values[:6]], None, keys[:6])
    with pytest.raises(TooManyValuesError) as gathering:
        gathered(accumulator, [values], None, keys)
    assert (gathering.value.group, gathering.value.most) == (1, 3)
    with pytest.raises(TooManyValuesError) as merging:
        merged(accumulator, [full, gathered(accumulator, [values[6:]], None, keys[6:])])
    assert (merging.value.group, merging.value.most) == (1, 3)


def test_equal_values_do_not_fill_a_set() -> None:
    accumulator = CollectedValues((pa.int64(),), distinct=True, counts=True, most=2)
    part = gathered(accumulator, [pa.array([1, 2] * 50)], None, [0] * 100)
    assert results(accumulator, merged(accumulator, [part, part])) == {0: 2}


def test_ten_thousand_values_are_kept_and_no_more() -> None:
    accumulator = made("count distinct", pa.int64())
    assert results(accumulator, gathered(accumulator, [pa.array(range(10_000))], None, [0] * 10_000)) == {0: 10_000}
    with pytest.raises(TooManyValuesError):
        gathered(accumulator, [pa.array(range(10_001))], None, [0] * 10_001)


def test_maps_are_collected_but_not_told_apart() -> None:
    kind = pa.map_(pa.string(), pa.int64())
    accumulator = made("collect_list", kind)
    part = gathered(accumulator, [pa.array([[("a", 1)], None], kind)], None, [0, 0])
    assert results(accumulator, part) == {0: [[("a", 1)]]}
    with pytest.raises(UserActionError, match="column x", check=has_code("AggregateTypeError")):
        made("collect_set", kind)
