"""When the snapshot of a task is due, and whether its batch waits for it. Must not know how one is written."""

import os

from holdfast_runtime.state.durable import snapshot_process, snapshot_thread
from holdfast_runtime.state.durable.copy import DurableCopy, SnapshotPolicy
from holdfast_runtime.state.store.task_store import TaskStore


def keep_restorable(store: TaskStore, durable: DurableCopy, policy: SnapshotPolicy, epoch: int) -> None:
    """Take a snapshot if one is due, and remove what it makes obsolete; called after a batch, with its store open."""
    # Both are asked: the store may have grown from one to the other.
    lost = [snapshot_process.taken_in(store), snapshot_thread.taken_in(store)]
    if not policy.due(store.head, store.task):
        return
    # Beside batches the file may grow to twice its size.
    fits = store.used() <= store.directory.quota // 2
    if any(lost) or not fits or policy.overdue(store.head):
        _wait_for(store, durable)
    elif store.used() >= policy.beside:
        snapshot_process.begin(snapshot_process.SnapshotOrder(store.directory, durable.root, epoch, os.getpid()))
    elif store.used() < policy.waited and durable.storage.at_once == 1:
        _wait_for(store, durable)
    else:
        snapshot_thread.begin(store, durable, epoch)


def _wait_for(store: TaskStore, durable: DurableCopy) -> None:
    durable.snapshot(store)
    durable.collect()
