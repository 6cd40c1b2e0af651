"""What `process` and `apply` steps of drawn apps call."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from holdfast_runtime.functions import State
from holdfast_runtime.steps.keyed.key_batch import KeyBatch


def count(key: Any, rows: Sequence[Mapping[str, Any]], state: State) -> Iterator[dict[str, Any]]:
    """Count the rows of a key, one by one; what the step's tables have for the key is added to each count."""
    table_rows = [state.tables.get(name, key) or {} for name in state.tables.names]
    more = sum(row.get("n") or 0 for row in table_rows)
    for _ in rows:
        state["rows"] = state.get("rows", 0) + 1
        yield {"k": key, "v": key, "n": state["rows"] + more}


def count_batch(rows: pa.RecordBatch, states: pa.RecordBatch, batch: KeyBatch) -> tuple[Any, Any]:
    """Do the same for all keys at once."""
    before = pc.fill_null(states["rows"], 0)
    nth = pc.subtract(pa.array(range(1, rows.num_rows + 1)), batch.firsts.take(batch.keys))
    counts = pc.add(nth, before.take(batch.keys))
    keys = states.column(0).take(batch.keys)
    more = [batch.tables.lookup(name, keys)["n"] for name in batch.tables.names]
    sums = reduce(pc.add, (pc.fill_null(column, 0) for column in more), counts)
    counted = pa.RecordBatch.from_arrays([keys, keys, sums], ["k", "v", "n"])
    return counted, pa.RecordBatch.from_arrays([batch.last(counts)], ["rows"])


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


async def same_each(row: dict[str, Any]) -> dict[str, Any]:
    """Give back the row that is given, after others."""
    for _ in range(hash(row["n"]) % 3):
        await asyncio.sleep(0)
    return row


count_again, count_batch_again, same_again, same_each_again = count, count_batch, same, same_each
