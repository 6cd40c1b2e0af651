"""Kafka Streams inside the process of a measurement: its JVM, and a look at what it has written.

Started by `fresh.measure` as `python -m bench.nexmark.kafka.streams REQUEST SCRATCH`. Must not use anything of Holdfast
but to read the results.
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench.engine.fresh import answer
from bench.nexmark.kafka.topics import answer as written
from bench.nexmark.market import Market
from bench.nexmark.questions import QUESTIONS

FOR_EVER = 10**15


def command(request: Mapping[str, Any], scratch: Path) -> list[str]:
    """Compile it, and how it is started."""
    batches, bids = Market(**request["market"]).batches, request["per_batch"]["bid"]
    path = ":".join([*request["jars"].split(","), str(scratch)])
    source = Path(__file__).with_name("Streams.java")
    compiled = ["javac", "-cp", path, "-d", str(scratch), str(source)]
    subprocess.run(compiled, check=True, timeout=120)  # noqa: S603 - our own source
    options = {
        "bootstrap": request["bootstrap"],
        "query": request["query"],
        "guarantee": "exactly_once_v2",
        "out": request["out"],
        "rows": str(FOR_EVER if request["live"] else batches * bids),
        "warm": str(request["warm"] * bids),
        "directory": str(scratch / "state"),
        "commit": request["commit"],
    }
    pairs = [text for pair in options.items() for text in pair]
    return ["java", "-Xmx2g", "-cp", path, "Streams", *pairs]


def main() -> None:
    """Run it, and report all bids but the first ones."""
    request, scratch = json.loads(sys.argv[1]), Path(sys.argv[2])
    market, warm = Market(**request["market"]), request["warm"]
    ran = subprocess.run(command(request, scratch), check=True, timeout=900, stdout=subprocess.PIPE, text=True)  # noqa: S603
    began, ended = map(float, ran.stdout.split()[-2:])
    digest = QUESTIONS[request["query"]].digest(newest(request["query"], request), market)
    answer(scratch, (began, ended), (market.batches - warm) * market.events, [ended - began], digest=digest)


def newest(query: str, request: Mapping[str, str]) -> pa.Table:
    """What it has written; of the updates of q5, the last one of each window."""
    rows = written(request["bootstrap"], request["out"])
    if query != "q5":
        return rows
    ordered = rows.sort_by([("num", "ascending"), ("auction", "ascending")])
    last = ordered.group_by("window_end", use_threads=False).aggregate([("auction", "last"), ("num", "last")])
    return last.rename_columns({"auction_last": "auction", "num_last": "num"})


if __name__ == "__main__":
    main()
