"""What state costs on this disk: a batch of updates, opening, snapshot and restore, beside what they are made of.

`python -m bench.state [--large | --beside | --within]` (1 MB and 100 MB of state; with --large also 1 GB; with --beside
and --within the times of batches on 1 GB, with snapshots written beside them or within). Medians; MB are 10^6 bytes of
keys and values. The update row is one batch of 20 000 random keys: read, write, undo, commit; each figure is printed
after what was read back was compared with what was written.
"""

import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import lmdb

from holdfast_runtime.state.commit import TaskCommit, commit
from holdfast_runtime.state.durable.copy import DurableCopy, SnapshotPolicy
from holdfast_runtime.state.durable.opening import open_store
from holdfast_runtime.state.durable.restorable import keep_restorable
from holdfast_runtime.state.durable.storage import DirectoryStorage
from holdfast_runtime.state.store.delta import pack_delta
from holdfast_runtime.state.store.directory import StoreDirectory, TaskIdentity
from holdfast_runtime.state.store.task_store import TaskStore
from tests.state.places import InDeltas

RUNS = 7
TASK = TaskIdentity("bench", "1", "partition-0")
UPDATES = 20_000
CHUNK = 200_000
SIZES = {"1 MB": 9_250, "100 MB": 925_000, "1 GB": 9_250_000}
"""Rows of 8 + 100 bytes."""


def seconds(call: Callable[[], object]) -> float:
    """Of one call."""
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def median(call: Callable[[], object], runs: int = RUNS) -> float:
    """Of some calls."""
    return statistics.median(seconds(call) for _ in range(runs))


def value(draw: random.Random) -> bytes:
    """Half of it says something: state compresses, but not to nothing."""
    return draw.randbytes(50) + b"x" * 50


def filled(store_directory: StoreDirectory, keys: list[bytes], draw: random.Random) -> TaskStore:
    """A store with these keys."""
    store = TaskStore.create(store_directory, -1)
    for start in range(0, len(keys), CHUNK):
        store.begin(store.head.batch + 1, 1)
        part = keys[start : start + CHUNK]
        store.table("rows").put_many(part, [value(draw) for _ in part])
        store.commit()
    return store


def updates(store: TaskStore, keys: list[bytes], draw: random.Random) -> float:
    """Seconds of a batch that reads and writes some keys."""

    def batch() -> None:
        store.begin(store.head.batch + 1, 1)
        table = store.table("rows")
        old = table.get_many(chosen)
        table.put_many(chosen, [(one or b"")[::-1] for one in old])
        store.commit()

    times = []
    for _ in range(RUNS):
        chosen = draw.sample(keys, min(UPDATES, len(keys)))
        store.begin(store.head.batch + 1, 1)
        before = store.table("rows").get_many(chosen)
        times.append(seconds(batch))
        store.begin(store.head.batch + 1, 1)
        if store.table("rows").get_many(chosen) != [(one or b"")[::-1] for one in before]:
            sys.exit("what was read is not what was written")
    return statistics.median(times)


def plain(directory: Path, keys: list[bytes], draw: random.Random) -> float:
    """The same keys with bare LMDB: getmulti and putmulti in key order, no undo, no overlay: the floor."""
    with lmdb.open(str(directory), map_size=1 << 34, sync=False, metasync=False, lock=False) as env:
        with env.begin(write=True) as txn:
            txn.cursor().putmulti([(key, bytes(100)) for key in sorted(keys)], append=True)
        times = []
        for _ in range(RUNS):
            chosen = sorted(draw.sample(keys, min(UPDATES, len(keys))))
            started = time.perf_counter()
            with env.begin(write=True) as txn:
                rows = txn.cursor().getmulti(chosen)
                txn.cursor().putmulti([(key, old[::-1]) for key, old in rows])
            times.append(time.perf_counter() - started)
    return statistics.median(times)


def deltas(durable: DurableCopy, store: TaskStore, keys: list[bytes], draw: random.Random) -> float:
    """Seconds to write the delta of a batch of updates."""
    times = []
    for _ in range(RUNS):
        chosen = draw.sample(keys, min(UPDATES, len(keys)))
        store.begin(store.head.batch + 1, 1)
        store.table("rows").put_many(chosen, [value(draw) for _ in chosen])
        times.append(seconds(lambda: durable.write_delta(pack_delta(store.delta()))))
        store.commit()
    return statistics.median(times)


def reopened(store_directory: StoreDirectory, durable: DurableCopy, batch: int) -> None:
    """Open a valid local store, read where it stands, and close it."""
    with open_store(store_directory, durable, batch, 1, new=False).store as store:
        store.begin(batch, 1)


def measure(name: str, rows: int, directory: Path) -> None:
    """Print a row."""
    draw = random.Random(7)
    store_directory = StoreDirectory(directory / "disk", TASK, 1 << 34)
    durable = DurableCopy(DirectoryStorage(directory / "checkpoint", sync=False), TASK)
    synced = DurableCopy(DirectoryStorage(directory / "synced"), TASK)
    keys = [number.to_bytes(8, "big") for number in draw.sample(range(1 << 60), rows)]
    store = filled(store_directory, keys, draw)
    update, floor = updates(store, keys, draw), plain(directory / "plain", keys, draw)
    unsynced_delta, synced_delta = deltas(durable, store, keys, draw), deltas(synced, store, keys, draw)
    snapshot = median(lambda: durable.snapshot(store), 3)
    size = rows * 108 / 1e6
    content = dict(store.table("rows").scan())
    last = store.head.batch
    store.close()
    opening = median(lambda: reopened(store_directory, durable, last + 1), 50)

    def restore() -> None:
        shutil.rmtree(store_directory.path)
        started = time.perf_counter()
        opened = open_store(store_directory, durable, last + 1, 1, new=False)
        times.append(time.perf_counter() - started)
        with opened.store as restored:
            if dict(restored.table("rows").scan()) != content:
                sys.exit("what was restored is not what was there")

    times: list[float] = []
    for _ in range(3):
        restore()
    count = min(UPDATES, rows)
    print(
        f"{name:>7} {update * 1e3:>9.1f} {count / update / 1e3:>8.0f} {floor * 1e3:>9.1f} {unsynced_delta * 1e3:>9.1f} "
        f"{synced_delta * 1e3:>9.1f} {opening * 1e3:>8.2f} {snapshot * 1e3:>9.0f} {size / snapshot:>8.0f} "
        f"{statistics.median(times) * 1e3:>9.0f} {size / statistics.median(times):>8.0f}"
    )


def update(store: TaskStore, durable: DurableCopy, policy: SnapshotPolicy, number: int, keys: list[bytes]) -> None:
    """Commit a batch that changes these keys, and take what is due."""

    def compute(_: object) -> dict[str, dict[str, bytes]]:
        table = store.table("rows")
        table.put_many(keys, [(old or b"")[::-1] for old in table.get_many(keys)])
        return {}

    commit([TaskCommit(store, durable, number)], 1, compute, lambda _, decided: decided(), InDeltas())
    keep_restorable(store, durable, policy, 1)


def batches(directory: Path, policy: SnapshotPolicy) -> None:
    """Print how long batches take on a store of 1 GB, in which snapshots are due."""
    draw = random.Random(7)
    store_directory, durable = (
        StoreDirectory(directory / "disk", TASK, 1 << 34),
        DurableCopy(DirectoryStorage(directory, sync=False), TASK),
    )
    keys = [number.to_bytes(8, "big") for number in draw.sample(range(1 << 60), SIZES["1 GB"])]
    with filled(store_directory, keys, draw) as store:
        first = store.head.batch + 1

    def batch(number: int) -> None:
        with TaskStore.open(store_directory) as store:
            update(store, durable, policy, number, chosen)

    times = []
    for number in range(first, first + 110):
        chosen = draw.sample(keys, 5000)
        times.append(seconds(lambda number=number: batch(number)) * 1e3)  # type: ignore[misc]
        time.sleep(0.2)
    times.sort()
    print(f"median {statistics.median(times):.0f} ms, p99 {times[-2]:.0f} ms, most {times[-1]:.0f} ms")


def main() -> None:
    """Print a row per size."""
    if "--beside" in sys.argv or "--within" in sys.argv:
        with tempfile.TemporaryDirectory() as directory:
            batches(
                Path(directory),
                SnapshotPolicy() if "--beside" in sys.argv else SnapshotPolicy(waited=1 << 60, beside=1 << 60),
            )
        return
    print(
        f"{'state':>7} {'batch ms':>9} {'k upd/s':>8} {'floor ms':>9} {'delta ms':>9} {'+sync ms':>9} {'open ms':>8} "
        f"{'snap ms':>9} {'MB/s':>8} {'rest. ms':>9} {'MB/s':>8}"
    )
    for name, rows in SIZES.items():
        if name != "1 GB" or "--large" in sys.argv:
            with tempfile.TemporaryDirectory() as directory:
                measure(name, rows, Path(directory))


if __name__ == "__main__":
    main()
