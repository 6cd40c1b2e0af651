"""How fast records of Protobuf and JSON Schema are read and written, beside what others do with the same records.

The rows are those of `bench.avro`: 200 000 of six columns, rows per CPU second of the whole process, the median of five
runs. Rows and bytes are checked to be equal before a figure is printed. `ptars` is shown where it is installed: the
product does not use it, as a record can end its process.
"""

import importlib.util
from typing import Any

import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

from bench.avro.records import drawn_rows
from bench.avro.registry import OneRegistered
from bench.protobuf.peers import of_java
from bench.rates import check, report, show
from holdfast.planning.types.json_schema import JsonSchema
from holdfast.planning.types.protobuf.columns import columns_of
from holdfast.planning.types.protobuf.fields import meeting
from holdfast.planning.types.protobuf.schema import ProtoSchema
from holdfast.planning.types.protobuf.text import parse_proto
from holdfast_runtime.streams.codecs import JsonCodec
from holdfast_runtime.streams.codecs.json_schema_codec import JsonSchemaCodec
from holdfast_runtime.streams.codecs.protobuf import ProtobufCodec
from holdfast_runtime.streams.codecs.protobuf.plain_writer import written_messages
from holdfast_runtime.streams.codecs.protobuf.protobuf_judge import ProtobufJudge
from holdfast_runtime.streams.codecs.record_reader import judged_rows
from holdfast_runtime.streams.codecs.record_schemas import WrittenSchema

COUNT, FEW, TENTH = 200_000, 20, 20_000
ID_FRAME, FRAME = b"\0\0\0\0\7", b"\0\0\0\0\7\0"
TEXT = """
syntax = "proto3"; package bench; import "google/protobuf/timestamp.proto";
message Click {
  string ad_id = 1; int32 campaign = 2; int64 count = 3; double price = 4; google.protobuf.Timestamp ts = 5;
  optional string user = 6;
}
"""


def click_class() -> Any:
    """The class that google.protobuf has of a click."""
    file = descriptor_pb2.FileDescriptorProto(name="click.proto", package="bench", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    click, field = file.message_type.add(name="Click"), descriptor_pb2.FieldDescriptorProto
    kinds = {
        "ad_id": "STRING",
        "campaign": "INT32",
        "count": "INT64",
        "price": "DOUBLE",
        "ts": "MESSAGE",
        "user": "STRING",
    }
    for number, (name, kind) in enumerate(kinds.items(), 1):
        made = click.field.add(
            name=name, number=number, type=getattr(field, f"TYPE_{kind}"), label=field.LABEL_OPTIONAL
        )
        if kind == "MESSAGE":
            made.type_name = ".google.protobuf.Timestamp"
    click.oneof_decl.add(name="_user")
    click.field[-1].proto3_optional, click.field[-1].oneof_index = True, 0
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("bench.Click"))


def written_by_google(made: Any, row: dict[str, Any]) -> bytes:
    """A record as producers of a registry write it."""
    message = made(**{name: value for name, value in row.items() if value is not None})
    return FRAME + bytes(message.SerializeToString())


def read_by_google(made: Any, values: pa.BinaryArray, columns: pa.Schema) -> pa.RecordBatch:
    """An object per record, and columns of these."""
    rows = []
    for raw in values.to_pylist():
        click = made.FromString(raw[len(FRAME) :])
        rows.append(
            {
                "ad_id": click.ad_id,
                "campaign": click.campaign,
                "count": click.count,
                "price": click.price,
                "ts": click.ts.ToMicroseconds(),
                "user": click.user if click.HasField("user") else None,
            }
        )
    return pa.RecordBatch.from_pylist(rows, schema=columns)


def of_protobuf(schema: ProtoSchema, made: Any) -> None:
    """Print the rows of Protobuf."""
    values = pa.array([written_by_google(made, row) for row in drawn_rows(COUNT)], pa.binary())
    columns = columns_of(schema)
    codec = ProtobufCodec(columns, OneRegistered(schema, ID_FRAME), WrittenSchema(schema, FRAME))
    print(f"Protobuf, {len(values.buffers()[2]) / COUNT:.0f} bytes per record")
    rows = report("decode", COUNT, lambda: codec.decode(values).rows)
    few = [values.slice(first, FEW) for first in range(0, TENTH, FEW)]
    report(f"decode, {FEW} records at a time", TENTH, lambda: [codec.decode(part) for part in few])
    tenth, bad = values.slice(0, TENTH), pa.array([raw[:-1] for raw in values[:TENTH].to_pylist()], pa.binary())
    report("decode, all records damaged", TENTH, lambda: codec.decode(bad))
    program = meeting(schema, columns).program
    judge = ProtobufJudge(program)
    judged = report(
        "decode by the judge",
        TENTH,
        lambda: judged_rows([judge.read(raw[len(FRAME) :]) for raw in tenth.to_pylist()], codec.schema),
    )
    check(judged, rows.slice(0, TENTH))
    check(report("decode by google.protobuf", TENTH, lambda: read_by_google(made, tenth, codec.schema)), judged)
    check(report("encode", COUNT, lambda: codec.encode(rows)), values)
    plain = report("encode by the plain writer", TENTH, lambda: written_messages(program, judged))
    check([FRAME + raw for raw in plain], tenth.to_pylist())
    by_google = report(
        "encode by google.protobuf", TENTH, lambda: [written_by_google(made, row) for row in judged.to_pylist()]
    )
    check(by_google, tenth.to_pylist())
    for name, rate in of_java(TEXT, values).items():
        show(name, rate)
    if importlib.util.find_spec("ptars") is not None:
        of_ptars(made, pa.array([raw[len(FRAME) :] for raw in values.to_pylist()], pa.binary()))


def of_ptars(made: Any, values: pa.BinaryArray) -> None:
    """Print the rows of ptars, which reads and writes all fields into types of its own, and no frames."""
    import ptars  # noqa: PLC0415 - it may not be there

    pool = ptars.HandlerPool([made.DESCRIPTOR.file], ptars.PtarsConfig(timestamp_unit="us"))
    handler = pool.get_for_message(made.DESCRIPTOR)
    rows = report("decode by ptars", COUNT, lambda: handler.array_to_record_batch(values))
    check(report("encode by ptars", COUNT, lambda: handler.record_batch_to_array(rows)), values)


def of_json_schema(columns: pa.Schema) -> None:
    """Print the rows of JSON Schema, and of JSON."""
    plain = JsonCodec(columns)
    codec = JsonSchemaCodec(columns, OneRegistered(JsonSchema(), ID_FRAME), WrittenSchema(JsonSchema(), ID_FRAME))
    rows = pa.RecordBatch.from_pylist(drawn_rows(COUNT), schema=columns)
    values = codec.encode(rows)
    print(f"JSON Schema, {len(values.buffers()[2]) / COUNT:.0f} bytes per record")
    bare = plain.encode(rows)
    check(report("decode", COUNT, lambda: codec.decode(values).rows), rows)
    check(report("decode, format: json", COUNT, lambda: plain.decode(bare).rows), rows)
    report("encode", COUNT, lambda: codec.encode(rows))
    report("encode, format: json", COUNT, lambda: plain.encode(rows))


def main() -> None:
    """Print the table."""
    pa.set_cpu_count(1)
    schema = parse_proto(TEXT)
    print(f"{'way':<58} {'per CPU-s':>12}")
    of_protobuf(schema, click_class())
    of_json_schema(ProtobufCodec(columns_of(schema), OneRegistered(schema, ID_FRAME), None).schema)


if __name__ == "__main__":
    main()
