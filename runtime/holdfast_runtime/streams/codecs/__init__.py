"""Codecs: the only place that turns bytes of records into columns of rows, and back.

There is one codec per `format` of a stream, and it works on whole batches. A record that can't be decoded never spoils
its neighbours: it is returned with its index and a reason, and `on_bad` applies the stream's `onDecodeError`. Must not
know where records come from, keep state that changes results, or talk to Spark.
"""

from typing import Literal, assert_never

import pyarrow as pa

from holdfast_runtime.streams.codecs.arrow_types import (
    SchemaUnsupportedError,
    arrow_schema,
    event_times,
    without_event_time,
)
from holdfast_runtime.streams.codecs.codec import (
    DEAD_LETTER_SCHEMA,
    BadBatch,
    BadRecord,
    BadRecordsOutcome,
    Codec,
    DecodedBatch,
    DecodeError,
    EncodeError,
    on_bad,
)
from holdfast_runtime.streams.codecs.json_codec import JsonCodec
from holdfast_runtime.streams.codecs.plain_codec import BinaryCodec, StringCodec

Format = Literal["json", "string", "binary"]

__all__ = [
    "DEAD_LETTER_SCHEMA",
    "BadBatch",
    "BadRecord",
    "BadRecordsOutcome",
    "BinaryCodec",
    "Codec",
    "DecodeError",
    "DecodedBatch",
    "EncodeError",
    "Format",
    "JsonCodec",
    "SchemaUnsupportedError",
    "StringCodec",
    "arrow_schema",
    "codec_for",
    "event_times",
    "on_bad",
    "without_event_time",
]


def codec_for(kind: Format, schema: pa.Schema) -> Codec:
    """Return the codec of a stream's `format` for its columns; raise `SchemaUnsupportedError` if they do not fit."""
    match kind:
        case "json":
            return JsonCodec(schema)
        case "string":
            return StringCodec(schema)
        case "binary":
            return BinaryCodec(schema)
        case _:
            assert_never(kind)
