"""Snapshots of stores that are not large, each packed and written by a thread beside later batches.

The thread reads one commit, whatever batches commit meanwhile, and packs it into memory before it writes: however slow
its storage is, pages are kept for no longer than packing takes, and whoever closes the store waits for no longer. What
came of it is known to this process alone: if it dies, a snapshot is due as before. Must not change the store.
"""

import threading
from contextlib import suppress
from pathlib import Path

from holdfast.errors import HoldfastError
from holdfast_runtime.state.durable.copy import DurableCopy
from holdfast_runtime.state.durable.snapshot import snapshot_chunks
from holdfast_runtime.state.store.task_store import TaskStore

MOST = 8
"""Snapshots of this process that are held in memory."""
_WRITES: dict[Path, "_SnapshotWrite"] = {}


class _SnapshotWrite:
    """One snapshot, from when it is packed until its outcome is taken in."""

    def __init__(self, store: TaskStore, durable: DurableCopy, epoch: int) -> None:
        self.head = store.head
        self.size: int | None = None
        """Set when the snapshot is durable."""
        # Without the hook of tests, which raises in the batch that it lets die.
        self._durable, self._epoch = DurableCopy(durable.root, durable.identity), epoch
        self._state = store.frozen()
        self.thread = threading.Thread(target=self._write, name="snapshot", daemon=True)
        try:
            self.thread.start()
        except BaseException:
            self._state.release()
            raise

    def _write(self) -> None:
        # The batch that takes the snapshot itself meets what is in the way, and reports it.
        with suppress(HoldfastError):
            with self._state as state:
                packed = list(snapshot_chunks(self._durable.identity, self.head, state.copy_to))
            self.size = self._durable.write_snapshot(self.head, (chunk for chunk in packed), self._epoch)
            self._durable.collect()


def begin(store: TaskStore, durable: DurableCopy, epoch: int) -> None:
    """Begin the snapshot of the store's last commit, unless one of the task is under way, or too many are."""
    path = store.directory.path
    if path not in _WRITES and sum(write.thread.is_alive() for write in _WRITES.values()) < MOST:
        _WRITES[path] = _SnapshotWrite(store, durable, epoch)


def taken_in(store: TaskStore) -> bool:
    """Note a snapshot that was written beside the last batches; return whether one came to nothing."""
    write = _WRITES.get(store.directory.path)
    if write is None or write.thread.is_alive():
        return False
    del _WRITES[store.directory.path]
    if write.size is None:
        return True
    store.noted_snapshot(write.head.batch, write.size, write.head.delta_bytes)
    return False
