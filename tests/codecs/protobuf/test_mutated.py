"""Damaged messages of a schema with all types: what is read, and what of it google.protobuf reads.

The reader refuses all that google.protobuf refuses, and beyond that only what its reasons name. `HOLDFAST_SEED` draws
other records, `HOLDFAST_MUTATED` more of them; `make soak` does both.
"""

import random
import re
from typing import Any

import pyarrow as pa
from google.protobuf import descriptor_pb2
from google.protobuf.message import DecodeError

from holdfast.planning.types.protobuf.columns import columns_of
from holdfast.planning.types.protobuf.fields import meeting
from holdfast.planning.types.protobuf.schema import SCALARS
from holdfast_runtime.streams.codecs.arrow_types import arrow_schema
from holdfast_runtime.streams.codecs.protobuf.compiled_reader import CompiledMessageReader
from holdfast_runtime.streams.codecs.protobuf.protobuf_judge import ProtobufJudge
from holdfast_runtime.streams.codecs.record_reader import RecordReader
from tests.codecs.avro.records import bare_rows
from tests.codecs.avro.test_mutated import BLOCK, RECORDS, SEED, mutated
from tests.codecs.protobuf.messages import FIELD, bare_message, google_class, proto3
from tests.codecs.protobuf.test_drawn import ordered
from tests.codecs.schemas import binary

TEXT = f"""
message M {{
  {" ".join(f"{kind} f{at} = {at};" for at, kind in enumerate(SCALARS, 1))}
  repeated sint32 numbers = 20; repeated string words = 21; I inner = 22; repeated I inners = 23;
  google.protobuf.Timestamp at = 24; google.protobuf.Int64Value wrapped = 25;
}}
message I {{ string name = 1; int64 count = 2; }}
"""
STRICTER = re.compile(
    r"is (a varint|\d bytes|bytes with their size|a group)"  # of another type, which Protobuf takes for unknown
    r"|the years 1 to 9999|nanoseconds"
    r"|a number of more than 64 bits"  # of ten bytes, of which google.protobuf drops what is too much
)


def message_class() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="m.proto", syntax="proto3")
    file.dependency.extend(["google/protobuf/timestamp.proto", "google/protobuf/wrappers.proto"])
    made, inner = file.message_type.add(name="M"), file.message_type.add(name="I")
    single, many = FIELD.LABEL_OPTIONAL, FIELD.LABEL_REPEATED

    def field(message: Any, name: str, number: int, kind: str, label: int = single, of: str = "") -> None:
        message.field.add(
            name=name, number=number, type=getattr(FIELD, f"TYPE_{kind}"), label=label, type_name=of or None
        )

    for at, kind in enumerate(SCALARS, 1):
        field(made, f"f{at}", at, kind.upper())
    field(made, "numbers", 20, "SINT32", many)
    field(made, "words", 21, "STRING", many)
    field(made, "inner", 22, "MESSAGE", of=".I")
    field(made, "inners", 23, "MESSAGE", many, ".I")
    field(made, "at", 24, "MESSAGE", of=".google.protobuf.Timestamp")
    field(made, "wrapped", 25, "MESSAGE", of=".google.protobuf.Int64Value")
    field(inner, "name", 1, "STRING")
    field(inner, "count", 2, "INT64")
    return google_class(file, "M")


def record(draw: random.Random, made: Any) -> bytes:
    message = made(f1=True, f2=-1, f3=draw.getrandbits(50), f4=draw.getrandbits(9), f5=2**64 - 1, f6=-9, f7=-(2**60))
    message.f8, message.f9, message.f10, message.f11 = 7, 8, -7, -8
    message.f12, message.f13, message.f14, message.f15 = 0.5, draw.random(), "ä" * draw.randrange(4), b"\xff\0"
    message.numbers.extend([1, -2, 300])
    message.words.extend(["a", ""])
    message.inner.name = "n"
    message.inners.add(count=draw.getrandbits(20))
    message.at.seconds, message.wrapped.value = draw.randrange(10**9), 0
    written: bytes = message.SerializeToString()
    return written


def test_what_is_read_of_damaged_messages_is_what_google_reads() -> None:
    draw, made = random.Random(SEED), message_class()  # noqa: S311
    schema = proto3(TEXT)
    columns = columns_of(schema)
    program, arrow = meeting(schema, columns).program, arrow_schema(columns)
    compiled = CompiledMessageReader.of(program, arrow)
    assert compiled is not None, "protobuf_records.c is not built: `make setup`"
    reader, law = RecordReader(arrow, ProtobufJudge(program).read, compiled), ProtobufJudge(program).read
    originals, count, refused = [record(draw, made) for _ in range(BLOCK)], 0, 0
    for _ in range(RECORDS // 2 // BLOCK):
        values = [mutated(draw, raw) for raw in originals]
        array: pa.BinaryArray = binary(b"before", *values).slice(1)
        read, judged = reader.read(array, 0), RecordReader(arrow, law, None).read(array, 0)
        message = f"HOLDFAST_SEED={SEED}"
        assert read.bad == judged.bad, message
        assert repr(bare_rows(read.rows)) == repr(bare_rows(judged.rows)), message
        by_google = dict(parsed(made, values))
        assert set(read.good.tolist()) <= by_google.keys(), message
        for index, reason in read.bad:
            assert index not in by_google or STRICTER.search(reason), (message, values[index].hex(), reason)
        expected = [bare_message(by_google[index]) for index in read.good.tolist()]
        assert repr(ordered(bare_rows(read.rows))) == repr(ordered(expected)), message
        count, refused = count + len(values), refused + len(read.bad)
    assert 0.1 < refused / count < 0.9


def parsed(made: Any, values: list[bytes]) -> list[tuple[int, Any]]:
    messages = []
    for index, raw in enumerate(values):
        try:
            messages.append((index, made.FromString(raw)))
        except DecodeError:
            continue
    return messages
