"""Arrow, text and bytes: rows come back, bad records are named, nothing raises."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast_runtime.streams.codecs import (
    ArrowCodec,
    BinaryCodec,
    Codec,
    SchemaUnsupportedError,
    StringCodec,
    codec_for,
)
from tests.codecs.schemas import ANY_ROWS, batch, batches, binary, same, schema

COLUMNS = schema("a INT, b STRING, d TIMESTAMP, e STRUCT<x: ARRAY<INT>>")
TEXT, BYTES = schema("value STRING"), schema("value BINARY")


def ipc(rows: pa.RecordBatch | pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write(rows)
    return bytes(sink.getvalue())


@given(ANY_ROWS)
def test_arrow_rows_come_back_one_by_one(rows: pa.RecordBatch) -> None:
    codec = ArrowCodec(rows.schema)
    decoded = codec.decode(codec.encode(rows))
    assert decoded.bad == ()
    assert same(decoded.rows, rows)
    assert decoded.good.tolist() == list(range(rows.num_rows))


@given(batches(COLUMNS), batches(COLUMNS))
def test_an_arrow_record_may_hold_many_rows(first: pa.RecordBatch, second: pa.RecordBatch) -> None:
    decoded = ArrowCodec(COLUMNS).decode(binary(b"no", ipc(first), None, ipc(second)))
    assert same(decoded.rows, pa.concat_batches([first, second]))
    assert decoded.good.tolist() == [1] * first.num_rows + [3] * second.num_rows
    assert ([bad.index for bad in decoded.bad], decoded.nulls.tolist()) == ([0], [2])


@given(batches(COLUMNS), st.data())
def test_damaged_arrow_never_raises(rows: pa.RecordBatch, data: st.DataObject) -> None:
    raw = bytearray(ipc(rows))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(raw)))
    decoded = ArrowCodec(COLUMNS).decode(binary(bytes(raw), bytes(raw[:cut]), ipc(rows)))
    decoded.rows.validate(full=True)
    assert [bad.index for bad in decoded.bad if bad.index == 2] == []


def test_arrow_columns_go_by_name_and_kindred_types() -> None:
    table = pa.table(
        {"z": [1], "b": pa.array(["x"], pa.large_string()), "a": pa.array([7], pa.int64()),
         "d": pa.array([1], pa.timestamp("ms", tz="Europe/Berlin"))}
    )  # fmt: skip
    decoded = ArrowCodec(COLUMNS).decode(binary(ipc(table)))
    assert decoded.bad == ()
    row = decoded.rows.to_pylist()[0]
    assert (row["a"], row["b"], row["d"].timestamp(), row["e"]) == (7, "x", 0.001, None)


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        (pa.array(["1"]), "field a should be int32, found string"),
        (pa.array([1 << 40]), "field a should be int32, found int64 with values that do not fit"),
    ],
)
def test_an_arrow_column_of_another_type_is_bad_by_name(column: pa.Array, reason: str) -> None:
    assert ArrowCodec(COLUMNS).decode(binary(ipc(pa.table({"a": column})))).bad[0].reason == reason


@given(st.lists(st.none() | st.binary(max_size=6) | st.text(max_size=6).map(str.encode), max_size=20))
def test_text_is_what_is_utf8_and_bytes_are_all(values: list[bytes | None]) -> None:
    def is_text(raw: bytes) -> bool:
        return raw == raw.decode(errors="ignore").encode()

    text, raw = StringCodec(TEXT).decode(binary(*values)), BinaryCodec(BYTES).decode(binary(*values))
    assert text.good.tolist() == [at for at, value in enumerate(values) if value is not None and is_text(value)]
    assert [bad.index for bad in text.bad] == [
        at for at, value in enumerate(values) if value is not None and not is_text(value)
    ]
    assert raw.rows.column(0).to_pylist() == [value for value in values if value is not None]
    assert np.array_equal(text.nulls, raw.nulls)
    assert StringCodec(TEXT).encode(text.rows).to_pylist() == [values[at] for at in text.good.tolist()]


@pytest.mark.parametrize("codec", [StringCodec(TEXT), BinaryCodec(BYTES)])
def test_a_null_value_is_written_as_a_null_record(codec: Codec) -> None:
    assert codec.encode(batch(codec.schema, [{"value": None}])).to_pylist() == [None]


def test_each_format_has_its_codec_and_its_columns() -> None:
    assert isinstance(codec_for("arrow", COLUMNS), ArrowCodec)
    assert isinstance(codec_for("binary", BYTES), BinaryCodec)
    with pytest.raises(SchemaUnsupportedError, match='format string has the schema "value STRING" and no other'):
        codec_for("string", BYTES)
