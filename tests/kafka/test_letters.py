"""`holdfast letters` reads dead letters of a topic, and leaves records in Kafka where they are."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

from holdfast_cli.main import main
from holdfast_runtime.streams.codecs import DEAD_LETTER_SCHEMA, codec_for
from tests.kafka.broker import Broker, free_ports
from tests.kafka.known import filled

pytestmark = pytest.mark.kafka


def write_app(bootstrap: str, folder: Path) -> str:
    spec = {
        "systems": [{"name": "events", "kafka": {"bootstrapServers": bootstrap}}],
        "streams": [
            {
                "name": "clicks",
                "system": "events",
                "topic": "letters.clicks",
                "schema": "k STRING",
                "onDecodeError": "DeadLetter",
                "deadLetter": "failed",
            },
            {"name": "failed", "system": "events", "topic": "letters.failed"},
            {"name": "kept", "system": "events", "topic": "letters.kept"},
        ],
        "steps": [
            {"name": "s", "from": ["clicks"], "filter": "k IS NOT NULL"},
            {"name": "o", "from": ["s"], "to": "kept"},
        ],
    }
    path = folder / "app.json"
    tree = {"apiVersion": "holdfast.dev/v1alpha1", "kind": "StreamApp", "metadata": {"name": "a"}, "spec": spec}
    path.write_text(json.dumps(tree), encoding="utf-8")
    return str(path)


def test_letters_of_a_topic_are_shown_and_not_put_back(
    broker: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    letters = [
        {
            "reason": f"no {n}",
            "stream": "clicks",
            "partition": 1,
            "offset": n,
            "value": b"\xff",
            "headers": [("h", b"v")],
        }
        for n in range(3)
    ]
    values = codec_for("json", DEAD_LETTER_SCHEMA).encode(pa.RecordBatch.from_pylist(letters, DEAD_LETTER_SCHEMA))
    failed, _ = filled(broker, "letters.failed", 2, 0)
    failed.write({"value": value} for value in values.to_pylist())
    command = ["letters", write_app(broker.bootstrap, tmp_path), "--data", str(tmp_path / "data")]
    assert main([*command, "-o", "json", "-n", "2"]) == 0
    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [letter["origin"]["offset"] for letter in shown] == [1, 2]
    assert (shown[0]["value"], shown[0]["headers"]) == ("base64:/w==", [{"key": "h", "value": "v"}])
    assert main([*command, "--put-back", "--yes"]) == 0
    out = capsys.readouterr().out
    assert (
        "left out: 3 letters of topic letters.clicks: records are put back in the embedded log only: read them" in out
    )
    assert out.endswith("0 records put back\n")


def test_an_unreachable_broker_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bootstrap = f"127.0.0.1:{free_ports(1)[0]}"
    assert main(["letters", write_app(bootstrap, tmp_path)]) == 2
    assert bootstrap in capsys.readouterr().err
