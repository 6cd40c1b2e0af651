"""A process of its own that runs an app, and can be killed: at a named step, or from outside at any moment.

Rows get a random stamp before they are sent from task to task, so what is computed twice shows. Then totals per
customer, a bell once per customer (processing time), and a sum per customer and ten seconds (event time). The same
sums by `aggregate`, behind a stream of partial ones; sessions; rows through a `deduplicate` that drops none; each row
joined with the sum of its window, if it came in the last seconds of it; and looked up in tables of both kinds.
"""

import os
import random
import signal
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from holdfast_runtime.state.durable.copy import SnapshotPolicy
from holdfast_runtime.state.shared import shared_table
from holdfast_runtime.steps.joins import join
from holdfast_runtime.testing import Lab, TestDriver

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
CUSTOMERS = 5
WINDOW, GAP, CLOSING = 10, 3, 4
CODE = """
import uuid
import pyarrow as pa

def stamp(batch):
    stamps = pa.array([uuid.uuid4().hex for _ in range(batch.num_rows)])
    return pa.RecordBatch.from_arrays([*batch.columns, stamps], [*batch.schema.names, "stamp"])

def total(customer, rows, state):
    if state.fired:
        for timer in state.fired:
            if timer.kind == "processing":
                state["bells"] = state.get("bells", 0) + 1
                yield {"kind": "bell", "customer": customer}
            else:
                yield {"kind": "window", "customer": customer, "n": int(timer.name),
                       "total": state["windows"].pop(int(timer.name))}
        return
    if not state:
        state.at_time(state.now + 2_000)
    windows = state.setdefault("windows", {})
    for row in rows:
        state["count"] = state.get("count", 0) + 1
        state["total"] = state.get("total", 0) + row["amount"]
        window = int(row["ts"].timestamp()) // 10
        if window not in windows:
            state.at_event_time((window + 1) * 10_000, str(window))
        windows[window] = windows.get(window, 0) + row["amount"]
        yield {"kind": "row", "customer": customer, "n": row["n"], "stamp": row["stamp"],
               "total": state["total"], "count": state["count"]}
"""
ROW = "n BIGINT, customer STRING, amount BIGINT, ts TIMESTAMP"
PERSON = "customer STRING, name STRING"
SUMS = ["count(*) AS n", "sum(amount) AS amount"]
APP: dict[str, Any] = {
    "apiVersion": "holdfast.dev/v1alpha1",
    "kind": "StreamApp",
    "metadata": {"name": "stamped-totals"},
    "spec": {
        "systems": [{"name": "shop", "log": {}}],
        "streams": [
            {
                "name": "orders",
                "system": "shop",
                "partitions": 2,
                "key": ["n"],
                "schema": ROW,
                "eventTime": {"column": "ts"},
                "bounded": True,
            },
            {"name": "stamps", "system": "shop", "partitions": 2, "key": ["n"]},
            {"name": "totals", "system": "shop", "partitions": 2, "key": ["customer"]},
            {"name": "windows", "system": "shop", "partitions": 2, "key": ["customer"]},
            {"name": "sessions", "system": "shop", "partitions": 2, "key": ["customer"]},
            {"name": "singles", "system": "shop", "partitions": 2, "key": ["customer"]},
            {"name": "closings", "system": "shop", "partitions": 2, "key": ["customer"]},
            {"name": "notes", "system": "shop", "partitions": 2, "key": ["n"], "schema": "n BIGINT, note STRING"},
            {"name": "people", "system": "shop", "partitions": 2, "key": ["customer"], "schema": PERSON},
            {"name": "described", "system": "shop", "partitions": 2, "key": ["n"]},
        ],
        "tables": [
            {"name": "note", "sources": ["notes"], "key": ["n"]},
            {"name": "person", "sources": ["people"], "key": ["customer"], "distribution": "Broadcast"},
        ],
        "steps": [
            {
                "name": "stamped",
                "from": ["orders"],
                "apply": {"function": "stamped:stamp", "schema": f"{ROW}, stamp STRING", "keeps": ["n", "customer"]},
            },
            {"name": "seen", "from": ["stamped"], "to": "stamps"},
            {"name": "moved", "from": ["stamped"], "repartition": {"by": ["customer"]}},
            {
                "name": "summed",
                "from": ["moved"],
                "process": {
                    "function": "stamped:total",
                    "by": ["customer"],
                    "schema": "kind STRING, customer STRING, n BIGINT, stamp STRING, total BIGINT, count BIGINT",
                    "keeps": ["customer"],
                },
            },
            {"name": "out", "from": ["summed"], "to": "totals"},
            {"name": "carried", "from": ["stamped"], "repartition": {"by": ["customer"]}},
            {
                "name": "counted",
                "from": ["carried"],
                "aggregate": {"by": ["customer"], "window": "10s", "compute": SUMS},
            },
            {"name": "windows-out", "from": ["counted"], "to": "windows"},
            {"name": "visits", "from": ["moved"], "aggregate": {"by": ["customer"], "session": "3s", "compute": SUMS}},
            {"name": "sessions-out", "from": ["visits"], "to": "sessions"},
            {"name": "once", "from": ["moved"], "deduplicate": {"by": ["customer", "n"], "within": "20s"}},
            {"name": "singles-out", "from": ["once"], "to": "singles"},
            {
                "name": "closed",
                "from": ["moved", "counted"],
                "join": {
                    "by": ["customer"],
                    "after": f"{CLOSING}s",
                    "type": "Left",
                    "select": ["customer", "left.n", "right.amount"],
                },
            },
            {"name": "closings-out", "from": ["closed"], "to": "closings"},
            {"name": "noted", "from": ["orders"], "lookup": {"table": "note", "by": ["n"]}},
            {
                "name": "named",
                "from": ["noted"],
                "lookup": {"table": "person", "by": ["customer"], "select": ["n", "note", "name"]},
            },
            {"name": "described-out", "from": ["named"], "to": "described"},
        ],
        "planning": {"intermediatePartitions": 3},
        "runtime": {"code": {"stamped": CODE}, "trigger": {"maxRecordsPerPartition": 6}},
    },
}

OFTEN = SnapshotPolicy(most_deltas=4, least_deltas=2, latest_deltas=0, bundled=0, most_bundles=2)
"""Snapshots, and bundles between them, within batches: so each of their steps comes."""


@dataclass(frozen=True)
class Fate:
    """How a process dies."""

    step: str | None = None
    occurrence: int = 1


def rows_of(seed: int, count: int) -> list[dict[str, Any]]:
    draw = random.Random(seed)  # noqa: S311
    return [
        {
            "n": n,
            "customer": f"customer-{draw.randrange(CUSTOMERS)}",
            "amount": draw.randrange(1, 100),
            "ts": BEGIN + timedelta(seconds=n),
        }
        for n in range(count)
    ]


def feed(driver: TestDriver, rows: list[dict[str, Any]]) -> None:
    """Write orders, and what they look up: notes of which some are changed and some deleted, and people."""
    notes = [{"n": row["n"], "note": "first"} for row in rows]
    driver.feed("notes", [*notes, *({"n": n, "note": "second"} for n in range(0, len(rows), 3))])
    for n in range(0, len(rows), 7):
        driver.feed_bytes("notes", [None], key=b"%d" % n)
    customers = [f"customer-{number}" for number in range(CUSTOMERS)]
    driver.feed(
        "people", [{"customer": customer, "name": name} for name in ("old", "older", "new") for customer in customers]
    )
    driver.feed("orders", rows)


def described(rows: list[dict[str, Any]]) -> list[tuple[int, str | None, str]]:
    """What orders find."""
    return [(n, None if n % 7 == 0 else "first" if n % 3 else "second", "new") for n in range(len(rows))]


def opened(directory: Path, fate: Fate | None = None) -> TestDriver:
    left = 0 if fate is None else fate.occurrence

    def at(step: str) -> None:
        nonlocal left
        if fate is None or step != fate.step:
            return
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    return TestDriver(APP, directory, slots=2, lab=Lab(at=at, snapshots=OFTEN))


def run(directory: Path, fate: Fate, ready: Connection) -> None:
    """Complete the app; few pairs make a commit, so that rows are put aside, and small runs a file."""
    vars(join)["_MOST_PAIRS"] = 3
    vars(shared_table)["_LARGE"] = 256
    with opened(directory, fate) as driver:
        ready.send("ready")
        complete(driver)


def complete(driver: TestDriver) -> None:
    """Go on to the end of the app; bells ring only while rows may still come."""
    _run_on(driver)
    driver.advance(10)
    _run_on(driver)
    driver.end("orders")
    _run_on(driver)
    assert driver.completed


def _run_on(driver: TestDriver) -> None:
    while driver.run():
        driver.advance(0.1)
