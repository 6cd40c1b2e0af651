"""Ids of schemas in headers: such records are bad where a registry is asked, and others beside them are read."""

import struct
from typing import Any

import pyarrow as pa
import pytest

from holdfast.spec.streams import Stream
from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.slot.reading.inputs import RecordDecoder, value_decoder
from holdfast_runtime.slot.reading.side_inputs import change_decoder
from holdfast_runtime.streams.codecs.codec import DecodedBatch
from holdfast_runtime.streams.header_ids import KEY_ID, VALUE_ID
from holdfast_runtime.streams.records import HEADERS
from holdfast_runtime.streams.stream_codecs import SchemaRecords
from tests.changes.avro_types import OneId, avro_records
from tests.changes.records import Record
from tests.changes.test_types import kind

COLUMNS = pa.schema([("a", pa.string()), ("b", pa.int64())])
TREE = {
    "type": "record",
    "name": "R",
    "fields": [{"name": "a", "type": ["null", "string"]}, {"name": "b", "type": "long"}],
}
GUID = b"\1" + bytes(range(16))
ROW = b"\2\4xy\6"
FRAMED = struct.pack(">bI", 0, 1) + ROW
Headers = dict[str, bytes | None] | None


def decoded(decoder: RecordDecoder, *records: tuple[Record, Headers]) -> DecodedBatch:
    (keys, values), headers = zip(*(record for record, _ in records), strict=True), [given for _, given in records]
    pairs = [None if given is None else [{"key": k, "value": v} for k, v in given.items()] for given in headers]
    columns = [pa.array(keys, pa.binary()), pa.array(values, pa.binary()), pa.array(pairs, HEADERS.type)]
    return decoder(pa.RecordBatch.from_arrays(columns, names=["key", "value", "headers"]), StreamPartition("s", 0))


def stream(**more: Any) -> Stream:
    return Stream.model_validate({"name": "s", "system": "s", "format": "avro"} | more)


def test_values_whose_ids_are_in_headers_are_bad() -> None:
    decoder = value_decoder(stream(), COLUMNS, SchemaRecords(OneId(TREE), None))
    batch = decoded(
        decoder,
        ((None, FRAMED), None),
        ((None, b"\0\0\0\0\1" + ROW), {"traceparent": b"x", VALUE_ID: GUID}),
        ((None, ROW), {VALUE_ID: GUID}),
        ((None, None), {VALUE_ID: GUID}),
        ((None, FRAMED), {"traceparent": b"x", KEY_ID: GUID}),
    )
    assert (batch.good.tolist(), batch.nulls.tolist()) == ([0, 4], [3])
    assert batch.rows.to_pylist() == [{"a": "xy", "b": 3}] * 2
    assert [record.index for record in batch.bad] == [1, 2]
    for record in batch.bad:
        assert "in the header __value_schema_id" in record.reason
        assert "set value.schema.id.serializer of the producer" in record.reason


def test_without_a_registry_such_headers_mean_nothing() -> None:
    decoder = value_decoder(stream(format="json"), COLUMNS, None)
    batch = decoded(decoder, ((None, b'{"a":"x","b":1}'), {VALUE_ID: GUID}))
    assert batch.rows.to_pylist() == [{"a": "x", "b": 1}]


@pytest.mark.parametrize(("header", "part"), [(VALUE_ID, "value"), (KEY_ID, "key")])
def test_changes_whose_ids_are_in_headers_are_bad(header: str, part: str) -> None:
    registry, (first,) = avro_records(kind("string"), ["x"])
    columns = pa.schema([("id", pa.int32()), ("v", pa.string())])
    decoder = change_decoder(stream(changes="debezium", key=["id"]), columns, registry)
    batch = decoded(decoder, (first, None), (first, {header: GUID}), ((b"2", None), {VALUE_ID: GUID}))
    assert batch.good.tolist() == [0, 2]
    assert f"set {part}.schema.id.serializer" in batch.bad[0].reason


def test_deletions_whose_keys_have_ids_in_headers_are_bad() -> None:
    columns = COLUMNS.append(pa.field("id", pa.string()))
    decoder = change_decoder(stream(changes="debezium", key=["id"]), columns, SchemaRecords(OneId(TREE), None))
    batch = decoded(decoder, ((b"\2x", None), {KEY_ID: GUID}))
    assert [record.index for record in batch.bad] == [0]
