"""Before there is a JVM, it is foreseen whether Spark SQL will compute anything."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from holdfast.planning.plan import plan
from holdfast_runtime.segments.catalyst import select_schema
from holdfast_runtime.segments.compiling import compile_graph
from holdfast_runtime.segments.foreseen import computes_in_spark, foreseen_columns
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
    found = plan(app)
    assert computes_in_spark(app.spec, found) == compile_graph(app.spec, found, select_schema(spark)).has_sql


@pytest.mark.parametrize(
    ("verb", "expected"),
    [
        ({"filter": "v > 1"}, False),
        ({"select": ["k", "v % 10 AS v", "ts"]}, False),
        ({"select": ["*"]}, False),
        ({"select": ["k", "v / 3 AS v"]}, True),
        ({"select": ["k", "no_function_that_is_known(v) AS v"]}, True),
        ({"filter": "v > 5e-1"}, True),
    ],
    ids=str,
)  # fmt: skip
def test_the_second_compiler_is_kept_for_what_is_computed_in_java(verb: dict[str, object], expected: bool) -> None:
    app = app_with([read("a"), written()], [step("x", "a", **verb), step("out-step", "x", to="out")])
    assert computes_in_spark(app.spec, plan(app)) is expected


GIVEN = schema("a INT, `b c` STRING, d DECIMAL(10,2), e ARRAY<INT>, f TIMESTAMP, g STRUCT<h: BIGINT>")


@pytest.mark.parametrize(
    "items",
    [
        ("*",),
        ("A AS x", "`b c`", "e"),
        ("g.h AS h", "struct(a, `b c`) AS s", "g"),
        ("d + 1 AS d", "unix_seconds(f) AS f", "a + 1 AS a"),
        ("CAST(a AS BIGINT) AS a", "lower(`b c`) = 'x' AS b", "d * 0.5 AS d"),
    ],
)
def test_columns_that_are_foreseen_are_those_of_spark(spark: SparkSession, items: tuple[str, ...]) -> None:
    assert foreseen_columns(GIVEN, items).equals(select_schema(spark)(GIVEN, items))


def test_a_column_whose_type_only_spark_knows_is_left_to_spark() -> None:
    with pytest.raises(SchemaUnsupportedError, match="not known before the app runs"):
        foreseen_columns(GIVEN, ("from_csv(`b c`, schema_of_csv('1')) AS x",))
