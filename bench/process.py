"""What the verb `process` costs: a batch of 40 000 rows of 20 000 or 200 keys, with the store's commit.

`python bench/process.py`. Medians; the function reads and writes one field and yields a row per change, for each key or
(`form: Batch`) for all keys at once. What came out is compared with plain dicts before a figure is printed.
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
import pyarrow.compute as pc

from holdfast.spec.steps import Process
from holdfast_runtime.state.store.directory import StoreDirectory, TaskIdentity
from holdfast_runtime.state.store.task_store import TaskStore
from holdfast_runtime.steps.context import StepClock
from holdfast_runtime.steps.keyed.batch_process import BatchProcessStep
from holdfast_runtime.steps.keyed.key_batch import KeyBatch
from holdfast_runtime.steps.keyed.process import ProcessStep
from holdfast_runtime.steps.timed_rows import TimedRows

ROWS, BATCHES, WARM = 40_000, 30, 10
MANY, FEW = (200_000, 20_000), (2_000, 200)
"""How many keys there are, and how many are in a batch."""
GIVEN = pa.schema([("sku", pa.string()), ("cents", pa.int64())])
OUT = pa.schema([("sku", pa.string()), ("before", pa.int64()), ("now", pa.int64())])
STATE = pa.schema([("cents", pa.int64())])
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


def change_batch(rows: pa.RecordBatch, states: pa.RecordBatch, batch: KeyBatch) -> tuple[Any, Any]:
    """The same as `change`, for all keys at once."""
    now, before = rows["cents"], batch.before(rows["cents"], states["cents"])
    changes = pa.RecordBatch.from_arrays([rows["sku"], before, now], schema=OUT)
    changed = pc.not_equal(before, now).fill_null(True)  # noqa: FBT003
    return changes.filter(changed), pa.RecordBatch.from_arrays([batch.last(now)], schema=STATE)


def drawn_batch(draw: random.Random, keys: int, in_batch: int) -> TimedRows:
    """Rows in random order."""
    skus = [f"sku-{number:08d}" for number in draw.sample(range(keys), in_batch)] * (ROWS // in_batch)
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


Step = ProcessStep | BatchProcessStep


def measure(name: str, step: Step, keys: tuple[int, int], directory: Path) -> None:
    """Print a row."""
    draw, last = random.Random(7), dict[str, int]()
    times, cpu_times = list[float](), list[float]()
    place = StoreDirectory(directory / f"{name}-{keys[1]}", TaskIdentity("bench", "1", "partition-0"))
    with TaskStore.create(place, -1) as store:
        for number in range(BATCHES):
            timed = drawn_batch(draw, *keys)
            started, cpu = time.perf_counter(), time.process_time()
            store.begin(number, 1)
            out = step.run(timed, store, StepClock(NOON + number * 1000, NOON)).rows
            store.commit()
            times.append(time.perf_counter() - started)
            cpu_times.append(time.process_time() - cpu)
            got = sorted((tuple(row.values()) for row in out.rows.to_pylist()), key=repr)
            if got != expected(timed, last):
                sys.exit("what came out is not what plain dicts give")
    median, cpu = statistics.median(times[WARM:]), statistics.mean(cpu_times[WARM:])
    print(f"{name:>16} {keys[1]:>8} {median * 1e3:>9.1f} {ROWS / cpu / 1e3:>14.0f}")


def _rows(function: Any, ttl: str | None = None) -> Step:
    return ProcessStep("changed", Process(function="prices:change", by=("sku",), ttl=ttl), function, GIVEN, OUT)


def _batch(ttl: str | None = None) -> Step:
    verb = Process(function="prices:change", form="Batch", by=("sku",), state="cents BIGINT", ttl=ttl)
    return BatchProcessStep("changed", verb, change_batch, GIVEN, OUT)


def main() -> None:
    """Print a row per way of using it."""
    print(f"{'':>16} {'keys':>8} {'batch ms':>9} {'k rows/s CPU':>14}")
    ways = {
        "rows": _rows(change),
        "rows, ttl": _rows(change, "1h"),
        "rows, timer": _rows(timers),
        "batch": _batch(),
        "batch, ttl": _batch("1h"),
    }
    with tempfile.TemporaryDirectory() as directory:
        for keys in (MANY, FEW):
            for name, step in ways.items():
                measure(name, step, keys, Path(directory))


if __name__ == "__main__":
    main()
