"""An aggregate taken apart gives what Spark gives for it in one piece: columns, types and values."""

from datetime import datetime

import pytest
from pyspark.sql import DataFrame, SparkSession

from holdfast.planning.aggregation import AggregateCall, Aggregation, split_compute
from holdfast.spec.steps import Aggregate

SCHEMA = "k STRING, a INT, b DOUBLE, ok BOOLEAN, ts TIMESTAMP, st STRUCT<f: STRING, g: INT>, tags ARRAY<STRING>"
ROWS = [
    ("x", 1, 2.5, True, datetime(2026, 1, 1), ("p", 3), ["a"]),  # noqa: DTZ001 - a session of Spark says the zone
    ("x", None, 1.5, False, datetime(2026, 1, 2), ("q", 4), ["b"]),  # noqa: DTZ001
    ("x", 3, -1.0, None, None, None, None),
    ("y", 5, None, True, datetime(2026, 1, 3), ("r", None), ["c", "d"]),  # noqa: DTZ001
]

CALLS = """
count(*) | count(a) | count(1, A) | count(DISTINCT a, b) | count(NULL) | count_if(ok) | sum(2L) | avg(1.5BD) | max(-1)
first(a, true) | last(b) IGNORE NULLS | any_value(ok) FILTER (WHERE ok) IGNORE NULLS | max_by(st.f, ts) | every(ok)
approx_count_distinct(a, 0.02) | collect_list(a) | array_sort(collect_set(DISTINCT b)) | std(b) | variance(b) | some(ok)
sum(a * 2) FILTER (WHERE b > 0 AND ok) | sum(CAST(a AS DECIMAL(10, 2)))
"""
AROUND = """
sum(a) / count(*) | round(avg(b), 2) | max(struct(ts, b)).b | upper(K) | transform(collect_list(a), x -> x + 1)
date_add(HOUR, count(*), max(ts)) | max(ts) > TIMESTAMP '2026-01-01' | max(st).f
max(named_struct('f', a, 'odd name', b)).`odd name`
"""
SPELLINGS = """
max(date_add(DAY, 1, ts)) | max('it\\'s') | min(r'\\d') | max(X'1F') | max(INTERVAL 1 DAY * a) | max(tags[0] || 'x')
sum(aggregate(array(a, 1), 0, (s, x) -> s + coalesce(x, 0))) | max(CASE WHEN a > 1 THEN 'x' ELSE "y" END)
max(position('b' in tags[0])) | max(a IS NOT DISTINCT FROM 3) | min(extract(DAY FROM ts)) | max(a & 1) | max(a << 2)
max(substring(k from 1 for 1)) | max(try_cast('x' AS INT)) | max(st.g::bigint) | sum(if(ok, 1, 0))
"""


def items_of(text: str) -> tuple[str, ...]:
    """The expressions of a text, each with a name."""
    texts = (item for line in text.split("\n") if line for item in line.split(" | "))
    return tuple(f"{item} AS c{at}" for at, item in enumerate(texts))


def written(call: AggregateCall) -> str:
    """A call as Spark computes it over columns."""
    arguments = ", ".join(f"`{name}`" for name in call.arguments) or "*"
    error = "" if call.error is None else f", {call.error}"
    condition = "" if call.condition is None else f" FILTER (WHERE `{call.condition}`)"
    nulls = " IGNORE NULLS" if call.ignore_nulls else ""
    return f"{call.function}({'DISTINCT ' if call.distinct else ''}{arguments}{error}){condition}{nulls}"


def computed(rows: DataFrame, parts: Aggregation) -> DataFrame:
    """What the parts give one after the other, with Spark in the place of the step."""
    frame = rows.selectExpr(*parts.before) if parts.before else rows
    calls = [f"{written(call)} AS `{name}`" for call, name in zip(parts.calls, parts.results, strict=True)]
    results = rows.sparkSession.sql(f"SELECT k, {', '.join(calls)} FROM {{given}} GROUP BY k ORDER BY k", given=frame)  # noqa: S608
    return results.selectExpr(*parts.after) if parts.after else results


@pytest.mark.parametrize("text", [CALLS, AROUND, SPELLINGS, CALLS + AROUND + SPELLINGS])
@pytest.mark.parametrize("carry", [False, True])
def test_the_parts_give_what_the_whole_gives(spark: SparkSession, text: str, carry: bool) -> None:
    rows = spark.createDataFrame(ROWS, SCHEMA).coalesce(1)
    items = items_of(text)
    whole = spark.sql(f"SELECT k, {', '.join(items)} FROM {{rows}} GROUP BY k ORDER BY k", rows=rows)  # noqa: S608
    parts = computed(rows, split_compute(Aggregate(by=("k",), compute=items), rows.columns, carry=carry))
    assert [(one.name, one.dataType) for one in parts.schema] == [(one.name, one.dataType) for one in whole.schema]
    assert parts.collect() == whole.collect()
