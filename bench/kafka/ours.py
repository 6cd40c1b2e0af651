"""The process of a Holdfast measurement: one app on topics, timed by the ends of its batches.

Started by `fresh.measure` as `python -m bench.kafka.ours REQUEST SCRATCH`. Must not use anything of the peers.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bench.engine.data import CLICK, KEEP, ORDER, PAYMENT, SELECT, VISIT
from bench.engine.fresh import answer
from bench.engine.holdfast import joined
from bench.engine.holdfast_run import PHASES, Watch, median
from bench.kafka.given import EVENT, PARTITIONS, results
from holdfast.spec.parse import parse_app
from holdfast_runtime.checkpoint.changelog import begin_changelog, changelog_of, with_changelog
from holdfast_runtime.checkpoint.directories import DataDir, RunPaths, storage_at
from holdfast_runtime.streams.kafka.changelog_topic import ChangelogTopic

FUNCTIONS = """
def name(key, rows, state):
    name = state.get("name")
    for row in rows:
        if row["name"] is not None:
            name = state["name"] = row["name"]
            for payload in state.pop("early", ()):
                yield {**row, "payload": payload}
        elif name is None:
            state["early"] = [*state.get("early", ()), row["payload"]]
        else:
            row["name"] = name
            yield row
"""
"""An event that is read before its key's name waits for it: `merge` promises no order between streams."""
LOOKUP: list[dict[str, Any]] = [
    {
        "name": "named",
        "from": ["events"],
        "lookup": {"table": "name-of", "by": ["key"], "select": ["key", "left.payload", "right.name"]},
    },
    {"name": "out", "from": ["named"], "to": "made"},
]
FOR_EVER = 1_000_000_000
STATELESS: list[dict[str, Any]] = [
    {"name": "kept", "from": ["clicks"], "filter": KEEP},
    {"name": "shown", "from": ["kept"], "select": list(SELECT)},
    {"name": "out", "from": ["shown"], "to": "made"},
]
ENRICH: list[dict[str, Any]] = [
    {"name": "all", "from": ["names", "events"], "merge": {}},
    {
        "name": "named",
        "from": ["all"],
        "process": {"function": "functions:name", "by": ["key"], "schema": EVENT, "keeps": ["key"]},
    },
    {"name": "out", "from": ["named"], "to": "made"},
]


COUNTED: dict[str, dict[str, Any]] = {
    "aggregate": {"aggregate": {"by": ["key"], "window": "1m", "compute": ["count(*) AS n"]}},
    "process": {
        "process": {
            "function": "bench.engine.windows:counts",
            "by": ["key"],
            "schema": "key STRING, window_start TIMESTAMP, window_end TIMESTAMP, n BIGINT",
            "keeps": ["key"],
        }
    },
}


def app(request: dict[str, Any]) -> dict[str, Any]:
    """The app, whole."""
    kafka_topic = {"system": "kafka", "partitions": PARTITIONS}
    made = {"name": "made", "topic": request["out"], **kafka_topic}
    if request["work"] == "stateless":
        streams, steps = (
            [{"name": "clicks", "topic": request["rows_in"], "schema": CLICK, **kafka_topic}, made],
            STATELESS,
        )
    elif request["work"] == "windowed-count":
        time = {"column": "ts", "lateness": f"{request['lateness']}m"}
        keyed = {"topic": request["rows_in"], "schema": VISIT, "key": ["key"], "eventTime": time}
        streams = [{"name": "visits", **keyed, **kafka_topic}, {**made, "key": ["key"]}]
        counted = {"name": "counted", "from": ["visits"], **COUNTED[request["verb"]]}
        steps = [counted, {"name": "out", "from": ["counted"], "to": "made"}]
    elif request["work"] == "join":
        lateness = f"{request['lateness']}m"
        timed: dict[str, Any] = {"key": ["id"], "eventTime": {"column": "ts", "lateness": lateness}, **kafka_topic}
        orders = {"name": "orders", "topic": request["rows_in"], "schema": ORDER, **timed}
        payments = {"name": "payments", "topic": request["names"], "schema": PAYMENT, **timed}
        streams = [orders, payments, {**made, "key": ["id"]}]
        steps = [
            {"name": "paid", "from": ["orders", "payments"], "join": joined(request["within"])},
            {"name": "out", "from": ["paid"], "to": "made"},
        ]
    else:
        event_stream: dict[str, Any] = {"schema": EVENT, "key": ["key"], **kafka_topic}
        names = {"name": "names", "topic": request["names"], **event_stream}
        streams = [names, {"name": "events", "topic": request["rows_in"], **event_stream}, {**made, "key": ["key"]}]
        steps = ENRICH if request["work"] == "enrich" else LOOKUP
    inputs = 2 if request["work"] == "join" else 1
    kafka = {"bootstrapServers": request["bootstrap"], "delivery": request["delivery"]}
    runtime = {
        "trigger": {"interval": "0s", "maxRecordsPerPartition": request["per_batch"] // PARTITIONS // inputs},
        "driver": {"memory": "2g"},
        "sparkConf": {"spark.sql.streaming.numRecentProgressUpdates": "1000"},
        "code": {"functions": FUNCTIONS},
    }
    spec = {"systems": [{"name": "kafka", "kafka": kafka}], "streams": streams, "steps": steps, "runtime": runtime}
    if request["work"] == "lookup":
        table = {"name": "name-of", "sources": ["names"], "key": ["key"], "select": ["key", "name"]}
        spec["tables"] = [{**table, "distribution": request["distribution"]}]
    name = {"name": request["out"]}
    return {"apiVersion": "holdfast.dev/v1alpha1", "kind": "StreamApp", "metadata": name, "spec": spec}


def _keep_in(location: str, conf: dict[str, str], topic: ChangelogTopic | None) -> None:
    """Have local runs keep in an object store, and in a changelog if there is a topic, what a cluster's would."""
    local = DataDir.paths

    def paths(directory: DataDir, app: str, run_id: str) -> RunPaths:
        shared = storage_at(location, conf)
        lasting = with_changelog(shared, topic, "bench")
        begin_changelog(shared, topic)
        durable, planned = lasting.below("state"), lasting.below("query")
        return replace(local(directory, app, run_id), shared=shared, durable=durable, planned=planned)

    setattr(DataDir, "paths", paths)  # noqa: B010 - no run of Holdfast does that


def main() -> None:
    """Run it, and report its batches but the first few."""
    request, scratch = json.loads(sys.argv[1]), Path(sys.argv[2])
    request["app"], request["master"] = app(request), "local[2]"
    if "objects" in request:
        place = request["objects"]
        changelog = {"changelog": {"system": "kafka"}} if place["changelog"] else {}
        request["app"]["spec"]["runtime"]["checkpoint"] = {"location": place["location"], **changelog}
        _keep_in(place["location"], place["conf"], changelog_of(parse_app(request["app"]), None))
    watch = Watch(None if request["rows"] else FOR_EVER)
    watch.run(request, scratch / "data")
    # Until a table is loaded, batches read nothing else.
    loads = sum(bool(one.loading) for one in watch.progress)
    first = request["warm"] + loads
    counted, ends = watch.progress[first:], watch.ends[first - 1 :]
    answer(
        scratch,
        (ends[0], ends[-1]),
        sum(one.rows_out for one in counted) if request["work"] == "lookup" else sum(one.rows_in for one in counted),
        np.diff(ends).tolist(),
        digest=results(request),
        notes={name: median([one.phases.get(name, 0.0) for one in counted]) for name in PHASES},
    )


if __name__ == "__main__":
    main()
