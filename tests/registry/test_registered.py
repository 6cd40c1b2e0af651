"""What a real registry says of the streams of an app: accepted, or refused before anything runs."""

import json
import uuid
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pyarrow as pa
import pytest
import requests

from holdfast.errors import UserActionError
from holdfast.planning.types.avro.schema import AvroSchema
from holdfast.spec.app import AppSpec
from holdfast_runtime.streams.registered import RegisteredSchemas, registered_records
from holdfast_runtime.streams.registry.client import SchemaRegistry
from holdfast_runtime.streams.registry.settings import RegistrySettings
from holdfast_runtime.streams.stream_codecs import SchemaRecords, stream_codec
from tests.registry.server import Apicurio
from tests.waiting import patience

LONG = {"name": "id", "type": "long"}
AMOUNT = {"name": "amount", "type": "double"}
SOURCE = {"name": "source", "type": "string", "default": "web"}
OBJECT = '{"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}'
COLUMNS = pa.schema([("id", pa.int64()), ("amount", pa.float64())])


def order(*fields: dict[str, Any]) -> str:
    return json.dumps({"type": "record", "name": "Order", "fields": fields})


class Subject:
    """A topic whose subject is its own, and the app that reads or writes it."""

    def __init__(self, apicurio: Apicurio, name: str = "avro") -> None:
        self.format = name
        self.url, self.topic = apicurio.url, f"orders-{uuid.uuid4().hex[:6]}"
        self.registry = SchemaRegistry(RegistrySettings(self.url, "here", {}))

    def registered(self, text: str, kind: str = "AVRO") -> int:
        return self.registry.register(f"{self.topic}-value", kind, text)

    def read(self, schema: pa.Schema = COLUMNS, **fields: Any) -> SchemaRecords:
        return registered_records(self.spec(**fields), {"orders": schema}, {}, None)["orders"]

    def written(self, columns: pa.Schema = COLUMNS, **schema: Any) -> SchemaRecords:
        field = {"json-schema": "jsonSchema"}.get(self.format, self.format)
        return registered_records(self.spec(**{field: schema}), {}, {"orders": columns}, None)["orders"]

    def spec(self, **fields: Any) -> AppSpec:
        kafka = {"bootstrapServers": "nowhere:9092", "registry": {"url": self.url}}
        stream = {"name": "orders", "topic": self.topic, "system": "here", "format": self.format, **fields}
        step = {"name": "all", "from": ["orders"], "filter": "true"}
        return AppSpec.model_validate(
            {"systems": [{"name": "here", "kafka": kafka}], "streams": [stream], "steps": [step]}
        )


@pytest.fixture
def subject(apicurio: Apicurio) -> Iterator[Subject]:
    made = Subject(apicurio)
    with closing(made.registry):
        yield made


@pytest.fixture
def json_subject(apicurio: Apicurio) -> Iterator[Subject]:
    made = Subject(apicurio, "json-schema")
    with closing(made.registry):
        yield made


@pytest.fixture
def proto_subject(apicurio: Apicurio) -> Iterator[Subject]:
    made = Subject(apicurio, "protobuf")
    with closing(made.registry):
        yield made


def frame_of(records: SchemaRecords) -> int:
    assert records.written is not None
    return int.from_bytes(records.written.frame)


def test_columns_that_the_latest_schema_fills_are_read(subject: Subject) -> None:
    assert subject.read().written is None
    number = subject.registered(order(SOURCE, AMOUNT, LONG))
    records = subject.read()
    schema = records.schemas.schema(number)
    assert isinstance(schema, AvroSchema)
    assert [known.name for known in schema.root.fields] == ["source", "amount", "id"]


@pytest.mark.parametrize(
    ("column", "kind", "why"),
    [
        ("id", pa.string(), "id is long, and column id is STRING; declare it as BIGINT"),
        ("amunt", pa.float64(), "it has no amunt; did you mean amount?"),
    ],
)
def test_columns_that_it_does_not_fill_are_refused(subject: Subject, column: str, kind: pa.DataType, why: str) -> None:
    number = subject.registered(order(LONG, AMOUNT))
    with pytest.raises(UserActionError) as refused:
        subject.read(pa.schema([(column, kind)]))
    assert why in str(refused.value)
    assert f"stream orders: the latest schema of subject {subject.topic}-value (id {number})" in str(refused.value)


def test_a_schema_of_another_kind_is_refused(subject: Subject) -> None:
    number = subject.registered(OBJECT, "JSON")
    with pytest.raises(UserActionError, match="has a schema of JSON, and the stream is of format avro"):
        subject.read()
    why = RegisteredSchemas("here", subject.url, None, None, "avro").schema(number)
    assert why == f"its schema id {number} is of JSON, and the stream's format is avro"


def test_records_of_an_unknown_id_say_so(subject: Subject) -> None:
    codec = stream_codec(subject.spec().streams[0], COLUMNS, subject.read())
    values = pa.array([b"\0" + number.to_bytes(4) + b"\2" for number in (900_001, 900_002)])
    reasons = [record.reason for record in codec.decode(values).bad]
    for number, reason in zip((900_001, 900_002), reasons, strict=True):
        assert reason == f"its schema id {number} is not in the registry at {subject.url}"


def test_rows_are_written_with_the_latest_schema(subject: Subject) -> None:
    subject.registered(order(LONG, AMOUNT))
    number = subject.registered(order(LONG, SOURCE, AMOUNT))
    assert frame_of(subject.written()) == number


def test_a_declared_schema_has_the_id_of_its_text(subject: Subject) -> None:
    number = subject.registered(order(LONG, AMOUNT))
    latest = subject.registered(order(LONG, SOURCE, AMOUNT))
    assert frame_of(subject.written(schema=order(LONG, AMOUNT))) == number
    spaced = json.dumps(json.loads(order(LONG, SOURCE, AMOUNT)), indent=2)
    assert frame_of(subject.written(schema=spaced)) == latest


def test_schemas_are_registered_where_that_is_allowed(subject: Subject) -> None:
    with pytest.raises(UserActionError, match="no such schema under subject") as refused:
        subject.written()
    assert "set avro.register of the stream to true" in str(refused.value)
    assert refused.value.code == "SchemaNotRegisteredError"
    number = frame_of(subject.written(register=True))
    assert frame_of(subject.written()) == number
    wider = COLUMNS.append(pa.field("shop", pa.string()))
    with pytest.raises(UserActionError, match="column shop is no field of"):
        subject.written(wider)
    assert frame_of(subject.written(wider, register=True)) != number


def envelope(*fields: dict[str, Any]) -> str:
    row = {"type": "record", "name": "Row", "fields": fields}
    op = {"name": "op", "type": "string"}
    return order({"name": "before", "type": ["null", row]}, {"name": "after", "type": ["null", "Row"]}, op)


def changes(subject: Subject, *key: str) -> SchemaRecords:
    spec = subject.spec(key=list(key), changes="debezium")
    return registered_records(spec, {"orders": COLUMNS}, {}, None)["orders"]


def test_changes_of_a_database_are_compared_inside_envelopes(subject: Subject) -> None:
    number = subject.registered(envelope(LONG, AMOUNT))
    key = subject.registry.register(f"{subject.topic}-key", "AVRO", order(LONG))
    records = changes(subject, "id")
    assert all(isinstance(records.schemas.schema(known), AvroSchema) for known in (number, key))
    with pytest.raises(
        UserActionError, match=r"subject orders-\w+-key does not fit: its key has id, and key of the stream"
    ):
        changes(subject, "id", "amount")


def test_envelopes_without_a_column_are_refused(subject: Subject) -> None:
    subject.registered(envelope(LONG, {"name": "amt", "type": "double"}))
    with pytest.raises(UserActionError, match=r"it has no after\.amount; did you mean amt"):
        changes(subject, "id")


def test_objects_have_the_members_of_the_latest_schema(json_subject: Subject) -> None:
    assert json_subject.read().written is None
    number = json_subject.registered(json.dumps({"properties": {"id": {}, "amount": {}}}), "JSON")
    codec = stream_codec(json_subject.spec().streams[0], COLUMNS, json_subject.read())
    values = [b"\0" + schema_id.to_bytes(4) + b'{"id": 1}' for schema_id in (number, 900_003)]
    decoded = codec.decode(pa.array(values, pa.binary()))
    assert decoded.rows.to_pylist() == [{"id": 1, "amount": None}]
    assert [record.reason for record in decoded.bad] == [
        f"its schema id 900003 is not in the registry at {json_subject.url}"
    ]
    with pytest.raises(UserActionError, match="it has no amunt; did you mean amount"):
        json_subject.read(pa.schema([("amunt", pa.float64())]))


def test_objects_are_written_with_the_latest_or_a_made_schema(json_subject: Subject) -> None:
    with pytest.raises(UserActionError, match=r"set jsonSchema\.register of the stream to true"):
        json_subject.written()
    number = frame_of(json_subject.written(register=True))
    assert frame_of(json_subject.written()) == number
    with pytest.raises(UserActionError, match="no properties have column shop"):
        json_subject.written(COLUMNS.append(pa.field("shop", pa.string())))


def test_objects_are_not_of_another_kind(json_subject: Subject) -> None:
    json_subject.registered(order(LONG, AMOUNT))
    with pytest.raises(UserActionError, match="has a schema of AVRO, and the stream is of format json-schema"):
        json_subject.read()


PROTO = """syntax = "proto3";
package shop;

import "google/protobuf/timestamp.proto";

message Order {
  int64 id = 1;
  double amount = 2;
  google.protobuf.Timestamp at = 3;
}

message Refund {
  int64 id = 1;
}
"""


def test_messages_are_read_by_the_schema_of_their_id(proto_subject: Subject) -> None:
    assert proto_subject.read().written is None
    number = proto_subject.registered(PROTO, "PROTOBUF")
    records = proto_subject.read()
    codec = stream_codec(proto_subject.spec().streams[0], COLUMNS, records)
    frame = b"\0" + number.to_bytes(4)
    values = [
        frame + b"\0\x08\x05",
        frame + b"\x02\x02\x08\x06",
        b"\0" + (900_004).to_bytes(4) + b"\0",
        frame + b"\x02\x08",
    ]
    decoded = codec.decode(pa.array(values, pa.binary()))
    assert decoded.rows.to_pylist() == [{"id": 5, "amount": 0.0}, {"id": 6, "amount": None}]
    assert [record.reason for record in decoded.bad] == [
        f"its schema id 900004 is not in the registry at {proto_subject.url}",
        f"its schema (id {number}) has no message at 4, or one that is counted in several ways",
    ]
    with pytest.raises(UserActionError, match="it has no amunt; did you mean amount"):
        proto_subject.read(pa.schema([("amunt", pa.float64())]))


def test_a_declared_message_is_the_only_one(proto_subject: Subject) -> None:
    number = proto_subject.registered(PROTO, "PROTOBUF")
    schema, message = pa.schema([("id", pa.int64())]), {"message": "shop.Refund"}
    spec = proto_subject.spec(protobuf=message)
    codec = stream_codec(spec.streams[0], schema, proto_subject.read(schema, protobuf=message))
    frame = b"\0" + number.to_bytes(4)
    decoded = codec.decode(pa.array([frame + b"\0", frame + b"\x02\x02\x08\x06"], pa.binary()))
    assert decoded.rows.to_pylist() == [{"id": 6}]
    assert [record.reason for record in decoded.bad] == ["it is message shop.Order, and the stream's is shop.Refund"]
    with pytest.raises(UserActionError, match=r"has no message shop\.Refnd; did you mean shop\.Refund"):
        proto_subject.read(schema, protobuf={"message": "shop.Refnd"})


def test_messages_are_written_behind_id_and_place(proto_subject: Subject) -> None:
    with pytest.raises(UserActionError, match=r"register one, or set protobuf\.schema") as refused:
        proto_subject.written()
    assert refused.value.code == "SchemaNotRegisteredError"
    with pytest.raises(UserActionError, match=r"set protobuf\.register of the stream to true"):
        proto_subject.written(schema=PROTO)
    written = proto_subject.written(schema=PROTO, register=True).written
    assert written is not None
    latest = proto_subject.registry.latest(f"{proto_subject.topic}-value")
    assert latest is not None
    assert latest.kind == "PROTOBUF"
    assert written.frame == b"\0" + latest.id.to_bytes(4) + b"\0"
    again = proto_subject.written(pa.schema([("id", pa.int64())]), message="shop.Refund").written
    assert again is not None
    assert again.frame == b"\0" + latest.id.to_bytes(4) + b"\x02\x02"
    with pytest.raises(UserActionError, match=r"column shop is no field of shop\.Order"):
        proto_subject.written(COLUMNS.append(pa.field("shop", pa.string())))


def test_files_that_a_schema_imports_come_with_it(proto_subject: Subject) -> None:
    money = 'syntax = "proto3"; package money; message Price { int64 units = 1; }'
    name = f"{proto_subject.topic}/money.proto"
    proto_subject.registry.register(name, "PROTOBUF", money)
    text = f'syntax = "proto3"; import "{name}"; message Order {{ money.Price price = 1; }}'
    number = registered_with_reference(proto_subject.url, f"{proto_subject.topic}-value", text, name)
    schema = pa.schema([("price", pa.struct([("units", pa.int64())]))])
    codec = stream_codec(proto_subject.spec().streams[0], schema, proto_subject.read(schema))
    decoded = codec.decode(pa.array([b"\0" + number.to_bytes(4) + b"\0\x0a\x02\x08\x07"], pa.binary()))
    assert decoded.rows.to_pylist() == [{"price": {"units": 7}}]


def registered_with_reference(url: str, subject: str, text: str, name: str) -> int:
    reference = {"name": name, "subject": name, "version": 1}
    body: Any = {"schema": text, "schemaType": "PROTOBUF", "references": [reference]}
    answer = requests.post(f"{url}/subjects/{subject}/versions", json=body, timeout=patience(30))
    assert answer.ok, answer.text
    number: int = answer.json()["id"]
    return number
