"""One app with every verb, in which each field of the model that an app on the embedded log can have has its place."""

from typing import Any

from tests.pipelines.drawn import DEAD, SCHEMA
from tests.pipelines.oracle import join_select

_FUNCTIONS = "tests.pipelines.functions"
_TIMED = {"system": "here", "partitions": 2, "schema": SCHEMA, "eventTime": {"column": "ts"}, "bounded": True}
_SIDE = {"system": "here", "partitions": 2, "schema": "k STRING, v STRING, n BIGINT"}
_INPUTS = ("left", "right", "other", "writing")
_RESULTS: dict[str, dict[str, Any]] = {
    "passing": {"from": ["left-rows"], "filter": "n > 20"},
    "same": {"from": ["left-rows"], "apply": {"function": f"{_FUNCTIONS}:same", "keeps": ["k", "v"]}},
    "each": {
        "from": ["left-rows"],
        "apply": {"function": f"{_FUNCTIONS}:same_each", "concurrency": 4, "keeps": ["k", "v"]},
    },
    "both": {"from": ["passing", "right-rows"], "merge": {}},
    "once": {"from": ["same"], "deduplicate": {"by": ["k", "v", "n"], "within": "30s"}},
    "ever": {"from": ["both"], "deduplicate": {"by": ["k", "v", "n"]}},
    "known": {
        "from": ["ever"],
        "lookup": {"table": "by-k", "by": ["k"], "type": "Left", "select": ["k", "left.v", "right.n"]},
    },
    "named": {
        "from": ["both"],
        "lookup": {"table": "by-v", "by": ["v"], "type": "Inner", "select": ["left.k", "v", "right.n"]},
    },
    "seen": {
        "from": ["passing"],
        "lookup": {"table": "last", "by": ["k"], "type": "Left", "select": ["k", "left.v", "right.n"]},
    },
    "numbered": {
        "from": ["both"],
        "process": {
            "function": f"{_FUNCTIONS}:count",
            "by": ["k"],
            "schema": "k STRING, v STRING, n BIGINT",
            "keeps": ["k"],
        },
    },
    "counted": {
        "from": ["both"],
        "process": {
            "function": f"{_FUNCTIONS}:count_batch",
            "form": "Batch",
            "by": ["k"],
            "state": "rows BIGINT",
            "schema": "k STRING, v STRING, n BIGINT",
            "keeps": ["k"],
        },
    },
    "matched": {
        "from": ["left-rows", "right-rows"],
        "join": {"by": ["k"], "within": "30s", "type": "Full", "select": join_select("k")},
    },
    "later": {
        "from": ["passing", "right-rows"],
        "join": {"by": ["k"], "before": "10s", "after": "1m", "type": "Right", "select": join_select("k")},
    },
    "moved": {"from": ["both"], "repartition": {"by": ["v"]}},
    "met": {
        "from": ["moved", "other-rows"],
        "join": {"by": ["v"], "within": "30s", "type": "Left", "select": join_select("v")},
    },
    "everywhere": {"from": ["other-rows"], "broadcast": {}},
    "near": {
        "from": ["left-rows", "everywhere"],
        "join": {"by": ["k"], "within": "1m", "type": "Inner", "select": join_select("k")},
    },
}
_WINDOWS: dict[str, dict[str, Any]] = {
    "minutes": {"from": ["both"], "aggregate": {"by": ["k", "v"], "window": "1m", "compute": ["count(*) AS n"]}},
    "sliding": {
        "from": ["moved"],
        "aggregate": {"by": ["k", "v"], "window": "1m", "slide": "30s", "compute": ["sum(n) AS n"]},
    },
    "visits": {"from": ["both"], "aggregate": {"by": ["k", "v"], "session": "10s", "compute": ["max(n) AS n"]}},
    "totals": {"from": ["both"], "aggregate": {"by": ["k", "v"], "emit": "Final", "compute": ["min(n) AS n"]}},
}
"""Aggregates; what comes out of them gets the columns of all rows."""
_WRITTEN = (*(name for name in _RESULTS if name != "everywhere"), *_WINDOWS)
"""What is written: all but the rows that each task has."""


def _steps() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [
        {"name": f"{name}-rows", "from": [name], "select": ["k", "v", "n"]} for name in _INPUTS
    ]
    event_time = {"column": "ts", "lateness": "1h"}
    rows[2]["from"] = ["other-timed"]
    rows.insert(0, {"name": "other-timed", "from": ["other"], "select": ["k", "v", "n", "ts"], "eventTime": event_time})
    windows = [
        window_step
        for name, step in _WINDOWS.items()
        for window_step in (
            {"name": f"{name}-of", **step},
            {"name": name, "from": [f"{name}-of"], "select": ["k", "v", "n"]},
        )
    ]
    written = [{"name": f"{name}-out", "from": [name], "to": f"{name}-written"} for name in _WRITTEN]
    table_writer = {"name": "kept", "from": ["writing-rows"], "toTable": "last"}
    return [*rows, *({"name": name, **step} for name, step in _RESULTS.items()), *windows, *written, table_writer]


WHOLE: dict[str, Any] = {
    "apiVersion": "holdfast.dev/v1alpha1",
    "kind": "StreamApp",
    "metadata": {"name": "whole"},
    "spec": {
        "systems": [{"name": "here", "log": {}}],
        "streams": [
            {"name": "left", "key": ["k"], **_TIMED},
            {"name": "right", "key": ["k"], **_TIMED},
            {"name": "other", "key": ["v"], **_TIMED},
            {"name": "writing", "key": ["k"], **_TIMED},
            {"name": "side-k", "key": ["k"], **_SIDE},
            {"name": "side-v", "key": ["v"], **_SIDE},
            *({"name": f"{name}-written", "system": "here", "partitions": 2} for name in _WRITTEN),
            {"name": DEAD, "system": "here", "partitions": 1},
        ],
        "tables": [
            {"name": "by-k", "sources": ["side-k"], "key": ["k"], "select": ["k", "v", "n"]},
            {"name": "by-v", "sources": ["side-v"], "key": ["v"], "distribution": "Broadcast"},
            {"name": "last", "key": ["k"]},
        ],
        "steps": _steps(),
        "planning": {"intermediatePartitions": 2},
    },
}
