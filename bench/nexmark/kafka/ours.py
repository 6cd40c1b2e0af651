"""A StreamApp of `examples/nexmark` on topics, inside the process of a measurement.

Started by `fresh.measure` as `python -m bench.nexmark.kafka.ours REQUEST SCRATCH`. Of the file, only its systems and
streams are others; topics end where the batch of events ends that has come.
"""

import json
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from bench.engine.fresh import answer
from bench.engine.holdfast_run import PHASES, Watch, median
from bench.kafka.ours import FOR_EVER
from bench.nexmark.holdfast_run import MOST, Release
from bench.nexmark.kafka.topics import STREAMS
from bench.nexmark.kafka.topics import answer as written
from bench.nexmark.market import PARTS, Market
from bench.nexmark.questions import QUESTIONS
from holdfast_runtime.streams.kafka.system import KafkaCluster
from holdfast_runtime.streams.records import OffsetBounds


def app_tree(tree: Mapping[str, Any], bootstrap: str, out: str) -> dict[str, Any]:
    """The app of a file on topics."""
    spec = dict(tree["spec"])
    streams = [
        {key: value for key, value in stream.items() if key != "bounded"} | {"system": "kafka", "partitions": PARTS}
        for stream in spec["streams"]
    ]
    runtime = {
        "trigger": {"interval": "0s", "maxRecordsPerPartition": MOST},
        "driver": {"memory": "2g"},
        "code": spec.get("runtime", {}).get("code", {}),
    }
    spec |= {
        "systems": [{"name": "kafka", "kafka": {"bootstrapServers": bootstrap, "delivery": "ExactlyOnce"}}],
        "streams": [one | ({"topic": out} if one["name"] == "results" else {}) for one in streams],
        "runtime": runtime,
    }
    return {**tree, "metadata": {"name": out}, "spec": spec}


def main() -> None:
    """Run what the request asks for."""
    request, scratch = json.loads(sys.argv[1]), Path(sys.argv[2])
    market, question, warm = Market(**request["market"]), QUESTIONS[request["query"]], request["warm"]
    release, bounds = Release(market, question.ahead), KafkaCluster.bounds

    def come(system: KafkaCluster, topics: Collection[str]) -> dict[str, dict[int, OffsetBounds]]:
        offsets: dict[str, dict[int, OffsetBounds]] = bounds(system, topics)
        for name in set(STREAMS) & set(offsets):
            offsets[name] = {partition.partition: end for partition, end in release.bounds(name).items()}
        return offsets

    app = app_tree(request["app"], request["bootstrap"], request["out"])
    if request["live"]:
        Watch(FOR_EVER).run({"app": app, "master": request["master"]}, scratch / "data")
    watch = Watch(each=release.next)
    with patch.object(KafkaCluster, "bounds", come):
        watch.run({"app": app, "master": request["master"]}, scratch / "data")
    counted = watch.progress[warm : market.batches]
    phases = {phase: median([one.phases.get(phase, 0.0) for one in counted]) for phase in PHASES}
    answer(
        scratch,
        (watch.ends[warm - 1], watch.ends[-1]),
        (market.batches - warm) * market.events,
        np.diff(watch.ends[warm - 1 :]).tolist()[: market.batches - warm],
        digest=question.digest(written(request["bootstrap"], request["out"]), market),
        notes={"state MB": watch.progress[-1].state_bytes / 1e6} | phases,
    )


if __name__ == "__main__":
    main()
