"""What a slot's commit costs on an object store that takes its time, by how many tasks the slot has.

`python -m bench.objects [TASKS ...]`: a real S3 server, behind a proxy that passes each of its answers on after 20 ms.
Each task changes a key in a batch; the first batch, which looks for what an earlier attempt has left, and the median of
the hundred behind it. Then another attempt opens the stores; then all have lost their disks, and are restored from
their deltas; at last one task, from a snapshot of a large state. The outputs go nowhere. Must not know Spark.
"""

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from shutil import rmtree

from holdfast_runtime.checkpoint.directories import storage_at
from holdfast_runtime.state.commit import TaskCommit, commit
from holdfast_runtime.state.durable.copy import DurableCopy
from holdfast_runtime.state.durable.opening import StoreRequest, open_stores
from holdfast_runtime.state.store.directory import StoreDirectory, TaskIdentity
from holdfast_runtime.state.store.task_store import TaskStore
from tests.api.proxy import Proxy
from tests.s3.gateway import CREDENTIALS, Gateway
from tests.state.places import InDeltas

DELAY = 0.02
BATCHES = 100
TASKS = (1, 5, 25)
LARGE, ROW = 500_000, 1000
"""Rows of the large state, and bytes of each."""


@dataclass(frozen=True, slots=True)
class Copies:
    """Where a slot's tasks have their states."""

    disk: Path
    location: str
    conf: dict[str, str]

    def request(self, task: str, batch: int, epoch: int = 1) -> StoreRequest:
        """Return what a batch of a task needs."""
        identity = TaskIdentity("bench", "run", task)
        durable = DurableCopy(storage_at(self.location, self.conf), identity)
        disk = StoreDirectory(self.disk / task, identity, 1 << 30)
        return StoreRequest(disk, durable, batch, epoch, new=batch == 1)


def timed(requests: Sequence[StoreRequest]) -> float:
    """Return for how many milliseconds these stores are opened."""
    began = time.perf_counter()
    opened_stores = open_stores(requests)
    milliseconds = (time.perf_counter() - began) * 1000
    for opened in opened_stores:
        opened.store.close()
    return milliseconds


def batches(copies: Copies, tasks: Sequence[str]) -> list[float]:
    """Return the milliseconds of each batch of a slot with these tasks."""
    times, requests = [], [copies.request(task, 1) for task in tasks]
    stores = [opened.store for opened in open_stores(requests)]
    for batch in range(1, BATCHES + 2):
        commits = [
            TaskCommit(store, request.durable, batch, goes_on=batch > 1)
            for store, request in zip(stores, requests, strict=True)
        ]

        def compute(stores: Sequence[TaskStore], batch: int = batch) -> dict[str, dict[str, bytes]]:
            for store in stores:
                store.table("rows").put(b"key", b"%d" % batch)
            return {}

        began = time.perf_counter()
        commit(commits, 1, compute, lambda _, decided: decided(), InDeltas())
        times.append((time.perf_counter() - began) * 1000)
    for store in stores:
        store.close()
    return times


def of_a_slot(copies: Copies, count: int) -> None:
    """Print the figures of a slot with so many tasks."""
    tasks = [f"{count}-{number}" for number in range(count)]
    first, *later = batches(copies, tasks)
    taken_over = timed([copies.request(task, BATCHES + 2, epoch=2) for task in tasks])
    rmtree(copies.disk)
    restored = timed([copies.request(task, BATCHES + 2, epoch=2) for task in tasks])
    print(f"{count:>5} {first:>9.0f} {statistics.median(later):>9.0f} {taken_over:>13.0f} {restored:>9.0f}", flush=True)


def of_a_large_state(copies: Copies) -> None:
    """Print how long a large snapshot is written and restored."""
    request = copies.request("large", 1)
    with open_stores([request])[0].store as store:
        store.begin(1, 1)
        store.table("rows").put_many(
            [b"%09d" % number for number in range(LARGE)], [os.urandom(ROW) for _ in range(LARGE)]
        )
        store.commit()
        began = time.perf_counter()
        size = request.durable.snapshot(store)
        written = time.perf_counter() - began
    rmtree(copies.disk)
    restored = timed([copies.request("large", 2)]) / 1000
    print(f"a snapshot of {size / 1e6:.0f} MB: written in {written:.1f} s, restored in {restored:.1f} s", flush=True)


def _slow(port: int, parent: Connection) -> None:
    with Proxy(port, delay=DELAY) as proxy, suppress(EOFError):
        parent.send(proxy.port)
        parent.recv()


@contextmanager
def slow(port: int) -> Iterator[int]:
    """Give the port of a proxy that is a process of its own, so that it takes nothing of this one's time."""
    spawn = get_context("spawn")
    ours, childs = spawn.Pipe()
    process = spawn.Process(target=_slow, args=(port, childs))
    process.start()
    childs.close()
    try:
        yield ours.recv()
    finally:
        ours.close()
        process.join()


def main() -> None:
    """Print a row for each number of tasks, and one of a large state."""
    os.environ |= CREDENTIALS
    with (
        tempfile.TemporaryDirectory() as scratch,
        Gateway(Path(scratch, "s3")) as gateway,
        slow(int(gateway.address.rpartition(":")[2])) as port,
    ):
        bucket = gateway.bucket()
        conf = {**bucket.conf, "spark.hadoop.fs.s3a.endpoint": f"http://127.0.0.1:{port}"}
        copies = Copies(Path(scratch, "disk"), bucket.location, conf)
        print(f"milliseconds, where an answer comes {DELAY * 1000:.0f} ms later")
        print("tasks  1st batch  a batch    another attempt  restored", flush=True)
        for count in map(int, sys.argv[1:] or TASKS):
            of_a_slot(copies, count)
        of_a_large_state(copies)


if __name__ == "__main__":
    main()
