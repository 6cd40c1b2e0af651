"""Flink inside the process of a measurement: its JVM, and a look at what it has written.

Started by `fresh.measure` as `python -m bench.nexmark.kafka.flink REQUEST SCRATCH`. Must not use anything of Holdfast
but to read the results.
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.engine.fresh import answer
from bench.nexmark.flink_run import HEAP, OPEN
from bench.nexmark.kafka.flink_sql import statements
from bench.nexmark.kafka.topics import answer as written
from bench.nexmark.market import Market
from bench.nexmark.questions import QUESTIONS

_SELDOM = {
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "2s",
    "table.exec.mini-batch.size": "50000",
    "execution.checkpointing.interval": "3s",
}
_HEAP_STATE = {"state.backend.type": "hashmap"}
THROUGHPUT: Mapping[str, Mapping[str, str]] = {
    "RocksDB": {"state.backend.type": "rocksdb", "execution.checkpointing.incremental": "true", **_SELDOM},
    "heap": {**_HEAP_STATE, **_SELDOM},
}
"""Store -> how it carries most: mini-batches, and a checkpoint each three seconds."""


def soon(milliseconds: int) -> Mapping[str, str]:
    """How rows come soonest: no mini-batches, state on the heap, and a checkpoint as often as this."""
    return {**_HEAP_STATE, "execution.checkpointing.interval": f"{milliseconds}ms"}


def command(request: Mapping[str, Any], scratch: Path) -> list[str]:
    """Compile it, and how it is started."""
    path = ":".join([*request["jars"].split(","), str(scratch)])
    source = Path(__file__).with_name("FlinkKafka.java")
    compiled = ["javac", "-nowarn", "-cp", path, "-d", str(scratch), str(source)]
    subprocess.run(compiled, check=True, timeout=120)  # noqa: S603 - our own source
    outs = [request["out"]] if request["live"] else [f"{request['out']}-warm", request["out"]]
    settings = ",".join(f"{name}={value}" for name, value in request["flink"].items())
    sql = statements(request["query"], request["bootstrap"], ends=not request["live"])
    return ["java", *HEAP, *OPEN, "-cp", path, "FlinkKafka", str(scratch), ",".join(outs), settings, *sql]


def main() -> None:
    """Run it, and report all events."""
    request, scratch = json.loads(sys.argv[1]), Path(sys.argv[2])
    market, query = Market(**request["market"]), request["query"]
    ran = subprocess.run(command(request, scratch), check=True, timeout=1500, stdout=subprocess.PIPE, text=True)  # noqa: S603
    began, ended = map(float, ran.stdout.split()[-2:])
    digest = QUESTIONS[query].digest(written(request["bootstrap"], request["out"]), market)
    answer(scratch, (began, ended), market.batches * market.events, [ended - began], digest=digest)


if __name__ == "__main__":
    main()
