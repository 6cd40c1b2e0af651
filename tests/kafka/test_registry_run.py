"""Whole runs on topics of records with schemas, with a real broker and a real registry: what is read and written."""

import io
import json
import struct
import uuid
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fastavro
import pytest
from confluent_kafka import Producer

from holdfast_cli.main import main
from holdfast_runtime.streams.kafka.client.connection import QUIET
from holdfast_runtime.streams.registry.client import SchemaRegistry
from holdfast_runtime.streams.registry.settings import RegistrySettings
from tests.engine.runs import Run
from tests.kafka.broker import Broker
from tests.kafka.sent import bytes_by_partition
from tests.registry.server import Apicurio

pytestmark = pytest.mark.kafka
AMOUNT = {"name": "amount", "type": "double"}
SHOP = {"name": "shop", "type": ["null", "string"], "default": None}

APP = """
apiVersion: holdfast.dev/v1alpha1
kind: StreamApp
metadata: {name: NAME}
spec:
  systems:
  - {name: here, kafka: {bootstrapServers: "BROKER", registry: {url: "REGISTRY"}}}
  streams:
  - {name: orders, topic: NAME-orders, system: here, partitions: 1, partitioner: none, format: FORMAT,
     schema: "id BIGINT, shop STRING, amount DOUBLE", onDecodeError: DeadLetter, deadLetter: unread}
  - {name: large, topic: NAME-large, system: here, partitions: 1, format: FORMAT, FIELD: {register: true}}
  - {name: unread, topic: NAME-unread, system: here, partitions: 1}
  steps:
  - {name: chosen, from: [orders], filter: "amount > 10"}
  - {name: out, from: [chosen], to: large}
"""


def order(*fields: dict[str, Any]) -> dict[str, Any]:
    """The schema of orders with these fields behind their id."""
    return {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}, *fields]}


@dataclass
class Shop:
    """An app whose topics and subjects are its own."""

    broker: Broker
    apicurio: Apicurio
    format: str = "avro"
    name: str = field(default_factory=lambda: f"shop-{uuid.uuid4().hex[:6]}")

    def __post_init__(self) -> None:
        self.broker.create_topic(f"{self.name}-orders", 1)
        self.registry = SchemaRegistry(RegistrySettings(self.apicurio.url, "here", {}))

    def file(self, folder: Path) -> Path:
        """Its file."""
        field = {"json-schema": "jsonSchema"}.get(self.format, self.format)
        values = {
            "FORMAT": self.format,
            "FIELD": field,
            "NAME": self.name,
            "BROKER": self.broker.bootstrap,
            "REGISTRY": self.apicurio.url,
        }
        text = APP
        for word, value in values.items():
            text = text.replace(word, value)
        path = folder / "app.yaml"
        path.write_text(text)
        return path

    def registered(self, schema: object, kind: str = "AVRO") -> int:
        """The id of a schema of what it reads, which is a text or a tree of JSON."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        return self.registry.register(f"{self.name}-orders-value", kind, text)

    def send(self, *values: bytes) -> None:
        """Records of the topic that it reads."""
        producer = Producer({"bootstrap.servers": self.broker.bootstrap}, logger=QUIET)
        for value in values:
            producer.produce(f"{self.name}-orders", value)
        assert producer.flush(60) == 0

    def seen(self, topic: str) -> list[bytes]:
        """What is in a topic that it writes."""
        return [value for part in bytes_by_partition(self.broker, f"{self.name}-{topic}").values() for value in part]

    def read(self, values: Iterable[bytes]) -> list[Any]:
        """What other readers make of records."""
        rows = []
        for value in values:
            schema = self.registry.by_id(int.from_bytes(value[1:5]))
            assert schema is not None
            rows.append(fastavro.schemaless_reader(io.BytesIO(value[5:]), json.loads(schema.text), None))
        return rows


def framed(number: int, schema: dict[str, Any], row: dict[str, Any]) -> bytes:
    """A record as producers with a registry write it."""
    datum = io.BytesIO()
    fastavro.schemaless_writer(datum, schema, row)
    return b"\0" + number.to_bytes(4) + datum.getvalue()


@pytest.fixture
def shop(broker: Broker, apicurio: Apicurio) -> Iterator[Shop]:
    made = Shop(broker, apicurio)
    with closing(made.registry):
        yield made


def test_records_of_two_schemas_are_read_and_written(shop: Shop, tmp_path: Path) -> None:
    first, second = order(AMOUNT), order(SHOP, AMOUNT)
    old, new = shop.registered(first), shop.registered(second)
    shop.send(
        framed(old, first, {"id": 1, "amount": 20.0}),
        framed(new, second, {"id": 2, "amount": 30.0, "shop": "north"}),
        framed(old, first, {"id": 3, "amount": 5.0}),
        b'{"id": 4}',
        framed(new, second, {"id": 6, "amount": 60.0, "shop": None})[:-1],
        framed(new, second, {"id": 7, "amount": 70.0, "shop": "south"}),
    )
    with Run(shop.file(tmp_path), tmp_path / "data", "--until-idle") as run:
        run.ended()
    assert shop.read(shop.seen("large")) == [
        {"id": 1, "shop": None, "amount": 20.0},
        {"id": 2, "shop": "north", "amount": 30.0},
        {"id": 7, "shop": "south", "amount": 70.0},
    ]
    reasons = [json.loads(value)["reason"] for value in shop.seen("unread")]
    assert "it begins with 0x7b ('{')" in reasons[0]
    assert len(reasons) == 2


def test_a_version_is_judged_as_the_start_judges_it(
    shop: Shop, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, version = shop.file(tmp_path), tmp_path / "order.avsc"

    def judged(schema: dict[str, Any]) -> tuple[int, list[str]]:
        version.write_text(json.dumps(schema))
        code = main(["diff", str(file), "--schema", f"orders={version}"])
        return code, capsys.readouterr().out.splitlines()

    good, bad = order(SHOP, AMOUNT | {"type": "float"}), order(SHOP, AMOUNT | {"type": "string"})
    assert judged(good)[0] == 0
    number = shop.registered(good)
    shop.send(framed(number, good, {"id": 1, "shop": None, "amount": 20.0}))
    with Run(file, tmp_path / "data", "--until-idle") as run:
        run.ended()
    assert [row["amount"] for row in shop.read(shop.seen("large"))] == [20.0]
    code, lines = judged(bad)
    assert code == 1
    sentence = lines[-1].removeprefix("refused: SchemaMisfitError: ")
    subject = f"subject {shop.name}-orders-value"
    number = shop.registered(bad)
    with Run(file, tmp_path / "data", "--until-idle") as run:
        assert run.exit_code() == 3
        assert sentence.replace(subject, f"{subject} (id {number})") in run.said()


def test_objects_behind_ids_are_read_and_written(broker: Broker, apicurio: Apicurio, tmp_path: Path) -> None:
    shop = Shop(broker, apicurio, "json-schema")
    with closing(shop.registry):
        number = shop.registered({"type": "object", "properties": {"id": {}, "shop": {}, "amount": {}}}, "JSON")
        frame = b"\0" + number.to_bytes(4)
        shop.send(
            frame + b'{"id": 1, "amount": 20}',
            b'{"id": 2, "amount": 30}',
            b"\0\x7f\xff\xff\xff" + b'{"id": 3}',
            frame + b'{"id": 4, "amount": 40, "shop": "north"}',
        )
        with Run(shop.file(tmp_path), tmp_path / "data", "--until-idle") as run:
            run.ended()
        values = shop.seen("large")
        made = shop.registry.latest(f"{shop.name}-large-value")
        assert made is not None
        assert json.loads(made.text)["properties"].keys() == {"id", "shop", "amount"}
        assert {value[:5] for value in values} == {b"\0" + made.id.to_bytes(4)}
        assert [json.loads(value[5:]) for value in values] == [
            {"id": 1, "amount": 20},
            {"id": 4, "amount": 40, "shop": "north"},
        ]
        reasons = [json.loads(value)["reason"] for value in shop.seen("unread")]
        assert "it begins with 0x7b" in reasons[0]
        assert "its schema id 2147483647 is not in the registry" in reasons[1]


PROTO = """syntax = "proto3";
message Order { int64 id = 1; optional string shop = 2; double amount = 3; }
message Refund { int64 id = 1; double amount = 7; }
"""


def test_messages_behind_ids_are_read_and_written(broker: Broker, apicurio: Apicurio, tmp_path: Path) -> None:
    shop = Shop(broker, apicurio, "protobuf")
    with closing(shop.registry):
        number = shop.registered(PROTO, "PROTOBUF")
        out = shop.registry.register(f"{shop.name}-large-value", "PROTOBUF", PROTO)
        frame, twenty = b"\0" + number.to_bytes(4), struct.pack("<d", 20)
        shop.send(
            frame + b"\0\x08\x01\x19" + twenty,
            frame + b"\x02\x02\x08\x02\x39" + twenty,
            frame + b"\0\x08\x03\x19" + twenty[:-1],
            b"{}",
            frame + b"\0\x08\x04\x12\x01n\x19" + twenty,
        )
        file = shop.file(tmp_path)
        with Run(file, tmp_path / "data", "--until-idle") as run:
            run.ended()
        order = b"\0" + out.to_bytes(4) + b"\0"
        assert shop.seen("large") == [
            order + b"\x08\x01\x19" + twenty,
            order + b"\x08\x02\x19" + twenty,
            order + b"\x08\x04\x12\x01n\x19" + twenty,
        ]
        reasons = [json.loads(value)["reason"] for value in shop.seen("unread")]
        assert "the record has a value of 8 bytes, and the bytes left are 7" in reasons[0]
        assert "it begins with 0x7b" in reasons[1]
