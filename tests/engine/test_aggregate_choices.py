"""Functions that choose or collect values beside Spark's own: NaN, signed zeros, decimals, texts, structs, arrays."""

import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from holdfast.planning.aggregation import AggregateCall
from holdfast_runtime.steps.accumulators import choice, collected
from tests.steps.accumulators.cuts import VALUES, exact, gathered, rank, results

MAKERS = {**choice.MAKERS, **collected.MAKERS}
TYPES = {
    "doubles": "DOUBLE",
    "floats": "FLOAT",
    "texts": "STRING",
    "bytes": "BINARY",
    "decimals": "DECIMAL(18,2)",
    "long decimals": "DECIMAL(38,0)",
    "structs": "STRUCT<a: DOUBLE, b: STRING>",
    "lists": "ARRAY<BIGINT>",
    "lists of texts": "ARRAY<STRING>",
}
QUERY = (
    "SELECT g, min(x), max(x), min_by(n, x), max_by(n, x), collect_set(x), count(DISTINCT x), count(DISTINCT x, h) "
    "FROM choices GROUP BY g"
)
GROUPS, ROWS = 20, 300


@pytest.fixture(scope="module")
def spark(small_spark: SparkSession) -> SparkSession:
    small_spark.conf.set("spark.sql.shuffle.partitions", "1")
    return small_spark


def ours(function: str, keys: Sequence[int], *columns: pa.Array) -> dict[int, Any]:
    accumulator = MAKERS[function](AggregateCall(function, tuple("xy"[: len(columns)])), [c.type for c in columns])
    return results(accumulator, gathered(accumulator, columns, None, keys))


@pytest.mark.parametrize("name", TYPES)
def test_values_are_chosen_and_told_apart_as_by_spark(name: str, spark: SparkSession) -> None:
    kind, values = VALUES[name]
    draw = random.Random(name)  # noqa: S311 - the same rows each time
    keys = [draw.randrange(GROUPS - 1) for _ in range(ROWS)] + [GROUPS] * 2
    drawn = [draw.choice([None, *values]) for _ in range(ROWS)] + [None] * 2
    halves = [draw.choice([None, 0, 1]) for _ in keys]
    column, numbers = pa.array(drawn, kind), pa.array(range(len(keys)))
    plain = [tuple(value.values()) if isinstance(value, dict) else value for value in column.to_pylist()]
    rows = list(zip(keys, range(len(keys)), halves, plain, strict=True))
    frame = spark.createDataFrame(rows, f"g INT, n BIGINT, h INT, x {TYPES[name]}")
    frame.createOrReplaceTempView("choices")
    spark_results = {row[0]: [_plain(value) for value in row[1:]] for row in spark.sql(QUERY).collect()}

    smallest, largest = ours("min", keys, column), ours("max", keys, column)
    first, last = ours("min_by", keys, numbers, column), ours("max_by", keys, numbers, column)
    sets, counts = ours("collect_set", keys, column), ours("count distinct", keys, column)
    pairs = ours("count distinct", keys, column, pa.array(halves, pa.int32()))
    assert set(spark_results) == set(smallest)
    for key, (least, most, at_least, at_most, members, count, pair_count) in spark_results.items():
        assert _rank(smallest[key]) == _rank(least)
        assert _rank(largest[key]) == _rank(most)
        assert [_rank(_at(drawn, place)) for place in (first[key], last[key])] == [
            _rank(_at(drawn, place)) for place in (at_least, at_most)
        ]
        assert sorted(map(rank, sets[key])) == sorted(map(rank, members)), exact(members)
        assert (counts[key], pairs[key]) == (count, pair_count)


def _plain(value: Any) -> Any:
    """Spark's values as Arrow gives them."""
    if hasattr(value, "asDict"):
        return value.asDict()
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return bytes(value) if isinstance(value, bytearray) else value


def _rank(value: Any) -> Any:
    return None if value is None else rank(value)


def _at(values: list[Any], place: int | None) -> Any:
    return None if place is None else values[place]
