"""Holdfast beside its peers: the same data, rows per batch and functions, at the settings a user gets.

Every function is one measurement in a fresh process. What Holdfast gets, and why:

- `local[2]`, 2 GB heap, no web UI, trigger 0 s: as the peers. No other setting of Spark is changed.
- Input and output are streams of the embedded log with one partition per task, JSON records, exactly once; the peers
  read and write JSON files. Records are fed before the app starts, as the peers' files are there before.
- A batch lasts from the end of the one before to its own end, both as the app's progress tells them. The peers' is
  Spark's `triggerExecution`, which leaves out what is between two triggers.
- Latency: a batch is never empty, since without anything to do there is none. Each of the two tasks reads one record of
  the log and decodes it. `copied`: and writes it to a stream. `counted`: and counts it in the state of its key before.
  Both open two stores, look for fences, write two deltas and two markers, and commit two stores. `two segments`:
  `counted` with a filter in Spark SQL before it.
- The totals are the same Python function as in `transformWithState`, called once per key and batch, with its rows.
- Windows: `aggregate`, and a `process` step whose function (`windows.py`) has a timer for each window. Both have the
  lateness that the peers have as delay.
- Restart: from Spark's session being there to the batch in Spark's commit log. That has planning, assignment and the
  compilation of the steps in it, of which the peers have only what their query does after `start`. The state is copied
  from the cache before, so it is in the page cache, as the peers' is. `kept`: the local stores are as the last run left
  them. `lost`: they are gone, and rebuilt from snapshots and deltas.

Must not use anything of the peers.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from bench.engine import fresh
from bench.engine.data import (
    AMOUNT,
    CLICK,
    EVENT,
    KEEP,
    ORDER,
    PAYMENT,
    ROW,
    SELECT,
    VISIT,
    Amounts,
    Clicks,
    Events,
    Orders,
    Rows,
    Sales,
    Visits,
)
from bench.engine.files import cached
from bench.engine.fresh import Measurement

CORES = 2
WARM = 2
"""Batches that don't count, where batches are large."""
WARM_LATENCY = 20
KINDS = ("copied", "counted", "two segments")
TOTALS = """
from bench.engine.totals import added

def total(key, rows, state):
    before = (state["rows"], state["amount"]) if state else None
    state["rows"], state["amount"] = added(before, (row["amount"] for row in rows))
    yield {"key": key, "rows": state["rows"], "amount": state["amount"]}
"""
WINDOWS = "key STRING, window_start TIMESTAMP, window_end TIMESTAMP, n BIGINT, total BIGINT"
AGGREGATED = {
    "name": "counted",
    "from": ["given"],
    "aggregate": {"by": ["key"], "window": "1m", "compute": ["count(*) AS n", "sum(amount) AS total"]},
}
LATEST = """
def latest(key, rows, state):
    payload = max(row["payload"] for row in rows)
    state["payload"] = max(state.get("payload", ""), payload)
    state["rows"] = state.get("rows", 0) + len(rows)
"""
PUT_OUT = """
    yield {"key": key, "payload": state["payload"], "rows": state["rows"]}
"""
COUNT = """
def count(key, rows, state):
    state["rows"] = state.get("rows", 0) + len(rows)
    yield {"key": key, "rows": state["rows"]}
"""


def latency(kind: str, batches: int, parts: int = CORES) -> Measurement:
    """`copied`, `counted` or `two segments`."""
    counted = processed("count", "key BIGINT, rows BIGINT")
    filtered = {"name": "kept", "from": ["given"], "filter": "key >= 0"}
    steps = {"copied": [], "counted": [counted], "two segments": [filtered, counted | {"from": ["kept"]}]}[kind]
    app = stream_app("key BIGINT", steps, parts, 1, COUNT)
    return _holdfast(
        f"Holdfast, {kind}{_of(parts)}",
        "latency",
        app,
        {"batches": batches, "warm": WARM_LATENCY, "parts": parts},
    )


def stateless(clicks: Clicks, per_batch: int, parts: int = CORES) -> Measurement:
    """Filter and select, in Spark SQL."""
    steps = [
        {"name": "kept", "from": ["given"], "filter": KEEP},
        {"name": "shown", "from": ["kept"], "select": list(SELECT)},
    ]
    rows = per_batch * clicks.rows
    arguments = {"files": str(clicks.directory()), "per_batch": per_batch, "warm": WARM, "parts": parts}
    way = f"Holdfast, {rows:,} rows/batch{_of(parts)}"
    return _holdfast(way, "stateless", stream_app(CLICK, steps, parts, rows // parts), arguments)


def stateful(amounts: Amounts, parts: int = CORES) -> Measurement:
    """Totals per key, in a Python function."""
    steps = [processed("total", "key STRING, rows BIGINT, amount BIGINT")]
    app = stream_app(AMOUNT, steps, parts, 2 * amounts.keys // parts, TOTALS)
    arguments = {"files": str(amounts.directory()), "warm": WARM, "parts": parts}
    return _holdfast(f"Holdfast{_of(parts)}", "stateful", app, arguments)


def deduplicate(events: Events, parts: int = CORES) -> Measurement:
    """The first of each id within an hour."""
    steps = [{"name": "once", "from": ["given"], "deduplicate": {"by": ["id"], "within": "1h"}}]
    app = stream_app(EVENT, steps, parts, events.rows // parts)
    app["spec"]["streams"][0] |= {"key": ["id"], "partitioner": "none", "eventTime": {"column": "ts", "lateness": "1h"}}
    arguments = {"files": str(events.directory()), "warm": WARM, "parts": parts}
    return _holdfast(f"Holdfast{_of(parts)}", "deduplicate", app, arguments)


def lookup(sales: Sales, parts: int = CORES) -> Measurement:
    """The name of each key, from a table of the same file."""
    step = {"name": "named", "from": ["given"], "lookup": {"table": "names", "by": ["key"]}}
    app = stream_app(AMOUNT, [step], parts, sales.rows // parts)
    files = {"location": f"file://{sales.directory()}/names", "format": "parquet"}
    table = {"name": "names", "files": files, "key": ["key"], "schema": "key STRING, name STRING"}
    app["spec"]["tables"] = [table | {"distribution": "Broadcast", "versioned": True}]
    return _holdfast(f"Holdfast{_of(parts)}", "lookup", app, {"sales": asdict(sales), "warm": WARM, "parts": parts})


def aggregate(visits: Visits, parts: int = CORES) -> Measurement:
    """Count and sum of each key in windows of a minute."""
    app = windows_app(visits, AGGREGATED, parts)
    return _holdfast(f"Holdfast{_of(parts)}", "aggregate", app, _visits(visits, parts))


def join(orders: Orders, kind: str, parts: int = CORES) -> Measurement:
    """Orders and payments of one id within ten minutes."""
    app = _paid(orders, kind, parts)
    orders.directory()
    arguments = {"orders": asdict(orders), "warm": orders.filling + WARM, "parts": parts}
    return _holdfast(f"Holdfast{_of(parts)}", "join", app, arguments)


def restart_join(orders: Orders, *, lost: bool, parts: int = CORES) -> Measurement:
    """The first batch of a new process that joins, with local state or without it."""
    app = _paid(orders, "Inner", parts)
    with _copied(
        f"orders-{orders.all_rows}-{orders.within}", parts, partial(_fill_join, orders, parts), lost=lost
    ) as place:
        way = f"Holdfast, state {'lost' if lost else 'kept'}{_of(parts)}"
        return _holdfast(way, "restart", app, {"place": place, "lost": lost, "pairs": True})


def _fill_join(orders: Orders, parts: int, folder: Path) -> None:
    orders.directory()
    arguments = {"orders": asdict(orders), "place": str(folder / "data"), "parts": parts}
    _holdfast("fill", "fill_join", _paid(orders, "Inner", parts), arguments)


def _paid(orders: Orders, kind: str, parts: int) -> dict[str, Any]:
    step = {"name": "paid", "from": ["orders", "payments"], "join": joined(orders.within) | {"type": kind}}
    app = stream_app(ORDER, [step], parts, orders.rows // 2 // parts)
    timed = {"key": ["id"], "partitioner": "none", "eventTime": {"column": "ts", "lateness": "1m"}}
    stream = app["spec"]["streams"][0] | timed
    sides = [stream | {"name": "orders"}, stream | {"name": "payments", "schema": PAYMENT}]
    app["spec"]["streams"] = [*sides, *app["spec"]["streams"][1:]]
    return app


def joined(minutes: int) -> dict[str, Any]:
    """Orders with payments."""
    return {"by": ["id"], "within": f"{minutes}m", "select": ["id", "left.amount", "left.ts", "right.code"]}


def windows_by_function(visits: Visits, parts: int = CORES) -> Measurement:
    """The same by a Python function with a timer for each window."""
    step = processed("totals", WINDOWS)
    step["process"]["function"] = "bench.engine.windows:totals"
    return _holdfast(
        f"Holdfast, process{_of(parts)}", "aggregate", windows_app(visits, step, parts), _visits(visits, parts)
    )


def windows_app(visits: Visits, step: Mapping[str, Any], parts: int = CORES) -> dict[str, Any]:
    """Visits through one step."""
    app = stream_app(VISIT, [step], parts, visits.rows // parts)
    app["spec"]["streams"][0] |= {
        "key": ["key"],
        "partitioner": "none",
        "eventTime": {"column": "ts", "lateness": f"{visits.lateness}m"},
    }
    return app


def _visits(visits: Visits, parts: int) -> dict[str, Any]:
    visits.directory()
    return {"visits": asdict(visits), "warm": visits.filling + WARM, "parts": parts}


def restart(rows: Rows, *, lost: bool, parts: int = CORES) -> Measurement:
    """The first batch of a new process, with local state or without it."""
    with _copied(str(rows.keys), parts, partial(_fill, rows, parts), lost=lost) as place:
        app = _latest(parts, rows.keys, LATEST + PUT_OUT)
        way = f"Holdfast, state {'lost' if lost else 'kept'}{_of(parts)}"
        return _holdfast(way, "restart", app, {"place": place, "lost": lost})


def touches(rows: Rows, parts: int = CORES) -> Measurement:
    """Small batches on a state."""
    with _copied(str(rows.keys), parts, partial(_fill, rows, parts), lost=False) as place:
        app = _latest(parts, rows.keys, LATEST + PUT_OUT)
        arguments = {"files": str(rows.directory()), "place": place, "parts": parts}
        return _holdfast(f"Holdfast{_of(parts)}", "touches", app, arguments)


def processed(function: str, schema: str) -> dict[str, Any]:
    """A step with state by key."""
    verb = {"function": f"functions:{function}", "by": ["key"], "schema": schema, "keeps": ["key"]}
    return {"name": "processed", "from": ["given"], "process": verb}


def stream_app(
    schema: str, steps: Sequence[Mapping[str, Any]], parts: int, records: int, code: str = ""
) -> dict[str, Any]:
    """From `given` through steps to `made`: so many records of each partition per batch."""
    streams = [
        {"name": "given", "system": "here", "partitions": parts, "schema": schema},
        {"name": "made", "system": "here", "partitions": parts},
    ]
    if code:
        streams[0] |= {"key": ["key"], "partitioner": "none"}
    sink = {"name": "out", "from": [steps[-1]["name"] if steps else "given"], "to": "made"}
    runtime = {
        "trigger": {"interval": "0s", "maxRecordsPerPartition": records},
        "driver": {"memory": "2g"},
        "sparkConf": {"spark.sql.streaming.numRecentProgressUpdates": "1000"},
        "code": {"functions": code},
    }
    spec = {"systems": [{"name": "here", "log": {}}], "streams": streams, "steps": [*steps, sink], "runtime": runtime}
    return {"apiVersion": "holdfast.dev/v1alpha1", "kind": "StreamApp", "metadata": {"name": "bench"}, "spec": spec}


@contextmanager
def _copied(what: str, parts: int, fill: Callable[[Path], None], *, lost: bool) -> Iterator[str]:
    """What a run that filled the state has left, to be used up."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text()[:8]
    # A store from before the machine was started is not trusted, so the cache is only good until then.
    filled = cached(f"holdfast-{what}-{parts}-{boot}", fill)
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-", dir=filled.parent) as scratch:
        place = Path(scratch) / "data"
        ignore = partial(_local_state, filled) if lost else None
        shutil.copytree(filled / "data", place, ignore=ignore, copy_function=_copied_or_linked)
        os.sync()
        yield str(place)


def _fill(rows: Rows, parts: int, folder: Path) -> None:
    arguments = {"files": str(rows.directory()), "place": str(folder / "data"), "parts": parts}
    _holdfast("fill", "fill", _latest(parts, rows.keys, LATEST), arguments)


def _latest(parts: int, records: int, code: str) -> dict[str, Any]:
    steps = [processed("latest", "key BIGINT, payload STRING, rows BIGINT")]
    return stream_app(ROW, steps, parts, records, code)


def _copied_or_linked(source: str, target: str) -> None:
    """Deltas and snapshots are never changed, as the files of the peers' checkpoint: no need to write them again."""
    if "/checkpoint/state/" in source:
        os.link(source, target)
    else:
        shutil.copy2(source, target)


def _local_state(filled: Path, folder: str, names: list[str]) -> list[str]:  # noqa: ARG001 - as `copytree` asks
    return ["state"] if Path(folder) == filled / "data" / "apps" / "bench" / "runs" / "1" else []


def _of(parts: int) -> str:
    return "" if parts == CORES else f", {parts} tasks"


def _holdfast(way: str, kind: str, app: Mapping[str, Any], arguments: Mapping[str, Any]) -> Measurement:
    request = {"way": kind, "master": f"local[{CORES}]", "app": app, "arguments": arguments}
    return fresh.measure(way, "bench.engine.holdfast_run", request)
