"""Change records and what a codec makes of them, for tests; and those that connectors have written."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

from holdfast.planning.types.ddl import parse_schema
from holdfast.spec.streams import Stream
from holdfast_runtime.streams.changes import ChangeCodec
from holdfast_runtime.streams.codecs import arrow_schema
from holdfast_runtime.streams.stream_codecs import SchemaRecords

DELETED = pa.field("deleted", pa.bool_())
RECORDED = Path(__file__).parent / "recorded"
APP = Path(__file__).parents[1] / "apps" / "enrich-orders-from-debezium" / "in" / "customers.jsonl"
Record = tuple[bytes | None, bytes | None]
"""Key and value."""


def codec(schema: str, *key: str, records: SchemaRecords | None = None) -> ChangeCodec:
    """The codec of a stream of changes."""
    stream = Stream.model_validate(
        {"name": "s", "system": "s", "key": key, "changes": "debezium", "format": "json" if records is None else "avro"}
    )
    return ChangeCodec(stream, arrow_schema(parse_schema(schema)), DELETED, records)


def batch(records: Iterable[Record]) -> pa.RecordBatch:
    """Records as they are fetched."""
    keys, values = zip(*records, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(keys, pa.binary()), pa.array(values, pa.binary())], names=["key", "value"]
    )


def rows(reader: ChangeCodec, *records: Record) -> list[dict[str, Any]]:
    """The rows of records that are all good."""
    decoded = reader.decode(batch(records))
    assert not decoded.bad, decoded.bad[0]
    return list(decoded.rows.to_pylist())


def reason(reader: ChangeCodec, record: Record) -> str:
    """Why a record is bad."""
    decoded = reader.decode(batch([record]))
    assert not decoded.rows.num_rows
    return decoded.bad[0].reason


def tables(reader: ChangeCodec, *records: Record) -> dict[Any, dict[str, Any]]:
    """The table that these records make, by key."""
    key, table = reader.key, dict[Any, dict[str, Any]]()
    for row in rows(reader, *records):
        at = tuple(row[name] for name in key)
        if row.pop("deleted"):
            table.pop(at, None)
        else:
            table[at] = row
    return table


def recorded(database: str, form: str, table: str) -> list[Record]:
    """The records of a table that a connector has written."""
    if (database, form, table) == ("postgres", "wrapped", "customers"):
        lines = [
            line for line in map(json.loads, APP.read_text(encoding="utf-8").splitlines()) if isinstance(line, list)
        ]
    else:
        file = RECORDED / f"{database}-{form}.jsonl"
        lines = [
            line[1:] for line in map(json.loads, file.read_text(encoding="utf-8").splitlines()) if line[0] == table
        ]
    return [(_bytes(key), _bytes(value)) for key, value in lines]


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()
