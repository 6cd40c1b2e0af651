"""When a snapshot or a bundle of a task is due, and whether a batch waits for it. Must not know how one is written."""

import os

from holdfast_runtime.state.durable import snapshot_process, snapshot_thread
from holdfast_runtime.state.durable.copy import DurableCopy, SnapshotPolicy
from holdfast_runtime.state.durable.snapshot_thread import WriteOutcome
from holdfast_runtime.state.store.task_store import TaskStore


def keep_restorable(store: TaskStore, durable: DurableCopy, policy: SnapshotPolicy, epoch: int) -> None:
    """Take what is due, and remove what it makes obsolete; called after a batch, with its store open."""
    # Both are asked: the store may have grown from one to the other.
    lost, outcome = snapshot_process.taken_in(store), snapshot_thread.taken_in(store)
    lost |= outcome is WriteOutcome.NO_SNAPSHOT
    if not policy.due(store.head, store.task):
        return
    # Behind a snapshot that is under way bundles would not begin where it ends.
    only_snapshot = lost or outcome is WriteOutcome.NO_BUNDLE or snapshot_process.is_under_way(store.directory)
    if policy.bundles(store.head) and not only_snapshot:
        if not policy.overdue(store.head):
            snapshot_thread.begin_bundle(store, durable, epoch)
            return
        if durable.bundle(store):
            durable.collect()
            return
    # Beside batches the file may grow to twice its size.
    fits = store.used() <= store.directory.quota // 2
    if lost or not fits or policy.overdue(store.head):
        _wait_for(store, durable)
    elif store.used() >= policy.beside:
        snapshot_process.begin(snapshot_process.SnapshotOrder(store.directory, durable.root, epoch, os.getpid()))
    elif store.used() < policy.waited and durable.storage.at_once == 1:
        _wait_for(store, durable)
    else:
        snapshot_thread.begin_snapshot(store, durable, epoch)


def _wait_for(store: TaskStore, durable: DurableCopy) -> None:
    durable.snapshot(store)
    durable.collect()
