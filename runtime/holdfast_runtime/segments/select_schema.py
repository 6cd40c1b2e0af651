"""Why: only Spark can tell every type that comes out of a `select`, and rows that cross segments need all of them.

Must not let a type pass that rows would lose on the way: Spark would see another one behind the crossing.
"""

from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from holdfast.planning.types.ddl import parse_schema
from holdfast.planning.types.findings import excerpt
from holdfast_runtime.segments.catalyst import Catalyst, TextRefusedError
from holdfast_runtime.segments.graph import SelectSchema
from holdfast_runtime.streams.codecs import arrow_schema


def select_schema(spark: SparkSession) -> SelectSchema:
    """Spark's answer to what columns come out of a `select`."""
    catalyst = Catalyst(spark)

    def answer(given: pa.Schema, texts: tuple[str, ...]) -> pa.Schema:
        schema: Any = catalyst.selected(given, texts)._jdf.schema()  # noqa: SLF001 - Python's loses collations
        if not schema.length():
            return pa.schema([])
        found = arrow_schema(parse_schema(schema.toDDL()))
        carried = catalyst.frame(found)._jdf.schema()  # noqa: SLF001
        for one, other in zip(schema.asNullable().fields(), carried.fields(), strict=True):
            if not one.dataType().equals(other.dataType()):
                message = (
                    f"column {one.name()} of {excerpt(', '.join(texts))} is {excerpt(one.dataType().sql())}, which "
                    f"rows can't carry as it is; CAST it to {excerpt(other.dataType().sql())}"
                )
                raise TextRefusedError(message)
        return found

    return answer
