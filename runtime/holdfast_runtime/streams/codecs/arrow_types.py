"""The Arrow schema of a stream's columns: from Spark DDL to exactly the Arrow types in which Spark takes rows.

Gives the same result as `pyspark.sql.pandas.types.to_arrow_schema(schema, timezone="UTC")`, without Spark. Must not
invent a type for what Arrow can't carry: such a column is refused by name.
"""

import pyarrow as pa

from holdfast.errors import UserActionError
from holdfast.planning.types.ddl import parse_type
from holdfast.planning.types.spark_types import RowType, SparkType

PLAIN: dict[str, pa.DataType] = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "STRING": pa.string(),
    "CHAR": pa.string(),
    "VARCHAR": pa.string(),
    "BINARY": pa.binary(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us", tz="UTC"),
    "TIMESTAMP_NTZ": pa.timestamp("us"),
    "TIME": pa.time64("ns"),
    "VOID": pa.null(),
}


class SchemaUnsupportedError(UserActionError):
    """A stream's schema has a type that its rows can't carry."""


def arrow_schema(rows: RowType) -> pa.Schema:
    """Return the Arrow schema in which Spark exchanges rows of these columns."""
    fields = []
    for column in rows.columns:
        kind = parse_type(column.type)
        if kind is None:
            message = f"the type of column {column.name} is {column.type}, which is not known before the app runs"
            raise SchemaUnsupportedError(message)
        fields.append(pa.field(column.name, _arrow(kind, column.name)))
    return pa.schema(fields)


def _arrow(kind: SparkType, column: str) -> pa.DataType:  # noqa: PLR0911 - one per family of types
    """Return the Arrow type. Every part is nullable except the key of a map."""
    if kind.word == "STRUCT":
        pairs = zip(kind.names, kind.inner, strict=True)
        return pa.struct([pa.field(name, _arrow(inner, f"{column}.{name}")) for name, inner in pairs])
    if kind.word == "ARRAY":
        return pa.list_(pa.field("element", _arrow(kind.inner[0], column)))
    if kind.word == "MAP":
        key, value = (_arrow(inner, column) for inner in kind.inner)
        return pa.map_(pa.field("key", key, nullable=False), pa.field("value", value))
    if kind.word == "DECIMAL":
        return pa.decimal128(*kind.digits)
    if kind.word.startswith("STRING"):  # STRING COLLATE ...
        return pa.string()
    if kind.word.startswith("INTERVAL ") and not {"YEAR", "MONTH"} & set(kind.word.split()):
        return pa.duration("us")
    if kind.word not in PLAIN:
        message = (
            f"column {column} is {kind}, which rows of a stream can't carry; "
            "declare it as STRING and convert it in a select step"
        )
        raise SchemaUnsupportedError(message)
    return PLAIN[kind.word]
