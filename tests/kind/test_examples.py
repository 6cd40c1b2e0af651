"""Every example whose steps can run, applied to the cluster as its file has it, but with a broker for its streams."""

import json
from collections.abc import Collection, Sequence
from datetime import date
from typing import Any

import pytest
from confluent_kafka import Producer
from ruamel.yaml import YAML

from holdfast_runtime.inspection.packed_app import packed_app
from holdfast_runtime.streams.kafka.client.connection import QUIET
from tests.cluster import docker
from tests.cluster.cluster import Cluster
from tests.cluster.steps import step
from tests.examples.rows import FED
from tests.examples.test_examples import EXPECTED, FOLDER, NAMES, app_of
from tests.kafka.sent import seen_by_partition
from tests.kind.apps import App, small_runtime
from tests.kind.images import Images
from tests.kind.installed import Team
from tests.kind.kafka import KindBroker
from tests.waiting import patience, wait_until

_VALUES: dict[str, Any] = {"STRING": "some text", "INT": 200, "BIGINT": 7, "TIMESTAMP": "2026-01-01T00:00:00Z"}
_ROWS = 60.0


def runs(name: str) -> bool:
    """Whether its streams can be had here."""
    spec = app_of(name).spec
    return not any(system.kafka for system in spec.systems)


def test_some_examples_run() -> None:
    assert {name for name in NAMES if runs(name)} >= {"clean-logs", "page-totals", "paid-orders"}


@pytest.mark.parametrize("name", [name for name in NAMES if runs(name)])
def test_an_example_runs_as_it_stands(
    name: str, cluster: Cluster, images: Images, team: Team, broker: KindBroker
) -> None:
    tree = json.loads(json.dumps(YAML(typ="safe").load((FOLDER / name / "app.yaml").read_text()), default=str))
    spec = tree["spec"]
    made_up = {one["name"] for one in spec["systems"] if "generator" in one}
    for system in spec["systems"]:
        if system.pop("log", None) is not None:
            system["kafka"] = {"bootstrapServers": broker.bootstrap}
    for stream in spec["streams"]:
        stream.setdefault("topic", f"{team.namespace}-{stream['name']}")
    written = {step["to"] for step in spec["steps"] if "to" in step}
    inputs = [one for one in spec["streams"] if one["name"] not in written and one["system"] not in made_up]
    _forget(broker, name, {stream["topic"] for stream in spec["streams"]})
    for stream in inputs:
        broker.create_topic(stream["topic"], stream["partitions"])
    _fill(broker, name, inputs)
    spec["runtime"] = {**spec.get("runtime", {}), **small_runtime()}
    if (FOLDER / name / "Dockerfile").exists():
        spec["runtime"]["image"] = _derived(cluster, images, name)
    elif modules := packed_app(app_of(name), FOLDER / name).modules:
        spec["runtime"]["code"] = {**spec["runtime"].get("code", {}), **modules}
    spec["state"] = {"storageClass": team.storage_class, "size": "512Mi"}
    app = App(cluster, team.namespace, tree)
    app.apply()
    app.ready()
    assert app.status()["tasks"] == EXPECTED[name].tasks
    _fill(broker, name, inputs)  # again: a look-up finds what an earlier batch has brought
    outputs = [stream["topic"] for stream in spec["streams"] if stream["name"] in written]

    def out() -> bool:
        return all(any(seen_by_partition(broker, topic).values()) for topic in outputs)

    wait_until(out, _ROWS, f"rows in {outputs}")


def _forget(broker: KindBroker, name: str, topics: Collection[str]) -> None:
    """Delete what an earlier run on this cluster has left: examples keep their names, and a name has one owner."""
    with broker.admin() as admin:
        broker_topics = admin.list_topics(timeout=patience(30)).topics
        left = [topic for topic in broker_topics if topic in topics or topic.startswith((f"{name}.", f"{name}-"))]
        for done in (admin.delete_topics(left) if left else {}).values():
            done.result(patience(30))


def _derived(cluster: Cluster, images: Images, name: str) -> str:
    """The example's own image, on the workers."""
    image = f"holdfast-example/{name}:test"
    with step(f"image of {name}") as work:
        folder = FOLDER / name
        docker.build(work, folder / "Dockerfile", folder, image, {"RUNTIME": images.runtime})
    cluster.load_image(image)
    return image


def _fill(broker: KindBroker, example: str, streams: Sequence[dict[str, Any]]) -> None:
    """The rows of an example, or some of the columns of its streams."""
    fed = FED[example]() if example in FED else {}
    producer = Producer({"bootstrap.servers": broker.bootstrap, "partitioner": "murmur2_random"}, logger=QUIET)
    for stream in streams:
        if "schema" not in stream:
            continue  # it takes what can't be read
        columns = [column.strip().rsplit(" ", 1) for column in stream["schema"].split(",")]
        rows = fed.get(stream["name"]) or [{name: _VALUES[kind] for name, kind in columns}] * 100
        for number, row in enumerate(rows):
            by = "".join(str(row[column]) for column in stream.get("key", [])) or str(number)
            producer.produce(stream["topic"], json.dumps(row, default=_text).encode(), by.encode())
    assert producer.flush(30) == 0


def _text(value: object) -> str | float:
    return value.isoformat() if isinstance(value, date) else float(str(value))
