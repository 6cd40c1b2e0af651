"""The codec of a stream as its spec declares it.

Records of Avro need a schema: the declared one, or one that is made of the columns; where the stream's system has a
registry, `registered` finds them. Must not ask a registry.
"""

from dataclasses import dataclass

import pyarrow as pa

from holdfast.planning.avro_streams import written_schema
from holdfast.planning.types.avro.columns import avro_of
from holdfast.planning.types.avro.schema import parse_avro
from holdfast.spec.streams import Stream
from holdfast_runtime.streams.codecs import Codec, codec_for
from holdfast_runtime.streams.codecs.arrow_types import row_type
from holdfast_runtime.streams.codecs.avro import AvroCodec, OneSchema, WriterSchemas, WrittenAvro


@dataclass(frozen=True, slots=True)
class AvroRecords:
    """Which schemas the records of a stream have."""

    schemas: WriterSchemas
    written: WrittenAvro | None
    """How records are written; None if they are only read."""


def stream_codec(declared: Stream | None, schema: pa.Schema, records: AvroRecords | None = None) -> Codec:
    """Return the codec of a stream's values, which have these columns; a stream that no spec declares has JSON.

    `records`: what a registry says of a stream with Avro.
    """
    if declared is None:
        return codec_for("json", schema)
    if declared.format == "avro":
        records = records or _declared_records(declared, schema)
        return AvroCodec(row_type(schema), records.schemas, records.written)
    return codec_for(declared.format, schema)


def _declared_records(declared: Stream, schema: pa.Schema) -> AvroRecords:
    text = written_schema(declared)
    avro = parse_avro(avro_of(row_type(schema), declared.name) if text is None else text)
    return AvroRecords(OneSchema(avro), WrittenAvro(avro, b""))
