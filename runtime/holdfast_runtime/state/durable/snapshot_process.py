"""Snapshots of large stores, written by a process of their own beside later batches.

A batch must not wait for seconds because the state is large. LMDB keeps the pages of a read transaction as long as its
reader is in the lock file, whoever commits meanwhile: so the process reads one commit, while any worker runs batches.
Until it ends, pages are not used again and the file grows, so it gives up when the store has doubled or may fill its
quota. How far it came stands in a note beside the store, for whichever process has the task's next batch: that one
takes in what was written, and takes the snapshot itself if this one came to nothing, and so meets what was in the way.
One process at a time per location, by a lock; it dies with the worker that began it. Must not write to the store, and
must not trust it: what is there may be replaced at any time.
"""

import ctypes
import fcntl
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import closing, suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NoReturn

import lmdb

from holdfast_runtime.lmdb_file import FileDamagedError, check_metas
from holdfast_runtime.sealed_json import sealed, unsealed
from holdfast_runtime.state.durable.copy import DurableCopy
from holdfast_runtime.state.durable.snapshot import snapshot_chunks
from holdfast_runtime.state.durable.storage import Storage
from holdfast_runtime.state.errors import CheckpointUnavailableError, EpochFencedError
from holdfast_runtime.state.store.directory import StoreDirectory, read_sidecar
from holdfast_runtime.state.store.environment import DATABASES, typed_store_errors
from holdfast_runtime.state.store.store_head import stored_head
from holdfast_runtime.state.store.task_store import TaskStore

DEADLINE = 600.0
"""Seconds after which a snapshot gives up: its storage may be stuck."""
_LOOK, _GRACE = 0.1, 2.0
_GROWTH = 64 << 20
"""Bytes a store may grow meanwhile, however small it is."""
_DIE_WITH_PARENT = 1
_NOTE, _LOCK = "snapshot.json", ".snapshot.lock"
_BEGUN: list[subprocess.Popen[bytes]] = []


class SnapshotStage(StrEnum):
    """How far a snapshot has come."""

    RUNNING = "running"
    DONE = "done"
    GAVE_UP = "gave up"
    """It came to nothing, and the next batch takes it itself."""


@dataclass(frozen=True, slots=True)
class SnapshotOrder:
    """What the process has to know."""

    directory: StoreDirectory
    root: Storage
    epoch: int
    """The attempt that asks."""
    parent: int


def taken_in(store: TaskStore) -> bool:
    """Act on the note of an earlier snapshot; return whether it came to nothing."""
    # Those that have ended are waited for here, or they would stay as zombies.
    _BEGUN[:] = [process for process in _BEGUN if process.poll() is None]
    directory = store.directory
    note = _read(directory)
    if note.get("stage") == SnapshotStage.RUNNING:
        lock = _locked(directory)
        if lock is None:
            return False
        os.close(lock)
        note = _read(directory)
    if not note:
        return False
    with typed_store_errors(directory):
        (directory.path / _NOTE).unlink(missing_ok=True)
    if note.get("stage") == SnapshotStage.DONE:
        store.noted_snapshot(note["batch"], note["size"], note["deltas"])
    # A note that says it is running, though nobody has the lock, is that of a process that was killed.
    return note.get("stage") in (SnapshotStage.RUNNING, SnapshotStage.GAVE_UP)


def is_under_way(directory: StoreDirectory) -> bool:
    """Whether a snapshot is written, or has ended and was not taken in yet."""
    return bool(_read(directory))


def begin(order: SnapshotOrder) -> None:
    """Start the process, unless one is at work at this location."""
    lock = _locked(order.directory)
    if lock is None:
        return
    try:
        with typed_store_errors(order.directory):
            _write(order.directory, SnapshotStage.RUNNING)
        # The process inherits the lock, and so has it as long as it lives.
        process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", __name__], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, pass_fds=(lock,)
        )
        _BEGUN.append(process)
        assert process.stdin is not None  # noqa: S101 - it is a pipe
        with suppress(BrokenPipeError), process.stdin as pipe:
            pipe.write(pickle.dumps(order))
    finally:
        os.close(lock)


def _locked(directory: StoreDirectory) -> int | None:
    """Take the lock of the location; None if a process has it."""
    with typed_store_errors(directory):
        descriptor = os.open(directory.path.with_name(_LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def _read(directory: StoreDirectory) -> dict[str, Any]:
    try:
        return unsealed((directory.path / _NOTE).read_text())
    except (OSError, ValueError):
        return {}


def _write(directory: StoreDirectory, stage: SnapshotStage, **more: object) -> None:
    temporary = directory.path / f"{_NOTE}.writing"
    temporary.write_text(sealed({"stage": stage, **more}))
    temporary.replace(directory.path / _NOTE)


class _GaveUpError(Exception):
    """The snapshot is not worth its cost any longer."""


class _Limits:
    """Watches what the open snapshot costs, also while its storage is stuck."""

    def __init__(self, env: lmdb.Environment, quota: int) -> None:
        self._env, self._page = env, env.stat()["psize"]
        used_before = self._used()
        self._most = min(2 * used_before + _GROWTH, quota - quota // 4)
        self.exceeded: str | None = None
        self.ended = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def _used(self) -> int:
        return (self._env.info()["last_pgno"] + 1) * self._page

    def _watch(self) -> None:
        looks = int(DEADLINE / _LOOK)
        for _ in range(looks):
            if self._used() > self._most:
                self.exceeded = f"the store has grown to {self._used():,} bytes"
                break
            if self.ended.wait(_LOOK):
                return
        else:
            self.exceeded = f"it took more than {DEADLINE:.0f} s"
        if not self.ended.wait(_GRACE):
            # Stuck in its storage. The pages are free when the process is gone.
            os._exit(1)

    def checked(self, chunks: Generator[bytes]) -> Generator[bytes]:
        """Yield the chunks as long as no limit is exceeded."""
        with closing(chunks):
            for chunk in chunks:
                if self.exceeded is not None:
                    raise _GaveUpError(self.exceeded)
                yield chunk


def write_snapshot(order: SnapshotOrder) -> None:
    """Write the snapshot of the store's last commit; the note tells what came of it."""
    try:
        _write(order.directory, SnapshotStage.DONE, **_written(order))
    except (
        *(_GaveUpError, CheckpointUnavailableError, EpochFencedError, FileDamagedError),
        *(lmdb.Error, OSError, ValueError),
    ) as error:
        # Who has the next batch uses the same store and location, and meets and reports what is wrong with them. What
        # was in the way may also be gone: a batch that could not wait collects what this one has begun to write.
        _write(order.directory, SnapshotStage.GAVE_UP, why=str(error))


def _written(order: SnapshotOrder) -> dict[str, int]:
    directory, durable = order.directory, DurableCopy(order.root, order.directory.identity)
    sidecar = read_sidecar(directory)
    if sidecar is None or sidecar.identity != directory.identity:
        message = "the store was dropped"
        raise _GaveUpError(message)
    check_metas(directory.data_path)
    # The whole quota is mapped: batches may make the file grow before the transaction begins.
    opened = lmdb.open(str(directory.path), map_size=directory.quota, readonly=True, max_dbs=DATABASES, readahead=False)
    with opened as env, env.begin() as txn:
        head, limits = stored_head(env, txn), _Limits(env, directory.quota)

        def copy(descriptor: int) -> None:
            env.copyfd(descriptor, compact=True, txn=txn)

        try:
            chunks = limits.checked(snapshot_chunks(directory.identity, head, copy))
            size = durable.write_snapshot(head, chunks, order.epoch)
        finally:
            limits.ended.set()
    durable.collect()
    return {"batch": head.batch, "size": size, "deltas": head.delta_bytes}


def main() -> NoReturn:
    """Do what the worker asks for on standard input."""
    order = pickle.load(sys.stdin.buffer)  # noqa: S301 - from the process that started this one
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    if os.getppid() == order.parent:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.nice(10)
        write_snapshot(order)
    sys.exit()


if __name__ == "__main__":
    main()
