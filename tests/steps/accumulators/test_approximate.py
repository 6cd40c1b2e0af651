"""approx_count_distinct: exact while few, within its error when many, and the same bytes whatever cuts and merges."""

import hashlib
import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import UserActionError
from holdfast.planning.aggregation import AggregateCall
from holdfast_runtime.steps.accumulators.accumulator import RowGroups
from holdfast_runtime.steps.accumulators.approximate import MAKERS, ApproximateCount
from tests.error_codes import has_code
from tests.steps.accumulators.cuts import VALUES, cases, gathered, merged, nested, rank, results

SEEDED, AT_ONCE = 1_500, 100


def made(kind: pa.DataType, error: float | None = None) -> ApproximateCount:
    accumulator = MAKERS["approx_count_distinct"](AggregateCall("approx_count_distinct", ("x",), error=error), [kind])
    assert isinstance(accumulator, ApproximateCount)
    return accumulator


@given(st.data())
def test_few_values_are_counted_exactly(data: st.DataObject) -> None:
    kind, values = data.draw(st.sampled_from(list(VALUES.values())))
    case = data.draw(cases(values))
    expected: dict[int, Any] = {}
    for key, rows in case.rows().items():
        expected[key] = len({repr(rank(value)) for (value,) in rows if value is not None})
    assert case.run(made(kind), [kind], [values[-1]], data) == expected


@given(st.data())
def test_the_same_rows_leave_the_same_bytes_in_any_cut(data: st.DataObject) -> None:
    accumulator = made(pa.int64(), 0.3)
    numbers = data.draw(st.lists(st.integers(0, 40), min_size=1, max_size=60))
    keys = [number % 3 for number in numbers]
    bounds = sorted({0, len(numbers), *data.draw(st.lists(st.integers(0, len(numbers)), max_size=5))})
    parts = [
        gathered(accumulator, [pa.array(numbers[start:end], pa.int64())], None, keys[start:end])
        for start, end in itertools.pairwise(bounds)
    ]
    assert nested(accumulator, parts, data) == gathered(accumulator, [pa.array(numbers)], None, keys)


@pytest.mark.parametrize("error", [0.02, 0.05, 0.2])
@pytest.mark.parametrize("many", [30, 65, 512, 1_300, 5_000])
def test_99_of_100_estimates_are_within_three_times_the_error(error: float, many: int) -> None:
    accumulator = made(pa.int64(), error)
    random = np.random.default_rng(many)
    groups = RowGroups(np.arange(many * AT_ONCE), np.arange(0, many * AT_ONCE, many))
    estimates: list[int] = []
    while len(estimates) < SEEDED:
        values = pa.array(random.integers(0, 2**62, many * AT_ONCE))
        estimates += accumulator.finish(accumulator.gather([values], None, groups)).values.to_pylist()
    off = np.array(estimates) / many - 1
    assert (np.abs(off) <= 3 * error).mean() >= 0.99
    assert abs(off.mean()) < error / 8, "estimates lean to one side"


@pytest.mark.parametrize("kind", [pa.string(), pa.float64(), pa.list_(pa.int64())])
def test_values_of_other_types_are_spread_as_well(kind: pa.DataType) -> None:
    numbers = range(20_000)
    values: list[Any] = [[n] for n in numbers] if pa.types.is_list(kind) else [str(n) for n in numbers]
    column = pa.array(values, kind) if not pa.types.is_floating(kind) else pa.array(map(float, numbers))
    accumulator = made(kind)
    (estimate,) = results(accumulator, gathered(accumulator, [column], None, [0] * 20_000)).values()
    assert abs(estimate / 20_000 - 1) < 0.15


def test_a_sketch_of_many_values_has_its_registers_size() -> None:
    accumulator = made(pa.int64())
    parts = [gathered(accumulator, [pa.array(range(n, n + 3_000))], None, [0] * 3_000) for n in range(0, 60_000, 3_000)]
    whole = merged(accumulator, parts)
    assert {len(part.states[0][0].as_py()) for part in (*parts, whole)} == {512}
    assert abs(results(accumulator, whole)[0] / 60_000 - 1) < 0.15


@pytest.mark.parametrize(("error", "bits"), [(None, 9), (0.05, 9), (0.01, 14), (0.39, 4), (0.0022, 18)])
def test_the_error_decides_the_size_as_in_spark(error: float | None, bits: int) -> None:
    assert made(pa.int64(), error).bits == bits


@pytest.mark.parametrize("error", [0.0, -1.0, 0.0001, 0.4, 2.0])
def test_an_error_that_no_sketch_has_is_refused(error: float) -> None:
    with pytest.raises(
        UserActionError, match=r"choose one from 0\.0022 to 0\.39", check=has_code("AggregateArgumentError")
    ):
        made(pa.int64(), error)


@pytest.mark.parametrize(("many", "digest"), [(3, "774b2516e3b88e0f"), (1_000, "68300197bddaefe4")])
def test_the_bytes_that_are_stored_stay_the_same(many: int, digest: str) -> None:
    column = pa.array([None, *range(many)], pa.int64())
    part = gathered(made(pa.int64()), [column], None, [0] * (many + 1))
    assert hashlib.sha256(part.states[0][0].as_py()).hexdigest()[:16] == digest
