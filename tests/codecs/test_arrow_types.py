"""The Arrow types of a schema are Spark's own."""

from collections.abc import Iterator
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from holdfast.planning.types.spark_types import UNKNOWN, Column, RowType
from holdfast_runtime.streams.codecs import SchemaUnsupportedError, arrow_schema
from tests.codecs.schemas import FIRST, LAST, batch, schema
from tests.segments.conftest import small_session

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
    with small_session() as session:
        yield session


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("ddl", DDLS)
def test_types_are_those_spark_hands_over(ddl: str) -> None:
    parsed = StructType.fromDDL(ddl)
    assert isinstance(parsed, StructType)
    expected = to_arrow_schema(parsed, timezone="UTC")
    assert schema(ddl).equals(expected, check_metadata=True)
    assert [field.nullable for field in schema(ddl)] == [field.nullable for field in expected]


def test_values_at_the_bounds_come_back_from_spark_unchanged(spark: SparkSession) -> None:
    columns = schema("d TIMESTAMP, i TIMESTAMP_NTZ, g DATE, k DECIMAL(38,18), l DECIMAL(38,0), c DOUBLE, h FLOAT")
    low = {"d": FIRST, "i": FIRST, "g": -719_162, "k": Decimal(-9), "l": -(10**38) + 1, "c": float("-inf"), "h": -0.0}
    high = {
        "d": LAST,
        "i": LAST,
        "g": 2_932_896,
        "k": Decimal(10**20 - 1),
        "l": 10**38 - 1,
        "c": float("nan"),
        "h": 1e-45,
    }
    rows = batch(columns, [low, high, dict.fromkeys(columns.names)])
    frame = spark.createDataFrame(pa.Table.from_batches([rows])).selectExpr("*", "d IS NOT NULL AS e")
    from_spark = frame.toArrow().drop_columns(["e"])
    assert repr(from_spark.cast(columns).to_pylist()) == repr(rows.to_pylist())


@pytest.mark.parametrize("ddl", ["a INTERVAL YEAR", "a VARIANT", "a STRUCT<b: ARRAY<INTERVAL>>"])
def test_a_type_that_rows_cannot_carry_is_refused_by_column(ddl: str) -> None:
    with pytest.raises(SchemaUnsupportedError, match=r"column a.* can't carry; declare it as STRING"):
        schema(ddl)


def test_a_type_nobody_knows_is_refused() -> None:
    with pytest.raises(SchemaUnsupportedError, match="column a is unknown"):
        arrow_schema(RowType((Column("a", UNKNOWN),)))
