"""Stock Structured Streaming at its best, so that a comparison says something.

Every function is one measurement in a fresh process. What a peer gets, and why:

- `local[2]`, 2 GB heap, no web UI, UTC: the same for all, and what Holdfast gets.
- Tuned (all but the rows called "default"): adaptive execution off (nothing to adapt in batches this small, and it
  plans in every batch); `spark.sql.shuffle.partitions=2`, one per core, instead of 200; `dataFrameDebugging` off (it
  takes a Python stack trace per DataFrame operation); Unix sockets between JVM and Python (no delayed acknowledgements
  of TCP); checkpoint files through `FileSystemBasedCheckpointFileManager`, which does not fork processes for
  permissions on a local disk.
- State: the RocksDB provider (`transformWithState` has no other), `trackTotalNumberOfRows` off (it costs a look-up per
  write), changelog checkpointing off and on: off writes new table files in each batch and restores faster, on commits
  faster and replays when it restores.
- Sources and sinks are Spark's own (JSON files both ways), with what is least work for it: schema given, ages of files
  set, one job per batch. Throughput is that of batches after the first two: the JVM has compiled by then.
- Latency is also shown without any Python (`native`: rate source to no-op sink): nothing stock is faster than that.
- The totals are also shown as a native aggregation (`native`): what `transformWithState` costs beside it is Python's.
- Windows: the native aggregation in append mode, without any Python, with RocksDB as above and with Spark's default, a
  map on the heap (`HDFSBackedStateStoreProvider`). The window is computed by Spark from the same column.
- Joins: the native join of two streams, with watermarks on both and a range of time, so that rows leave the state; also
  in the formats of their state that Spark has, but does not ship with.
- Restart: a built-in aggregation, not `transformWithState`, which would start Python on top. The checkpoint lies on the
  local disk and in the page cache, which flatters stock: elsewhere it comes from object storage.

Must not use anything of Holdfast.
"""

import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path

from bench.engine import fresh
from bench.engine.data import Amounts, Clicks, Events, Orders, Rows, Sales, Visits
from bench.engine.files import cached
from bench.engine.fresh import Measurement

SAME = {
    "spark.driver.memory": "2g",
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.numRecentProgressUpdates": "1000",
}
TUNED = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}
STATE = "spark.sql.streaming.stateStore"
ROCKSDB = {
    f"{STATE}.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    f"{STATE}.rocksdb.trackTotalNumberOfRows": "false",
}
STORES = ("changelog off", "changelog on", "heap")
"""Where stock keeps state: in RocksDB without or with changelog checkpoints, or on the heap."""
JOIN_STORES = (*STORES, "changelog on, joins of format 3", "changelog on, joins of format 4")
FILLING = {f"{STATE}.maintenanceInterval": "5s", "spark.sql.streaming.minBatchesToRetain": "2"}
"""Snapshots are made by the clock: while the state of the restart is made, it goes faster."""
WARM = 2
"""Batches that don't count, where batches are large."""


def latency(kind: str, batches: int, *, tuned: bool) -> Measurement:
    """`planned`: one planned row, collected; `job`: two Python partitions, mapInArrow; `noop`: so, no foreachBatch."""
    way = f"{kind}, {'tuned' if tuned else 'default'}"
    arguments = {"kind": kind, "batches": batches, "warm": 20}
    return _stock(way, "latency", SAME | (TUNED if tuned else {}), arguments)


def stateless(clicks: Clicks, per_batch: int) -> Measurement:
    """Filter and select, so many files per batch."""
    arguments = {
        "files": str(clicks.directory()),
        "per_batch": per_batch,
        "warm": WARM,
        "rows": per_batch * clicks.rows,
    }
    return _stock(f"stock, {per_batch * clicks.rows:,} rows/batch", "stateless", SAME | TUNED, arguments)


def stateful(amounts: Amounts, *, changelog: bool, native: bool = False) -> Measurement:
    """Totals per key; `native`: as an aggregation."""
    way = f"{'native aggregation' if native else 'transformWithState'}, changelog {'on' if changelog else 'off'}"
    arguments = {"files": str(amounts.directory()), "native": native, "warm": WARM, "rows": 2 * amounts.keys}
    return _stock(way, "stateful", SAME | TUNED | rocksdb(changelog=changelog), arguments)


def deduplicate(events: Events, *, store: str) -> Measurement:
    """`dropDuplicatesWithinWatermark`; `store`: one of `STORES`."""
    arguments = {"files": str(events.directory()), "warm": WARM, "rows": events.rows}
    return _stock(f"dropDuplicatesWithinWatermark, {store}", "deduplicate", SAME | TUNED | state_in(store), arguments)


def lookup(sales: Sales, *, broadcast: bool) -> Measurement:
    """Spark's own join with a table in Parquet, which it reads in each batch; `broadcast`: with that hint."""
    arguments = {"sales": asdict(sales), "broadcast": broadcast, "warm": WARM}
    sales.directory()
    return _stock(f"join with Parquet{', broadcast' * broadcast}", "lookup", SAME | TUNED, arguments)


def aggregate(visits: Visits, *, store: str) -> Measurement:
    """Spark's own `groupBy(window, key)`, append mode; `store`: one of `STORES`."""
    visits.directory()
    arguments = {"visits": asdict(visits), "warm": visits.filling + WARM}
    return _stock(f"groupBy(window, key), {store}", "aggregate", SAME | TUNED | state_in(store), arguments)


def join(orders: Orders, kind: str, *, store: str) -> Measurement:
    """Spark's own join of two streams, with a range of time; `store`: one of `JOIN_STORES`."""
    orders.directory()
    arguments = {"orders": asdict(orders), "kind": kind, "warm": orders.filling + WARM}
    return _stock(f"join, {store}", "join", SAME | TUNED | state_in(store), arguments)


def restart(rows: Rows, *, changelog: bool) -> Measurement:
    """The first batch of a new process: its state is in the checkpoint only."""
    settings = SAME | TUNED | rocksdb(changelog=changelog)
    filled = cached(f"checkpoint-{rows.keys}-{'on' if changelog else 'off'}", partial(_fill, rows, settings))
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-", dir=filled.parent) as scratch:
        # The batch of the restart must not become part of what the next run starts from.
        shutil.copytree(filled / "checkpoint", f"{scratch}/checkpoint", copy_function=os.link)
        arguments = {"files": str(rows.directory()), "checkpoint": f"{scratch}/checkpoint"}
        return _stock(f"stock, changelog {'on' if changelog else 'off'}", "restart", settings, arguments)


def state_in(store: str) -> dict[str, str]:
    """Settings of one of `JOIN_STORES`."""
    if store == "heap":
        return {}
    format_number = store.partition("format ")[2]
    newer = {"spark.sql.streaming.join.stateFormatVersion": format_number} if format_number else {}
    return rocksdb(changelog=store.startswith("changelog on")) | newer


def rocksdb(*, changelog: bool) -> dict[str, str]:
    """Settings of the state store."""
    return ROCKSDB | {f"{STATE}.rocksdb.changelogCheckpointing.enabled": str(changelog).lower()}


def _fill(rows: Rows, settings: dict[str, str], folder: Path) -> None:
    arguments = {"files": str(rows.directory()), "checkpoint": str(folder / "checkpoint")}
    _stock("fill", "fill", settings | FILLING, arguments)


def _stock(way: str, peer: str, settings: Mapping[str, str], arguments: Mapping[str, object]) -> Measurement:
    return fresh.measure(way, "bench.engine.stock", {"peer": peer, "settings": settings, "arguments": arguments})
