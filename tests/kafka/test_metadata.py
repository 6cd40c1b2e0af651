"""Keys, headers, places and timestamps of records that other producers wrote, as columns; and keys that are written."""

import base64
import json
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from ruamel.yaml import YAML

from holdfast_runtime.streams.kafka.client.connection import QUIET
from tests.engine.runs import Run
from tests.kafka.broker import Broker
from tests.kafka.sent import consumed, seen

pytestmark = pytest.mark.kafka
AT = 1_767_225_600_000
METADATA = ["key AS user", "headers", "partition", "offset", "timestamp AS at"]
TOPICS = ("in", "out", "passed", "sums")


def app(broker: Broker, name: str) -> dict[str, Any]:
    topics = {stream: {"system": "here", "topic": f"{name}-{stream}"} for stream in TOPICS}
    return {
        "apiVersion": "holdfast.dev/v1alpha1",
        "kind": "StreamApp",
        "metadata": {"name": name},
        "spec": {
            "systems": [{"name": "here", "kafka": {"bootstrapServers": broker.bootstrap}}],
            "streams": [
                {
                    "name": "in",
                    **topics["in"],
                    "metadata": METADATA,
                    "schema": "number INT",
                    "eventTime": {"column": "at"},
                },
                {"name": "out", **topics["out"], "key": ["user"]},
                {"name": "passed", **topics["passed"], "metadata": ["key AS user", "headers"]},
                {"name": "sums", **topics["sums"], "metadata": ["key AS user"]},
            ],
            "steps": [
                {"name": "all", "from": ["in"], "to": "out"},
                {"name": "traced", "from": ["in"], "select": ["user", "headers", "number"]},
                {"name": "through", "from": ["traced"], "to": "passed"},
                {
                    "name": "summed",
                    "from": ["all"],
                    "aggregate": {"by": ["user"], "window": "1s", "compute": ["sum(number) AS number"]},
                },
                {"name": "written", "from": ["summed"], "to": "sums"},
            ],
        },
    }


def test_records_of_others_are_rows_with_all_they_have(broker: Broker, tmp_path: Path) -> None:
    name = f"metadata-{uuid.uuid4().hex[:6]}"
    for stream in TOPICS:
        broker.create_topic(f"{name}-{stream}", 2)
    file = tmp_path / "app.yaml"
    with file.open("w", encoding="utf-8") as text:
        YAML(typ="safe").dump(app(broker, name), text)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "partitioner": "murmur2_random"}, logger=QUIET)
    trace: list[tuple[str, str | bytes | None]] = [("traceparent", b"00-ab-cd-01"), ("empty", None)]
    for number in range(40):
        headers = trace if number % 2 else None
        value, at = json.dumps({"number": number}).encode(), AT + number * 100
        producer.produce(f"{name}-in", value, f"u{number % 20}".encode(), timestamp=at, headers=headers)
    assert producer.flush(30) == 0
    with Run(file, tmp_path / "data", "--until-idle") as run:
        run.ended()
    rows = sorted((json.loads(value) for value in seen(broker, f"{name}-out")), key=lambda row: row["number"])
    assert [row["number"] for row in rows] == list(range(40))
    encoded = [
        {"key": "traceparent", "value": base64.b64encode(b"00-ab-cd-01").decode()},
        {"key": "empty"},
    ]
    for row in rows:
        assert row["user"] == f"u{row['number'] % 20}"
        assert row.get("headers") == (encoded if row["number"] % 2 else None)
    places = [(row["partition"], row["offset"]) for row in rows]
    assert len(set(places)) == 40
    counts = Counter(partition for partition, _ in places)
    assert counts.keys() == {0, 1}
    assert rows[7]["at"] == "2026-01-01T00:00:00.700Z"
    passed = [
        record for partition in (0, 1) for record in consumed(broker, f"{name}-passed", partition, counts[partition])
    ]
    assert sorted(json.loads(record.value() or b"")["number"] for record in passed) == list(range(40))
    for record in passed:
        tree = json.loads(record.value() or b"")
        assert tree.keys() == {"number"}
        assert record.key() == f"u{tree['number'] % 20}".encode()
        assert record.headers() == (trace if tree["number"] % 2 else None)
    sums = [json.loads(value) for value in seen(broker, f"{name}-sums")]
    assert all("user" not in row for row in sums)
    assert sum(row["number"] for row in sums if row["window_start"] == "2026-01-01T00:00:00.000Z") > 0
