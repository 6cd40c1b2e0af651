"""Streams of the embedded log, fed and read back by commands."""

import json
from pathlib import Path
from typing import Any

from tests.cli.conftest import Holdfast

CLICKS = [{"ad_id": f"ad-{i % 7}", "user": f"ü{i}", "ts": "2026-01-01T00:00:00Z"} for i in range(40)]
MANY_KINDS = """
apiVersion: holdfast.dev/v1alpha1
kind: StreamApp
metadata: {name: kinds}
spec:
  runId: "1"
  systems: [{name: here, log: {}}, {name: made, generator: {function: "m:f"}}]
  streams:
  - {name: texts, system: here, partitions: 2, format: string, key: [value], schema: "value STRING"}
  - {name: blobs, system: here, partitions: 1, format: binary, schema: "value BINARY"}
  - {name: typed, system: here, partitions: 3, key: [num, s], schema: "num BIGINT, s STRING, t TIMESTAMP"}
  - {name: keyless, system: here, partitions: 3, schema: "a STRING"}
  - {name: nested, system: here, partitions: 3, key: [a.id], schema: "a STRUCT<id: BIGINT>"}
  - {name: keyed, system: here, partitions: 3, metadata: ["key AS user"], format: string}
  - {name: marked, system: here, partitions: 1, control: true, key: [a], schema: "a STRING"}
  - {name: lines, system: here, partitions: 1, key: [num], format: csv, schema: "num BIGINT, s STRING, at TIMESTAMP"}
  - {name: rows, system: made, partitions: 2, schema: "a STRING"}
  - {name: uncounted, system: here, schema: "a STRING"}
  - {name: sink, system: here, partitions: 1, topic: the.sink}
  steps:
  - {name: all, from: [texts], to: sink}
  - {name: some, from: [uncounted], filter: "a IS NOT NULL"}
"""


def lines(rows: list[Any]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def fed(name: str, text: str | bytes) -> str:
    Path(name).write_bytes(text.encode() if isinstance(text, str) else text)
    return name


def tailed(holdfast: Holdfast, *arguments: str) -> list[dict[str, Any]]:
    ran = holdfast("tail", *arguments, "--from-beginning", "-o", "json")
    assert (ran.code, ran.err) == (0, "")
    return [json.loads(line) for line in ran.out.splitlines()]
