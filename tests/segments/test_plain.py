"""Plain expressions give in Arrow what Spark SQL gives, and nothing else is taken for plain."""

import random

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import expr

from holdfast.planning.sql.plain.expressions import PlainCall, PlainColumn, PlainValue
from holdfast.planning.sql.plain.reading import plain_filter, plain_select
from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.steps.plain.plain_sql import keeps_kinds, pick, plain_kinds, sift
from holdfast_runtime.steps.timed_rows import RowOrigin, TimedRows
from tests.planning.apps import step
from tests.segments.drawn_expressions import DOUBLES, ROWS, TIMES, computed, condition, given
from tests.segments.graphs import compiled, read, written

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
    texts = [one for one in (computed(draw) for _ in range(EXPRESSIONS * 4)) if plain_select([f"{one} AS c"], kinds)]
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
        pairs = zip(picked.column(at).to_pylist(), from_spark.column(at).to_pylist(), strict=True)
        # As texts, in which NaN is like NaN, and -0.0 is not like 0.0.
        assert [row for row, pair in enumerate(pairs) if repr(pair[0]) != repr(pair[1])] == [], text


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
    *("to_date(day)", "CAST(day AS DATE)", "struct(day, k)", "nullif(day, due)", "coalesce(day, to_date(at))"),
    *("if(f, day, NULL)", "day BETWEEN due AND DATE '2024-01-01'", "CASE day WHEN due THEN at END", "day IS NULL"),
    *("day > CAST(TIMESTAMP '2024-02-29 23:59:59' AS DATE)", "CASE WHEN day > due THEN DATE '9999-12-31' ELSE due END"),
)


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
    items = [f"{part}(at) AS {part}" for part in ("year", "month", "day", "hour", "minute", "second")]
    items += [f"date_format(at, '{text}') AS t{at}" for at, text in enumerate(TIMES)]
    items.append("to_date(at) AS date")
    made = plain_select(items, plain_kinds(rows.schema))
    assert made is not None
    from_spark = spark.createDataFrame(pa.Table.from_batches([rows])).coalesce(1).selectExpr(*items).toArrow()
    picked = pick(TimedRows(rows, pa.nulls(len(far), pa.int64())), made, from_spark.schema).rows
    assert pa.Table.from_batches([picked]).equals(from_spark.combine_chunks())


@pytest.mark.parametrize("item", ["NULL AS n", "1 + 1 AS n", "concat('a', 'b') AS n", "lower('A') AS n", "-(-1) AS n"])
def test_what_needs_no_column_is_left_to_spark(item: str) -> None:
    assert plain_select([item], plain_kinds(given().schema)) is None


def test_a_filter_keeps_times_and_origins_of_its_rows() -> None:
    rows = pa.RecordBatch.from_pydict({"v": [1, 2, None, 4]})
    origin = RowOrigin(StreamPartition("a", 0), pa.array([10, 11, 12, 13]))
    condition = plain_filter("v % 2 = 0", plain_kinds(rows.schema))
    assert condition is not None
    sifted = sift(TimedRows(rows, pa.array([5, 6, 7, 8]), (origin,)), condition)
    assert (sifted.rows.to_pydict(), sifted.times.to_pylist()) == ({"v": [2, 4]}, [6, 8])
    assert [one.offsets.to_pylist() for one in sifted.origins] == [[11, 13]]


@pytest.mark.parametrize(
    "text",
    [
        "v + 1 > 0",
        "v > 123456789012345678.5",
        "v > 0.5 * 0.5",
        "v > 15e-1",
        "m * m * m * m > 0",
        "m / 2 > 1",
        "v / 2.5 > 1",
        "v / 0 > 1",
        "d / 0.0 > 1",
        "d / v > 1",
        "d % 2 = 1",
        "d IN (1, 2)",
        "d IN (1D)",
        "v IN (1D)",
        "d = m",
        "coalesce(d, m) > 1",
        "d = '1'",
        "d = NULL",
        "d = f",
        "-v > 1",
        "abs(v) > 1",
        "isnan(v)",
        "isnan(k)",
        "CAST(d AS STRING) = '1'",
        "CAST(d AS DECIMAL(10,2)) = 1",
        "CAST(m AS DOUBLE) = 1",
        "CAST(k AS DOUBLE) = 1",
        "CAST(d AS FLOAT) = 1",
        "float > 1",
        "float = d",
        "float * 2 > d",
        "v * w > 0",
        "w + 1 > 0",
        "CAST(m AS DECIMAL(9,2)) > 0",
        "CAST(m AS DECIMAL(12,1)) > 0",
        "CAST(m AS INT) > 0",
        "CAST(v AS INT) > 0",
        "CAST(d AS BIGINT) > 0",
        "split(k, '/')[0] = 'a'",
        "element_at(split(k, '/'), 1) = 'a'",
        "get(split(k, '.'), 0) = 'a'",
        "get(split(k, '/', 2), 0) = 'a'",
        "get(split(k, '/'), -1) = 'a'",
        "split(k, '/') = split(k, '/')",
        "lower(k, 'a') = 'a'",
        "lower(upper(k)) = 'a'",
        "upper(concat(lower(k), 'a')) = 'AA'",
        "day > at",
        "day > '2024-01-01'",
        "day = DATE '2024-02-30'",
        "day = DATE '2024-1-1'",
        "day = DATE '0000-01-01'",
        "day = DATE '+2024-01-01'",
        "day = DATE 'today'",
        "at > TIMESTAMP '2024-01-01'",
        "at > TIMESTAMP '2024-01-01 24:00:00'",
        "at > TIMESTAMP '2024-01-01 00:00:00+01:00'",
        "at > TIMESTAMP '2024-01-01 00:00:00.5'",
        "at > TIMESTAMP_NTZ '2024-01-01 00:00:00'",
        "CAST(day AS TIMESTAMP) = at",
        "CAST(k AS DATE) = day",
        "CAST(day AS STRING) = ''",
        "CAST(at AS STRING) = ''",
        "to_date(k) = day",
        "to_date(at, 'yyyy') = day",
        "year(day) = 2024",
        "day + 1 > due",
        "date_trunc('DAY', at) = at",
        "trim('a', k) = 'a'",
        "trim(BOTH 'a' FROM k) = 'a'",
        "substring(k, 1, -1) = 'a'",
        "substring(k, 2147483648) = 'a'",
        "substring(k, w) = 'a'",
        "substring(k) = 'a'",
        "substring(v, 1) = '1'",
        "left(k, -1) = 'a'",
        "right(k, -1) = ''",
        "lpad(k, 5, 'ab') = 'a'",
        "lpad(k, 5, '') = 'a'",
        "lpad(k, 1001) = 'a'",
        "rpad(k, -1) = 'a'",
        "contains(k, k)",
        "startswith(k, '')",
        "instr(k, '') = 1",
        "instr(v, '1') = 1",
        "nullif(k, v) = 1",
        "nullif(NULL, k) = 'a'",
        "nullif(nullif(k, 'a'), 'b') = 'c'",
        "nullif(if(f, 'a', k), 'b') = 'c'",
        "nvl(k, k, k) = 'a'",
        "greatest(d, e) > 1",
        "greatest(v, NULL) > 1",
        "least(k, 'a') = 'a'",
        "replace(k, '', 'a') = 'a'",
        "replace(k, k, 'a') = 'a'",
        "regexp_extract(k, '(a)', 2) = 'a'",
        "regexp_extract(k, 'a') = 'a'",
        "regexp_extract(k, '(a)', -1) = 'a'",
        "regexp_extract(k, '(a.)') = 'a'",
        "regexp_extract(k, '(a)$') = 'a'",
        "regexp_extract(k, '(a*?)') = 'a'",
        "regexp_extract(k, '(a*+)') = 'a'",
        "regexp_extract(k, '(a)*') = 'a'",
        "regexp_extract(k, '(?i)(a)') = 'a'",
        "regexp_extract(k, '(?:a)', 0) = 'a'",
        "regexp_extract(k, '([a&&b])') = 'a'",
        "regexp_extract(k, '([z-a])') = 'a'",
        "regexp_extract(k, '([[:alpha:]])') = 'a'",
        "regexp_extract(k, '(a{2})') = 'a'",
        "regexp_extract(k, '(a') = 'a'",
        "regexp_extract(k, 'a)') = 'a'",
        "k LIKE k",
        "k LIKE 'a!%' ESCAPE '!'",
        "k ILIKE 'a%'",
        "k LIKE ANY ('a%')",
        "CAST(v AS VARCHAR(1)) = '1'",
        "CAST(v AS char (1)) = '1'",
        "CAST(v AS STRING COLLATE UTF8_LCASE) = '1'",
        "k COLLATE UTF8_LCASE = 'a'",
        "f IS TRUE",
        "coalesce(v, m) > 1",
        "if(f, v, k) = 1",
        "CASE WHEN v THEN f ELSE f END",
        "hour(k) = 1",
        "hour('2020-01-01') = 1",
        "date_format(at, 'yyyy-MM-dd HH:mm:ss.SSS') = ''",
        "date_format(at, 'MMM') = ''",
        "date_format(at, 'MMMM') = ''",
        "date_format(at, 'yyyyy') = ''",
        "date_format(at, 'yy') = ''",
        "date_format(at, 'y') = ''",
        "date_format(at, 'E') = ''",
        "date_format(at, 'hh a') = ''",
        "date_format(at, 'YYYY') = ''",
        "date_format(at, '[yyyy]') = ''",
        "date_format(at, 'yyyy#') = ''",
        "date_format(at, \"yyyy'T'\") = ''",
        "date_format(at, '-') = ''",
        "date_format(at, '') = ''",
        "date_format(at, k) = ''",
        "date_format(k, 'yyyy') = ''",
        "date_format('2020-01-01', 'yyyy') = ''",
        "date_format(at) = ''",
        "coalesce(NULL, NULL) = 1",
        "coalesce(NULL, v) = NULL",
        "coalesce(CAST(NULL AS BIGINT), w) = 1",
        "CASE WHEN f THEN NULL END = 1",
        "if(f, NULL, v) IN (NULL)",
        "k IN ('a', NULL)",
        "concat(k, NULL) = 'a'",
        "length(NULL) > k",
        "f AND NULL",
        "NOT NULL",
        "NULL",
        "NULL IS NULL",
        "length(d) = 1",
        "v = k",
        "k = 5",
        "v % w = 0",
        "v % 0 = 1",
        "v % -2 = 0",
        "k = 'a\\n'",
        "k = r'a'",
        "v <=> 3",
        "v > 9223372036854775808",
        "v = NULL",
        "v IN (1, NULL)",
        "v IN (w)",
        "f > g",
        "nothing = 1",
        "TRUE",
        "1 = 1 OR",
        "cast(k AS BIGINT) = 1",
        "row.nothing = 1",
        "row.a.b = 1",
        "row.`b c` = 1",
        "row.in = row.in",
        "row = row",
        "struct(v) = struct(v)",
        "struct(v + 1) IS NULL",
        "struct(v % 2 AS x) IS NULL",
        "struct(k, v AS K) IS NULL",
        "struct(row) IS NULL",
        "struct(*) IS NULL",
        "struct('a' AS a) IS NULL",
    ],
)
def test_what_may_fail_or_differ_is_left_to_spark(text: str) -> None:
    assert plain_filter(text, plain_kinds(given().schema)) is None


def test_names_that_are_there_twice_are_left_to_spark() -> None:
    assert plain_kinds(pa.schema([("v", pa.int64()), ("v", pa.int64())])) == {}


def test_rows_from_spark_stay_there_and_others_do_not_go() -> None:
    def ask(_: pa.Schema, texts: tuple[str, ...]) -> pa.Schema:
        return pa.schema([(text.split()[-1], pa.int64()) for text in texts])

    steps = [
        step("even", "a", filter="v % 2 = 0"),
        step("hard", "even", select=["v + 1 AS v"]),
        step("low", "hard", filter="v < 7"),
        step("rest", "even", select=["v", "v % 7 AS r"]),
        step("out-step", "low", to="out"),
        step("other-step", "rest", to="other"),
    ]
    graph = compiled([read("a"), written(), written("other")], steps, ask)
    assert {node.name: (node.verb, node.level) for node in graph.nodes if node.step is not None} == {
        "even": ("sift", 0),
        "hard": ("select", 1),
        "low": ("filter", 1),
        "rest": ("pick", 0),
        "out-step": ("to", 2),
        "other-step": ("to", 2),
    }
    assert next(node.plain for node in graph.nodes if node.name == "rest") == (
        PlainColumn("v"),
        PlainCall("%", (PlainColumn("v"), PlainValue(7))),
    )
