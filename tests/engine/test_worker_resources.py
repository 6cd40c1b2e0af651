"""What functions set up in workers is closed when a run ends, in slots that stay and in workers of Spark SQL."""

from pathlib import Path

import pytest

from tests.engine.runs import Run
from tests.waiting import wait_until

APP = """\
apiVersion: holdfast.dev/v1alpha1
kind: StreamApp
metadata: {name: lives}
spec:
  systems:
  - {name: made-up, generator: {function: "lives:rows", rowsPerSecond: 100}}
  - {name: local, log: {}}
  streams:
  - {name: a, system: made-up, partitions: 2, schema: "k STRING"}
  - {name: b, system: local, partitions: 2}
  steps:
  - {name: f, from: [a], apply: {function: "lives:f"}}
  - {name: g, from: [f], filter: "EXPRESSION"}
  - {name: out, from: [g], to: b}
"""
LIVES = """\
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from holdfast_runtime.functions import worker_resource


def note(what: str) -> None:
    with Path(__file__).with_name("log").open("a") as file:
        file.write(f"{what} {os.getpid()}\\n")


@worker_resource
def client() -> Iterator[str]:
    note("open")
    yield "client"
    time.sleep(0.3)  # Spark's daemon says more than once that it ends: some come meanwhile
    note("close")


def f(batch: pa.RecordBatch) -> pa.RecordBatch:
    client()
    return batch


def rows(partition: int, offset: int, count: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"k": [str(number) for number in range(offset, offset + count)]})
"""


@pytest.mark.parametrize(
    ("expression", "options"),
    [("k > ''", ("--master", "local[2]")), ("k > ''", ("--slots", "2")), ("soundex(k) IS NOT NULL", ())],
    ids=["slots that stay", "processes of this host", "Spark SQL"],
)
def test_all_that_was_opened_is_closed(tmp_path: Path, expression: str, options: tuple[str, ...]) -> None:
    path = tmp_path / "app" / "app.yaml"
    path.parent.mkdir()
    path.write_text(APP.replace("EXPRESSION", expression), encoding="utf-8")
    path.with_name("lives.py").write_text(LIVES, encoding="utf-8")
    with Run(path, tmp_path / "data", "--batches", "3", *options) as run:
        run.ended()

    def lives() -> dict[str, set[str]]:
        lines = [line.split() for line in path.with_name("log").read_text(encoding="utf-8").splitlines()]
        return {what: {process for done, process in lines if done == what} for what in ("open", "close")}

    # A worker of Spark SQL ends when its daemon does, behind the run.
    wait_until(lambda: lives()["open"] == lives()["close"], 10.0, "what was opened is closed")
    assert len(lives()["open"]) >= 2
