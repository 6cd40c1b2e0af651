"""Plain expressions fail on the rows on which Spark SQL fails, and give all others what it gives."""

import random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as PySpark names it

from holdfast.planning.sql.plain.expressions import can_fail
from holdfast.planning.sql.plain.reading import plain_select
from holdfast_runtime.segments.catalyst import VALUE, Catalyst
from holdfast_runtime.steps.plain.plain_failures import FailingRows
from holdfast_runtime.steps.plain.plain_sql import computed_column, plain_kinds
from tests.segments.drawn_expressions import failing, given, guarded

EXPRESSIONS, GUARDED = 200, 60


def test_rows_fail_as_in_spark_and_others_have_its_values(spark: SparkSession) -> None:
    draw, rows = random.Random(20261127), given()  # noqa: S311
    drawn = (failing(draw) for _ in range(EXPRESSIONS * 3))
    texts = [text for text in drawn if _may_fail(text, rows)]
    assert len(texts) >= EXPRESSIONS
    check_like_spark(spark, rows, texts)


def test_guards_keep_rows_from_failing_as_in_spark(spark: SparkSession) -> None:
    draw, rows = random.Random(20261128), given()  # noqa: S311
    texts = [text for text in (guarded(draw) for _ in range(GUARDED * 3)) if _may_fail(text, rows)]
    assert len(texts) >= GUARDED
    check_like_spark(spark, rows, texts)


def test_a_guarded_division_is_computed_without_a_second_try() -> None:
    rows = pa.RecordBatch.from_pydict({"v": [6, 6, None], "w": [2, 0, 0]})
    for text in (
        "CASE WHEN w <> 0 THEN v div w ELSE 0 END",
        "if(w = 0, 0, v div w)",
        "coalesce(v, 0) div nullif(w, 0)",
    ):
        (expression,) = plain_select([f"{text} AS c"], plain_kinds(rows.schema)) or ()
        computed = computed_column(rows, expression, pa.int64())
        assert computed.to_pylist() == [3, None if "nullif" in text else 0, None if "nullif" in text else 0]


def test_moments_fail_at_both_ends_as_in_spark(spark: SparkSession) -> None:
    first, last, day = -(2**63), 2**63 - 1, 86_400_000_000
    near = [0, 1, day // 24, day // 2, day, 6 * day, 7 * day, 30 * day, 92 * day, 365 * day, 366 * day, 146_097 * day]
    micros = [*(first + more for more in near), *(last - less for less in near), 0, None]
    rows = pa.RecordBatch.from_pydict({"at": pa.array(micros, pa.int64()).cast(pa.timestamp("us", "UTC"))})
    units = ("second", "minute", "hour", "day", "week", "month", "quarter", "year")
    texts = [f"date_trunc('{unit}', at)" for unit in units]
    texts += [f"at {sign} INTERVAL 1 {unit}" for sign in "+-" for unit in ("SECOND", "MINUTE", "HOUR", "DAY")]
    check_like_spark(spark, rows, texts)


def _may_fail(text: str, rows: pa.RecordBatch) -> bool:
    made = plain_select([f"{text} AS c"], plain_kinds(rows.schema))
    return made is not None and can_fail(made[0])


def check_like_spark(spark: SparkSession, rows: pa.RecordBatch, texts: list[str]) -> None:
    """Compare what expressions give, row by row: nothing where they fail."""
    items = tuple(f"{text} AS c{at}" for at, text in enumerate(texts))
    made = plain_select(items, plain_kinds(rows.schema))
    assert made is not None
    failing_rows, tried = FailingRows(rows), _tried(spark, rows, items)
    for at, (text, expression) in enumerate(zip(texts, made, strict=True)):
        values = tried.column(f"c{at}")
        computed, reasons = failing_rows.tried(expression, values.type)
        good = pc.is_null(reasons)
        ours = _listed(good, pc.if_else(good, computed, None))
        pairs = zip(ours, _listed(tried.column(f"good{at}"), values), strict=True)
        assert [(row, *pair) for row, pair in enumerate(pairs) if pair[0] != pair[1]] == [], text


def _listed(good: Any, values: Any) -> list[str]:
    """Whether each row is good, and its value; as texts, in which NaN is like NaN, and -0.0 is not like 0.0."""
    plain = values.cast(pa.int64()) if pa.types.is_timestamp(values.type) else values
    return [repr(pair) for pair in zip(good.to_pylist(), plain.to_pylist(), strict=True)]


def _tried(spark: SparkSession, rows: pa.RecordBatch, items: tuple[str, ...]) -> pa.Table:
    """What Spark gives for each row, and whether it gives anything."""
    table = pa.table({"given": rows.to_struct_array()})
    frame, catalyst = spark.createDataFrame(table).coalesce(1), Catalyst(spark)
    analysed = catalyst.select(rows.schema, items)
    exposed = frame.select("*", *catalyst.fields(frame, "given", analysed.inputs))
    tries = {name: catalyst.tried(column) for name, column in analysed.columns}
    tried = exposed.select(
        *(F.when(F.col("given").isNotNull(), attempt).alias(name) for name, attempt in tries.items())
    )
    good = [F.col(name).isNotNull().alias(f"good{at}") for at, name in enumerate(tries)]
    return tried.select(*good, *(F.col(name).getField(VALUE).alias(name) for name in tries)).toArrow()
