"""The Arrow types of a schema are Spark's own."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from holdfast.planning.sql.columns import UNKNOWN, Column, Rows
from holdfast_runtime.streams.codecs import SchemaUnsupportedError, arrow_schema
from tests.codecs.schemas import schema

DDLS = [
    "a BOOLEAN, b TINYINT, c SMALLINT, d INT, e BIGINT, f FLOAT, g DOUBLE",
    "a STRING, b BINARY, c DATE, d TIMESTAMP, e TIMESTAMP_NTZ",
    "a DECIMAL, b DECIMAL(38,38), c DECIMAL(1), d NUMERIC(5,2), e VOID, f TIME, g TIME(3)",
    "a INTERVAL DAY TO SECOND, b INTERVAL HOUR",
    "a ARRAY<INT>, b ARRAY<ARRAY<STRING>>, c MAP<STRING, INT>, d MAP<INT, ARRAY<DATE>>",
    "a STRUCT<x: INT, `y z`: STRUCT<w: TIMESTAMP>>, b ARRAY<STRUCT<x: DECIMAL(9,3)>>, c STRUCT<>",
    "a MAP<STRING, STRUCT<x: MAP<STRING, BINARY>>>, `odd name` INT",
]


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    yield session
    session.stop()


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("ddl", DDLS)
def test_types_are_those_spark_hands_over(ddl: str) -> None:
    parsed = StructType.fromDDL(ddl)
    assert isinstance(parsed, StructType)
    expected = to_arrow_schema(parsed, timezone="UTC")
    assert schema(ddl).equals(expected, check_metadata=True)
    assert [field.nullable for field in schema(ddl)] == [field.nullable for field in expected]


@pytest.mark.parametrize("ddl", ["a INTERVAL YEAR", "a VARIANT", "a STRUCT<b: ARRAY<INTERVAL>>"])
def test_a_type_that_rows_cannot_carry_is_refused_by_column(ddl: str) -> None:
    with pytest.raises(SchemaUnsupportedError, match=r"column a.* can't carry; declare it as STRING"):
        schema(ddl)


def test_a_type_nobody_knows_is_refused() -> None:
    with pytest.raises(SchemaUnsupportedError, match="column a is unknown"):
        arrow_schema(Rows((Column("a", UNKNOWN),)))
