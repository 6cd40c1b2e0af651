"""Windows beside the counted app: the same rows through a repartition, counted in windows of ten minutes.

Row n has key n % 12 and event time n seconds, so what each window holds is known: 50 rows of each key, by number.
"""

import json
from collections.abc import Iterator
from typing import Any

from tests.cluster.cluster import Tree
from tests.engine.runs import KEYS
from tests.kafka.counted import Counted
from tests.kafka.sent import seen_by_partition

_ROWS = 600
"""Rows in a window, of all keys."""
_SLACK = 600
"""Rows whose time the watermark may not have reached when the load ends: partitions end at different rows."""


def with_windows(tree: Tree, counted: Counted) -> Tree:
    """Return the app with windows of its rows."""
    spec = dict(tree["spec"])
    stream = {"name": "windows", "topic": topic(counted), "system": "here", "partitions": 2, "key": ["k"]}
    compute = ["count(*) AS n", "min(id) AS first", "max(id) AS last", "sum(id) AS total"]
    steps = [
        {"name": "spread", "from": ["rows"], "repartition": {"by": ["k"]}},
        {"name": "per-window", "from": ["spread"], "aggregate": {"by": ["k"], "window": "10m", "compute": compute}},
        {"name": "windows-out", "from": ["per-window"], "to": "windows"},
    ]
    spec |= {"streams": [*spec["streams"], stream], "steps": [*spec["steps"], *steps]}
    return {**tree, "spec": spec}


def topic(counted: Counted) -> str:
    """The topic of the windows."""
    return f"{counted.name}-windows"


def windows_of(counted: Counted) -> list[dict[str, Any]]:
    """Return what a reader of committed records sees."""
    seen = seen_by_partition(counted.broker, topic(counted))
    return [json.loads(value) for values in seen.values() for value in values]


def check_windows(counted: Counted, count: int) -> bool:
    """Return whether all windows are there whose time has passed; raise if one is wrong, or there twice."""
    found = [(row["k"], row["n"], row["first"], row["last"], row["total"]) for row in windows_of(counted)]
    assert len(set(found)) == len(found), "a window came out twice"
    whole = set(_expected(count))
    assert set(found) <= whole, f"wrong: {sorted(set(found) - whole)[:3]}"
    return set(_expected(count - _SLACK)) <= set(found)


def _expected(count: int) -> Iterator[tuple[str, int, int, int, int]]:
    for start in range(0, count - _ROWS + 1, _ROWS):
        for key in range(KEYS):
            ids = range(start + (key - start) % KEYS, start + _ROWS, KEYS)
            yield str(key), len(ids), ids[0], ids[-1], sum(ids)
