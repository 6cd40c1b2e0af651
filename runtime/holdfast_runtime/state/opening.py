"""Why: the store a batch starts from, by the cheapest way that is right.

The local one if it can be trusted, else a restored one, else (for a task without any history) an empty one.

Must not make an empty store for a task that had state: the caller says whether it is the task's first batch.
"""

from dataclasses import dataclass

from holdfast_runtime.state.claim import Claim, claim
from holdfast_runtime.state.durable import DurableCopy
from holdfast_runtime.state.errors import (
    DeltaMissingError,
    EpochFencedError,
    StoreDamagedError,
    StoreDiskError,
)
from holdfast_runtime.state.left import file_stamp
from holdfast_runtime.state.place import StorePlace, read_sidecar
from holdfast_runtime.state.restoring import RestoredStore, restore
from holdfast_runtime.state.task_store import StoreHead, TaskStore
from holdfast_runtime.state.trust import Distrust, DistrustReason, ExpectedStore, StoreUse, TrustFacts, trust


@dataclass(frozen=True, slots=True)
class OpenedStore:
    """A store ready for `commit`, and why it is not the local one, if so."""

    store: TaskStore
    distrust: Distrust | None = None
    restored: RestoredStore | None = None


def open_store(place: StorePlace, durable: DurableCopy, batch: int, epoch: int, *, new: bool) -> OpenedStore:
    """The store for this batch; `new`: this is the task's first batch ever, it may have no durable copy."""
    expected = ExpectedStore(place.identity, batch, epoch, place.boot_id())
    held = claim(place)
    try:
        store, distrust = _local(place, durable, expected, held)
        if store is not None:
            return OpenedStore(store)
        restored = _restored(place, durable, batch, held)
        if restored is not None:
            return OpenedStore(restored.store, distrust, restored)
        if not new:
            message = (
                f"{place.identity} has no usable local store and no durable copy in {durable.storage.directory}, but "
                f"it had state before batch {batch}: put the checkpoint back, or start under a new spec.runId"
            )
            raise DeltaMissingError(message)
        return OpenedStore(TaskStore.create(place, batch - 1, held), distrust)
    except BaseException:
        held.release()
        raise


def _local(
    place: StorePlace, durable: DurableCopy, expected: ExpectedStore, held: Claim
) -> tuple[TaskStore | None, Distrust | None]:
    sidecar = read_sidecar(place)
    # Before the file is opened: one from before a power cut may hold anything.
    distrust = trust(TrustFacts(sidecar, use=StoreUse(held.left(), file_stamp(place.data_path))), expected)
    if distrust is not None:
        return None, distrust
    try:
        store = TaskStore(place, held)
    except (StoreDiskError, StoreDamagedError) as error:
        return None, Distrust(DistrustReason.UNREADABLE, str(error))
    copied = _copied(durable, store.head, expected.epoch)
    distrust = trust(TrustFacts(sidecar, store.head.batch, store.head.epoch, copied), expected)
    if distrust is None:
        return store, None
    store.discard()
    if distrust.reason is DistrustReason.NEWER_EPOCH:
        message = f"the local store of {place.identity}: {distrust.message}; this process must end"
        raise EpochFencedError(message)
    return None, distrust


def _copied(durable: DurableCopy, head: StoreHead, epoch: int) -> frozenset[int]:
    """By which attempts the durable copy has the store's batch; asked once in an attempt, for that costs a listing."""
    if head.epoch is None or head.epoch >= epoch:
        return frozenset()
    found = durable.listing()
    return frozenset(one.epoch for one in (*found.deltas, *found.snapshots) if one.batch == head.batch)


def _restored(place: StorePlace, durable: DurableCopy, batch: int, held: Claim) -> RestoredStore | None:
    found = durable.listing()
    deltas, snapshots = [one.batch for one in found.deltas], [one.batch for one in found.snapshots]
    if deltas and not snapshots and min(deltas) == batch:
        # The first batch of the task was written, but not committed here: nothing is before it.
        return RestoredStore(TaskStore.create(place, batch - 1, held), None, 0, ())
    return restore(durable, place, batch - 1, held)
