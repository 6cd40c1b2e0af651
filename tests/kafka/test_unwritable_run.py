"""A whole run whose rows a topic does not take: it ends with the record's name, and is planned again and done."""

import json
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # it exports them unsaid
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from confluent_kafka.cimpl import NewTopic

from holdfast_runtime.streams.kafka.client.connection import QUIET
from tests.engine.runs import DEADLINE, Run
from tests.kafka.broker import Broker
from tests.kafka.reached import ANSWER_TIMEOUT
from tests.kafka.sent import seen_by_partition

pytestmark = pytest.mark.kafka
COUNT, LARGE = 60, 17
TIMES = {3: "1950-01-01T00:00:00Z", 5: "2099-01-01T00:00:00Z", 7: "1970-01-01T00:00:00Z", 11: "0001-02-03T00:00:00Z"}
APP = """
apiVersion: holdfast.dev/v1alpha1
kind: StreamApp
metadata: {name: %(app)s}
spec:
  systems:
  - {name: here, kafka: {bootstrapServers: "%(bootstrap)s"}}
  streams:
  - {name: rows, topic: %(app)s-rows, system: here, schema: "id BIGINT, text STRING, ts TIMESTAMP",
     eventTime: {column: ts}}
  - {name: out, topic: %(app)s-out, system: here, onUnwritable: DeadLetter, deadLetter: broken}
  - {name: broken, topic: %(app)s-broken, system: here, partitions: 1}
  steps:
  - {name: said, from: [rows], to: out}
  runtime: {trigger: {interval: 0s, maxRecordsPerPartition: %(most)s}, replan: %(replan)s}
"""


@pytest.mark.parametrize("by", ["command", "spec"])
def test_rows_a_topic_refuses_are_named_replanned_and_written_once(broker: Broker, tmp_path: Path, by: str) -> None:
    app = f"app-{uuid.uuid4().hex[:6]}"
    # One that is compacted takes no record without a key, which nobody can know before.
    made(broker, f"{app}-out", {"max.message.bytes": "5000", "cleanup.policy": "compact"})
    broker.create_topic(f"{app}-rows", 1)
    feed(broker, f"{app}-rows")
    file, data = tmp_path / "app.yaml", tmp_path / "data"
    file.write_text(APP % {"app": app, "bootstrap": broker.bootstrap, "most": 50_000, "replan": "null"})
    with Run(file, data) as run:
        failed = run.until("failed")
        assert run.exit_code() == 3
    assert f"the record without a key for {app}-out/0" in failed["message"]
    assert "--replan" in failed["message"]
    if by == "command":
        planned_anew(file, data)
    let_be(broker, f"{app}-out", "cleanup.policy", "delete")
    file.write_text(
        APP % {"app": app, "bootstrap": broker.bootstrap, "most": 20, "replan": 1 if by == "spec" else "null"}
    )
    with Run(file, data, "--until-idle") as run:
        first = run.until("progress")
        assert (first["batch"], first["rowsIn"]) == (1, 20)
        run.ended()
    rows = [json.loads(value) for value in values(broker, f"{app}-out")]
    assert sorted(row["id"] for row in rows) == [n for n in range(COUNT) if n != LARGE]
    assert {row["id"]: row["ts"][:4] for row in rows if row["id"] in TIMES} == {n: at[:4] for n, at in TIMES.items()}
    (letter,) = [json.loads(value) for value in values(broker, f"{app}-broken")]
    assert (letter["stream"], letter["step"]) == ("out", "said")
    assert "4900 are taken (max.message.bytes of topic" in letter["reason"]


def planned_anew(file: Path, data: Path) -> None:
    holdfast = str(Path(sys.executable).with_name("holdfast"))
    replan = [holdfast, "offsets", str(file), "--data", str(data), "--replan", "--yes", "-o", "json"]
    done = subprocess.run(replan, check=False, capture_output=True, text=True, timeout=DEADLINE)
    assert (done.returncode, json.loads(done.stdout)["done"]) == (0, True), done


def made(broker: Broker, topic: str, config: dict[str, str]) -> None:
    with broker.admin() as admin:
        admin.create_topics([NewTopic(topic, 1, 1, config=config)])[topic].result(ANSWER_TIMEOUT)


def let_be(broker: Broker, topic: str, name: str, value: str) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    with broker.admin() as admin:
        admin.incremental_alter_configs([resource])[resource].result(ANSWER_TIMEOUT)


def feed(broker: Broker, topic: str) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True}, logger=QUIET)
    soon = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 7_200))
    for n in range(COUNT):
        row: dict[str, Any] = {"id": n, "text": "x" * (6_000 if n == LARGE else 10), "ts": TIMES.get(n, soon)}
        producer.produce(topic, json.dumps(row).encode(), partition=0)
    assert producer.flush(60) == 0


def values(broker: Broker, topic: str) -> list[str]:
    return [value for part_values in seen_by_partition(broker, topic).values() for value in part_values]
