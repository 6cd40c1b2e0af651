"""Windows beside the counted app: the same rows through a repartition, counted in windows of ten minutes.

Row n has key n % 12 and event time n seconds, so what each window holds is known: 50 rows of each key, by number. And
each row is joined with the sum of its window if it came in the last hundred seconds of it, and comes out without one if
it came before.
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
_BEFORE_END = 100
"""The rows before the end of a window that meet its sum."""
_CLOSING = {"by": ["k"], "after": f"{_BEFORE_END}s", "type": "Left", "select": ["k", "left.id", "right.total"]}
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
        {"name": "carried", "from": ["rows"], "repartition": {"by": ["k"]}},
        {"name": "closed", "from": ["carried", "per-window"], "join": _CLOSING},
        {"name": "closings-out", "from": ["closed"], "to": "closings"},
    ]
    closings = {**stream, "name": "closings", "topic": _closings(counted)}
    spec |= {"streams": [*spec["streams"], stream, closings], "steps": [*spec["steps"], *steps]}
    return {**tree, "spec": spec}


def topic(counted: Counted) -> str:
    """The topic of the windows."""
    return f"{counted.name}-windows"


def windows_of(counted: Counted) -> list[dict[str, Any]]:
    """Return what a reader of committed records sees."""
    return _rows(counted, topic(counted))


def _closings(counted: Counted) -> str:
    return f"{counted.name}-closings"


def _rows(counted: Counted, of: str) -> list[dict[str, Any]]:
    return [json.loads(value) for values in seen_by_partition(counted.broker, of).values() for value in values]


def check_windows(counted: Counted, count: int) -> bool:
    """Return whether all is there whose time has passed; raise if something is wrong, or there twice."""
    return _windows_there(counted, count) and _closings_there(counted, count)


def _closings_there(counted: Counted, count: int) -> bool:
    totals = [(row["id"], row.get("total")) for row in _rows(counted, _closings(counted))]
    assert len({number for number, _ in totals}) == len(totals), "a row came out of the join twice"
    wrong = [(number, total) for number, total in totals if total != _closing(number)]
    assert not wrong, f"wrong: {wrong[:3]}"
    return set(range((count - _SLACK) // _ROWS * _ROWS)) <= {number for number, _ in totals}


def _closing(number: int) -> int | None:
    """Return the sum of a row's window; None if the row is too far from its end."""
    start = number // _ROWS * _ROWS
    if number - start < _ROWS - _BEFORE_END:
        return None
    return sum(range(start + (number - start) % KEYS, start + _ROWS, KEYS))


def _windows_there(counted: Counted, count: int) -> bool:
    windows = [(row["k"], row["n"], row["first"], row["last"], row["total"]) for row in windows_of(counted)]
    assert len(set(windows)) == len(windows), "a window came out twice"
    whole = set(_expected(count))
    assert set(windows) <= whole, f"wrong: {sorted(set(windows) - whole)[:3]}"
    return set(_expected(count - _SLACK)) <= set(windows)


def _expected(count: int) -> Iterator[tuple[str, int, int, int, int]]:
    for start in range(0, count - _ROWS + 1, _ROWS):
        for key in range(KEYS):
            ids = range(start + (key - start) % KEYS, start + _ROWS, KEYS)
            yield str(key), len(ids), ids[0], ids[-1], sum(ids)
