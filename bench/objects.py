"""What a slot's commit costs on an object store that takes its time, by how many tasks the slot has.

`python -m bench.objects [TASKS ...]`: a real S3 server, behind a proxy that passes each of its answers on after 20 ms.
Each task changes a key in a batch; the first batch, which looks for what an earlier attempt has left, and the median of
the hundred behind it. Then a task loses its disk, and is restored from all its deltas. The outputs go nowhere. Must not
know Spark.
"""

import os
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from holdfast_runtime.checkpoint.directories import storage_at
from holdfast_runtime.state.commit import TaskCommit, commit
from holdfast_runtime.state.durable.copy import DurableCopy
from holdfast_runtime.state.durable.restore import open_store
from holdfast_runtime.state.store.directory import StoreDirectory, TaskIdentity
from tests.api.proxy import Proxy
from tests.s3.gateway import CREDENTIALS, Gateway
from tests.state.places import InDeltas

DELAY = 0.02
BATCHES = 100
TASKS = (1, 5, 25)


def batches(directory: Path, location: str, conf: dict[str, str], tasks: int) -> tuple[list[float], float]:
    """Milliseconds of each batch of a slot with so many tasks, and of restoring one of them."""
    times = []
    with ExitStack() as stack:
        parts = []
        for number in range(tasks):
            identity = TaskIdentity("bench", str(tasks), f"partition-{number}")
            durable = DurableCopy(storage_at(location, conf), identity)
            opened = open_store(
                StoreDirectory(directory / f"{tasks}-{number}", identity, 1 << 24), durable, 1, 1, new=True
            )
            parts.append((stack.enter_context(opened.store), durable))
        for batch in range(1, BATCHES + 2):
            commits = [TaskCommit(store, durable, batch, goes_on=batch > 1) for store, durable in parts]

            def compute(stores: object, batch: int = batch) -> dict[str, dict[str, bytes]]:  # noqa: ARG001
                for store, _ in parts:
                    store.table("rows").put(b"key", b"%d" % batch)
                return {}

            began = time.perf_counter()
            commit(commits, 1, compute, lambda _, decided: decided(), InDeltas())
            times.append((time.perf_counter() - began) * 1000)
    durable = parts[0][1]
    began = time.perf_counter()
    elsewhere = StoreDirectory(directory / f"{tasks}-restored", durable.identity, 1 << 24)
    open_store(elsewhere, durable, BATCHES + 2, 1, new=False).store.close()
    return times, (time.perf_counter() - began) * 1000


def main() -> None:
    """Print a row for each number of tasks."""
    os.environ |= CREDENTIALS
    with (
        tempfile.TemporaryDirectory() as scratch,
        Gateway(Path(scratch, "s3")) as gateway,
        Proxy(int(gateway.address.rpartition(":")[2]), delay=DELAY) as proxy,
    ):
        bucket = gateway.bucket()
        conf = {**bucket.conf, "spark.hadoop.fs.s3a.endpoint": f"http://127.0.0.1:{proxy.port}"}
        what = "ms of the first batch, of the others, of restoring a task"
        print(f"{'tasks':>5}  {what}; {DELAY * 1000:.0f} ms an answer", flush=True)
        for tasks in map(int, sys.argv[1:] or TASKS):
            (first, *later), restored = batches(Path(scratch, "disk"), bucket.location, conf, tasks)
            print(f"{tasks:>5}  {first:.0f}  {statistics.median(later):.0f}  {restored:.0f}", flush=True)


if __name__ == "__main__":
    main()
