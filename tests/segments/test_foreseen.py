"""Before there is a JVM, it is foreseen whether Spark SQL will compute anything."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from holdfast.planning.plan import plan
from holdfast_runtime.inspection.spark_need import computes_in_spark, foreseen_columns
from holdfast_runtime.segments.catalyst import select_schema
from holdfast_runtime.segments.compiling import compile_graph
from holdfast_runtime.streams.codecs.arrow_types import SchemaUnsupportedError
from holdfast_runtime.testing.stand_ins import app_of, offline
from tests.codecs.schemas import schema
from tests.planning.apps import app_of as app_with
from tests.planning.apps import step
from tests.segments.graphs import read, written

EXAMPLES = Path(__file__).parents[2] / "examples"
APPS = sorted(EXAMPLES.glob("*/*.yaml"))


@pytest.mark.parametrize("path", APPS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_what_is_foreseen_of_an_example_is_what_spark_finds(spark: SparkSession, path: Path) -> None:
    app = offline(app_of(path))
    app_plan = plan(app)
    assert computes_in_spark(app.spec, app_plan) == compile_graph(app.spec, app_plan, select_schema(spark)).has_sql


@pytest.mark.parametrize(
    ("verb", "expected"),
    [
        ({"filter": "v > 1"}, False),
        ({"select": ["k", "v % 10 AS v", "ts"]}, False),
        ({"select": ["*"]}, False),
        ({"select": ["k", "bigint(k) AS v"]}, True),
        ({"select": ["k", "v * v + 1 AS v", "date_trunc('DAY', ts) AS day"]}, False),
        ({"filter": "v > 0 AND 10 / v > 1"}, True),
        ({"select": ["k", "no_function_that_is_known(v) AS v"]}, True),
        ({"filter": "v > 5e-1"}, True),
        ({"filter": "price >= 25 AND v % 10 <> 0"}, False),
        ({"select": ["k", "price * v AS worth", "v / 3 AS third"]}, False),
        ({"select": ["k", "CAST(price AS FLOAT) AS price"]}, True),
    ],
    ids=str,
)  # fmt: skip
def test_the_second_compiler_is_kept_for_java(verb: dict[str, object], expected: bool) -> None:
    source = read("a", schema="k STRING, v BIGINT, ts TIMESTAMP, price DOUBLE")
    app = app_with([source, written()], [step("x", "a", **verb), step("out-step", "x", to="out")])
    assert computes_in_spark(app.spec, plan(app)) is expected


ITEMS = (
    "v + 1 AS w",
    "k || 'x' AS x",
    "explode(a) AS e",
    "s.*",
    "s.q.r",
    "s.p AS w",
    "struct(*) AS z",
    "a[0].x AS x",
    "named_struct('a', v) AS z",
    "m['q'] AS x",
    "i",
    "i * 2 AS i",
    "NULL AS n",
    "1 AS one",
    "CAST(NULL AS STRING) AS y",
    "from_json(k, 'a INT') AS j",
    "V AS `a b`",
    "transform(a, x -> x.x) AS t",
    "s",
    "a",
)


@pytest.mark.parametrize("item", ITEMS)
def test_no_valid_apps_select_stops_it_before_a_jvm(spark: SparkSession, item: str) -> None:
    """Where the answer is that Spark computes nothing, Spark's own analysis must give the same."""
    columns = (
        "k STRING, v BIGINT, ts TIMESTAMP, a ARRAY<STRUCT<x: INT>>, m MAP<STRING, INT>, i INTERVAL DAY TO SECOND, "
    )
    source = read("a", schema=f"{columns}s STRUCT<p: INT, q: STRUCT<r: STRING>>", key=["k"])
    steps = [
        step("x", "a", select=["k AS `the key`", "v AS amount", item]),
        step("y", "x", aggregate={"by": ["the key"], "compute": ["max(struct(amount, `the key`)) AS most"]}),
        step("z", "y", select=["most.amount AS amount", "`the key`"]),
    ]
    app = app_with([source, written()], [*steps, step("out-step", "z", to="out")])
    app_plan = plan(app)
    assert app_plan.valid, [problem.message for problem in app_plan.problems]
    foreseen = computes_in_spark(app.spec, app_plan)
    assert foreseen or not compile_graph(app.spec, app_plan, select_schema(spark)).has_sql


GIVEN = schema("a INT, `b c` STRING, d DECIMAL(10,2), e ARRAY<INT>, f TIMESTAMP, g STRUCT<h: BIGINT>, p DOUBLE, t DATE")


@pytest.mark.parametrize(
    "items",
    [
        ("*",),
        ("A AS x", "`b c`", "e"),
        ("g.h AS h", "struct(a, `b c`) AS s", "g"),
        ("d + 1 AS d", "unix_seconds(f) AS f", "a + 1 AS a"),
        ("p * a AS p", "a / 3 AS a", "coalesce(p, 0) AS x", "-abs(p) AS y", "isnan(p) AS z", "if(p > 1, 1, p) AS i"),
        ("CAST(a AS DOUBLE) AS a", "p - 0.5 AS b", "CASE WHEN p > a THEN NULL ELSE p END AS c", "struct(p) AS s"),
        (
            "upper(`b c`) AS u",
            "substring(`b c`, 2) AS b",
            "left(`b c`, 2) AS l",
            "right(`b c`, 2) AS r",
            "trim(`b c`) AS t",
        ),
        ("lpad(`b c`, 2) AS l", "instr(`b c`, 'a') AS i", "contains(`b c`, 'a') AS c", "nullif(p, a) AS n"),
        ("to_date(f) AS d", "CAST(f AS DATE) AS c", "t > DATE '2024-01-01' AS n", "coalesce(t, date(f)) AS b"),
        ("TIMESTAMP '2024-01-01 00:00:00' AS m", "DATE '2024-01-01' AS d", "nullif(t, to_date(f)) AS n"),
        ("nvl(p, a) AS n", "ifnull(a, 1) AS i", "greatest(a, g.h) AS g", "least(a, 1) AS l", "abs(a % 7) AS r"),
        ("CAST(a AS BIGINT) AS a", "lower(`b c`) = 'x' AS b", "d * 0.5 AS d"),
    ],
)
def test_columns_that_are_foreseen_are_those_of_spark(spark: SparkSession, items: tuple[str, ...]) -> None:
    assert foreseen_columns(GIVEN, items).equals(select_schema(spark)(GIVEN, items))


def test_a_type_that_only_spark_knows_is_left_to_it() -> None:
    with pytest.raises(SchemaUnsupportedError, match="not known before the app runs"):
        foreseen_columns(GIVEN, ("from_csv(`b c`, schema_of_csv('1')) AS x",))
