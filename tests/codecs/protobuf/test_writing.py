"""Rows as messages: what Protobuf can't say is refused, with the column and what to do."""

from typing import Any

import pyarrow as pa
import pytest

from holdfast.planning.types.protobuf.columns import columns_of
from holdfast.planning.types.protobuf.fields import meeting
from holdfast_runtime.streams.codecs import EncodeError
from holdfast_runtime.streams.codecs.arrow_types import arrow_schema
from holdfast_runtime.streams.codecs.protobuf.compiled_reader import CompiledMessageReader
from holdfast_runtime.streams.codecs.protobuf.compiled_writer import CompiledMessageWriter
from holdfast_runtime.streams.codecs.protobuf.plain_writer import written_messages
from tests.codecs.protobuf.messages import codec_of, proto3

REFUSED: list[tuple[str, Any, str]] = [
    ("string x = 1;", {"x": None}, "column x is null, which its field can't say; fill it with coalesce"),
    ("repeated int32 x = 1;", {"x": None}, "column x is null"),
    ("repeated int32 x = 1;", {"x": [1, None]}, "column x has a null inside"),
    ("map<string, int32> x = 1;", {"x": [("a", None)]}, "column x.value is null"),
    ("uint32 x = 1;", {"x": -1}, "column x is -1, and its field has 32 bits without a sign"),
    ("uint32 x = 1;", {"x": 1 << 32}, "column x is 4294967296, and its field has 32 bits"),
    ("fixed64 x = 1;", {"x": -1}, "column x is -1, and its field has 64 bits"),
    ("E x = 1; enum E { A = 0; B = 1; }", {"x": "C"}, "column x is C, and its enum has A, B; map it in a select step"),
    ("oneof o { int32 x = 1; int32 y = 2; }", {"x": 1, "y": 2}, "column y and column x have a value"),
    ("message I { int32 y = 1; } I x = 1;", {"x": {"y": None}}, "column x.y is null"),
]


@pytest.mark.parametrize(("fields", "row", "why"), REFUSED)
def test_what_messages_can_not_say_is_refused(fields: str, row: dict[str, Any], why: str) -> None:
    codec = codec_of(proto3(f"message M {{ {fields} }}"))
    good = codec.decode(pa.array([b""], pa.binary())).rows.to_pylist()
    rows = pa.RecordBatch.from_pylist([*good, row], schema=codec.schema)
    with pytest.raises(EncodeError) as refused:
        codec.encode(rows)
    assert str(refused.value).startswith(f"a row can't be written as a message: {why}")


def test_defaults_take_no_bytes_where_absence_means_them() -> None:
    schema = proto3(
        "message M { int32 a = 1; optional int32 b = 2; string c = 3; repeated int32 d = 4; double e = 5; }"
    )
    codec = codec_of(schema)
    rows = [{"a": 0, "b": 0, "c": "", "d": [], "e": 0.0}, {"a": 0, "b": None, "c": "", "d": [0], "e": -0.0}]
    batch = pa.RecordBatch.from_pylist(rows, schema=codec.schema)
    assert codec.encode(batch).to_pylist() == [b"\x10\0", b"\x22\x01\0\x29" + b"\0" * 7 + b"\x80"]
    assert codec.decode(codec.encode(batch)).rows == batch


@pytest.mark.parametrize("size", [0, 1, 126, 127, 128, 129, 16_380, 16_384, 20_000])
def test_sizes_of_messages_are_as_long_as_they_need(size: int) -> None:
    schema = proto3("message M { I i = 1; int32 z = 2; } message I { I2 i = 3; } message I2 { string s = 1; }")
    codec = codec_of(schema)
    batch = pa.RecordBatch.from_pylist([{"i": {"i": {"s": "x" * size}}, "z": 7}] * 2, schema=codec.schema)
    written = codec.encode(batch)
    assert written.to_pylist() == written_messages(meeting(schema, columns_of(schema)).program, batch)
    assert codec.decode(written).rows == batch


def test_a_message_of_many_fields_is_left_to_the_law() -> None:
    schema = proto3("message M { " + " ".join(f"int32 f{at} = {at};" for at in range(1, 300)) + " }")
    program = meeting(schema, columns_of(schema)).program
    assert CompiledMessageReader.of(program, arrow_schema(columns_of(schema))) is None
    assert CompiledMessageWriter.of(program) is None
    codec = codec_of(schema)
    rows = codec.decode(pa.array([b"\x08\x01"], pa.binary())).rows
    assert codec.encode(rows).to_pylist() == [b"\x08\x01"]


def test_loops_are_built() -> None:
    schema = proto3("message M { int32 a = 1; }")
    assert CompiledMessageWriter.of(meeting(schema, columns_of(schema)).program), (
        "protobuf_values.c is not built: `make setup`"
    )
