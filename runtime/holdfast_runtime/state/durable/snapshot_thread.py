"""Snapshots of stores that are not large, and bundles of deltas of those that are, written by threads beside batches.

The thread of a snapshot reads one commit, whatever batches commit meanwhile, and packs it into memory before it writes:
however slow its storage is, pages are kept for no longer than packing takes, and whoever closes the store waits for no
longer. That of a bundle reads nothing of the store. What came of it is known to this process alone: if it dies, one is
due as before. Must not change the store.
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from pathlib import Path

from holdfast.errors import HoldfastError
from holdfast_runtime.state.durable.copy import DurableCopy
from holdfast_runtime.state.durable.snapshot import snapshot_chunks
from holdfast_runtime.state.store.environment import FrozenState
from holdfast_runtime.state.store.store_head import StoreHead
from holdfast_runtime.state.store.task_store import TaskStore

MOST = 8
"""Threads of this process that hold a snapshot or a bundle in memory."""
_WRITES: dict[Path, "_SnapshotWrite | _BundleWrite"] = {}


class WriteOutcome(Enum):
    """What has come of what was written beside the last batches."""

    NOTHING = "nothing"
    """Nothing was, or it goes on, or all is well."""
    NO_SNAPSHOT = "no snapshot"
    NO_BUNDLE = "no bundle"


class _SnapshotWrite:
    """One snapshot, from when it is packed until its outcome is taken in."""

    def __init__(self, store: TaskStore, durable: DurableCopy, epoch: int) -> None:
        self.head = store.head
        self._size: int | None = None
        """Set when the snapshot is durable."""
        state = store.frozen()
        try:
            self.thread = _started(lambda: self._write(state, durable, epoch))
        except BaseException:
            state.release()
            raise

    def _write(self, state: FrozenState, durable: DurableCopy, epoch: int) -> None:
        with state:
            packed = list(snapshot_chunks(durable.identity, self.head, state.copy_to))
        self._size = durable.write_snapshot(self.head, (chunk for chunk in packed), epoch)
        durable.collect()

    def take_in(self, store: TaskStore) -> WriteOutcome:
        """Note it, if there is one."""
        if self._size is None:
            return WriteOutcome.NO_SNAPSHOT
        store.noted_snapshot(self.head.batch, self._size, self.head.delta_bytes)
        return WriteOutcome.NOTHING


class _BundleWrite:
    """One bundle, until its outcome is taken in."""

    def __init__(self, store: TaskStore, durable: DurableCopy, epoch: int) -> None:
        self.head: StoreHead = store.head
        self._written: tuple[int, int] | None = None
        self.thread = _started(lambda: self._write(durable, epoch))

    def _write(self, durable: DurableCopy, epoch: int) -> None:
        self._written = durable.write_bundle(self.head, epoch)
        durable.collect()

    def take_in(self, store: TaskStore) -> WriteOutcome:
        """Note it, if there is one."""
        if self._written is None:
            return WriteOutcome.NO_BUNDLE
        store.noted_bundle(*self._written)
        return WriteOutcome.NOTHING


def _started(write: Callable[[], None]) -> threading.Thread:
    def run() -> None:
        # The batch that takes the snapshot itself meets what is in the way, and reports it.
        with suppress(HoldfastError):
            write()

    thread = threading.Thread(target=run, name="snapshot", daemon=True)
    thread.start()
    return thread


def begin_snapshot(store: TaskStore, durable: DurableCopy, epoch: int) -> None:
    """Begin the snapshot of the store's last commit, unless something of the task is written, or too much is."""
    if _may_begin(store):
        _WRITES[store.directory.path] = _SnapshotWrite(store, _without_hook(durable), epoch)


def begin_bundle(store: TaskStore, durable: DurableCopy, epoch: int) -> None:
    """Begin the bundle of the deltas up to the store's last commit, likewise."""
    if _may_begin(store):
        _WRITES[store.directory.path] = _BundleWrite(store, _without_hook(durable), epoch)


def _may_begin(store: TaskStore) -> bool:
    alive = sum(write.thread.is_alive() for write in _WRITES.values())
    return store.directory.path not in _WRITES and alive < MOST


def _without_hook(durable: DurableCopy) -> DurableCopy:
    """Return it without the hook of tests, which raises in the batch that it lets die."""
    return DurableCopy(durable.root, durable.identity)


def taken_in(store: TaskStore) -> WriteOutcome:
    """Note what was written beside the last batches; return what has come of it."""
    write = _WRITES.get(store.directory.path)
    if write is None or write.thread.is_alive():
        return WriteOutcome.NOTHING
    del _WRITES[store.directory.path]
    return write.take_in(store)
