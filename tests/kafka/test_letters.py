"""`holdfast letters` reads dead letters of a topic, and puts records of topics back once."""

import json
import uuid
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from holdfast.tasks.partitions import StreamPartition
from holdfast_cli.main import main
from holdfast_runtime.streams.codecs import DEAD_LETTER_SCHEMA, codec_for
from holdfast_runtime.streams.kafka import topic_put_back
from holdfast_runtime.streams.kafka.system import KafkaCluster
from holdfast_runtime.streams.kafka.topic_put_back import opened_put_back
from holdfast_runtime.streams.kafka.write.producer import TakenOverError
from holdfast_runtime.streams.records import OffsetRange, written_batch
from tests.kafka.broker import Broker, free_ports
from tests.kafka.known import filled, settings_of
from tests.waiting import wait_until

pytestmark = pytest.mark.kafka


def write_app(bootstrap: str, folder: Path, name: str = "a") -> str:
    spec = {
        "systems": [{"name": "events", "kafka": {"bootstrapServers": bootstrap}}],
        "streams": [
            {
                "name": "clicks",
                "system": "events",
                "topic": f"{name}.clicks",
                "schema": "k STRING",
                "onDecodeError": "DeadLetter",
                "deadLetter": "failed",
            },
            {"name": "failed", "system": "events", "topic": f"{name}.failed"},
            {"name": "kept", "system": "events", "topic": f"{name}.kept"},
        ],
        "steps": [
            {"name": "s", "from": ["clicks"], "filter": "k IS NOT NULL"},
            {"name": "o", "from": ["s"], "to": "kept"},
        ],
    }
    path = folder / "app.json"
    tree = {"apiVersion": "holdfast.dev/v1alpha1", "kind": "StreamApp", "metadata": {"name": name}, "spec": spec}
    path.write_text(json.dumps(tree), encoding="utf-8")
    return str(path)


Record = tuple[bytes | None, bytes | None, int, list[Any] | None]


class Failed:
    """An app whose letters are about three records of a topic; the third letter tells of another record."""

    def __init__(self, broker: Broker, folder: Path) -> None:
        self.name = f"letters-{uuid.uuid4().hex[:6]}"
        _, self.clicks = filled(broker, f"{self.name}.clicks", 2, 0)
        self.clicks.write(
            {"value": b"\xff%d" % n, "key": b"k%d" % n, "timestamp": 1000 + n, "headers": [("h", b"%d" % n)]}
            for n in range(3)
        )
        letters = [
            {"reason": "no 0", "offset": 0, "key": b"k0", "value": b"\xff0", "timestamp": at(1000), "headers": []},
            {"reason": "no 1", "offset": 1, "step": "s"},
            {"reason": "no 2", "offset": 2, "key": b"k2", "value": b"\xff2", "timestamp": at(999), "headers": []},
        ]
        rows = [{"stream": "clicks", "partition": 1, **letter} for letter in letters]
        values = codec_for("json", DEAD_LETTER_SCHEMA).encode(pa.RecordBatch.from_pylist(rows, DEAD_LETTER_SCHEMA))
        failed, _ = filled(broker, f"{self.name}.failed", 2, 0)
        failed.write({"value": value} for value in values.to_pylist())
        self.command = ["letters", write_app(broker.bootstrap, folder, self.name), "--data", str(folder / "data")]
        self.settings = settings_of(broker.bootstrap)

    def has_back(self, *records: Record) -> None:
        """The topic has these behind the three records; brokers may show a moment later what is committed."""
        wait_until(lambda: len(self._back()) >= len(records), 30, f"{len(records)} records are back")
        assert self._back() == list(records)

    def _back(self) -> list[Record]:
        with closing(KafkaCluster(self.settings, self.name)) as cluster:
            (_, end, *_) = cluster.bounds([f"{self.name}.clicks"])[f"{self.name}.clicks"][1]
            partition = StreamPartition(f"{self.name}.clicks", 1)
            records = cluster.fetch(OffsetRange(partition, 3, end)).to_pylist()
        return [(row["key"], row["value"], row["timestamp"], row["headers"]) for row in records]


def at(millis: int) -> datetime:
    return datetime.fromtimestamp(millis / 1000, UTC)


def record(n: int) -> Record:
    return b"k%d" % n, b"\xff%d" % n, 1000 + n, [{"key": "h", "value": b"%d" % n}]


@pytest.fixture
def failed(broker: Broker, tmp_path: Path) -> Failed:
    return Failed(broker, tmp_path)


def test_letters_of_a_topic_are_shown(failed: Failed, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*failed.command, "-o", "json", "-n", "2"]) == 0
    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [letter["origin"]["offset"] for letter in shown] == [1, 2]
    assert (shown[1]["value"], shown[1]["putBack"]) == ("base64:/zI=", 0)


def test_records_of_a_topic_are_put_back_once(failed: Failed, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*failed.command, "--put-back", "--yes"]) == 0
    out = capsys.readouterr().out
    assert "1 record in Kafka known by their offset alone" in out
    assert out.endswith("2 records put back\n")
    failed.has_back(record(0), record(1))
    assert main([*failed.command, "--put-back", "--yes"]) == 0
    assert "left out: 2 letters of stream clicks: put back before" in capsys.readouterr().out
    assert main([*failed.command, "-o", "json"]) == 0
    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [letter["putBack"] for letter in shown] == [1, 1, 0]
    assert main([*failed.command, "--put-back", "--yes", "--again", "--reason", "no 1"]) == 0
    failed.has_back(record(0), record(1), record(1))


def test_what_a_dead_process_put_back_half_comes_once(failed: Failed, capsys: pytest.CaptureFixture[str]) -> None:
    partition = StreamPartition(f"{failed.name}.clicks", 1)
    with opened_put_back(failed.settings, failed.name, None) as dead:
        key, value, timestamp, _ = record(0)
        dead.producer.begin()
        dead.producer.put(*partition, written_batch([key], [value], timestamp))
        dead.producer.flush()
        assert main([*failed.command, "--put-back", "--yes", "--reason", "no 0"]) == 0
        assert capsys.readouterr().out.endswith("1 record put back\n")
        with pytest.raises(TakenOverError):
            dead.producer.commit()
    failed.has_back(record(0))


def test_an_unreachable_broker_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_put_back, "_PATIENCE", 1.0)
    bootstrap = f"127.0.0.1:{free_ports(1)[0]}"
    assert main(["letters", write_app(bootstrap, tmp_path)]) == 2
    assert bootstrap in capsys.readouterr().err
