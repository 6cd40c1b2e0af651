"""What the durable copy of a large state costs that changes little: `python -m bench.snapshots`.

Batches of some random updates on 1 GB of state, one each 50 ms as slots have them that stay, with bundles and with
snapshots alone, each in a process of its own; what lasts is on a disk. Megabytes are those of all objects that were
written behind the first snapshot; CPU is that of the process and those that it starts; at the end the state is restored
from the copy, and compared.
"""

import argparse
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from bench.state import SIZES, TASK, filled, update
from holdfast_runtime.state.durable import snapshot_process, snapshot_thread
from holdfast_runtime.state.durable.copy import DurableCopy, SnapshotPolicy
from holdfast_runtime.state.durable.opening import open_store
from holdfast_runtime.state.durable.storage import DirectoryStorage
from holdfast_runtime.state.store.directory import StoreDirectory
from holdfast_runtime.state.store.task_store import TaskStore
from tests.waiting import wait_until

INTERVAL = 0.05
WAYS = {"bundles": SnapshotPolicy(), "snapshots alone": SnapshotPolicy(bundled=1 << 60)}


def measure(way: str, batches: int, updates: int, directory: Path) -> None:
    """Print a row."""
    policy, draw = WAYS[way], random.Random(7)
    disk = StoreDirectory(directory / "disk", TASK, 1 << 34)
    durable = DurableCopy(DirectoryStorage(directory / "copy", sync=False), TASK)
    objects = Path(durable.storage.directory)
    keys = [number.to_bytes(8, "big") for number in draw.sample(range(1 << 60), SIZES["1 GB"])]
    lasted, sizes = list[float](), dict[str, int]()
    with filled(disk, keys, draw) as store:
        durable.snapshot(store)
        first, cpu, start = _sizes(objects), _cpu(), store.head.batch + 1
        for number in range(start, start + batches):
            chosen, began = draw.sample(keys, updates), time.perf_counter()
            update(store, durable, policy, number, chosen)
            lasted.append((time.perf_counter() - began) * 1e3)
            sizes |= _sizes(objects)
            time.sleep(max(0.0, INTERVAL - (time.perf_counter() - began)))
        wait_until(lambda: _is_idle(store), 120, "what is written beside batches has ended")
        cpu = _cpu() - cpu
        last, content = store.head.batch, dict(store.table("rows").scan())
    shutil.rmtree(disk.path)
    began = time.perf_counter()
    with open_store(disk, durable, last + 1, 1, new=False).store as restored:
        took = time.perf_counter() - began
        if dict(restored.table("rows").scan()) != content:
            sys.exit("what was restored is not what was there")
    kinds = Counter[str]()
    for name, size in sizes.items() - first.items():
        kinds[name.partition("-")[0]] += size
    lasted.sort()
    written = " ".join(f"{kinds[kind] / 1e6:>10,.0f}" for kind in ("delta", "bundle", "snapshot"))
    times = f"{statistics.median(lasted):>8.1f} {lasted[-batches // 100 or -1]:>8.1f} {lasted[-1]:>8.1f}"
    print(f"{way:<16} {written} {cpu:>8.1f} {times} {took:>9.1f}")


def _sizes(objects: Path) -> dict[str, int]:
    sizes = dict[str, int]()
    for path in objects.iterdir():
        with suppress(FileNotFoundError):  # it was collected meanwhile
            sizes |= {} if path.name.startswith(".") else {path.name: path.stat().st_size}
    return sizes


def _is_idle(store: TaskStore) -> bool:
    threads = (write.thread for write in snapshot_thread._WRITES.values())  # noqa: SLF001
    snapshot_process.taken_in(store)
    return not any(thread.is_alive() for thread in threads) and not snapshot_process.is_under_way(store.directory)


def _cpu() -> float:
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def main() -> None:
    """Print a row per way."""
    parser = argparse.ArgumentParser(prog="python -m bench.snapshots", description=__doc__)
    parser.add_argument("--batches", type=int, default=2400)
    parser.add_argument("--updates", type=int, default=500, help="of a batch")
    parser.add_argument("--way", choices=WAYS, help="only this one, in this process")
    chosen = parser.parse_args()
    if chosen.way is not None:
        with tempfile.TemporaryDirectory() as directory:
            measure(chosen.way, chosen.batches, chosen.updates, Path(directory))
        return
    print(f"{chosen.batches} batches of {chosen.updates} updates on 1 GB")
    print(
        f"{'MB written in':<16} {'deltas':>10} {'bundles':>10} {'snapshots':>10} {'CPU s':>8} {'p50 ms':>8} "
        f"{'p99 ms':>8} {'most ms':>8} {'restore s':>9}",
        flush=True,
    )
    for way in WAYS:
        sizes = ["--batches", str(chosen.batches), "--updates", str(chosen.updates)]
        subprocess.run([sys.executable, "-m", "bench.snapshots", "--way", way, *sizes], check=True)  # noqa: S603


if __name__ == "__main__":
    main()
