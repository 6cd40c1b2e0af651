"""What rows of a table cost in `process`: looked up by the function, or by a `lookup` step before it.

`python bench/function_tables.py`. A batch has 40 000 rows of 20 000 keys, each with one of `asked` keys of a Broadcast
table. Median CPU of a batch without commits: once while the table stays as it is, once while each batch finds 100 of
its rows changed. What came out is compared with a dict before a figure is printed.
"""

import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from holdfast.planning.join_columns import JoinColumn
from holdfast.spec.steps import Process
from holdfast_runtime.functions import Row, State
from holdfast_runtime.state.shared.shared_table import SharedTable
from holdfast_runtime.state.sorted.stored_pieces import PIECE
from holdfast_runtime.state.store.directory import StoreDirectory, TaskIdentity
from holdfast_runtime.state.store.task_store import TaskStore
from holdfast_runtime.steps.context import StepClock
from holdfast_runtime.steps.keyed.batch_process import BatchProcessStep
from holdfast_runtime.steps.keyed.key_batch import KeyBatch
from holdfast_runtime.steps.keyed.process import ProcessSetting, ProcessStep
from holdfast_runtime.steps.tables.function_tables import FunctionTable, FunctionTablePlan, FunctionTables
from holdfast_runtime.steps.tables.kept_table import GONE, KeptTable, TableShape
from holdfast_runtime.steps.tables.lookup import LookupPlan, LookupStep
from holdfast_runtime.steps.timed_rows import TimedRows

ROWS, KEYS, BATCHES, WARM, CHANGED = 40_000, 20_000, 7, 2, 100
GIVEN = pa.schema([("sku", pa.string()), ("shop", pa.string())])
WITH_RATE = pa.schema([*GIVEN, ("rate", pa.int64())])
OUT = pa.schema([("sku", pa.string()), ("rate", pa.int64())])
STATE = pa.schema([("last", pa.int64())])
SHAPE = TableShape(("shop",), pa.schema([("shop", pa.string()), ("rate", pa.int64()), ("town", pa.string()), GONE]))
NOON = 1_700_000_000_000


def asking(sku: str, rows: list[Row], state: State) -> Iterator[Row]:
    """Look each row up."""
    for row in rows:
        shop = state.tables.get("shops", row["shop"])
        state["last"] = rate = None if shop is None else shop["rate"]
        yield {"sku": sku, "rate": rate}


def told(sku: str, rows: list[Row], state: State) -> Iterator[Row]:
    """The same, where a step before has looked up."""
    for row in rows:
        state["last"] = row["rate"]
        yield {"sku": sku, "rate": row["rate"]}


def asking_batch(rows: pa.RecordBatch, _: pa.RecordBatch, batch: KeyBatch) -> tuple[Any, Any]:
    """Look all rows up."""
    rates = batch.tables.lookup("shops", rows["shop"])["rate"]
    rated = pa.RecordBatch.from_arrays([rows["sku"], rates], schema=OUT)
    return rated, pa.RecordBatch.from_arrays([batch.last(rates)], schema=STATE)


def told_batch(rows: pa.RecordBatch, _: pa.RecordBatch, batch: KeyBatch) -> tuple[Any, Any]:
    """The same, where a step before has looked up."""
    return rows.select(OUT.names), pa.RecordBatch.from_arrays([batch.last(rows["rate"])], schema=STATE)


class Shops:
    """The table, and what is in it."""

    def __init__(self, directory: Path, rows: int) -> None:
        self._table = SharedTable(
            directory / "shops", TaskIdentity("bench", "1", "shops"), "boot", lambda _: None, PIECE
        )
        self.names, self.rates = [f"shop-{number:07d}" for number in range(rows)], dict[str, int]()
        self.write(self.names)

    def table(self, _: str) -> SharedTable:
        """Return the table."""
        return self._table

    def write(self, names: list[str]) -> None:
        """Give shops another rate, as a batch does before its steps."""
        rates = [len(self.rates) + number for number in range(len(names))]
        self.rates |= dict(zip(names, rates, strict=True))
        columns = [pa.array(names), pa.array(rates), pa.array(["here"] * len(names)), pa.array([False] * len(names))]
        with self._table.changing():
            kept_table = KeptTable(self._table, SHAPE)
            kept_table.begin()
            kept_table.put(SHAPE.stored(pa.RecordBatch.from_arrays(columns, schema=SHAPE.given)))
            self._table.commit(1, 1, {"changes/0": len(self.rates)})


Run = Callable[[TimedRows, TaskStore, StepClock], TimedRows]


def ways(shops: Shops) -> dict[str, Run]:
    """Return the ways to the same rows."""
    columns = tuple(JoinColumn("right", name, name) for name in SHAPE.columns)
    lookup = FunctionTablePlan.by_keys("shops", SHAPE, columns)
    tables = FunctionTables("rated", {"shops": FunctionTable(FunctionTablePlan(lookup, (), lookup.schema), shops)})
    setting = ProcessSetting(tables=tables)
    rows = Process(function="m:f", by=("sku",))
    batch = Process(function="m:f", form="Batch", by=("sku",), state="last BIGINT")
    beside = tuple(JoinColumn("left", name, name) for name in GIVEN.names)
    before = LookupStep(
        LookupPlan(
            ("shop",), inner=False, columns=(*beside, JoinColumn("right", "rate", "rate")), input_schema=GIVEN,
            table=SHAPE, kept_as="shops",
        )
    )  # fmt: skip

    def behind(step: ProcessStep | BatchProcessStep) -> Run:
        return lambda input_rows, store, clock: step.run(before.run(input_rows, shops).rows, store, clock).rows

    def alone(step: ProcessStep | BatchProcessStep) -> Run:
        return lambda input_rows, store, clock: step.run(input_rows, store, clock).rows

    return {
        "rows, get": alone(ProcessStep("a", rows, asking, GIVEN, OUT, setting)),
        "lookup, rows": behind(ProcessStep("b", rows, told, WITH_RATE, OUT)),
        "batch, lookup": alone(BatchProcessStep("c", batch, asking_batch, GIVEN, OUT, setting)),
        "lookup, batch": behind(BatchProcessStep("d", batch, told_batch, WITH_RATE, OUT)),
    }


def measure(size: int, key_count: int, *, changing: bool, directory: Path) -> None:
    """Print a row for each way."""
    shops, draw = Shops(directory, size), random.Random(7)
    names = draw.sample(shops.names, key_count)
    place = StoreDirectory(directory / "store", TaskIdentity("bench", "1", "partition-0"))
    with TaskStore.create(place, -1) as store:
        for way, (name, run) in enumerate(ways(shops).items()):
            cpu_times = []
            for number in range(way * BATCHES, (way + 1) * BATCHES):
                if changing:
                    shops.write(draw.sample(shops.names, CHANGED))
                skus = [f"sku-{draw.randrange(KEYS):06d}" for _ in range(ROWS)]
                columns = [pa.array(skus), pa.array(draw.choices(names, k=ROWS))]
                input_rows = TimedRows(pa.RecordBatch.from_arrays(columns, schema=GIVEN), pa.nulls(ROWS, pa.int64()))
                store.begin(number, 1)
                cpu = time.process_time()
                out = run(input_rows, store, StepClock(NOON + number * 1000, NOON))
                cpu_times.append(time.process_time() - cpu)
                store.commit()
                pairs = zip(skus, columns[1].to_pylist(), strict=True)
                if sorted(map(tuple, (row.values() for row in out.rows.to_pylist()))) != sorted(
                    (sku, shops.rates[shop]) for sku, shop in pairs
                ):
                    sys.exit("what came out is not what a dict gives")
            cpu = statistics.median(cpu_times[WARM:])
            kind = "changes" if changing else "stays"
            print(
                f"{name:>14} {size:>8} {key_count:>7} {kind:>8} {cpu * 1e3:>7.0f} {ROWS / cpu / 1e3:>12.0f}", flush=True
            )


def main() -> None:
    """Print all rows."""
    print(f"{'':>14} {'table':>8} {'asked':>7} {'':>8} {'CPU ms':>7} {'k rows/s CPU':>12}")
    for size, key_count in ((200, 200), (50_000, 50_000), (500_000, 200)):
        for changing in (False, True):
            with tempfile.TemporaryDirectory() as directory:
                measure(size, key_count, changing=changing, directory=Path(directory))


if __name__ == "__main__":
    main()
