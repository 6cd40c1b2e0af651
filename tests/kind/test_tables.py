"""Broadcast tables over two nodes: new data sets of a topic and of a file, while a node dies and comes back."""

import json
from typing import Any

import pytest
from confluent_kafka import Producer

from holdfast_runtime.streams.kafka.client.connection import QUIET
from tests.cluster.cluster import Cluster
from tests.engine.runs import KEYS
from tests.kafka.counted import Counted
from tests.kafka.sent import seen_by_partition
from tests.kind.apps import CHECKPOINTS, App
from tests.kind.fed import Fed
from tests.kind.installed import Installed
from tests.kind.kafka import KindBroker
from tests.waiting import wait_until

_LIMIT = 90.0
_SHARED = {"key": ["k"], "distribution": "Broadcast", "versioned": True}
_PARTS = 2


@pytest.fixture
def app(app: App, counted: Counted) -> App:
    """Each row gets the version of its key in both tables."""
    spec: dict[str, Any] = app.tree["spec"]
    stream_fields = {"system": "here", "partitions": _PARTS, "key": ["k"]}
    spec["streams"] += [
        {"name": "versions", "topic": f"{counted.name}-versions", **stream_fields, "schema": "k STRING, v BIGINT"},
        {"name": "looked", "topic": f"{counted.name}-looked", **stream_fields},
    ]
    files = {"location": f"file://{CHECKPOINTS}/files", "format": "csv", "every": "2s"}
    spec["tables"] = [
        {"name": "by-topic", "sources": ["versions"], **_SHARED},
        {"name": "by-file", "files": files, "schema": "k STRING, f BIGINT", **_SHARED},
    ]
    spec["steps"] += [
        {"name": "topic-version", "from": ["rows"], "lookup": {"table": "by-topic", "by": ["k"]}},
        {"name": "file-version", "from": ["topic-version"], "lookup": {"table": "by-file", "by": ["k"]}},
        {"name": "looked-at", "from": ["file-version"], "select": ["id", "k", "v", "f"]},
        {"name": "looked-out", "from": ["looked-at"], "to": "looked"},
    ]
    return app


class Versions:
    """The data sets, and what the app has made of them."""

    def __init__(self, cluster: Cluster, broker: KindBroker, app: App, counted: Counted) -> None:
        self._broker, self._topic, self._looked = broker, f"{counted.name}-versions", f"{counted.name}-looked"
        self._folder = cluster.shared / app.namespace / "files"
        broker.create_topic(self._topic, _PARTS)
        settings = {"partitioner": "murmur2_random", "bootstrap.servers": broker.bootstrap}
        self._producer = Producer(settings, logger=QUIET)

    def write(self, version: int) -> None:
        """The rows of a data set in the topic, without its end."""
        for key in range(KEYS):
            self._producer.produce(self._topic, json.dumps({"k": str(key), "v": version}), str(key))
        assert self._producer.flush(60) == 0

    def end(self) -> None:
        """The data set in the topic is whole."""
        for partition in range(_PARTS):
            self._producer.produce(self._topic, b"", partition=partition, headers={"holdfast-dataset": b"end"})
        assert self._producer.flush(60) == 0

    def put(self, version: int) -> None:
        """The file has this data set, from one moment to the next."""
        self._folder.mkdir(mode=0o777, exist_ok=True)
        written = self._folder / "_new"
        written.write_text("k,f\n" + "".join(f"{key},{version}\n" for key in range(KEYS)))
        written.replace(self._folder / "versions.csv")

    def rows(self) -> list[list[dict[str, Any]]]:
        """The rows of each partition, in order; each once, and no version after a newer one."""
        values_of = seen_by_partition(self._broker, self._looked)
        parts = [[json.loads(value) for value in values] for values in values_of.values()]
        ids = [row["id"] for part in parts for row in part]
        assert len(set(ids)) == len(ids), "a row came out twice"
        for part in parts:
            for column in ("v", "f"):
                versions = [row[column] for row in part]
                assert versions == sorted(versions), f"{column} went back"
        return parts

    def served(self, topic: int, file: int) -> bool:
        """Whether the newest row of each partition has these versions."""
        return all(part and (part[-1]["v"], part[-1]["f"]) == (topic, file) for part in self.rows())


def test_both_nodes_switch_to_new_data_sets_while_one_dies(
    cluster: Cluster, installed: Installed, broker: KindBroker, app: App, counted: Counted
) -> None:
    versions = Versions(cluster, broker, app, counted)
    versions.write(1)
    versions.end()
    versions.put(1)
    with Fed(counted) as fed:
        app.apply()
        app.ready()
        fed.flows()
        assert set(app.nodes().values()) == set(cluster.workers), "both workers have tasks"
        assert app.condition("TablesLoaded") == ("True", "TablesLoaded")
        wait_until(lambda: versions.served(1, 1), _LIMIT, "rows with the first data sets")

        versions.write(2)
        versions.put(2)
        wait_until(lambda: versions.served(1, 2), _LIMIT, "rows with the second file, and the first of the topic")
        lost = app.driver()["spec"]["nodeName"]
        cluster.stop_node(lost)
        fed.flows(_LIMIT)
        assert versions.served(1, 2), "a data set that has not ended is not served, whoever dies"
        versions.end()
        versions.put(3)
        wait_until(lambda: versions.served(2, 3), _LIMIT, "rows with the new data sets, on the node that is left")

        cluster.start_node(lost)
        installed.up()
        wait_until(lambda: len(app.executors()) == 2, _LIMIT, "two executors")
        versions.write(3)
        versions.end()
        versions.put(4)
        fed.flows()
        wait_until(lambda: versions.served(3, 4), _LIMIT, "rows with the newest data sets, on both nodes")
        count = fed.settles()
        wait_until(lambda: sum(map(len, versions.rows())) >= count, _LIMIT, f"all of {count} rows")
        assert sum(map(len, versions.rows())) == count
