"""What the tests of Protobuf share: schemas as text and by google.protobuf, and what it makes of bytes."""

from typing import Any

import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2, wrappers_pb2

from holdfast.planning.types.ddl import parse_schema
from holdfast.planning.types.protobuf.columns import columns_of
from holdfast.planning.types.protobuf.schema import ProtoSchema
from holdfast.planning.types.protobuf.text import parse_proto
from holdfast_runtime.streams.codecs.protobuf import ProtobufCodec
from holdfast_runtime.streams.codecs.record_schemas import OneSchema, WrittenSchema

FIELD = descriptor_pb2.FieldDescriptorProto
HEAD = 'syntax = "proto3"; import "google/protobuf/timestamp.proto"; import "google/protobuf/wrappers.proto"; '
TIMESTAMP = "google.protobuf.Timestamp"
WRAPPERS = {
    "google.protobuf.BoolValue": "bool",
    "google.protobuf.Int32Value": "int32",
    "google.protobuf.Int64Value": "int64",
    "google.protobuf.UInt32Value": "uint32",
    "google.protobuf.UInt64Value": "uint64",
    "google.protobuf.FloatValue": "float",
    "google.protobuf.DoubleValue": "double",
    "google.protobuf.StringValue": "string",
    "google.protobuf.BytesValue": "bytes",
}
PAIR = "Entry"


class Registry:
    """Schemas by id; counts how often it is asked."""

    framed = True

    def __init__(self, **schemas: ProtoSchema) -> None:
        self.schemas = {int(name.removeprefix("id")): schema for name, schema in schemas.items()}
        self.asked_ids: list[int] = []

    def schema(self, number: int, /) -> ProtoSchema | str:
        self.asked_ids.append(number)
        return self.schemas.get(number, f"its schema id {number} is not in the registry")


def proto3(body: str, message: str | None = None) -> ProtoSchema:
    return parse_proto(HEAD + body, message=message)


def codec_of(schema: ProtoSchema, columns: str | None = None) -> ProtobufCodec:
    """The codec of messages of one schema, which it also writes if the columns are those of the schema."""
    rows = columns_of(schema) if columns is None else parse_schema(columns)
    return ProtobufCodec(rows, OneSchema(schema), WrittenSchema(schema) if columns is None else None)


def decoded_reason(schema: ProtoSchema, raw: bytes, columns: str | None = None) -> str:
    """Why the only record is bad."""
    decoded = codec_of(schema, columns).decode(pa.array([raw], pa.binary()))
    (record,) = decoded.bad
    assert not decoded.rows.num_rows
    return record.reason


def google_class(file: Any, message: str) -> Any:
    """The class of a message in a file that google.protobuf has as a descriptor."""
    pool = descriptor_pool.DescriptorPool()
    for module in (timestamp_pb2, wrappers_pb2):
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(message))


def bare_message(message: Any) -> tuple[Any, ...]:
    """The row in a message, as `bare` has rows: by what google.protobuf says of it."""
    return tuple(_bare_field(message, field) for field in message.DESCRIPTOR.fields)


def _bare_field(message: Any, field: Any) -> Any:
    value = getattr(message, field.name)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        key, item = field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]
        return [(_bare(name, key), _bare(value[name], item)) for name in value]
    if field.is_repeated:
        return [_bare(item, field) for item in value]
    if field.has_presence and not message.HasField(field.name):
        return None
    return _bare(value, field)


def _bare(value: Any, field: Any) -> Any:
    if field.message_type is not None:
        name = field.message_type.full_name
        if name == TIMESTAMP:
            return value.seconds * 10**6 + value.nanos // 1000
        return _bare(value.value, value.DESCRIPTOR.fields[0]) if name in WRAPPERS else bare_message(value)
    if field.enum_type is not None:
        return field.enum_type.values_by_number[value].name.encode()
    return value.encode() if isinstance(value, str) else value
