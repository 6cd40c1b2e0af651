"""A StreamApp of `examples/nexmark` inside the process of a measurement: it reads mapped events, and writes nothing.

Started by `fresh.measure` as `python -m bench.nexmark.holdfast_run REQUEST SCRATCH`. The steps are those of the file;
its inputs become generators whose ends are those of the batches, so that every engine cuts events alike, and before its
output stands a function that drops all rows, or keeps them in files if the answer is to be compared.
"""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import uuid4

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from bench.engine.fresh import answer
from bench.engine.holdfast_run import PHASES, Watch, median, without_waiting
from bench.nexmark.market import KEYS, PARTS, Market, ends
from bench.nexmark.questions import QUESTIONS
from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.streams.generator import Generator
from holdfast_runtime.streams.records import OffsetBounds

MOST = 1_000_000_000
"""Rows a second and rows in a batch: neither is to hold anything back."""


@dataclass(slots=True)
class Release:
    """How many batches of events have come."""

    market: Market
    ahead: str
    batches: int = 1

    def bounds(self, stream: str) -> dict[StreamPartition, OffsetBounds]:
        """What there is of a stream by now."""
        offsets = ends(folder_of(self.market, stream, self.ahead), self.batches - 1)
        return {StreamPartition(stream, part): OffsetBounds(0, end) for part, end in offsets.items()}

    def next(self, done: int) -> None:
        """Let the next batch come."""
        self.batches = min(done + 1, self.market.batches)


def folder_of(market: Market, stream: str, ahead: str) -> Path:
    """Where the files of a stream are."""
    return market.directory() / (f"{stream}-ahead" if stream == ahead else stream)


def app_tree(tree: Mapping[str, Any], market: Market, ahead: str, out: Path | None) -> dict[str, Any]:
    """The app of a file, from mapped events to nothing, or to files in `out`."""
    spec = dict(tree["spec"])
    inputs = [one["name"] for one in spec["streams"] if one["name"] in KEYS]
    made = {"generator": {"rowsPerSecond": MOST}}
    systems = [
        {"name": name, "generator": {**made["generator"], "function": f"market:{name.replace('-', '_')}"}}
        for name in inputs
    ]
    streams = [
        {key: value for key, value in stream.items() if key != "bounded"}
        | {"system": stream["name"], "partitions": PARTS}
        for stream in spec["streams"]
        if stream["name"] in inputs
    ]
    maps = [f"{name.replace('-', '_')} = Mapped({str(folder_of(market, name, ahead))!r})" for name in inputs]
    sink = f"from bench.nexmark.holdfast_run import kept_in, nothing\nput = kept_in({str(out)!r})" if out else ""
    drop = sink or "from bench.nexmark.holdfast_run import nothing\nput = nothing"
    (last,) = (step for step in spec["steps"] if "to" in step)
    steps = [step for step in spec["steps"] if step is not last]
    steps += [
        {"name": "put", "from": last["from"], "apply": {"function": "market:put"}},
        {"name": last["name"], "from": ["put"], "to": "results"},
    ]
    code = {"market": "\n".join(["from bench.nexmark.market import Mapped", drop, *maps])}
    before = spec.get("runtime", {})
    runtime = {
        "trigger": {"interval": "0s", "maxRecordsPerPartition": MOST},
        "driver": {"memory": "2g"},
        "code": {**before.get("code", {}), **code},
    }
    spec |= {
        "systems": [{"name": "here", "log": {}}, *systems],
        "streams": [*streams, {"name": "results", "system": "here", "partitions": PARTS}],
        "steps": steps,
        "runtime": runtime,
    }
    return {**tree, "spec": spec}


def nothing(rows: pa.RecordBatch) -> pa.RecordBatch:
    """No row: the sink of a measurement."""
    return rows.slice(0, 0)


def kept_in(folder: str) -> Any:
    """A function that puts rows into files."""

    def put(rows: pa.RecordBatch) -> pa.RecordBatch:
        directory = Path(folder)
        directory.mkdir(exist_ok=True)
        # Tasks write beside one another, each batch into a file of its own.
        parquet.write_table(pa.table(rows), directory / f"{uuid4()}.parquet")
        return rows.slice(0, 0)

    return put


def main() -> None:
    """Run what the request asks for."""
    request, scratch = json.loads(sys.argv[1]), Path(sys.argv[2])
    market, name, warm = Market(**request["market"]), request["query"], request["warm"]
    question, out = QUESTIONS[name], scratch / "out"
    release = Release(market, question.ahead)
    watch = Watch(each=release.next)
    app = app_tree(request["app"], market, question.ahead, out if request["kept"] else None)
    with patch.object(Generator, "bounds", lambda _, stream: release.bounds(stream)):
        watch.run({"app": app, "master": request["master"]}, scratch / "data")
    counted = watch.progress[warm : market.batches]
    phases = {phase: median([one.phases.get(phase, 0.0) for one in counted]) for phase in PHASES}
    lasted = np.diff(watch.ends[warm - 1 :]).tolist()
    answer(
        scratch,
        (watch.ends[warm - 1], watch.ends[-1]),
        (market.batches - warm) * market.events,
        lasted[: market.batches - warm],
        digest=question.digest(parquet.read_table(out), market) if request["kept"] else "",
        notes={
            "state MB": watch.progress[-1].state_bytes / 1e6,
            "without waiting": without_waiting(watch.slots[warm:]),
            **phases,
        },
    )


if __name__ == "__main__":
    main()
