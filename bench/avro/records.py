"""The records that all ways read: six columns, about 70 bytes, in the frame of a registry."""

import io
import random
from datetime import UTC, datetime, timedelta
from typing import Any

import fastavro
import pyarrow as pa

FRAME = b"\0\0\0\0\7"
SCHEMA = {
    "type": "record",
    "name": "Click",
    "fields": [
        {"name": "ad_id", "type": "string"},
        {"name": "campaign", "type": "int"},
        {"name": "count", "type": "long"},
        {"name": "price", "type": "double"},
        {"name": "ts", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "user", "type": ["null", "string"]},
    ],
}


def drawn_rows(count: int) -> list[dict[str, Any]]:
    """The same rows each time."""
    pick, start = random.Random(1), datetime(2024, 1, 1, tzinfo=UTC)
    return [
        {
            "ad_id": f"ad-{pick.getrandbits(64):016x}-{pick.randrange(10**6):07d}",
            "campaign": pick.randrange(5000),
            "count": pick.randrange(10**9),
            "price": round(pick.random() * 100, 4),
            "ts": start + timedelta(milliseconds=at * 37),
            "user": f"user-{pick.getrandbits(64):016x}" if pick.random() < 0.8 else None,
        }
        for at in range(count)
    ]


def written_by_fastavro(parsed: Any, row: dict[str, Any]) -> bytes:
    """A record as producers of a registry write it."""
    stream = io.BytesIO(FRAME)
    stream.seek(len(FRAME))
    fastavro.schemaless_writer(stream, parsed, row)
    return stream.getvalue()


def read_by_fastavro(parsed: Any, values: pa.BinaryArray, columns: pa.Schema) -> pa.RecordBatch:
    """A dict per record, and columns of these."""
    rows = [fastavro.schemaless_reader(io.BytesIO(raw[len(FRAME) :]), parsed, None) for raw in values.to_pylist()]
    return pa.RecordBatch.from_pylist(rows, schema=columns)
