"""Arrow, text and bytes: rows come back, bad records are named, nothing raises."""

import struct
from collections.abc import Callable
from itertools import permutations

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


def view_of_one_text(times: int) -> pa.Array:
    """So many views of the same kilobyte."""
    text = b"x" * 1024
    return pa.Array.from_buffers(
        pa.string_view(),
        times,
        [None, pa.py_buffer(struct.pack("<i4sii", 1024, text[:4], 0, 0) * times), pa.py_buffer(text)],
    )


def compressed(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as stream:
        stream.write_table(rows)
    return bytes(sink.getvalue())


def nulls(count: int) -> pa.Array:
    """One list of so many values that take no byte."""
    return pa.ListArray.from_arrays(pa.array([0, count], pa.int32()), pa.nulls(count))


GROWING: dict[str, tuple[str, Callable[[], pa.Table], str]] = {
    "columns that are not read": ("a INT", lambda: pa.table({"z": pa.nulls(10**8)}), "100000000 rows"),
    "rows of nothing": ("a VOID", lambda: pa.table({"a": pa.nulls(10**8)}), "100000000 rows"),
    "elements": ("a ARRAY<VOID>", lambda: pa.table({"a": nulls(10**8)}), "field a has 100000000 elements"),
    "views": ("a STRING", lambda: pa.table({"a": view_of_one_text(70_000)}), "field a holds 71680000 bytes"),
    "compressed": ("a STRING", lambda: pa.table({"a": ["x" * 10**6] * 70}), "when it is decompressed"),
}


@pytest.mark.parametrize("name", GROWING)
def test_a_boundless_arrow_record_is_bad_before_it_grows(name: str) -> None:
    ddl, made, reason = GROWING[name]
    record = compressed(made()) if name == "compressed" else ipc(made())
    good_record = ipc(pa.RecordBatch.from_arrays([pa.nulls(1, schema(ddl).field(0).type)], schema=schema(ddl)))
    before = pa.total_allocated_bytes()
    decoded = ArrowCodec(schema(ddl)).decode(binary(good_record, record, good_record))
    assert pa.total_allocated_bytes() - before < 1 << 20
    assert [bad.index for bad in decoded.bad] == [1]
    assert reason in decoded.bad[0].reason
    assert decoded.good.tolist() == [0, 2]


def test_an_arrow_record_may_have_the_size_on_the_page() -> None:
    for rows in (pa.table({"a": ["x" * 660] * 100_000}), pa.table({"a": range(100_000)})):
        assert (
            ArrowCodec(schema("a STRING" if rows.column("a")[0].as_py() else "a BIGINT"))
            .decode(binary(compressed(rows)))
            .bad
            == ()
        )


@pytest.mark.parametrize(
    ("ddl", "column", "reason"),
    [
        ("a TIMESTAMP", pa.array([1 << 60], pa.timestamp("us", "UTC")), "field a holds a time outside of the years"),
        ("a TIMESTAMP_NTZ", pa.array([1 << 58], pa.timestamp("us")), "field a holds a time outside of the years"),
        ("a TIMESTAMP", pa.array([1 << 50], pa.timestamp("ms", "UTC")), "field a"),
        ("a DATE", pa.array([1 << 30], pa.date32()), "field a holds a time outside of the years 1 to 9999"),
        (
            "a STRUCT<x: MAP<STRING, ARRAY<DATE>>>",
            pa.array([{"x": [("k", [0, 1 << 30])]}], pa.struct([("x", pa.map_(pa.string(), pa.list_(pa.date32())))])),
            "field a.x value[] holds a time outside of the years 1 to 9999",
        ),
        ("a TIME", pa.array([1], pa.time64("ns")), "field a holds a time of day with a part of a microsecond"),
        (
            "a INTERVAL DAY TO SECOND",
            pa.array([-(1 << 63)], pa.duration("us")),
            "field a holds an interval of more than 106751991 days",
        ),
        ("a ARRAY<STRING>", pa.array([[1]]), "field a should be list<element: string>, found"),
        (
            "a ARRAY<STRING>",
            pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), pa.array(["x"]).dictionary_encode()),
            "field a should be list<element: string>",
        ),
    ],
)
@pytest.mark.parametrize("beside", [0, 3])
def test_an_arrow_value_unusable_for_steps_makes_its_record_bad(
    ddl: str, column: pa.Array, reason: str, beside: int
) -> None:
    good = ipc(pa.RecordBatch.from_arrays([pa.nulls(2, schema(ddl).field(0).type)], schema=schema(ddl)))
    decoded = ArrowCodec(schema(ddl)).decode(binary(*[good] * beside, ipc(pa.table({"a": column})), *[good] * beside))
    assert [bad.index for bad in decoded.bad] == [beside]
    assert reason in decoded.bad[0].reason
    assert decoded.rows.num_rows == 4 * beside


def test_arrow_messages_in_any_order_are_bad_or_good() -> None:
    stream = ipc(pa.table({"a": pa.array(["x"]).dictionary_encode(), "b": ["y"]}))
    messages = [one.serialize().to_pybytes() for one in pa.ipc.MessageReader.open_stream(stream)]
    decoded = {
        order: ArrowCodec(schema("b STRING")).decode(binary(b"".join(messages[at] for at in order)))
        for count in range(4)
        for order in permutations(range(3), count)
    }
    assert [order for order, outcome in decoded.items() if outcome.rows.num_rows] == [(0, 1, 2)]
    assert [order for order, outcome in decoded.items() if not outcome.bad] == [(0,), (0, 1), (0, 1, 2)]


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
