"""Functions that count and compute beside Spark's own: types, scales, rounding, nulls, overflow."""

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from holdfast.planning.aggregation import split_compute
from holdfast.spec.steps import Aggregate
from holdfast_runtime.steps.accumulators.accumulator import RowGroups
from holdfast_runtime.steps.accumulators.functions import accumulator_for
from tests.steps.accumulators.test_numbers import FLOATS, NUMBERS

TYPES = {
    "tinyints": "TINYINT",
    "ints": "INT",
    "bigints": "BIGINT",
    "short decimals": "DECIMAL(5,2)",
    "decimals": "DECIMAL(20,3)",
    "long decimals": "DECIMAL(38,6)",
    "longest decimals": "DECIMAL(38,37)",
    "doubles": "DOUBLE",
    "floats": "FLOAT",
    "plain": "DOUBLE",
}
CALLS = (
    "try_sum(x)", "try_avg(x)", "stddev_samp(x)", "stddev_pop(x)", "var_samp(x)", "var_pop(x)",
    "count(x)", "count(*)", "count(x, b)", "count_if(b)", "bool_and(b)", "bool_or(b)",
)  # fmt: skip
GROUPS = 12


@pytest.mark.parametrize("name", TYPES)
def test_results_and_their_types_are_those_of_spark(name: str, spark: SparkSession) -> None:
    kind, values = {**NUMBERS, **FLOATS}[name]
    draw = random.Random(name)  # noqa: S311 - the same rows each time
    keys = sorted([draw.randrange(GROUPS - 2) for _ in range(60)] + [GROUPS - 2, GROUPS - 1, GROUPS - 1])
    drawn = [None if key == GROUPS - 2 else draw.choice([None, *values]) for key in keys]
    truths = [draw.choice([None, True, False]) for _ in keys]
    rows = list(zip(keys, pa.array(drawn, kind).to_pylist(), truths, strict=True))
    frame = spark.createDataFrame(rows, f"g INT, x {TYPES[name]}, b BOOLEAN")
    frame.createOrReplaceTempView("numbers")
    asked = spark.sql(f"SELECT g, {', '.join(CALLS)} FROM numbers GROUP BY g ORDER BY g")  # noqa: S608 - the test's own

    columns = {"g": pa.array(keys, pa.int32()), "x": pa.array(drawn, kind), "b": pa.array(truths)}
    compute = tuple(f"{call} AS c{at}" for at, call in enumerate(CALLS))
    parts = split_compute(Aggregate(by=("g",), compute=compute), list(columns))
    groups = RowGroups(np.arange(len(keys)), np.flatnonzero(np.diff(keys, prepend=-1)))
    found = []
    for call in parts.calls:
        arguments = [columns[argument] for argument in call.arguments]
        accumulator = accumulator_for(call, [argument.type for argument in arguments])
        result = accumulator.finish(accumulator.gather(arguments, None, groups))
        assert result.values.type == accumulator.result
        found.append(result.values)
    # Spark adds integers up as doubles for an average; it is off by what that rounds away, and we are not.
    rounded = 1e-15 * max(float(abs(value)) for value in values) if pa.types.is_integer(kind) else 0.0
    theirs = asked.collect()
    for at, text in enumerate(CALLS):
        assert asked.schema.fields[at + 1].dataType == _spark_type(found[at].type), text
        for row, value in zip(theirs, found[at].to_pylist(), strict=True):
            # Spark gives up where a sum overflows on its way, though the whole sum may fit.
            assert value == _close(row[at + 1], rounded) or (text.startswith("try_") and row[at + 1] is None), (
                text,
                row,
            )


def _spark_type(kind: pa.DataType) -> Any:
    from pyspark.sql.pandas.types import from_arrow_type  # noqa: PLC0415 - it needs pandas

    return from_arrow_type(kind)


def _close(value: Any, rounded: float) -> Any:
    return pytest.approx(value, rel=1e-9, abs=rounded, nan_ok=True) if isinstance(value, float) else value
