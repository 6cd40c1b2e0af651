"""What `process` and `apply` steps of drawn apps call."""

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from typing import Any

import pyarrow as pa


def count(key: Any, rows: Sequence[Mapping[str, Any]], state: MutableMapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Count the rows of a key, one by one."""
    for _ in rows:
        state["rows"] = state.get("rows", 0) + 1
        yield {"k": key, "v": key, "n": state["rows"]}


GAP = 20_000
"""Milliseconds without a row of a key after which `quiet` tells how many there were."""


def quiet(key: Any, rows: Sequence[Mapping[str, Any]], state: Any) -> Iterator[dict[str, Any]]:
    """Count the rows of a key until it is quiet, by a timer that each row moves."""
    for _ in state.fired:
        yield {"k": key, "v": key, "n": state.pop("rows")}
    for row in rows:
        state["rows"] = state.get("rows", 0) + 1
        state.at_event_time(int(row["ts"].timestamp() * 1_000_000) // 1_000 + GAP)


def same(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Give back what is given."""
    return rows


count_again, same_again = count, same
