"""The Arrow types of a stream's columns, the years that times in them must be in, and the event times of rows.

From Spark DDL come exactly the types in which Spark takes rows, those of
`pyspark.sql.pandas.types.to_arrow_schema(schema, timezone="UTC")`, without Spark; a column that Arrow can't carry is
refused by name. Spark SQL, ISO 8601 and Python's `datetime` end with the years 1 to 9999. Arrow goes on for 292 000
years, which is where microseconds mistaken for milliseconds end up. Times are checked wherever rows come in (records,
generators, functions), also inside structs, lists and maps, because otherwise a later step would stop on them.
Must not drop rows: the caller does, and counts.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import UserActionError
from holdfast.planning.types.ddl import parse_type
from holdfast.planning.types.spark_types import UNKNOWN, Column, RowType, SparkType
from holdfast_runtime.streams.codecs.codec import Indices

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


def row_type(schema: pa.Schema) -> RowType:
    """Return the columns of rows as Spark has them; where several types are one in Arrow, the first: STRING."""
    return RowType(tuple(Column(field.name, str(spark_type(field.type) or UNKNOWN)) for field in schema))


def spark_type(kind: pa.DataType) -> SparkType | None:
    """Return the type in Spark SQL; None if there is none."""
    if pa.types.is_decimal128(kind):
        return SparkType("DECIMAL", digits=(kind.precision, kind.scale))
    if not (pa.types.is_struct(kind) or pa.types.is_list(kind) or pa.types.is_map(kind)):
        return _SIMPLE.get(kind)
    parts = [kind.key_type, kind.item_type] if pa.types.is_map(kind) else [part.type for part in _fields(kind)]
    inner = tuple(part for part in map(spark_type, parts) if part is not None)
    if len(inner) < len(parts):
        return None
    if pa.types.is_struct(kind):
        return SparkType("STRUCT", inner, tuple(part.name for part in kind))
    return SparkType("MAP" if pa.types.is_map(kind) else "ARRAY", inner)


def _fields(kind: pa.DataType) -> list[pa.Field]:
    return [kind.field(index) for index in range(kind.num_fields)]


_SIMPLE = {kind: SparkType(word) for word, kind in reversed(PLAIN.items())} | {
    pa.time64("ns"): SparkType("TIME", digits=(6,))
}


FIRST_MICROS, LAST_MICROS = -62_135_596_800_000_000, 253_402_300_799_999_999
FIRST_DAY, LAST_DAY = -719_162, 2_932_896
LAST_NANO = 24 * 60 * 60 * 10**9 - 1
RANGES = {
    "TINYINT": (-(1 << 7), (1 << 7) - 1),
    "SMALLINT": (-(1 << 15), (1 << 15) - 1),
    "INT": (-(1 << 31), (1 << 31) - 1),
    "BIGINT": (-(1 << 63), (1 << 63) - 1),
    "DATE": (FIRST_DAY, LAST_DAY),
    "TIMESTAMP": (FIRST_MICROS, LAST_MICROS),
    "TIMESTAMP_NTZ": (FIRST_MICROS, LAST_MICROS),
    "TIME": (0, LAST_NANO),
}
"""The whole numbers that columns of a type hold, in their unit."""


def outside_years(column: pa.Array, path: str) -> str | None:
    """Return the path of the first time outside of the years 1 to 9999 in this column, or None."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        return None if _between(column.cast(pa.timestamp("us", kind.tz)), FIRST_MICROS, LAST_MICROS) else path
    if pa.types.is_date(kind):
        return None if _between(column, FIRST_DAY, LAST_DAY) else path
    if not has_times(kind):
        return None
    paths = (outside_years(part, f"{path}{suffix}") for suffix, part in parts(column))
    return next((path for path in paths if path is not None), None)


def has_times(kind: pa.DataType) -> bool:
    """Whether a type is, or contains, timestamps or dates."""
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return True
    return any(has_times(kind.field(index).type) for index in range(kind.num_fields))


def parts(column: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    """Yield the parts of a nested column with their path suffixes, without values hidden behind nulls."""
    kind = column.type
    if pa.types.is_map(kind):
        entries = compact(column).cast(pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)])))
        yield from zip((" key", " value"), entries.flatten().flatten(), strict=True)
    elif pa.types.is_struct(kind):
        yield from zip((f".{field.name}" for field in kind), compact(column).flatten(), strict=True)
    elif pa.types.is_list(kind):
        yield "[]", compact(column).flatten()


def compact(array: pa.Array) -> pa.Array:
    """Copy the values into their own memory: pyarrow's `flatten` and `cast` can abort on slices of nested arrays."""
    return array.take(pa.array(np.arange(len(array))))


def _between(times: pa.Array, first: int, last: int) -> bool:
    ends = pc.min_max(times.view(pa.int32() if pa.types.is_date(times.type) else pa.int64()))
    return not ends["min"].is_valid or (ends["min"].as_py() >= first and ends["max"].as_py() <= last)


def event_times(rows: pa.RecordBatch, column: str) -> pa.Int64Array:
    """Return microseconds since 1970 UTC; null where the column is null."""
    times = rows.column(column)
    if not pa.types.is_timestamp(times.type):
        message = f"event time needs a TIMESTAMP column; {column} is {times.type}"
        raise TypeError(message)
    return times.cast(pa.timestamp("us", tz=times.type.tz)).view(pa.int64())


def without_event_time(times: pa.Int64Array) -> Indices:
    """Return the indices of rows without event time."""
    return np.flatnonzero(times.is_null().to_numpy(zero_copy_only=False)).astype(np.int64)
