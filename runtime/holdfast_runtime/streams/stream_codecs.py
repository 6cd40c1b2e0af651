"""The codec of a stream as its spec declares it.

Records of some formats need a schema: the declared one, or one that is made of the columns; where the stream's system
has a registry, `registered` finds them. Must not ask a registry.
"""

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from holdfast.planning.schema_streams import written_schema
from holdfast.planning.types.record_formats import RECORD_FORMATS
from holdfast.spec.streams import CsvRecords, Stream
from holdfast_runtime.streams.codecs import Codec, codec_for
from holdfast_runtime.streams.codecs.arrow_types import row_type
from holdfast_runtime.streams.codecs.avro import AvroCodec
from holdfast_runtime.streams.codecs.csv import CsvCodec
from holdfast_runtime.streams.codecs.csv.csv_format import CsvFormat
from holdfast_runtime.streams.codecs.json_schema_codec import JsonSchemaCodec
from holdfast_runtime.streams.codecs.protobuf import ProtobufCodec
from holdfast_runtime.streams.codecs.record_schemas import OneSchema, WriterSchemas, WrittenSchema


@dataclass(frozen=True, slots=True)
class SchemaRecords:
    """Which schemas the records of a stream have; what a schema is depends on its format."""

    schemas: WriterSchemas[Any]
    written: WrittenSchema[Any] | None
    """How records are written; None if they are only read."""


def stream_codec(declared: Stream | None, schema: pa.Schema, records: SchemaRecords | None = None) -> Codec:
    """Return the codec of a stream's values, which have these columns; a stream that no spec declares has JSON.

    `records`: what a registry says of a stream whose records have schemas.
    """
    if declared is None:
        return codec_for("json", schema)
    match declared.format:
        case "avro":
            records = records or _declared_records(declared, schema)
            return AvroCodec(row_type(schema), records.schemas, records.written)
        case "json-schema":
            records = records or _declared_records(declared, schema)
            return JsonSchemaCodec(schema, records.schemas, records.written)
        case "protobuf":
            records = records or _declared_records(declared, schema)
            return ProtobufCodec(row_type(schema), records.schemas, records.written)
        case "csv":
            written = declared.csv or CsvRecords()
            return CsvCodec(schema, CsvFormat(written.delimiter, written.null_as))
        case name:
            return codec_for(name, schema)


def _declared_records(declared: Stream, schema: pa.Schema) -> SchemaRecords:
    known, text = RECORD_FORMATS[declared.format], written_schema(declared)
    if text is None and known.made is not None:
        text = known.made(row_type(schema), declared.name)
    parsed = known.parse(str(text), (), declared.message)
    return SchemaRecords(OneSchema(parsed), WrittenSchema(parsed))
