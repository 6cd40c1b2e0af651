"""Plain expressions give in Arrow what Spark SQL gives."""

import random
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.functions import expr

from holdfast.planning.sql.plain.reading import plain_filter, plain_select, sure_select
from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.steps.plain.plain_sql import keeps_kinds, pick, plain_kinds, sift
from holdfast_runtime.steps.timed_rows import RowOrigin, TimedRows
from tests.segments.drawn_expressions import (
    DOUBLES,
    ROWS,
    TIMES,
    UNITS,
    UNITS_OF_DATES,
    computed,
    condition,
    given,
)

EXPRESSIONS = 400


def test_conditions_give_what_spark_gives_for_every_row(spark: SparkSession) -> None:
    draw, rows = random.Random(20261123), given()  # noqa: S311
    kinds = plain_kinds(rows.schema)
    texts = [one for one in (condition(draw, 3) for _ in range(EXPRESSIONS * 2)) if plain_filter(one, kinds)]
    assert len(texts) >= EXPRESSIONS, "only conditions without a column are not plain"
    check_like_spark(spark, rows, texts)


def test_values_give_what_spark_gives_for_every_row(spark: SparkSession) -> None:
    draw, rows = random.Random(20261124), given()  # noqa: S311
    kinds = plain_kinds(rows.schema)
    texts = [one for one in (computed(draw) for _ in range(EXPRESSIONS * 4)) if sure_select([f"{one} AS c"], kinds)]
    assert len(texts) >= EXPRESSIONS
    check_like_spark(spark, rows, texts)


def check_like_spark(spark: SparkSession, rows: pa.RecordBatch, texts: list[str]) -> None:
    """Compare what expressions give, value by value, and their types."""
    frame = spark.createDataFrame(pa.Table.from_batches([rows])).coalesce(1)
    from_spark = frame.select(*[expr(text).alias(f"c{at}") for at, text in enumerate(texts)]).toArrow()
    made = plain_select([f"{text} AS c{at}" for at, text in enumerate(texts)], plain_kinds(rows.schema))
    assert made is not None
    assert keeps_kinds(made, from_spark.schema)
    picked = pick(TimedRows(rows, pa.nulls(len(rows), pa.int64())), made, from_spark.schema).rows
    for at, text in enumerate(texts):
        pairs = zip(values(picked.column(at)), values(from_spark.column(at)), strict=True)
        # As texts, in which NaN is like NaN, and -0.0 is not like 0.0.
        assert [row for row, pair in enumerate(pairs) if repr(pair[0]) != repr(pair[1])] == [], text


def values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """The values of a column; of dates the days, as Python has only some years."""
    return list((column.cast(pa.int32()) if pa.types.is_date32(column.type) else column).to_pylist())


SIGNS = ("=", "<>", "<", "<=", ">", ">=")
DOUBLE_NUMBERS = (
    *(f"d {sign} {other}" for sign in SIGNS for other in ("e", "v", "5", "0.1", "-0.0", "9007199254740993")),
    *(f"CAST(v AS DOUBLE) {sign} {other}" for sign in SIGNS for other in ("d", "9007199254740993", "1.5")),
    *(f"CAST(w AS DOUBLE) {sign} 9007199254740993" for sign in SIGNS),
    *(f"w {sign} 1.5D" for sign in SIGNS),
    *(f"d {sign} {other}" for sign in "+-*" for other in ("e", "v", "0", "-0.0", "0.1", "9007199254740993")),
    *(f"{other} {sign} d" for sign in "+-*" for other in ("v", "0", "-0.0")),
    *("d / 3", "v / 3", "v / -7", "d / 0.1", "-d", "-(v / 3)", "abs(d)", "abs(m)", "-m", "abs(w % 7)", "-(w % 7)"),
    *("isnan(d)", "d IS NULL", "d BETWEEN -1 AND e", "d NOT BETWEEN e AND 0.5", "CAST(d AS DOUBLE)"),
    *("coalesce(d, 0)", "coalesce(NULL, d, v, 0.5)", "if(f, d, v)", "if(f, NULL, d)", "CASE WHEN f THEN 1 ELSE d END"),
    *("CASE d WHEN 0 THEN 'none' WHEN 0.1 THEN 'few' WHEN e THEN 'e' ELSE k END", "CAST(v AS DOUBLE)"),
    *(
        "CAST(0 AS DOUBLE)",
        "2.5D",
        "d > CAST(5 % 2 AS DOUBLE)",
        "d > 5 / 2",
        "d > -(CAST(1 AS DOUBLE))",
        "-(5) + d > -0.5",
    ),
)


def test_numbers_of_type_double_are_those_of_spark(spark: SparkSession) -> None:
    pairs = [(first, second) for first in DOUBLES for second in DOUBLES]
    rows = given().slice(0, len(pairs))
    for name, numbers in (("d", [first for first, _ in pairs]), ("e", [second for _, second in pairs])):
        rows = rows.set_column(rows.schema.get_field_index(name), name, pa.array(numbers))
    check_like_spark(spark, rows, list(DOUBLE_NUMBERS))


DATES_AND_MOMENTS = (
    *(f"{date} {sign} {other}" for date in ("day", "to_date(at)") for sign in SIGNS for other in ("due", "date(at)")),
    *(f"CAST(at AS DATE) {sign} DATE '1970-01-01'" for sign in SIGNS),
    *(f"DATE '1970-01-01' {sign} to_date(at)" for sign in SIGNS),
    *(f"at {sign} TIMESTAMP '1970-01-01 00:00:00'" for sign in SIGNS),
    *("day IN (DATE '1970-01-01', DATE '2024-01-01')", "at IN (TIMESTAMP '1970-01-01 00:00:00')", "DATE '0001-01-01'"),
    *("TIMESTAMP '2024-02-29 23:59:59'", "CAST('2024-02-29' AS DATE)", "CAST('2024-02-29 23:59:59' AS TIMESTAMP)"),
    *(f"{unit}({date})" for unit in UNITS_OF_DATES for date in ("day", "to_date(at)", "last_day(due)")),
    *(f"date_{way}({date}, {days})" for way in ("add", "sub") for date in ("day", "at") for days in (0, 59, -100_000)),
    *(f"trunc(day, '{unit}')" for unit in ("year", "YYYY", "yy", "Quarter", "month", "MON", "mm", "week")),
    *("last_day(day)", "last_day(at)", "trunc(at, 'week')", "datediff(last_day(day), trunc(day, 'month'))"),
    *("to_date(day)", "CAST(day AS DATE)", "struct(day, k)", "nullif(day, due)", "coalesce(day, to_date(at))"),
    *("if(f, day, NULL)", "day BETWEEN due AND DATE '2024-01-01'", "CASE day WHEN due THEN at END", "day IS NULL"),
    *("day > CAST(TIMESTAMP '2024-02-29 23:59:59' AS DATE)", "CASE WHEN day > due THEN DATE '9999-12-31' ELSE due END"),
)


BITS = (
    *(
        f"{left} {sign} {right}"
        for sign in "&|^"
        for left in "vwst"
        for right in ("v", "w", "t", "255", "-1", "4294967296")
    ),
    *("~v", "~w", "~s", "~t", "~(v % 7)", "v & 3 & w", "w & 7 = 1", "w | (v & 1)", "(w ^ v) & 15"),
)


def test_bits_are_those_of_spark(spark: SparkSession) -> None:
    check_like_spark(spark, given(), list(BITS))


def test_dates_are_those_of_spark(spark: SparkSession) -> None:
    check_like_spark(spark, given(), list(DATES_AND_MOMENTS))


TEXT_NUMBERS = (-(2**31), -5, -2, -1, 0, 1, 2, 5, 2**31 - 1)
TEXTS_OF_TEXTS = (
    *(f"{name}(url)" for name in ("upper", "lower", "trim", "ltrim", "rtrim", "length")),
    *(f"substring(url, {start})" for start in TEXT_NUMBERS),
    *(f"substr(url, {start}, {length})" for start in TEXT_NUMBERS for length in TEXT_NUMBERS if length >= 0),
    *("substring(url FROM 2 FOR 3)", "left(url, 0)", "left(url, 3)", "right(url, 3)", "right(url, 2147483647)"),
    *(f"{name}(url, {width})" for name in ("lpad", "rpad") for width in (0, 3, 40)),
    *(f"{name}(url, 30, '{pad}')" for name in ("lpad", "rpad") for pad in ("x", "ä", "\U0001f600", "1")),
    *(f"{name}(url, '{word}')" for name in ("contains", "startswith", "endswith", "instr") for word in ("a", "ä", "/")),
    *(f"translate(url, '{old}', '{new}')" for old in ("", "a", "aba", "/&?", "é😀") for new in ("", "x", "xyzw")),
    *(f"regexp_replace(url, '{find}', '{new}')" for find in ("a", "[a-z]+", "(a|b)/?", "^a*c") for new in ("", "xx")),
    *("instr(url, 'channel')", "instr(url, '%')", "contains(url, '%b_')", "instr(upper(url), 'Σ') - 1"),
    *("nullif(k, 'a')", "nullif(v, 0)", "nullif(d, 0)", "nullif(d, v)", "nullif(v, d)", "nullif(m, 0)", "nullif(f, g)"),
    *("nvl(k, url)", "ifnull(v, w)", "ifnull(d, 0)", "greatest(v, 0)", "least(v, w, 5)", "greatest(length(k), w % 3)"),
    *(
        "lower(k) = 'é'",
        "lower(k) IN ('a', 'é')",
        "upper(k) LIKE 'A%'",
        "lower(url) < upper(k)",
        "CASE WHEN f THEN upper(url) END",
    ),
)


def test_functions_of_texts_give_what_spark_gives(spark: SparkSession) -> None:
    check_like_spark(spark, given(), list(TEXTS_OF_TEXTS))


def test_letters_are_in_the_case_of_spark(spark: SparkSession) -> None:
    letters = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    # A sigma is another letter at the end of a word, and each letter may be within a word, beside it, or neither.
    parts = [f"{letter} {letter}Σ a{letter}Σ aΣ{letter}a" for letter in letters]
    texts = [" ".join(parts[start : start + 64]) for start in range(0, len(parts), 64)]
    texts += ["\u0391Σ", "\u0391ΣB", "Σ", "a'Σ'", "a'Σ'b", "ΣΣ", "İΣ", "\u017ftraße ŉ ﬁ ﬃ", "ǅ ᾼ ΐ", "AΣ\U00010d50"]
    check_like_spark(spark, pa.RecordBatch.from_pydict({"k": texts}), ["upper(k)", "lower(k)"])


def test_a_select_has_plain_and_computed_columns_in_sparks_types(spark: SparkSession) -> None:
    rows = given()
    items = ["*", "w % 7 AS seventh", "v % 10000 AS key", "k = 'a' AS is_a", "d AS `half`"]
    made = plain_select(items, plain_kinds(rows.schema))
    assert made is not None
    from_spark = spark.createDataFrame(pa.Table.from_batches([rows])).coalesce(1).selectExpr(*items).toArrow()
    picked = pick(TimedRows(rows, pa.nulls(ROWS, pa.int64())), made, from_spark.schema).rows
    assert picked.schema == from_spark.schema
    assert repr(picked.to_pydict()) == repr(from_spark.to_pydict())


def test_times_beyond_the_years_of_arrow_are_those_of_spark(spark: SparkSession) -> None:
    draw = random.Random(9)  # noqa: S311
    far = [-(2**63), 2**63 - 1, *(draw.randrange(-(2**63), 2**63) for _ in range(200)), None]
    far += [
        -62_135_596_800_000_000 + sign * 86_400_000_000 * days for days in (200, 400, 4_000_000) for sign in (1, -1)
    ]
    far += [sign * (10**6 * 86400 * day - 1) for day in range(10_000_000, 12_000_000, 99_991) for sign in (1, -1)]
    rows = pa.RecordBatch.from_pydict({"at": pa.array(far, pa.int64()).cast(pa.timestamp("us", "UTC"))})
    items = [f"{part}(at) AS {part}" for part in UNITS]
    items += [f"date_format(at, '{text}') AS t{at}" for at, text in enumerate(TIMES)]
    items += ["to_date(at) AS date", "datediff(at, DATE '1999-12-31') AS since"]
    made = plain_select(items, plain_kinds(rows.schema))
    assert made is not None
    from_spark = spark.createDataFrame(pa.Table.from_batches([rows])).coalesce(1).selectExpr(*items).toArrow()
    picked = pick(TimedRows(rows, pa.nulls(len(far), pa.int64())), made, from_spark.schema).rows
    assert pa.Table.from_batches([picked]).equals(from_spark.combine_chunks())


def test_a_filter_keeps_times_and_origins_of_its_rows() -> None:
    rows = pa.RecordBatch.from_pydict({"v": [1, 2, None, 4]})
    origin = RowOrigin(StreamPartition("a", 0), pa.array([10, 11, 12, 13]))
    condition = plain_filter("v % 2 = 0", plain_kinds(rows.schema))
    assert condition is not None
    sifted = sift(TimedRows(rows, pa.array([5, 6, 7, 8]), (origin,)), condition)
    assert (sifted.rows.to_pydict(), sifted.times.to_pylist()) == ({"v": [2, 4]}, [6, 8])
    assert [one.offsets.to_pylist() for one in sifted.origins] == [[11, 13]]
