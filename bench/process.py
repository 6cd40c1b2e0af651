"""What the verb `process` costs: a batch of 20 000 keys with two rows each, out of 200 000, with the store's commit.

`python bench/process.py`. Medians; the function reads and writes one field and yields a row per change. What came out
is compared with plain dicts before a figure is printed.
"""

import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from holdfast.spec.steps import Process
from holdfast_runtime.state.store.directory import StoreDirectory, TaskIdentity
from holdfast_runtime.state.store.task_store import TaskStore
from holdfast_runtime.steps.context import StepClock
from holdfast_runtime.steps.keyed.process import ProcessStep
from holdfast_runtime.steps.timed_rows import TimedRows

KEYS, IN_BATCH, BATCHES, WARM = 200_000, 20_000, 30, 10
GIVEN = pa.schema([("sku", pa.string()), ("cents", pa.int64())])
OUT = pa.schema([("sku", pa.string()), ("before", pa.int64()), ("now", pa.int64())])
NOON = 1_700_000_000_000


def change(sku: str, rows: list[dict[str, Any]], state: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The one of docs/verbs/process.md."""
    for row in rows:
        before = state.get("cents")
        if before != row["cents"]:
            yield {"sku": sku, "before": before, "now": row["cents"]}
        state["cents"] = row["cents"]


def timers(sku: str, rows: list[dict[str, Any]], state: Any) -> Iterator[dict[str, Any]]:
    """The same, with a timer that is moved by each batch."""
    yield from change(sku, rows, state)
    state.at_event_time(state.now + 3_600_000)


def batch(draw: random.Random) -> TimedRows:
    """Rows in random order."""
    skus = [f"sku-{number:08d}" for number in draw.sample(range(KEYS), IN_BATCH)] * 2
    draw.shuffle(skus)
    cents = [draw.randrange(1000) for _ in skus]
    return TimedRows(pa.record_batch([pa.array(skus), pa.array(cents)], schema=GIVEN), pa.nulls(len(skus), pa.int64()))


def expected(timed: TimedRows, last: dict[str, int]) -> list[tuple[str, int | None, int]]:
    """What comes out, sorted."""
    changes = []
    for row in timed.rows.to_pylist():
        before = last.get(row["sku"])
        if before != row["cents"]:
            changes.append((row["sku"], before, row["cents"]))
        last[row["sku"]] = row["cents"]
    return sorted(changes, key=repr)


def measure(name: str, function: Any, ttl: str | None, directory: Path) -> None:
    """Print a row."""
    draw, last, times = random.Random(7), dict[str, int](), []
    step = ProcessStep("changed", Process(function="prices:change", by=("sku",), ttl=ttl), function, GIVEN, OUT)
    with TaskStore.create(StoreDirectory(directory / name, TaskIdentity("bench", "1", "partition-0")), -1) as store:
        for number in range(BATCHES):
            timed = batch(draw)
            started = time.perf_counter()
            store.begin(number, 1)
            out = step.run(timed, store, StepClock(NOON + number * 1000, NOON)).rows
            store.commit()
            times.append(time.perf_counter() - started)
            got = sorted((tuple(row.values()) for row in out.rows.to_pylist()), key=repr)
            if got != expected(timed, last):
                sys.exit("what came out is not what plain dicts give")
    median = statistics.median(times[WARM:])
    print(f"{name:>12} {median * 1e3:>9.1f} {IN_BATCH / median / 1e3:>12.0f}")


def main() -> None:
    """Print a row per way of using it."""
    print(f"{'':>12} {'batch ms':>9} {'k keys/s':>12}")
    with tempfile.TemporaryDirectory() as directory:
        for name, function, ttl in (("state", change, None), ("with ttl", change, "1h"), ("with timer", timers, None)):
            measure(name, function, ttl, Path(directory))


if __name__ == "__main__":
    main()
