"""Each aggregate function gives the result that Spark gives, in Spark's type.

The table has a row for each call. All run over the same rows in one query of Spark's, and over batches of these rows in
accumulators.
"""

import datetime as dt
import math
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import ArithmeticException
from pyspark.sql import SparkSession

from holdfast.planning.aggregation import AggregateCall
from holdfast_runtime.steps.accumulators.functions import accumulator_for
from tests.codecs.schemas import schema
from tests.steps.accumulators.cuts import FAILED, Case

COLUMNS = schema(
    "k INT, tiny TINYINT, small SMALLINT, whole INT, big BIGINT, single FLOAT, number DOUBLE, price DECIMAL(10,2), "
    "fine DECIMAL(38,34), huge DECIMAL(38,0), even DECIMAL(22,18), yes BOOLEAN, text STRING, day DATE, at TIMESTAMP"
)
DAY, TIME = dt.date(2024, 2, 29), dt.datetime(1969, 12, 31, 23, 59, 59, 999999, dt.UTC)
ROWS: list[tuple[Any, ...]] = [
    # 1: several rows, some nulls
    (1, 127, -32768, 2**31 - 1, 2**53, 0.1, 0.1, "0.05", "0.9", "7", "0.1", True, "b", DAY, TIME),
    (1, 127, -32768, 2**31 - 1, 3, 0.25, 0.2, "-0.07", "0.0000000000000000000000000000000001", "8", "0.2", None, "a",
     None, TIME.replace(year=2024)),
    (1, None, 5, None, -7, None, 0.3, None, "-0.15", "-1", None, False, None, DAY.replace(day=1), None),
    (1, -3, 7, 1, 1, 1e30, -7.5, "99999999.99", None, "5", "0.000000000000000001", True, "b", DAY, TIME),
    # 2: one row
    (2, 1, 2, 3, 4, 0.5, -0.0, "0.01", "0.3333333333333333333333333333333333", "1", "0.5", False, "", DAY, TIME),
    # 3: nulls only
    (3, *[None] * 14),
    (3, *[None] * 14),
    # 4: NaN; decimals that round to even or up
    (4, 1, 1, 1, 1, math.nan, math.nan, "0.01", "1e-34", "1", "0.000000000000000001", None, "x", None, None),
    (4, 2, 2, 2, 2, math.inf, 1.0, "0.02", "2e-34", "2", "0.000000000000000002", True, "x", None, None),
    (4, 2, 2, 2, 2, -math.inf, math.inf, "0.02", "2e-34", "2", "0.000000000000000002", True, "x", None, None),
    # 5: an infinity, zeros of both signs, equal values
    (5, 0, 0, 0, 0, math.inf, -math.inf, "0", "0", "0", "-0.1", True, "é", DAY, TIME),
    (5, 0, 0, 0, 0, -0.0, 5.0, "0", "0", "0", "-0.1", True, "z", DAY, TIME),
    (5, 0, 0, 0, 0, 0.0, 5.0, "0", "0", "0", "-0.1", True, "Z", DAY, TIME),
    # 6: sums beyond BIGINT and DECIMAL(38)
    (6, 1, 1, 1, 2**63 - 1, 3e38, 1e308, "1", "9999", "9" * 38, "9999", True, "x", DAY, TIME),
    (6, 1, 1, 1, 2**63 - 1, 3e38, 1e308, "1", "9999", "9" * 38, "9999", True, "x", DAY, TIME),
]  # fmt: skip
ROWS += [(7, 1, 1, 1, 1, 0.1, 0.1, "1", "13e-34", "1", "1", True, "x", DAY, TIME)]
ROWS += [(7, 1, 1, 1, 1, 0.1, 0.1, "2", "0", "1", "0", True, "x", DAY, TIME)] * 20
"""Their mean of `fine` ends with 0.476 of the last digit, which would become 1 if it were rounded by way of 0.5."""
ORDINARY, BEYOND = (1, 2, 3, 4, 5, 7), 6
"""Keys that no function fails for, and one that some do."""
NUMBERS = ("tiny", "small", "whole", "big", "single", "number", "price", "fine", "huge", "even")


@dataclass(frozen=True, slots=True)
class FunctionCase:
    """A call as Spark's SQL has it, and the call that the planner makes of it."""

    sql: str
    call: AggregateCall

    @classmethod
    def of(cls, function: str, *columns: str) -> "FunctionCase":
        return cls(f"{function}({', '.join(columns) or '*'})", AggregateCall(function, columns))


CASES = [
    FunctionCase.of("count"),
    FunctionCase.of("count", "text"),
    FunctionCase.of("count", "tiny", "day", "yes"),
    FunctionCase.of("count_if", "yes"),
    FunctionCase("count(big) FILTER (WHERE yes)", AggregateCall("count", ("big",), "yes")),
    FunctionCase("sum(big) FILTER (WHERE yes)", AggregateCall("sum", ("big",), "yes")),
    FunctionCase("avg(number) FILTER (WHERE yes)", AggregateCall("avg", ("number",), "yes")),
    FunctionCase("var_pop(price) FILTER (WHERE yes)", AggregateCall("var_pop", ("price",), "yes")),
    FunctionCase.of("bool_and", "yes"),
    FunctionCase.of("bool_or", "yes"),
    *(
        FunctionCase.of(function, column)
        for function in ("sum", "try_sum", "avg", "try_avg", "stddev_samp", "stddev_pop", "var_samp", "var_pop")
        for column in NUMBERS
    ),
]


@pytest.fixture(scope="module")
def small(small_spark: SparkSession) -> SparkSession:
    small_spark.createDataFrame(table()).createOrReplaceTempView("rows_to_aggregate")
    return small_spark


@pytest.fixture(scope="module")
def of_spark(small: SparkSession) -> pa.Table:
    """The result of each case, a column each, in the order of the keys."""
    items = ", ".join(f"{case.sql} AS c{number}" for number, case in enumerate(CASES))
    query = f"SELECT k, {items} FROM rows_to_aggregate WHERE k IN {ORDINARY} GROUP BY k"  # noqa: S608 - the table above
    return small.sql(query).toArrow().sort_by("k")


@pytest.mark.parametrize(("number", "case"), [*enumerate(CASES)], ids=[case.sql for case in CASES])
def test_results_and_types_are_those_of_spark(of_spark: pa.Table, number: int, case: FunctionCase) -> None:
    kinds = [COLUMNS.field(column).type for column in case.call.arguments]
    expected = of_spark.column(f"c{number}")
    assert accumulator_for(case.call, kinds).result == expected.type
    for cut in range(4):
        assert results(case.call, ORDINARY, cut) == [alike(one) for one in expected.to_pylist()]


@pytest.mark.parametrize("function", ["sum", "avg"])
@pytest.mark.parametrize("column", ["big", "fine", "huge", "even", "number"])
def test_a_result_that_does_not_fit_fails_where_spark_raises(small: SparkSession, function: str, column: str) -> None:
    query = "SELECT {}({}) FROM rows_to_aggregate WHERE k = {}"
    (lenient,) = small.sql(query.format(f"try_{function}", column, BEYOND)).toArrow().column(0).to_pylist()
    assert results(AggregateCall(f"try_{function}", (column,)), (BEYOND,), 0) == [alike(lenient)]
    try:
        (expected,) = small.sql(query.format(function, column, BEYOND)).toArrow().column(0).to_pylist()
    except ArithmeticException:
        expected = FAILED
    assert (expected == FAILED) == (lenient is None)
    assert results(AggregateCall(function, (column,)), (BEYOND,), 0) == [alike(expected)]


def alike(value: Any) -> Any:
    return pytest.approx(value, rel=1e-9, nan_ok=True) if isinstance(value, float) else value


def table() -> pa.Table:
    columns = []
    for field, values in zip(COLUMNS, zip(*ROWS, strict=True), strict=True):
        decimal = pa.types.is_decimal(field.type)
        columns.append(pa.array([Decimal(one) if decimal and one is not None else one for one in values], field.type))
    return pa.Table.from_arrays(columns, schema=COLUMNS)


def results(call: AggregateCall, keys: tuple[int, ...], cut: int) -> list[Any]:
    """The results of a call for these keys, over batches cut at random."""
    rows = [row for row in table().to_pylist() if row["k"] in keys]
    counted = None if call.condition is None else [bool(row[call.condition]) for row in rows]
    columns = [[row[column] for row in rows] for column in call.arguments]
    kinds = [COLUMNS.field(column).type for column in call.arguments]
    junk = [next((value for value in column if value is not None), None) for column in columns]
    draw = Random(cut)  # noqa: S311 - cuts are no secret
    ends = sorted(draw.randint(0, len(rows)) for _ in range(draw.randint(0, 4)))
    batches = [end - start for start, end in pairwise([0, *ends, len(rows)])]
    case = Case([row["k"] for row in rows], columns, counted, batches)
    return list(case.run(accumulator_for(call, kinds), kinds, junk, draw).values())
