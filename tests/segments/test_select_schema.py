"""What comes out of a select is what Spark says, as long as rows can carry it."""

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from holdfast.errors import UserActionError
from holdfast_runtime.segments.catalyst import select_schema
from tests.codecs.schemas import schema

COLUMNS = schema("a INT, s STRING, `odd name` STRUCT<`x y`: ARRAY<TIMESTAMP>, `NOT NULL`: INT>, m MAP<STRING, INT>")


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (("*",), COLUMNS),
        (("A", "* EXCEPT (a, m, s)"), schema("A INT, `odd name` STRUCT<`x y`: ARRAY<TIMESTAMP>, `NOT NULL`: INT>")),
        (("a / 2 AS q", "a + 1L AS n"), schema("q DOUBLE, n BIGINT")),
        (("from_csv(s, 'x INT, y DATE') AS c",), schema("c STRUCT<x: INT, y: DATE>")),
        (("named_struct('x y', 1, 'z', array('k')) AS c",), schema("c STRUCT<`x y`: INT, z: ARRAY<STRING>>")),
        (("explode(`odd name`.`x y`) AS t",), schema("t TIMESTAMP")),
        (("map('k', struct(1 AS v)) AS c", "NULL AS n"), schema("c MAP<STRING, STRUCT<v: INT>>, n VOID")),
        (("1.5BD AS d", "CAST('x' AS VARCHAR(3)) AS v"), schema("d DECIMAL(2,1), v STRING")),
        (("* EXCEPT (a, s, `odd name`, m)",), pa.schema([])),
    ],
)
def test_columns_and_types_are_those_of_spark(spark: SparkSession, texts: tuple[str, ...], expected: pa.Schema) -> None:
    assert select_schema(spark)(COLUMNS, texts).equals(expected, check_metadata=True)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (("a", "b AS c"), "Spark refuses b AS c: .*UNRESOLVED_COLUMN"),
        (("a", "a +"), r"Spark refuses a \+: .*PARSE_SYNTAX_ERROR"),
        (("a AS one", "one + 1 AS two"), "can't be computed item by item"),
        (("INTERVAL '1' HOUR AS h",), "column h of .* is INTERVAL HOUR, .*; CAST it to INTERVAL DAY TO SECOND"),
        (("s COLLATE UNICODE_CI AS c",), "column c of .* CAST it to STRING"),
        (("parse_json(s) AS v",), "column v is VARIANT, which rows of a stream can't carry"),
        (("INTERVAL 1 MONTH AS m",), "column m is INTERVAL"),
    ],
)
def test_what_rows_cannot_carry_is_refused_by_name(spark: SparkSession, texts: tuple[str, ...], message: str) -> None:
    with pytest.raises(UserActionError, match=message):
        select_schema(spark)(COLUMNS, texts)
