"""Tables fed from a real broker: records without a value delete, a header ends a data set, on either kind of table."""

import json
import uuid
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from ruamel.yaml import YAML

from holdfast_runtime.streams.kafka.client.connection import QUIET
from tests.engine.fed_tables import app, each_kind
from tests.engine.runs import Run
from tests.kafka.broker import Broker
from tests.kafka.sent import seen

pytestmark = pytest.mark.kafka
END: list[tuple[str, str | bytes | None]] = [("holdfast-dataset", b"end")]
PARTITIONS = 2


class Shop:
    """An app whose topics are its own."""

    def __init__(self, broker: Broker, folder: Path, kind: str, **table: Any) -> None:
        self.broker, self.folder, self.asked = broker, folder, 0
        self.name = f"shop-{uuid.uuid4().hex[:6]}"
        tree = app(kind, **table)
        tree["metadata"]["name"] = self.name
        tree["spec"]["systems"] = [{"name": "here", "kafka": {"bootstrapServers": broker.bootstrap}}]
        for stream in tree["spec"]["streams"]:
            stream["topic"] = f"{self.name}-{stream['name']}"
            broker.create_topic(stream["topic"], stream["partitions"])
        self.file = folder / "app.yaml"
        with self.file.open("w", encoding="utf-8") as file:
            YAML(typ="safe").dump(tree, file)
        self.producer = Producer({"bootstrap.servers": broker.bootstrap, "partitioner": "murmur2_random"}, logger=QUIET)

    def tell(self, prices: dict[str, int | None], *, end: bool = False) -> None:
        """Write products; one without a price is deleted. `end`: the data set ends in each partition."""
        for sku, price in prices.items():
            value = None if price is None else json.dumps({"sku": sku, "price": price}).encode()
            self.producer.produce(f"{self.name}-products", value, sku.encode())
        for partition in range(PARTITIONS) if end else ():
            self.producer.flush(30)
            self.producer.produce(f"{self.name}-products", b"", partition=partition, headers=END)

    def priced(self, *skus: str) -> list[int | None]:
        """What orders cost now, after one more run of the app."""
        first, self.asked = self.asked, self.asked + len(skus)
        for at, sku in enumerate(skus):
            value = json.dumps({"sku": sku, "n": first + at}).encode()
            self.producer.produce(f"{self.name}-orders", value, sku.encode())
        assert self.producer.flush(30) == 0
        with Run(self.file, self.folder / "data", "--until-idle") as run:
            run.ended()
        rows = {row["n"]: row.get("price") for row in map(json.loads, seen(self.broker, f"{self.name}-out"))}
        assert len(rows) == self.asked
        return [rows[first + at] for at in range(len(skus))]


@each_kind
def test_a_change_stream_feeds_a_table_over_restarts(broker: Broker, tmp_path: Path, kind: str) -> None:
    shop = Shop(broker, tmp_path, kind)
    shop.tell({"a": 1, "b": 2, "c": 3})
    assert shop.priced("a", "b", "c", "d") == [1, 2, 3, None]
    shop.tell({"a": 5, "b": None})
    assert shop.priced("a", "b", "c") == [5, None, 3]


def test_a_header_ends_a_data_set(broker: Broker, tmp_path: Path) -> None:
    shop = Shop(broker, tmp_path, "Broadcast", versioned=True)
    shop.tell({"a": 1, "b": 2}, end=True)
    shop.tell({"b": 3})
    assert shop.priced("a", "b") == [1, 2]
    shop.tell({"c": 4}, end=True)
    assert shop.priced("a", "b", "c") == [None, 3, 4]
