"""Random schemas and rows that fit them, for the properties of all codecs."""

from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from holdfast.planning.types.ddl import parse_schema
from holdfast_runtime.streams.codecs import arrow_schema

CHARACTERS = st.characters(exclude_categories=["Cs"])
TEXT = st.text(CHARACTERS, max_size=12)
NAMES = st.text(CHARACTERS, min_size=1, max_size=6)
FIRST, LAST = -62_135_596_800_000_000, 253_402_300_799_999_999


def schema(ddl: str) -> pa.Schema:
    return arrow_schema(parse_schema(ddl))


def binary(*values: bytes | None) -> pa.BinaryArray:
    return pa.array(values, pa.binary())


def decimals() -> st.SearchStrategy[pa.DataType]:
    return st.integers(1, 38).flatmap(lambda p: st.integers(0, p).map(lambda s: pa.decimal128(p, s)))


LEAVES = st.one_of(
    st.sampled_from(
        [
            pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string(),
            pa.binary(), pa.date32(), pa.timestamp("us", tz="UTC"), pa.timestamp("us"), pa.null(),
        ]
    ),
    decimals(),
)  # fmt: skip


def structs(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    return st.dictionaries(NAMES, inner, min_size=1, max_size=3).map(lambda fields: pa.struct(list(fields.items())))


def lists(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    return inner.map(lambda kind: pa.list_(pa.field("element", kind)))


def maps(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    return inner.map(lambda kind: pa.map_(pa.field("key", pa.string(), nullable=False), pa.field("value", kind)))


TYPES = st.recursive(LEAVES, lambda inner: st.one_of(structs(inner), lists(inner), maps(inner)), max_leaves=4)
SCHEMAS = st.dictionaries(NAMES, TYPES, min_size=1, max_size=5).map(lambda fields: pa.schema(list(fields.items())))


def values(kind: pa.DataType) -> st.SearchStrategy[Any]:
    """Values of this type, or None."""
    return st.none() if pa.types.is_null(kind) else st.none() | _values(kind)


def _values(kind: pa.DataType) -> st.SearchStrategy[Any]:  # noqa: PLR0911
    if pa.types.is_struct(kind):
        return st.fixed_dictionaries({field.name: values(field.type) for field in kind})
    if pa.types.is_map(kind):
        return st.dictionaries(TEXT, values(kind.item_type), max_size=3).map(lambda pairs: list(pairs.items()))
    if pa.types.is_list(kind):
        return st.lists(values(kind.value_type), max_size=3)
    if pa.types.is_integer(kind):
        return st.integers(-(1 << (kind.bit_width - 1)), (1 << (kind.bit_width - 1)) - 1)
    if pa.types.is_floating(kind):
        return st.floats(width=32 if kind.bit_width == 32 else 64, allow_nan=True)
    if pa.types.is_decimal(kind):
        limit = 10**kind.precision - 1
        return st.integers(-limit, limit).map(lambda number: _scaled(number, kind.scale))
    if pa.types.is_timestamp(kind):
        return st.integers(FIRST, LAST)
    if pa.types.is_date(kind):
        return st.integers(-719_162, 2_932_896)
    return {pa.string().id: TEXT, pa.binary().id: st.binary(max_size=9), pa.bool_().id: st.booleans()}[kind.id]


def _scaled(number: int, scale: int) -> Any:
    return Decimal((int(number < 0), tuple(int(digit) for digit in str(abs(number))), -scale))


def batches(of: pa.Schema, max_rows: int = 8) -> st.SearchStrategy[pa.RecordBatch]:
    return st.lists(st.fixed_dictionaries({field.name: values(field.type) for field in of}), max_size=max_rows).map(
        lambda rows: batch(of, rows)
    )


def batch(of: pa.Schema, rows: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([row[f.name] for row in rows], f.type) for f in of], schema=of)


ANY_ROWS = SCHEMAS.flatmap(batches)


def same(left: pa.RecordBatch, right: pa.RecordBatch) -> bool:
    """Equal, with NaN equal to itself and -0.0 different from 0.0."""
    return left.schema.equals(right.schema) and repr(left.to_pylist()) == repr(right.to_pylist())
