"""Counts, sums, averages, spreads and agreements beside exact arithmetic over the rows, whatever cuts and merges."""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import ROUND_HALF_UP, Context, Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import UserActionError
from holdfast.planning.aggregation import FUNCTIONS, AggregateCall
from holdfast_runtime.steps.accumulators.accumulator import Accumulator, RowGroups
from holdfast_runtime.steps.accumulators.functions import MAKERS, accumulator_for
from tests.error_codes import has_code
from tests.steps.accumulators.cuts import NAN, Case, cases

NUMBERS: dict[str, tuple[pa.DataType, Sequence[Any]]] = {
    "tinyints": (pa.int8(), (-128, -1, 0, 1, 127)),
    "ints": (pa.int32(), (-(2**31), -1, 0, 7, 2**31 - 1)),
    "bigints": (pa.int64(), (-(2**63), -(2**62), -1, 0, 1, 2**62, 2**63 - 1)),
    "short decimals": (pa.decimal128(5, 2), tuple(map(Decimal, ("-999.99", "-0.01", "0.00", "0.01", "999.99")))),
    "decimals": (pa.decimal128(20, 3), tuple(map(Decimal, ("-99999999999999999.999", "0.001", "18446744073.709")))),
    "long decimals": (pa.decimal128(38, 6), tuple(map(Decimal, ("9" * 32 + ".999999", "-" + "9" * 32, "0.000001")))),
    "longest decimals": (pa.decimal128(38, 37), tuple(map(Decimal, ("9.5", "-9.5", "0.1", "0." + "0" * 36 + "1")))),
}
FLOATS: dict[str, tuple[pa.DataType, Sequence[Any]]] = {
    "doubles": (pa.float64(), (NAN, 0.0, -0.0, 1.5, -1.25, 1e10, math.inf, -math.inf)),
    "floats": (pa.float32(), (0.5, -0.0, 2.0, -3.25)),
    "plain": (pa.float64(), (0.5, -7.0, 1e6, 1e6 + 1, 3.0)),
}
EXACT = Context(prec=90)


def made(function: str, *types: pa.DataType, distinct: bool = False) -> Accumulator:
    return accumulator_for(AggregateCall(function, tuple("xyz"[: len(types)]), distinct=distinct), types)


def expected(case: Case, function: Callable[[list[Any]], Any]) -> dict[int, Any]:
    return {key: function([row[0] for row in rows if row[0] is not None]) for key, rows in case.rows().items()}


def most(kind: pa.DataType, result: pa.DataType) -> tuple[int, int]:
    """The largest unscaled value of a result, and how many digits it has behind the point more than the argument."""
    if pa.types.is_decimal(result):
        return 10**result.precision - 1, result.scale - kind.scale
    return 2**63 - 1, 0


@pytest.mark.parametrize("name", NUMBERS)
@given(st.data())
def test_sums_are_exact_and_null_where_try_finds_none(name: str, data: st.DataObject) -> None:
    kind, values = NUMBERS[name]
    case = data.draw(cases(values))
    accumulator = made("try_sum", kind)
    limit, _ = most(kind, accumulator.result)
    least = -limit if pa.types.is_decimal(kind) else -limit - 1

    def total(rows: list[Any]) -> Any:
        if not rows:
            return None
        scale = 10**kind.scale if pa.types.is_decimal(kind) else 1
        scaled = sum(int(EXACT.multiply(Decimal(one), Decimal(scale))) for one in rows)
        if not least <= scaled <= limit:
            return None
        return EXACT.divide(Decimal(scaled), Decimal(scale)) if pa.types.is_decimal(kind) else scaled

    assert case.run(accumulator, [kind], [values[-1]], data) == expected(case, total)


@pytest.mark.parametrize("name", NUMBERS)
@given(st.data())
def test_averages_round_half_up_and_are_doubles_for_integers(name: str, data: st.DataObject) -> None:
    kind, values = NUMBERS[name]
    case = data.draw(cases(values))
    accumulator = made("try_avg", kind)
    averages = case.run(accumulator, [kind], [values[-1]], data)

    def mean(rows: list[Any]) -> Any:
        if not rows:
            return None
        exactly = sum((Fraction(one) for one in rows), Fraction(0)) / len(rows)
        if not pa.types.is_decimal(kind):
            return pytest.approx(float(exactly), rel=1e-12, abs=1e-9)
        with localcontext(prec=120):
            quotient = Decimal(exactly.numerator) / Decimal(exactly.denominator)
            rounded = quotient.quantize(Decimal(1).scaleb(-accumulator.result.scale), ROUND_HALF_UP)
            beyond = abs(rounded) >= Decimal(10) ** (accumulator.result.precision - accumulator.result.scale)
            return None if beyond else rounded

    assert averages == expected(case, mean)


@pytest.mark.parametrize("function", ["sum", "avg"])
@pytest.mark.parametrize("name", FLOATS)
@given(st.data())
def test_sums_of_floats_are_those_of_their_values(function: str, name: str, data: st.DataObject) -> None:
    kind, values = FLOATS[name]
    case = data.draw(cases(values))

    def total(rows: list[Any]) -> Any:
        if not rows:
            return None
        figure = sum(rows) if function == "sum" else sum(rows) / len(rows)
        return pytest.approx(figure, rel=1e-9, nan_ok=True)

    assert case.run(made(function, kind), [kind], [values[-1]], data) == expected(case, total)


SPREADS: dict[str, Callable[[float, int], float | None]] = {
    "var_pop": lambda squares, n: squares / n,
    "stddev_pop": lambda squares, n: math.sqrt(squares / n),
    "var_samp": lambda squares, n: squares / (n - 1) if n > 1 else None,
    "stddev_samp": lambda squares, n: math.sqrt(squares / (n - 1)) if n > 1 else None,
}


@pytest.mark.parametrize("function", SPREADS)
@pytest.mark.parametrize("name", ["plain", "ints", "short decimals"])
@given(st.data())
def test_spreads_are_those_of_exact_arithmetic(function: str, name: str, data: st.DataObject) -> None:
    kind, values = {**NUMBERS, **FLOATS}[name]
    case = data.draw(cases(values))

    def spread(rows: list[Any]) -> Any:
        if not rows:
            return None
        exactly = [Fraction(one) for one in rows]
        mean = sum(exactly, Fraction(0)) / len(rows)
        figure = SPREADS[function](float(sum((one - mean) ** 2 for one in exactly)), len(rows))
        return None if figure is None else pytest.approx(figure, rel=1e-9, abs=1e-12)

    assert case.run(made(function, kind), [kind], [values[-1]], data) == expected(case, spread)


@given(st.data())
def test_counts_leave_out_rows_with_a_null_in_any_argument(data: st.DataObject) -> None:
    case = data.draw(cases((1, 2), ("a", "b")))
    counts = case.run(made("count", pa.int64(), pa.string()), [pa.int64(), pa.string()], [7, "j"], data)
    assert counts == {key: sum(None not in row for row in rows) for key, rows in case.rows().items()}
    everything = replace(case, columns=[])
    assert everything.run(made("count"), [], [], data) == {key: len(rows) for key, rows in case.rows().items()}


@pytest.mark.parametrize(
    ("function", "says"),
    [("bool_and", all), ("bool_or", any), ("count_if", sum)],
)
@given(st.data())
def test_booleans_agree(function: str, says: Callable[[list[bool]], Any], data: st.DataObject) -> None:
    case = data.draw(cases((True, False)))
    answers = case.run(made(function, pa.bool_()), [pa.bool_()], [True], data)
    assert answers == expected(case, lambda rows: says(rows) if rows or function == "count_if" else None)


@pytest.mark.parametrize(
    ("kind", "values", "why"),
    [
        (pa.int64(), [2**63 - 1, 1], "is more than BIGINT holds, 9223372036854775807"),
        (pa.int64(), [-(2**63), -1], "is more than BIGINT holds"),
        (pa.decimal128(38, 0), [Decimal("9" * 38), Decimal(1)], r"is more than DECIMAL\(38,0\) holds"),
    ],
)
def test_a_sum_that_overflows_says_what_it_is_more_than(kind: pa.DataType, values: list[Any], why: str) -> None:
    accumulator = made("sum", kind)
    groups = RowGroups(np.arange(3), np.array([0, 2]))
    states = accumulator.gather([pa.array([*values, values[1]], kind)], None, groups)
    finished = accumulator.finish(states)
    assert finished.failed is not None
    assert finished.failed.tolist() == [True, False]
    assert finished.values.to_pylist() == [None, values[1]]
    assert re.match(why, finished.why)


def test_every_function_of_the_planner_has_an_accumulator() -> None:
    assert set(MAKERS) - {"count distinct"} == set(FUNCTIONS)


@pytest.mark.parametrize("function", ["sum", "avg", "stddev_samp", "bool_and"])
def test_a_type_a_function_does_not_take_is_refused(function: str) -> None:
    with pytest.raises(UserActionError, match=f"{function}.x.: a string can't", check=has_code("AggregateTypeError")):
        made(function, pa.string())
