"""Whole runs on changes of a database in Avro, with a real broker and a real registry."""

import json
import uuid
from contextlib import closing
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from holdfast_runtime.streams.kafka.client.connection import QUIET
from holdfast_runtime.streams.registry.client import SchemaRegistry
from holdfast_runtime.streams.registry.settings import RegistrySettings
from tests.changes.databases import AVRO_KEY, COLUMNS, Database, avro_envelope
from tests.changes.records import Record
from tests.engine.runs import Run
from tests.kafka.broker import Broker
from tests.kafka.sent import bytes_by_partition, consumed
from tests.registry.server import Apicurio

pytestmark = pytest.mark.kafka

HEAD = """
apiVersion: holdfast.dev/v1alpha1
kind: StreamApp
metadata: {name: NAME}
spec:
  systems:
  - {name: here, kafka: {bootstrapServers: "BROKER", registry: {url: "REGISTRY"}}}
"""
APP = f"""{HEAD}  streams:
  - {{name: orders, topic: NAME-orders, system: here, partitions: 1, schema: "id BIGINT, part STRING"}}
  - {{name: goods, topic: NAME-goods, system: here, partitions: 3, format: avro, changes: debezium, key: [id, part],
     schema: "{COLUMNS}"}}
  - {{name: priced, topic: NAME-priced, system: here, partitions: 1}}
  tables:
  - {{name: goods-now, sources: [goods], key: [id, part], distribution: Broadcast}}
  steps:
  - {{name: found, from: [orders], lookup: {{table: goods-now, by: [id, part], type: Left}}}}
  - {{name: out, from: [found], to: priced}}
"""
AT, DAY = datetime(2026, 1, 2, 3, 4, 5, 678901, UTC), date(1969, 12, 31)


def row(number: int, name: str, more: int | None = None) -> dict[str, Any]:
    return {"id": number, "part": "a", "name": name, "price": Decimal("-0.05"), "at": AT, "day": DAY, "more": more}


def test_orders_see_what_the_database_has(broker: Broker, apicurio: Apicurio, tmp_path: Path) -> None:
    name, database = prepared(apicurio, "goods")
    for topic, partitions in (("orders", 1), ("goods", 3)):
        broker.create_topic(f"{name}-{topic}", partitions)
    database.write(row(1, "old"), "r")
    database.write(row(2, "gone"), "r")
    database.write(row(3, "kept"), "r")
    database.wide = True
    database.write(row(1, "new", 7), "u")
    database.delete((2, "a"), envelope=True, tombstone=True)
    _send(broker, f"{name}-goods", database.records)
    _send(broker, f"{name}-orders", [(None, json.dumps({"id": at, "part": "a"}).encode()) for at in (1, 2, 3)])
    run_app(APP.replace("NAME", name), broker, apicurio, tmp_path)
    (values,) = bytes_by_partition(broker, f"{name}-priced").values()
    shared = {"part": "a", "price": -0.05, "at": "2026-01-02T03:04:05.678901Z", "day": "1969-12-31"}
    assert [json.loads(value) for value in values] == [
        {"id": 1, "name": "new", "more": 7, **shared},
        {"id": 2, "part": "a"},
        {"id": 3, "name": "kept", **shared},
    ]


COPY = f"""{HEAD}  streams:
  - {{name: goods, topic: NAME-goods, system: here, partitions: 1, format: avro, changes: debezium, key: [id, part],
     schema: "{COLUMNS}"}}
  - {{name: copy, topic: NAME-copy, system: here, partitions: 1, key: [id, part], format: avro,
     avro: {{register: true}}}}
  steps:
  - {{name: out, from: [goods], to: copy}}
"""


def test_changes_are_copied_with_deletions(broker: Broker, apicurio: Apicurio, tmp_path: Path) -> None:
    name, database = prepared(apicurio, "copies")
    broker.create_topic(f"{name}-goods", 1)
    database.write(row(1, "new"), "c")
    database.write(row(2, "gone"), "c")
    database.delete((2, "a"), envelope=True, tombstone=False)
    _send(broker, f"{name}-goods", database.records)
    run_app(COPY.replace("NAME", name), broker, apicurio, tmp_path)
    messages = consumed(broker, f"{name}-copy", 0, 3)
    assert [message.key() for message in messages] == [b'[1,"a"]', b'[2,"a"]', b'[2,"a"]']
    assert [message.value() is None for message in messages] == [False, False, True]


def prepared(apicurio: Apicurio, what: str) -> tuple[str, Database]:
    """A name of its own, and a database whose schemas the registry knows."""
    name = f"{what}-{uuid.uuid4().hex[:6]}"
    with closing(SchemaRegistry(RegistrySettings(apicurio.url, "here", {}))) as registry:
        subjects = [("key", AVRO_KEY), ("value", avro_envelope(wide=False)), ("value", avro_envelope(wide=True))]
        ids = [registry.register(f"{name}-goods-{kind}", "AVRO", json.dumps(schema)) for kind, schema in subjects]
    return name, Database("avro", ids=dict(enumerate(ids, start=1)))


def run_app(app: str, broker: Broker, apicurio: Apicurio, folder: Path) -> None:
    """Run it until nothing is left to read."""
    path = folder / "app.yaml"
    path.write_text(app.replace("BROKER", broker.bootstrap).replace("REGISTRY", apicurio.url))
    with Run(path, folder / "data", "--until-idle") as run:
        run.ended()


def _send(broker: Broker, topic: str, records: list[Record]) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap}, logger=QUIET)
    for key, value in records:
        producer.produce(topic, value, key)
    assert producer.flush(60) == 0
