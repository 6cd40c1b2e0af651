"""Rows as Avro records: the values of any row, the fields that no column has, and the values that no field takes."""

import io
import json
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.planning.types.avro.columns import avro_of
from holdfast.planning.types.avro.values import whole
from holdfast.planning.types.ddl import parse_schema
from holdfast.planning.types.spark_types import RowType
from holdfast_runtime.streams.codecs import EncodeError, SchemaUnsupportedError
from holdfast_runtime.streams.codecs.arrow_types import arrow_schema
from holdfast_runtime.streams.codecs.avro import AvroCodec, compiled_writer
from holdfast_runtime.streams.codecs.record_schemas import OneSchema, WrittenSchema
from holdfast_runtime.streams.codecs.record_writer import RecordWriter
from tests.codecs.avro.records import by_fastavro, codec_of, parsed, record_schema
from tests.codecs.schemas import batch, batches, same

COLUMNS = st.recursive(
    st.sampled_from(["BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "STRING", "BINARY", "DATE",
                     "TIMESTAMP", "TIMESTAMP_NTZ", "DECIMAL(5,2)", "DECIMAL(38,0)", "DECIMAL(38,38)"]),
    lambda inner: st.one_of(
        inner.map("ARRAY<{}>".format),
        inner.map("MAP<STRING, {}>".format),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda parts: f"STRUCT<{', '.join(f'p{at}: {part}' for at, part in enumerate(parts))}>"
        ),
    ),
    max_leaves=4,
)  # fmt: skip


@st.composite
def cases(draw: st.DrawFn) -> tuple[RowType, pa.RecordBatch]:
    ddl = ", ".join(f"c{at} {column}" for at, column in enumerate(draw(st.lists(COLUMNS, min_size=1, max_size=4))))
    rows = parse_schema(ddl)
    return rows, draw(batches(arrow_schema(rows)))


def codec_for_writing(rows: RowType, tree: Any, frame: bytes = b"") -> AvroCodec:
    schema = parsed(tree)
    return AvroCodec(rows, OneSchema(schema), WrittenSchema(schema, frame))


@pytest.fixture(params=["compiled", "plain"])
def _loops(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("HOLDFAST_PLAIN_LOOPS", "1" if request.param == "plain" else "0")
    compiled_writer.library.cache_clear()
    yield
    monkeypatch.undo()
    compiled_writer.library.cache_clear()


@given(cases(), st.data())
def test_any_rows_are_read_back_as_they_were(case: tuple[RowType, pa.RecordBatch], data: st.DataObject) -> None:
    columns, rows = case
    tree = json.loads(avro_of(columns, "Row"))
    codec = codec_for_writing(columns, tree)
    values = codec.encode(rows)
    decoded = codec.decode(values)
    assert not decoded.bad
    assert same(decoded.rows, rows)
    schema = fastavro.parse_schema(tree)
    for raw in values.to_pylist():
        datum = io.BytesIO(raw)
        fastavro.schemaless_reader(datum, schema, None)
        assert not datum.read()
    first = data.draw(st.integers(0, rows.num_rows))
    assert codec.encode(rows.slice(first)).to_pylist() == values.slice(first).to_pylist()
    assert plain(columns, tree, rows) == values.to_pylist()


def plain(columns: RowType, tree: Any, rows: pa.RecordBatch) -> list[bytes]:
    """By the plain writer."""
    codec = codec_for_writing(columns, tree)
    writer = codec._writer  # noqa: SLF001
    assert isinstance(writer, RecordWriter)
    assert writer.compiled is not None, "avro_values.c is not built: `make setup`"
    codec._writer = replace(writer, compiled=None)  # noqa: SLF001
    written: list[bytes] = codec.encode(rows).to_pylist()
    return written


@pytest.mark.usefixtures("_loops")
def test_fields_without_a_column_are_written_with_their_default() -> None:
    inner = {"type": "record", "name": "I", "fields": [{"name": "x", "type": "int", "default": 3}]}
    tree = {"type": "record", "name": "R", "fields": [
        {"name": "r", "type": inner, "default": {}},
        {"name": "a", "type": "string"},
        {"name": "n", "type": ["string", "null"], "default": "none"},
        {"name": "m", "type": ["string", "null"]},
        {"name": "l", "type": {"type": "array", "items": "int"}, "default": [1, 2]},
    ]}  # fmt: skip
    columns = parse_schema("a STRING")
    values = codec_for_writing(columns, tree, b"\0\0\0\0\7").encode(batch(arrow_schema(columns), [{"a": "x"}]))
    expected = {"r": {"x": 3}, "a": "x", "n": "none", "m": None, "l": [1, 2]}
    assert values.to_pylist() == [b"\0\0\0\0\7" + by_fastavro(tree, expected)[0].as_py()]


NUMBER = {"type": "fixed", "name": "N", "size": 2, "logicalType": "decimal", "precision": 38, "scale": 2}
LETTER, THREE = {"type": "enum", "name": "L", "symbols": ["X", "Y"]}, {"type": "fixed", "name": "F", "size": 3}
NANOS = {"type": "long", "logicalType": "timestamp-nanos"}
REFUSED: list[tuple[Any, str, Any, str]] = [
    ("int", "INT", None, "column a is null, and its field may not be null; fill it with coalesce in a select step"),
    (["int", "string"], "INT", None, "column a is null, and no branch of its field is null; fill it with coalesce"),
    ({"type": "array", "items": "int"}, "ARRAY<INT>", [1, None], "column a[] is null"),
    (record_schema(x="int"), "STRUCT<x: INT>", {"x": None}, "column a.x is null"),
    (record_schema(x="int"), "STRUCT<x: INT>", None, "column a is null"),
    ({"type": "map", "values": "int"}, "MAP<STRING, INT>", [("k", None)], "column a[] is null"),
    (LETTER, "STRING", "Z", "column a is Z, and its field takes X, Y; map it"),
    (THREE, "BINARY", b"ab", "column a has 2 bytes, and its field has 3; pad or cut it"),
    (NUMBER, "DECIMAL(6,2)", Decimal("327.68"), "column a is a number of 3 bytes, and its field has 2; round or cast"),
    (NANOS, "TIMESTAMP", 9_223_372_036_854_776, "and its field has no more than 64 bits; correct it in a select step"),
]  # fmt: skip


@pytest.mark.usefixtures("_loops")
@pytest.mark.parametrize(("tree", "column", "value", "why"), REFUSED)
def test_a_value_that_no_field_takes_is_refused(tree: Any, column: str, value: Any, why: str) -> None:
    columns = parse_schema(f"a {column}")
    if isinstance(tree, dict):
        tree = tree | {"name": "Part"}
    codec = codec_for_writing(columns, record_schema(a=tree))
    with pytest.raises(EncodeError) as refused:
        codec.encode(batch(arrow_schema(columns), [{"a": value}]))
    assert why in str(refused.value)


@pytest.mark.usefixtures("_loops")
def test_the_first_row_that_is_refused_says_why() -> None:
    columns = parse_schema("a INT, b STRING")
    codec = codec_for_writing(columns, record_schema(a="int", b=LETTER))
    cells = [(1, "X"), (2, "Y"), (3, "Q"), (None, "X")]
    rows = batch(arrow_schema(columns), [{"a": number, "b": letter} for number, letter in cells])
    with pytest.raises(EncodeError, match="column b is Q"):
        codec.encode(rows)
    with pytest.raises(EncodeError, match="column a is null"):
        codec.encode(rows.slice(3))


@pytest.mark.usefixtures("_loops")
@pytest.mark.parametrize("nanos", [-1, 24 * 60 * 60 * 10**9])
def test_a_time_that_is_none_of_a_day_is_refused(nanos: int) -> None:
    columns = parse_schema("a TIME(6)")
    codec = codec_for_writing(columns, record_schema(a={"type": "long", "logicalType": "time-micros"}))
    times = pa.array(np.array([nanos]), pa.int64()).view(pa.time64("ns"))
    with pytest.raises(EncodeError, match=f"column a is {nanos} nanoseconds, which is no time of a day"):
        codec.encode(pa.RecordBatch.from_arrays([times], schema=arrow_schema(columns)))


@pytest.mark.usefixtures("_loops")
def test_finer_times_are_rounded_down() -> None:
    columns = parse_schema("a TIMESTAMP, b TIME(6)")
    tree = record_schema(
        a={"type": "long", "logicalType": "timestamp-millis"}, b={"type": "int", "logicalType": "time-millis"}
    )
    rows = batch(arrow_schema(columns), [{"a": -1, "b": 1_999_999}, {"a": 1999, "b": 999_999}])
    assert codec_for_writing(columns, tree).encode(rows).to_pylist() == [whole(-1) + whole(1), whole(1) + whole(0)]


@pytest.mark.usefixtures("_loops")
def test_decimals_may_need_more_than_sixteen_bytes() -> None:
    columns = parse_schema("a DECIMAL(38,0)")
    tree = record_schema(a={"type": "bytes", "logicalType": "decimal", "precision": 60, "scale": 20})
    rows = batch(arrow_schema(columns), [{"a": Decimal(1)}, {"a": Decimal("-" + 38 * "9")}])
    expected = [10**20, (1 - 10**38) * 10**20]
    datums = [number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True) for number in expected]
    values = codec_for_writing(columns, tree).encode(rows).to_pylist()
    assert values == [whole(len(datum)) + datum for datum in datums]


def test_a_schema_that_does_not_take_the_columns_is_refused() -> None:
    with pytest.raises(SchemaUnsupportedError, match="column a is BIGINT, and field a is int, which does not take all"):
        codec_for_writing(parse_schema("a BIGINT"), record_schema(a="int"))


def test_a_stream_without_a_written_schema_is_not_written() -> None:
    codec = codec_of(record_schema(a="int"), "a INT")
    with pytest.raises(EncodeError, match="no Avro schema to write its records with"):
        codec.encode(codec.decode(pa.array([b"\2"], pa.binary())).rows)


def test_rows_of_other_columns_are_not_written() -> None:
    codec = codec_of(record_schema(a="int"))
    with pytest.raises(EncodeError, match="the rows to write have the columns"):
        codec.encode(pa.RecordBatch.from_pydict({"a": [1]}))
