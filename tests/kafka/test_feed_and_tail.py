"""`holdfast feed`, `tail` and `streams` on topics, with a real broker: what is fed comes out, as on the log."""

import json
import uuid
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from holdfast.tasks.partitions import StreamPartition
from holdfast_cli.main import main
from holdfast_runtime.inspection.kafka_topic import KafkaTopic
from holdfast_runtime.streams.kafka.admin.bounds import TopicBounds
from holdfast_runtime.streams.kafka.system import KafkaCluster
from holdfast_runtime.streams.kafka.write.producer import TransactionalProducer
from holdfast_runtime.streams.records import written_batch
from holdfast_runtime.streams.registry.client import SchemaRegistry
from holdfast_runtime.streams.registry.settings import RegistrySettings
from tests.kafka.broker import Broker, free_ports
from tests.kafka.known import Known, create, settings_of
from tests.kafka.reached import ANSWER_TIMEOUT
from tests.kafka.sent import bytes_by_partition
from tests.kafka.test_interop import java, librdkafka
from tests.registry.server import Apicurio
from tests.waiting import patience

pytestmark = pytest.mark.kafka

APP = """
apiVersion: holdfast.dev/v1alpha1
kind: StreamApp
metadata: {name: NAME}
spec:
  systems:
  - {name: events, kafka: {bootstrapServers: "BROKER"}}
  - {name: described, kafka: {bootstrapServers: "BROKER", registry: {url: "REGISTRY"}}}
  - {name: away, kafka: {bootstrapServers: "AWAY"}}
  - {name: here, log: {}}
  streams:
  - {name: orders, system: events, topic: NAME-orders, key: [id], schema: "id STRING, amount BIGINT, at TIMESTAMP"}
  - {name: numbers, system: events, topic: NAME-numbers, key: [number], partitioner: crc32, schema: "number BIGINT"}
  - {name: bought, system: described, topic: NAME-bought, key: [id], format: avro,
     schema: "id BIGINT, shop STRING, amount DOUBLE"}
  - name: refunds
    system: described
    topic: NAME-refunds
    key: [id]
    format: protobuf
    protobuf:
      register: true
      schema: 'syntax = "proto3"; message Order {} message Refund { int64 id = 1; optional string why = 2; }'
      message: Refund
  - {name: sold, system: events, topic: NAME-sold, key: [id], format: csv, csv: {delimiter: ";"},
     schema: "id BIGINT, shop STRING"}
  - {name: notes, system: events, topic: NAME-notes, format: csv, schema: "note STRING"}
  - {name: far, system: away, schema: "a STRING"}
  - {name: near, system: here, partitions: 1, schema: "a STRING"}
  - {name: out, system: events, topic: NAME-out}
  steps:
  - {name: chosen, from: [orders], filter: "amount > 10"}
  - {name: written, from: [chosen], to: out}
"""


@dataclass
class Shop:
    """An app whose topics are its own, and its commands."""

    broker: Broker
    folder: Path
    capsys: pytest.CaptureFixture[str]
    registry: str = "http://127.0.0.1:1"
    name: str = field(default_factory=lambda: f"shop-{uuid.uuid4().hex[:6]}")

    def __post_init__(self) -> None:
        away = f"127.0.0.1:{free_ports(1)[0]}"
        text = APP.replace("NAME", self.name).replace("BROKER", self.broker.bootstrap)
        self.app = self.folder / "app.yaml"
        self.app.write_text(text.replace("REGISTRY", self.registry).replace("AWAY", away))

    def create(self, stream: str, partitions: int, **config: str) -> str:
        create(self.broker, topic := f"{self.name}-{stream}", partitions, **config)
        return topic

    def ran(self, command: str, *arguments: str) -> tuple[int, str, str]:
        """Exit code, output and errors of a command."""
        data = ("--data", str(self.folder / "data"))
        code = main([command, str(self.app), *arguments, *data])
        return code, *self.capsys.readouterr()

    def feed(self, stream: str, rows: Sequence[Any], *options: str) -> tuple[int, str, str]:
        lines = self.folder / "lines"
        lines.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return self.ran("feed", stream, str(lines), *options)

    def tailed(self, stream: str, *options: str) -> list[dict[str, Any]]:
        code, out, err = self.ran("tail", stream, "--from-beginning", "--until-end", "-o", "json", *options)
        assert (code, err) == (0, "")
        return [json.loads(line) for line in out.splitlines()]


@pytest.fixture
def shop(broker: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shop:
    return Shop(broker, tmp_path, capsys)


ORDERS = [{"id": f"o-{n % 5}", "amount": n, "at": "2026-01-02T12:00:00Z"} for n in range(20)]


def test_what_is_fed_into_a_topic_is_tailed(shop: Shop) -> None:
    shop.create("orders", 3)
    assert shop.feed("orders", ORDERS) == (0, "20 records written to orders (3 partitions)\n", "")
    records = shop.tailed("orders")
    assert sorted((record["value"] for record in records), key=lambda row: row["amount"]) == ORDERS
    assert all(record["key"] == record["value"]["id"] for record in records)
    assert shop.tailed("orders", "--max", "4") == records[:4]
    assert shop.ran("tail", "orders", "--until-end") == (0, "", "")


def test_fed_records_are_where_java_puts_them(shop: Shop, broker: Broker) -> None:
    topic = shop.create("orders", 7)
    keys = [f"ключ-{n}" for n in range(50)]
    assert shop.feed("orders", [{"id": key} for key in keys])[0] == 0
    places = {record["key"]: record["partition"] for record in shop.tailed("orders")}
    answers = java(broker, topic, [(key.encode(), b"{}") for key in keys])
    assert [places[key] for key in keys] == [answer.partition for answer in answers]


def test_only_records_of_a_key_or_condition_are_shown(shop: Shop) -> None:
    topic = shop.create("orders", 1)
    shop.feed("orders", ORDERS)
    assert [record["value"]["amount"] for record in shop.tailed("orders", "--key", "o-1")] == [1, 6, 11, 16]
    where = ("--where", "amount % 2 = 0 and id in ('o-1', 'o-2')")
    assert [record["value"]["amount"] for record in shop.tailed("orders", *where)] == [2, 6, 12, 16]
    assert [record["value"]["amount"] for record in shop.tailed("orders", *where, "--key", "o-1")] == [6, 16]
    Known(shop.broker, topic).write([{"value": b"{"}, {"value": None}])
    code, out, err = shop.ran("tail", "orders", "--from-beginning", "--until-end", "--where", "amount >= 19")
    assert (code, len(out.splitlines())) == (0, 1)
    assert err.startswith("holdfast: 1 record left out, as --where can't be computed: the first is orders/0 at offset")


def test_deletes_are_records_without_a_value(shop: Shop) -> None:
    shop.create("orders", 2)
    shop.feed("orders", ORDERS)
    code, out, _ = shop.feed("orders", [{"id": "o-3"}], "--delete")
    assert (code, out) == (0, "1 delete written to orders (2 partitions)\n")
    of_key = shop.tailed("orders", "--key", "o-3")
    assert len({record["partition"] for record in of_key}) == 1
    assert of_key[-1]["value"] is None


def test_fed_numbers_are_where_librdkafka_puts_them(shop: Shop, broker: Broker) -> None:
    topic = shop.create("numbers", 4)
    assert shop.feed("numbers", [{"number": number} for number in range(-9, 9)])[0] == 0
    places = {record["key"]: record["partition"] for record in shop.tailed("numbers")}
    answers = librdkafka(broker, topic, [(key.encode(), b"{}") for key in places])
    assert list(places.values()) == [answer.partition for answer in answers]


def test_a_bad_line_ends_a_feed_into_a_topic(shop: Shop) -> None:
    shop.create("numbers", 1)
    code, _, err = shop.feed("numbers", [{"number": 1}, {"number": "2"}])
    assert code == 2
    assert 'lines:2: the key column number is BIGINT, but the line has "2"; the 1 records before this line' in err
    assert [record["key"] for record in shop.tailed("numbers")] == ["1"]


def test_a_missing_topic_is_named_with_its_neighbour(shop: Shop) -> None:
    shop.create("order", 1)
    for command in (("tail", "orders"), ("feed", "orders", str(shop.app))):
        code, _, err = shop.ran(*command)
        assert code == 2
        assert f"there is no topic {shop.name}-orders at" in err
        assert f"did you mean {shop.name}-order?" in err


def test_streams_that_the_app_writes_are_not_fed(shop: Shop) -> None:
    code, _, err = shop.feed("out", [{"id": "x"}])
    assert (code, err) == (2, "holdfast: stream out is written by the app itself; feed one of its inputs\n")


def test_too_large_lines_end_a_feed(shop: Shop) -> None:
    shop.create("orders", 1, max_message_bytes="1000")
    code, _, err = shop.feed("orders", [{"id": "a"}, {"id": "b" * 500}, {"id": "c"}])
    assert code == 2
    assert "orders takes 900 (max.message.bytes of topic" in err
    assert "(1 records were written before that)" in err


def test_a_system_that_is_away_hides_no_other(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TopicBounds.__init__, "__defaults__", (patience(1.0),))
    shop.create("orders", 3)
    shop.feed("orders", ORDERS)
    code, out, err = shop.ran("streams")
    rows = {line.split()[0]: line.split()[1:] for line in out.splitlines()}
    assert rows["orders"] == ["input", "kafka", "3", "0", rows["orders"][4], "20", "-"]
    assert rows["out"][-4:] == rows["far"][-4:] == ["-"] * 4
    assert code == 3
    assert err.count("Kafka system away: ") == 1


def test_records_deleted_meanwhile_are_told_as_lost(broker: Broker, shop: Shop) -> None:
    topic = shop.create("orders", 1)
    shop.feed("orders", ORDERS)
    with closing(KafkaCluster(settings_of(broker.bootstrap), "a")) as cluster:
        stream = KafkaTopic(cluster, topic)
        assert stream.bounds()[StreamPartition(topic, 0)][:2] == (0, 20)  # from here on it is known for some seconds
        with broker.admin() as admin:
            place = TopicPartition(topic, 0, 15)
            admin.delete_records([place])[place].result(ANSWER_TIMEOUT)
        (chunk,) = stream.records({})
    assert (chunk.since, chunk.offsets.start, chunk.records.num_rows) == (0, 15, 5)
    _, _, err = shop.ran("tail", "orders", "--from-beginning", "--until-end")
    assert err == ""


def test_records_of_open_transactions_are_not_shown(broker: Broker, shop: Shop) -> None:
    topic = shop.create("orders", 1)
    shop.feed("orders", ORDERS[:3])
    with closing(TransactionalProducer(settings_of(broker.bootstrap), topic)) as producer:
        producer.open()
        producer.begin()
        producer.put(topic, 0, written_batch([b"x"], [b"{}"], 1_000))
        producer.flush()
        assert [record["key"] for record in shop.tailed("orders")] == ["o-0", "o-1", "o-2"]


def test_a_topic_created_again_ends_its_tail(broker: Broker, shop: Shop) -> None:
    topic = shop.create("orders", 1)
    cluster = KafkaCluster(settings_of(broker.bootstrap), "a")
    with closing(cluster):
        stream = KafkaTopic(cluster, topic)
        stream.bounds()
        with broker.admin() as admin:
            admin.delete_topics([topic])[topic].result(ANSWER_TIMEOUT)
        cluster.close()
        with pytest.raises(Exception, match=f"there is no topic {topic}"):
            stream.bounds()
        create(broker, topic)
        with pytest.raises(Exception, match="was created again"):
            stream.bounds()


def test_avro_is_fed_and_shown_by_the_registry(
    broker: Broker, apicurio: Apicurio, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = Shop(broker, tmp_path, capsys, apicurio.url)
    topic = shop.create("bought", 1)
    schema = {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "shop", "type": ["null", "string"], "default": None},
            {"name": "amount", "type": "double"},
        ],
    }
    code, _, err = shop.feed("bought", [{"id": 1}])
    assert code == 2
    assert f"no such schema under subject {topic}-value" in err
    with closing(SchemaRegistry(RegistrySettings(apicurio.url, "described", {}))) as registry:
        number = registry.register(f"{topic}-value", "AVRO", json.dumps(schema))
    rows = [{"id": 1, "shop": "north", "amount": 2.5}, {"id": 2, "shop": None, "amount": 4.0}]
    assert shop.feed("bought", rows)[0] == 0
    assert [value[:5] for value in bytes_by_partition(broker, topic)[0]] == [b"\0" + number.to_bytes(4)] * 2
    assert [(record["key"], record["value"]) for record in shop.tailed("bought")] == [
        ("1", rows[0]),
        ("2", {"id": 2, "amount": 4}),  # as Spark writes JSON, without nulls
    ]
    assert [record["key"] for record in shop.tailed("bought", "--where", "amount > 3")] == ["2"]
    code, _, err = shop.feed("bought", [{"id": 3, "amount": 1.0}, {"id": 4}])
    assert (code, "lines:2: " in err) == (2, True)


def test_messages_are_fed_and_shown_by_the_registry(
    broker: Broker, apicurio: Apicurio, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = Shop(broker, tmp_path, capsys, apicurio.url)
    topic = shop.create("refunds", 1)
    rows = [{"id": 1, "why": "late"}, {"id": 2}]
    assert shop.feed("refunds", rows)[0] == 0
    with closing(SchemaRegistry(RegistrySettings(apicurio.url, "described", {}))) as registry:
        latest = registry.latest(f"{topic}-value")
    assert latest is not None
    frame = b"\0" + latest.id.to_bytes(4) + b"\x02\x02"
    assert bytes_by_partition(broker, topic)[0] == [frame + b"\x08\x01\x12\x04late", frame + b"\x08\x02"]
    assert [record["value"] for record in shop.tailed("refunds")] == rows
    code, _, err = shop.feed("refunds", [{"why": "lost"}])
    assert code != 0
    assert "column id is null, which its field can't say" in err


def test_lines_of_csv_are_fed_and_shown_as_objects(shop: Shop) -> None:
    topic, notes = shop.create("sold", 1), shop.create("notes", 1)
    rows = [{"id": 1, "shop": "a;\n"}, {"id": 2}, {"id": 3, "shop": ""}]
    assert shop.feed("sold", rows)[0] == 0
    assert bytes_by_partition(shop.broker, topic)[0] == [b'1;"a;\n"', b"2;", b'3;""']
    assert [record["value"] for record in shop.tailed("sold")] == rows
    assert [record["key"] for record in shop.tailed("sold", "--where", "shop IS NULL")] == ["2"]
    assert shop.feed("notes", [{}, {"note": ""}])[0] == 0
    assert bytes_by_partition(shop.broker, notes)[0] == [b"", b'""']
    assert [record["value"] for record in shop.tailed("notes")] == [{}, {"note": ""}]
