"""Snapshots of small stores in an object store, each written by a thread beside later batches.

To pack a small store takes less time than a round trip, and is done while the batch has it open. To write the object
and to delete what it makes obsolete takes several, for which no batch waits. What came of it is known to this process
alone: if it dies, a snapshot is due as before. Must not use the store.
"""

import threading
from contextlib import suppress
from pathlib import Path

from holdfast_runtime.state.durable.copy import DurableCopy
from holdfast_runtime.state.durable.snapshot import snapshot_chunks
from holdfast_runtime.state.errors import CheckpointUnavailableError, EpochFencedError
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
        packed = list(snapshot_chunks(durable.identity, self.head, store.copy_to))
        self.thread = threading.Thread(target=self._write, args=(packed,), name="snapshot", daemon=True)
        self.thread.start()

    def _write(self, packed: list[bytes]) -> None:
        # The batch that takes the snapshot itself meets what is in the way, and reports it.
        with suppress(CheckpointUnavailableError, EpochFencedError):
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
