"""Records of formats with schemas, of changes and with keys: sound ones, and mutated in what is known to hurt.

Each kind has another reader of its format beside it, which says what a record that counts as good must be.
"""

import csv
import io
import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa

from holdfast.planning.types.avro.columns import columns_of as avro_columns
from holdfast.planning.types.ddl import parse_schema
from holdfast.planning.types.json_schema import JsonSchema
from holdfast.planning.types.protobuf.columns import columns_of as protobuf_columns
from holdfast.planning.types.protobuf.schema import ProtoSchema
from holdfast.spec.streams import Stream
from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.streams.codecs import Codec, DecodedBatch, JsonCodec, arrow_schema
from holdfast_runtime.streams.codecs.avro import AvroCodec
from holdfast_runtime.streams.codecs.csv import CsvCodec
from holdfast_runtime.streams.codecs.json_schema_codec import JsonSchemaCodec
from holdfast_runtime.streams.codecs.protobuf import ProtobufCodec
from holdfast_runtime.streams.codecs.record_schemas import OneSchema, WrittenSchema
from holdfast_runtime.streams.record_columns import MetadataColumns
from holdfast_runtime.streams.stream_codecs import SchemaRecords
from tests.changes.databases import AVRO_KEY, FORMS, Database, avro_envelope
from tests.changes.databases import COLUMNS as CHANGED
from tests.changes.records import codec as change_codec
from tests.changes.test_drawn import Registry as DatabaseSchemas
from tests.codecs.avro import test_mutated as avro
from tests.codecs.avro.records import Registry as AvroSchemas
from tests.codecs.avro.records import bare_rows, by_fastavro, framed, parsed
from tests.codecs.csv import lines
from tests.codecs.poisoned_json import damaged
from tests.codecs.protobuf import test_mutated as protobuf
from tests.codecs.protobuf.messages import Registry as ProtoSchemas
from tests.codecs.protobuf.messages import bare_message, proto3
from tests.codecs.protobuf.test_drawn import ordered
from tests.codecs.schemas import schema

Record = tuple[bytes | None, bytes | None]
"""Key and value."""
Make = Callable[[random.Random], Record]
Check = Callable[[Record, pa.RecordBatch], None]
"""Fails if a record is not this row, by another reader of its format."""


@dataclass(frozen=True)
class RecordsReader:
    """Reads whole records."""

    schema: pa.Schema
    decode: Callable[[pa.RecordBatch], DecodedBatch]
    codec: Codec | None = None
    """What writes the rows again, if all of a row is in the value."""

    @classmethod
    def of(cls, codec: Codec) -> "RecordsReader":
        """The reader of values alone."""
        return cls(codec.schema, lambda records: codec.decode(records.column("value")), codec)


@dataclass(frozen=True)
class Kind:
    """Records of one format and schema."""

    share: int
    reader: Callable[[], RecordsReader]
    sound: Make
    """A record that is good."""
    poisoned: Make
    """One that may be anything."""
    check: Check | None = None


def valued(make: Callable[[random.Random], bytes | None]) -> Make:
    """Records without a key."""
    return lambda draw: (None, make(draw))


def hurt(make: Make, mutated: Callable[[random.Random, bytes], bytes]) -> Make:
    """Sound records whose values, and sometimes keys, are mutated, swapped for something else, or gone."""

    def poisoned(draw: random.Random) -> Record:
        key, value = make(draw)
        if draw.random() < 0.05:
            value = draw.choice((None, b"", b"\0", b"{}", b"null", b"\0\0\0\0\1", b"\xff" * 9, b"\0" * 50, value))
        elif value is not None:
            value = mutated(draw, value)
        if key is not None and draw.random() < 0.3:
            key = draw.choice((None, b"", b"\xff", mutated(draw, key)))
        return key, value

    return poisoned


# Avro

AVRO_TREES: dict[int, Any] = {
    1: avro.TREE,
    2: avro.TREE | {"fields": [{"name": "extra", "type": "bytes"}, *avro.TREE["fields"]]},
}
AVRO_COLUMNS = avro_columns(parsed(avro.TREE))


def avro_codec() -> AvroCodec:
    written = WrittenSchema(parsed(avro.TREE), framed(1, b""))
    return AvroCodec(AVRO_COLUMNS, AvroSchemas(id1=AVRO_TREES[1], id2=AVRO_TREES[2]), written)


def bare_avro_codec() -> AvroCodec:
    return AvroCodec(AVRO_COLUMNS, OneSchema(parsed(avro.TREE)), WrittenSchema(parsed(avro.TREE)))


def avro_value(draw: random.Random) -> bytes:
    number = draw.choice((1, 1, 2))
    datum = avro.record(draw) | {"extra": b"x"}
    return framed(number, by_fastavro(AVRO_TREES[number], datum)[0].as_py())


def bare_avro_value(draw: random.Random) -> bytes:
    return bytes(by_fastavro(avro.TREE, avro.record(draw))[0].as_py())


def as_fastavro_reads(tree: Any, raw: bytes, rows: pa.RecordBatch) -> None:
    read: Any = fastavro.schemaless_reader(io.BytesIO(raw), fastavro.parse_schema(tree), None)
    (row,) = rows.to_pylist()
    for name in ("i", "s", "d", "b", "e", "l", "t", "n"):
        assert repr(row[name]).replace("zoneinfo.ZoneInfo(key='UTC')", "datetime.timezone.utc") == repr(read[name]), (
            name
        )


def framed_as_fastavro_reads(record: Record, rows: pa.RecordBatch) -> None:
    raw = record[1] or b""
    assert raw[0] == 0
    as_fastavro_reads(AVRO_TREES[int.from_bytes(raw[1:5], "big")], raw[5:], rows)


# Protobuf

MESSAGE = protobuf.message_class()
PROTO_FRAME = b"\0\0\0\0\1\0"


def proto_schema() -> ProtoSchema:
    return proto3(protobuf.TEXT)


def proto_codec(*, framed: bool) -> ProtobufCodec:
    made = proto_schema()
    if framed:
        return ProtobufCodec(protobuf_columns(made), ProtoSchemas(id1=made), WrittenSchema(made, PROTO_FRAME))
    return ProtobufCodec(protobuf_columns(made), OneSchema(made), WrittenSchema(made))


def as_google_reads(frame: bytes, record: Record, rows: pa.RecordBatch) -> None:
    raw = record[1] or b""
    assert raw.startswith(frame) or frame
    # A frame may say its message in several ways.
    body = raw[len(frame) :] if raw.startswith(frame) else None
    if body is not None:
        assert repr(ordered(bare_rows(rows))) == repr(ordered([bare_message(MESSAGE.FromString(body))]))


# CSV and JSON

LINES = lines.FORMATS[1]


def as_python_splits(record: Record, rows: pa.RecordBatch) -> None:
    text = (record[1] or b"").decode()
    (fields,) = csv.reader(io.StringIO(text, newline=""), delimiter=LINES.delimiter, strict=True)
    (row,) = rows.to_pylist()
    assert len(fields) == len(row)
    for name, field in zip(row, fields, strict=True):
        if row[name] is None:
            assert not field, name
        elif name in "aistmp":
            assert row[name] == Decimal(field), name
        elif name == "b":
            assert row[name] == field
        elif name == "f":
            assert row[name] == {"true": True, "false": False}[field]


JSON_DDL = "id BIGINT, price DECIMAL(20,4), name STRING, at TIMESTAMP"
JSON_COLUMNS = schema(JSON_DDL)
KEY_METADATA = ["key AS k", "keyBytes AS raw", "headers"]


class JsonSchemas:
    """Knows ids 1 and 7."""

    framed = True

    def schema(self, number: int, /) -> JsonSchema | str:
        return JsonSchema() if number in (1, 7) else f"its schema id {number} is not in the registry"


def json_object(draw: random.Random) -> bytes:
    tree = {
        "id": draw.getrandbits(40),
        "price": draw.choice((1.25, -3, "0.5", None)),
        "name": draw.choice(("é", "", "a")),
    }
    return json.dumps(tree, ensure_ascii=draw.random() < 0.5).encode()


def exact_as_python_reads(record: Record, rows: pa.RecordBatch) -> None:
    """Python's `json` and `decimal` are the oracle: a good number is exactly what the record says."""
    try:
        document = json.loads(record[1] or b"", parse_float=str, parse_int=str)
    except (ValueError, RecursionError):
        return
    for name, cell in rows.to_pylist()[0].items():
        if isinstance(cell, Decimal):
            assert cell == Decimal(document[name]), f"{name} came out as {cell}"


def framed_as_python_reads(record: Record, rows: pa.RecordBatch) -> None:
    raw = record[1] or b""
    assert raw[0] == 0
    assert int.from_bytes(raw[1:5], "big") in (1, 7)
    exact_as_python_reads((None, raw[5:]), rows)
    assert rows.column("id")[0].as_py() == json.loads(raw[5:]).get("id")


# Keys


def keyed_reader() -> RecordsReader:
    stream = Stream.model_validate({"name": "s", "system": "s", "metadata": KEY_METADATA})
    headers = arrow_schema(parse_schema("k STRING, raw BINARY, headers ARRAY<STRUCT<key: STRING, value: BINARY>>"))
    columns = MetadataColumns.of(stream, pa.schema([*JSON_COLUMNS, *headers]))
    codec = JsonCodec(columns.in_value)

    def decode(records: pa.RecordBatch) -> DecodedBatch:
        return columns.added(codec.decode(records.column("value")), records, StreamPartition("s", 0))

    return RecordsReader(columns.schema, decode)


def keyed(draw: random.Random) -> Record:
    return draw.choice((None, b"", b"a", "ключ".encode(), b"\0")), json_object(draw)


def as_keys_are(record: Record, rows: pa.RecordBatch) -> None:
    (row,) = rows.to_pylist()
    assert row["raw"] == record[0]
    assert row["k"] == (None if record[0] is None else record[0].decode())
    exact_as_python_reads(record, rows.select(JSON_COLUMNS.names))


# Changes of a database

AVRO_DATABASE = Database("avro")
_KEYS = [(number, part) for number in range(4) for part in ("", "é")]


def changed(database: Database, draw: random.Random) -> Record:
    """The record of a drawn operation."""
    key = draw.choice(_KEYS)
    if database.form != "avro":
        database.form = draw.choice(FORMS)
    database.wide = draw.random() < 0.3
    if key in database.table and draw.random() < 0.3:
        database.delete(key, envelope=draw.random() < 0.5, tombstone=False)
    else:
        row = {
            "id": key[0],
            "part": key[1],
            "name": draw.choice((None, "", "name\U0001f600")),
            "price": draw.choice((None, Decimal("-12.30"), Decimal("9999999999.99"))),
            "at": draw.choice((None, datetime(2026, 1, 2, 3, 4, 5, 6, UTC))),
            "day": draw.choice((None, date(1969, 12, 31))),
        }
        row |= {"more": draw.choice((None, -7))} if database.wide else {}
        database.write(row, draw.choice("cur"))
    return database.records.pop()


def json_changes() -> RecordsReader:
    reader = change_codec(CHANGED, "id", "part")
    return RecordsReader(reader.schema, reader.decode)


def avro_changes() -> RecordsReader:
    reader = change_codec(CHANGED, "id", "part", records=SchemaRecords(DatabaseSchemas(AVRO_DATABASE), None))
    return RecordsReader(reader.schema, reader.decode)


def as_python_reads_the_change(record: Record, rows: pa.RecordBatch) -> None:
    """The key is that of the row, and what Python reads of both is in it."""
    key, value = record
    (row,) = rows.to_pylist()
    tree = json.loads(key or b"")
    tree = tree.get("payload", tree)
    assert [row["id"], row["part"]] == [int(tree["id"]), tree["part"]]
    payload = {} if value is None else json.loads(value)
    payload = payload.get("payload", payload)
    assert row["deleted"] == (not payload or payload["op"] == "d")
    if not row["deleted"]:
        assert payload["op"] in ("c", "u", "r")
        assert row["name"] == payload["after"].get("name")


def as_fastavro_reads_the_change(record: Record, rows: pa.RecordBatch) -> None:
    key, value = record
    (row,) = rows.to_pylist()
    assert key is not None
    assert key[:5] == framed(1, b"")
    tree: Any = fastavro.schemaless_reader(io.BytesIO(key[5:]), fastavro.parse_schema(AVRO_KEY), None)
    assert [row["id"], row["part"]] == [tree["id"], tree["part"]]
    if value is None:
        assert row["deleted"]
        return
    number = int.from_bytes(value[1:5], "big")
    schema = fastavro.parse_schema(avro_envelope(wide={2: False, 3: True}[number]))
    # Texts that no column takes are skipped, whatever they hold.
    change: Any = fastavro.schemaless_reader(io.BytesIO(value[5:]), schema, None, handle_unicode_errors="replace")
    assert row["deleted"] == (change["op"] == "d")
    if not row["deleted"]:
        after = change["after"]
        assert [row["name"], row["price"], row["more"]] == [after["name"], after["price"], after.get("more")]


def json_change(draw: random.Random) -> Record:
    return changed(JSON_DATABASE, draw)


JSON_DATABASE = Database("wrapped")


FORMAT_KINDS: Mapping[str, Kind] = {
    "csv": Kind(
        15,
        lambda: RecordsReader.of(CsvCodec(lines.COLUMNS, LINES)),
        valued(lambda _: LINES.delimiter.join([""] * len(lines.COLUMNS)).encode()),
        valued(lambda draw: lines.damaged(draw, LINES)),
        as_python_splits,
    ),
    "avro, framed": Kind(
        10,
        lambda: RecordsReader.of(avro_codec()),
        valued(avro_value),
        hurt(valued(avro_value), avro.mutated),
        framed_as_fastavro_reads,
    ),
    "avro, declared": Kind(
        10,
        lambda: RecordsReader.of(bare_avro_codec()),
        valued(bare_avro_value),
        hurt(valued(bare_avro_value), avro.mutated),
        lambda record, rows: as_fastavro_reads(avro.TREE, record[1] or b"", rows),
    ),
    "protobuf, framed": Kind(
        10,
        lambda: RecordsReader.of(proto_codec(framed=True)),
        valued(lambda draw: PROTO_FRAME + protobuf.record(draw, MESSAGE)),
        hurt(valued(lambda draw: PROTO_FRAME + protobuf.record(draw, MESSAGE)), avro.mutated),
        lambda record, rows: as_google_reads(PROTO_FRAME, record, rows),
    ),
    "protobuf, declared": Kind(
        10,
        lambda: RecordsReader.of(proto_codec(framed=False)),
        valued(lambda draw: protobuf.record(draw, MESSAGE)),
        hurt(valued(lambda draw: protobuf.record(draw, MESSAGE)), avro.mutated),
        lambda record, rows: as_google_reads(b"", record, rows),
    ),
    "json-schema": Kind(
        10,
        lambda: RecordsReader.of(
            JsonSchemaCodec(JSON_COLUMNS, JsonSchemas(), WrittenSchema(JsonSchema(), b"\0\0\0\0\7"))
        ),
        valued(lambda draw: b"\0\0\0\0\7" + json_object(draw)),
        hurt(valued(lambda draw: b"\0\0\0\0\7" + json_object(draw)), avro.mutated),
        framed_as_python_reads,
    ),
    "keys": Kind(10, keyed_reader, keyed, hurt(keyed, damaged), as_keys_are),
    "changes in json": Kind(10, json_changes, json_change, hurt(json_change, damaged), as_python_reads_the_change),
    "changes in avro": Kind(
        10,
        avro_changes,
        lambda draw: changed(AVRO_DATABASE, draw),
        hurt(lambda draw: changed(AVRO_DATABASE, draw), avro.mutated),
        as_fastavro_reads_the_change,
    ),
}
