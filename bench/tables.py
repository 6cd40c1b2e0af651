"""What Broadcast tables cost a location: loading, restoring, memory of the processes that read them, and changes.

Loading is an app of its own, from records in the embedded log, or from a file of Parquet, to a loaded table, on two
cores. All else is one table as slots use it: restored from a durable copy on this disk; looked up in four processes at
once, whose memory is what the kernel says of mapped files; and batches that each apply changes and look keys up, a
hundred of them measured after twenty. Look-ups are checked before a figure is printed.
"""

import shutil
import statistics
import sys
import tempfile
import threading
import time
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet as pq

from holdfast.spec.parse import parse_app
from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.checkpoint.directories import DataDir
from holdfast_runtime.driver.local_run import RunOptions, run_app
from holdfast_runtime.progress import AttemptStarted, Event, Progress
from holdfast_runtime.state.durable.storage import DirectoryStorage
from holdfast_runtime.state.shared import table_copy
from holdfast_runtime.state.shared.shared_table import SharedTable
from holdfast_runtime.state.shared.table_copy import TableCopy
from holdfast_runtime.state.sorted.stored_pieces import PIECE
from holdfast_runtime.state.store.directory import TaskIdentity, boot_id
from holdfast_runtime.steps.tables.kept_table import GONE, KeptTable, TableShape
from holdfast_runtime.streams.log.embedded_log import EmbeddedLog, close_all
from holdfast_runtime.streams.records import written_batch

PARTITIONS, AT_ONCE, PROCESSES = 4, 200_000, 4
WARM, COUNTED, PER_SECOND = 20, 100, 10
UPDATES, LOOK_UPS = 10_000, 100_000
"""A second."""
COLUMNS = pa.schema([("key", pa.string()), ("payload", pa.string()), ("n", pa.int64())])
SHAPE = TableShape(("key",), pa.schema([*COLUMNS, GONE]))
TABLE = TaskIdentity("bench", "1", "products")
BROADCAST: dict[str, Any] = {"name": "products", "sources": ["changes"], "key": ["key"], "distribution": "Broadcast"}
STREAMS: list[dict[str, Any]] = [
    {"name": "changes", "schema": "key STRING, payload STRING, n BIGINT", "key": ["key"]},
    {"name": "orders", "schema": "key STRING"},
    {"name": "priced"},
]
APP: dict[str, Any] = {
    "apiVersion": "holdfast.dev/v1alpha1",
    "kind": "StreamApp",
    "metadata": {"name": "bench"},
    "spec": {
        "systems": [{"name": "here", "log": {}}],
        "streams": [{**stream, "system": "here", "partitions": PARTITIONS} for stream in STREAMS],
        "tables": [BROADCAST],
        "steps": [
            {"name": "with-product", "from": ["orders"], "lookup": {"table": "products", "by": ["key"]}},
            {"name": "out", "from": ["with-product"], "to": "priced"},
        ],
        "runtime": {"trigger": {"interval": "0s", "maxRecordsPerPartition": 1_000_000}},
    },
}


def check(true: object) -> None:
    """No figure without it."""
    if not true:
        sys.exit("a result is wrong")


def keys_of(numbers: np.ndarray) -> pa.Array:
    """The keys with these numbers."""
    return pc.binary_join_element_wise("key-", pc.utf8_lpad(pa.array(numbers).cast(pa.string()), 9, "0"), "")


def rows_of(numbers: np.ndarray, add: int = 0) -> pa.RecordBatch:
    """About 80 bytes each."""
    keys = keys_of(numbers)
    payloads = pc.binary_join_element_wise("payload of ", keys, " and what else is in a row of it", "")
    columns = [keys, payloads, pa.array(numbers + add), pa.array(np.zeros(len(numbers), bool))]
    return pa.RecordBatch.from_arrays(columns, schema=SHAPE.given)


def fill(folder: Path, rows: int) -> None:
    """Write the records that the table is loaded from, JSON."""
    log = EmbeddedLog(folder, sync=False)
    for stream in ("changes", "orders"):
        log.ensure(stream, PARTITIONS, now=0)
    for number, first in enumerate(range(0, rows, AT_ONCE)):
        made = rows_of(np.arange(first, min(first + AT_ONCE, rows)))
        keys, payloads, numbers, _ = made.columns
        parts = ['{"key":"', keys, '","payload":"', payloads, '","n":', numbers.cast(pa.string()), "}"]
        values = pc.binary_join_element_wise(*parts, "").cast(pa.binary())
        log.append(StreamPartition("changes", number % PARTITIONS), written_batch(keys.cast(pa.binary()), values, 0))
    order = pa.array([b'{"key":"key-000000007"}'])
    log.append(StreamPartition("orders", 0), written_batch(pa.array([b"7"]), order, 0))


def loading(folder: Path, rows: int) -> None:
    """From the first batch's plan to the table that is loaded."""
    data = DataDir(folder)
    fill(data.log, rows)
    ends, progress = list[float](), list[Progress]()

    def listen(event: Event) -> None:
        if isinstance(event, Progress):
            ends.append(time.perf_counter())
            progress.append(event)

    options = RunOptions(data.path, idle=True, master="local[2]", ui=False)
    run_app(parse_app(APP), options, listen, threading.Event())
    check(sum(one.rows_out for one in progress) == 1)
    loads = [one for one in progress if one.rows_in > 1]
    # The first batch also starts Python processes.
    took = ends[len(loads) - 1] - ends[0]
    counted = sum(one.rows_in for one in loads[1:])
    print(f"loading {rows:,} rows of JSON in {len(loads)} batches: {counted / max(took, 1e-9):,.0f} rows/s")
    close_all()


def loading_files(folder: Path, rows: int) -> None:
    """From the start of an attempt to the first look-up in a table of files."""
    data, file = DataDir(folder), folder / "products.parquet"
    fill(data.log, 0)
    with pq.ParquetWriter(file, COLUMNS) as writer:
        for first in range(0, rows, AT_ONCE):
            made = rows_of(np.arange(first, min(first + AT_ONCE, rows)))
            writer.write_batch(made.select(COLUMNS.names))
    files = {"location": f"file://{file}", "format": "parquet"}
    schema = next(one["schema"] for one in STREAMS if one["name"] == "changes")
    table = {**BROADCAST, "files": files, "schema": schema, "versioned": True}
    del table["sources"]
    spec = {**APP["spec"], "streams": APP["spec"]["streams"][1:], "tables": [table]}
    took, began = list[float](), time.perf_counter()

    def listen(event: Event) -> None:
        nonlocal began
        if isinstance(event, AttemptStarted):
            began = time.perf_counter()
        elif isinstance(event, Progress) and event.rows_out:
            took.append(time.perf_counter() - began)

    options = RunOptions(data.path, idle=True, master="local[2]", ui=False)
    run_app(parse_app({**APP, "spec": spec}), options, listen, threading.Event())
    check(len(took) == 1)
    print(f"loading {rows:,} rows of a Parquet file, to the first look-up: {rows / took[0]:,.0f} rows/s")
    close_all()


def opened(folder: Path) -> SharedTable:
    """A table there, as a process sees it."""
    return SharedTable(folder, TABLE, boot_id(), lambda _: None, PIECE)


@contextmanager
def changed(table: SharedTable, batch: int) -> Iterator[KeptTable]:
    """A change of a batch."""
    with table.changing():
        kept_table = KeptTable(table, SHAPE)
        kept_table.begin()
        yield kept_table
        table.commit(batch, 1, {"changes/0": batch})


def filled(folder: Path, rows: int) -> SharedTable:
    """A table with so many rows."""
    table = opened(folder)
    for batch, first in enumerate(range(0, rows, AT_ONCE), 1):
        with changed(table, batch) as kept_table:
            kept_table.put(SHAPE.stored(rows_of(np.arange(first, min(first + AT_ONCE, rows)))))
    return table


def looked_up(table: SharedTable, numbers: np.ndarray) -> pa.Array:
    """The numbers in the rows of these keys."""
    rows = KeptTable(table, SHAPE).find([keys_of(numbers)], len(numbers))
    return rows.column(SHAPE.index("n"))


def restoring(folder: Path, table: SharedTable) -> None:
    """From a copy to a table that can be read."""
    vars(table_copy)["_BESIDE"] = 1 << 62  # at once
    copy = TableCopy(DirectoryStorage(folder / "copy", sync=False), TABLE)
    copy.upload(table)
    took = []
    for number in range(3):
        other = opened(folder / f"restored-{number}")
        began = time.perf_counter()
        with other.changing():
            check(copy.restore(other, 1, table.manifest.offsets))
            other.commit(table.manifest.batch, 1, table.manifest.offsets)
        took.append(time.perf_counter() - began)
        shutil.rmtree(folder / f"restored-{number}")
    size = table.manifest.bytes
    print(f"restoring {size / 1e6:,.0f} MB: {size / statistics.median(took) / 1e6:,.0f} MB/s, median of 3")


def mapped(folder: Path) -> Mapping[str, int]:
    """Bytes of this process's maps of files there: all, and its share of those that others have too."""
    sums, in_folder = {"Rss": 0, "Pss": 0}, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        name, _, rest = line.partition(":")
        if "-" in name.split()[0]:
            in_folder = str(folder) in line
        elif in_folder and name in sums:
            sums[name] += int(rest.split()[0]) << 10
    return sums


def reader(folder: Path, rows: int, pipe: Connection) -> None:
    """Look every row up, and say what that takes while all others have done so too."""
    table = opened(folder)
    offsets = next(table._manifests()).offsets  # noqa: SLF001 - as a batch would tell it
    check(table.read(1, offsets))
    for first in range(0, rows, AT_ONCE):
        numbers = np.arange(first, min(first + AT_ONCE, rows))
        check(looked_up(table, numbers).to_numpy().tolist() == numbers.tolist())
    pipe.send("done")
    pipe.recv()
    pipe.send(mapped(folder))


def memory(folder: Path, table: SharedTable, rows: int) -> None:
    """What processes hold that have all looked up all of it."""
    spawned = get_context("spawn")
    pipes = [spawned.Pipe() for _ in range(PROCESSES)]
    started = [spawned.Process(target=reader, args=(folder, rows, child_end)) for _, child_end in pipes]
    for process in started:
        process.start()
    for pipe, _ in pipes:
        check(pipe.recv() == "done")
    for pipe, _ in pipes:
        pipe.send("go on")
    maps = [pipe.recv() for pipe, _ in pipes]
    rss, pss = (sum(one[name] for one in maps) / 1e6 for name in ("Rss", "Pss"))
    print(
        f"{PROCESSES} processes with {table.manifest.bytes / 1e6:,.0f} MB mapped: RSS {rss:,.0f} MB, PSS {pss:,.0f} MB"
    )
    for process in started:
        process.join()


def changing(table: SharedTable, rows: int) -> None:
    """Batches of a tenth of a second's changes and look-ups."""
    draw, took = np.random.default_rng(7), []
    last_batch = table.manifest.batch
    for number in range(WARM + COUNTED):
        changes = draw.integers(0, rows, UPDATES // PER_SECOND)
        numbers = draw.integers(0, rows, LOOK_UPS // PER_SECOND)
        began = time.perf_counter()
        with changed(table, last_batch + 1 + number) as kept_table:
            kept_table.put(SHAPE.stored(rows_of(changes, rows)))
        answers = looked_up(table, numbers).to_numpy()
        took.append(time.perf_counter() - began)
        check((answers % rows == numbers).all())
    times = sorted(one * 1e3 for one in took[WARM:])
    p50, p99 = times[len(times) // 2], times[len(times) * 99 // 100 - 1]
    print(
        f"{UPDATES // PER_SECOND:,} changes and {LOOK_UPS // PER_SECOND:,} look-ups a batch, table of {rows:,} rows: "
        f"p50 {p50:.0f} ms, p99 {p99:.0f} ms"
    )


def main() -> None:
    """Print a line for each figure."""
    options = ArgumentParser(prog="python bench/tables.py", description="What Broadcast tables cost a location.")
    options.add_argument("--quick", action="store_true", help="small sizes: to see that it works")
    rows = 200_000 if options.parse_args().quick else 10_000_000
    folder = Path(tempfile.mkdtemp(prefix="bench-tables-"))
    try:
        loading(folder / "app", rows)
        shutil.rmtree(folder / "app")
        (folder / "app").mkdir()
        loading_files(folder / "app", rows)
        shutil.rmtree(folder / "app")
        table = filled(folder / "table", rows)
        restoring(folder, table)
        memory(folder / "table", table, rows)
        changing(table, rows)
        small = filled(folder / "small", rows // 10)
        changing(small, rows // 10)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
