"""A process of its own that runs batches over two tasks, and can be killed: at a named step, or from outside.

`python worker.py DIRECTORY EPOCH LAST SEED [STEP OCCURRENCE]`. It goes on where the directory says the last batch was
done, opens or restores the stores, and keeps a toy output log: a file per output partition, each replaced as a whole,
in which a batch's marker tells that its rows are there. SEED `fixed` computes the same each time, any other does not.
"""

import json
import os
import pickle
import random
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast_runtime.checkpoint.directories import storage_at
from holdfast_runtime.shared_log import SharedLog
from holdfast_runtime.state.commit import TaskCommit, commit
from holdfast_runtime.state.durable.changelog.log_storage import LogStorage
from holdfast_runtime.state.durable.changelog.storage_beside import StorageBeside
from holdfast_runtime.state.durable.copy import DurableCopy, SnapshotPolicy
from holdfast_runtime.state.durable.opening import open_store
from holdfast_runtime.state.durable.restorable import keep_restorable
from holdfast_runtime.state.durable.storage import DirectoryStorage
from holdfast_runtime.state.store.delta import Delta
from holdfast_runtime.state.store.directory import StoreDirectory, TaskIdentity
from holdfast_runtime.state.store.task_store import TaskStore
from tests.forked import ForkedProcess
from tests.state.places import InDeltas

if TYPE_CHECKING:
    from tests.s3.gateway import Bucket

TASKS = ("partition-0", "partition-1")
EVERY = 4
BESIDE = {
    "process": SnapshotPolicy(most_deltas=4, least_deltas=2, beside=0),
    "thread": SnapshotPolicy(most_deltas=4, least_deltas=2, waited=0),
    "bundles": SnapshotPolicy(most_deltas=2, least_deltas=1, bundled=0, most_bundles=2),
    "bundles within": SnapshotPolicy(most_deltas=1, least_deltas=1, latest_deltas=0, bundled=0, most_bundles=2),
}
"""Who writes every snapshot and bundle, where the directory has a file `beside` that names it."""
QUOTA = 1 << 26
Row = list[object]


def identity(task: str) -> TaskIdentity:
    return TaskIdentity("ad-clicks", "1", task)


def store_directory(directory: Path, task: str) -> StoreDirectory:
    return StoreDirectory(directory / "disk" / task, identity(task), QUOTA, directory / "boot_id")


def durable(directory: Path, task: str, at: Callable[[str], None] = lambda _: None) -> DurableCopy:
    location = directory / "checkpoint.json"
    if location.exists():
        return DurableCopy(storage_at(**json.loads(location.read_text())), identity(task), at=at)
    storage = DirectoryStorage(directory / "checkpoint", sync=False)
    changelog = directory / "changelog.pickle"
    if changelog.exists():
        log = pickle.loads(changelog.read_bytes())  # noqa: S301 - of `prepare`
        return DurableCopy(StorageBeside(LogStorage(log), storage), identity(task), at=at)
    return DurableCopy(storage, identity(task), at=at)


def prepare(directory: Path, bucket: "Bucket | None" = None, changelog: SharedLog | None = None) -> None:
    (directory / "log").mkdir(parents=True)
    if changelog is not None:
        (directory / "changelog.pickle").write_bytes(pickle.dumps(changelog))
    if bucket is not None:
        (directory / "checkpoint.json").write_text(json.dumps({"location": bucket.location, "conf": bucket.conf}))
    (directory / "boot_id").write_text("first boot\n")


def last_done(directory: Path) -> int:
    """The last batch the driver knows to be done."""
    path = directory / "done"
    return int(path.read_text()) if path.exists() else -1


def log(directory: Path) -> dict[str, list[Row]]:
    """Per output partition its rows, each (batch, task, key, value)."""
    return {path.name: json.loads(path.read_text()) for path in sorted((directory / "log").iterdir())}


def replace(directory: Path, name: str, text: str) -> None:
    temporary = directory / "writing"
    temporary.write_text(text)
    temporary.replace(directory / name)


def compute(batch: int, seed: str) -> Callable[[Sequence[TaskStore]], Mapping[str, Mapping[str, bytes]]]:
    """Add something to some counters, remove one, and send out what was written."""

    def run(stores: Sequence[TaskStore]) -> Mapping[str, Mapping[str, bytes]]:
        results: dict[str, Mapping[str, bytes]] = {}
        for store in stores:
            draw = random.Random(f"{batch} {store.task}") if seed == "fixed" else random.Random()  # noqa: S311
            table, rows = store.table("counters"), []
            keys = [b"key-%02d" % ((batch * 7 + n * 3) % 23) for n in range(6)]
            for key, old in zip(keys, table.get_many(keys), strict=True):
                value = (0 if old is None else int(old)) + draw.randrange(1, 1000)
                table.put(key, b"%d" % value)
                rows.append([batch, store.task, key.decode(), value])
            removed_key = b"key-%02d" % (batch % 23)
            table.delete(removed_key)
            rows.append([batch, store.task, removed_key.decode(), None])
            store.offsets.put(b"clicks/0", b"%d" % batch)
            results[store.task] = {f"out-{n}": json.dumps(rows[n::2]).encode() for n in range(2)}
        return results

    return run


def outputs(directory: Path, at: Callable[[str], None]) -> Callable[[Sequence[Delta], Callable[[], None]], None]:
    """Commit each partition by itself; a marker that is there already is left alone."""

    def publish(deltas: Sequence[Delta], decided: Callable[[], None]) -> None:
        decided()
        for partition in ("out-0", "out-1"):
            path = directory / "log" / partition
            rows = json.loads(path.read_text()) if path.exists() else []
            markers = {(row[0], row[1]) for row in rows}
            for delta in deltas:
                if (delta.batch, delta.identity.task) not in markers:
                    rows += json.loads(delta.outputs[partition])
            replace(directory, f"log/{partition}", json.dumps(rows))
            at("partition committed")

    return publish


def run(directory: Path, epoch: int, last: int, seed: str, at: Callable[[str], None]) -> None:
    """All batches that are not done."""
    beside = directory / "beside"
    policy = BESIDE[beside.read_text()] if beside.exists() else None
    for batch in range(last_done(directory) + 1, last + 1):
        parts: list[TaskCommit] = []
        for task in TASKS:
            copy = durable(directory, task, at)
            opened = open_store(store_directory(directory, task), copy, batch, epoch, new=batch == 0)
            parts.append(TaskCommit(opened.store, copy, batch))
        commit(parts, epoch, compute(batch, seed), outputs(directory, at), InDeltas(), at)
        for part in parts:
            if policy is not None:
                keep_restorable(part.store, part.durable, policy, epoch)
            elif batch % EVERY == EVERY - 1:
                part.durable.snapshot(part.store)
                part.durable.collect()
            part.store.close()
        replace(directory, "done", str(batch))
        at("batch done")


def start(directory: Path, *arguments: object) -> ForkedProcess:
    """A process that runs batches; arguments as of `main`."""
    return ForkedProcess(main, directory, *arguments)


def main(directory: Path, epoch: int, last: int, seed: str, fatal: str = "", occurrence: int = 0) -> None:
    hits = 0

    def at(step: str) -> None:
        nonlocal hits
        hits += step == fatal
        if step == fatal and hits == occurrence:
            os.kill(os.getpid(), signal.SIGKILL)
        if not fatal:
            os.write(1, step.encode() + b"\n")

    run(directory, epoch, last, seed, at)
