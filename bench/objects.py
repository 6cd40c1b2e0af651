"""What a slot's commit costs on an object store that takes its time, by how many tasks the slot has.

`python -m bench.objects [TASKS ...]`: a real S3 server, behind a relay that passes each of its answers on after 20 ms.
Each task changes a key in a batch; the first batch, which looks for what an earlier attempt has left, and the median of
the twenty behind it. The outputs go nowhere. Must not know Spark.
"""

import asyncio
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from holdfast_runtime.checkpoint.directories import storage_at
from holdfast_runtime.state.commit import TaskCommit, commit
from holdfast_runtime.state.durable.copy import DurableCopy
from holdfast_runtime.state.durable.restore import open_store
from holdfast_runtime.state.store.directory import StoreDirectory, TaskIdentity
from tests.s3.gateway import CREDENTIALS, Gateway

DELAY = 0.02
BATCHES = 20
TASKS = (1, 5, 25)
_PIECE = 1 << 16


@contextmanager
def delayed(address: str) -> Iterator[str]:
    """An address where the answers of this one come later."""
    host, port = address.split(":")
    loop, ready, addresses = asyncio.new_event_loop(), threading.Event(), list[str]()

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay: float) -> None:
        with suppress(ConnectionError):
            while piece := await reader.read(_PIECE):
                await asyncio.sleep(delay)
                writer.write(piece)
                await writer.drain()
        writer.close()

    async def relayed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers, requests = await asyncio.open_connection(host, int(port))
        await asyncio.gather(pass_on(reader, requests, 0.0), pass_on(answers, writer, DELAY))

    async def serve() -> None:
        server = await asyncio.start_server(relayed, "127.0.0.1", 0)
        addresses.append(f"127.0.0.1:{server.sockets[0].getsockname()[1]}")
        ready.set()

    loop.create_task(serve())
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    ready.wait()
    try:
        yield addresses[0]
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


def batches(directory: Path, location: str, conf: dict[str, str], tasks: int) -> list[float]:
    """Milliseconds of each batch of a slot with so many tasks."""
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
            commit(commits, 1, compute, lambda _, decided: decided())
            times.append((time.perf_counter() - began) * 1000)
    return times


def main() -> None:
    """Print a row for each number of tasks."""
    os.environ |= CREDENTIALS
    with (
        tempfile.TemporaryDirectory() as scratch,
        Gateway(Path(scratch, "s3")) as gateway,
        delayed(gateway.address) as address,
    ):
        bucket = gateway.bucket()
        conf = {**bucket.conf, "spark.hadoop.fs.s3a.endpoint": f"http://{address}"}
        print(f"{'tasks':>5}  ms of the first batch, of the others; {DELAY * 1000:.0f} ms an answer", flush=True)
        for tasks in map(int, sys.argv[1:] or TASKS):
            first, *later = batches(Path(scratch, "disk"), bucket.location, conf, tasks)
            print(f"{tasks:>5}  {first:.0f}  {statistics.median(later):.0f}", flush=True)


if __name__ == "__main__":
    main()
