"""The stores that a batch starts from: local ones if they can be trusted, else restored ones, else empty ones.

Must not create an empty store for a task that had state: the caller says whether this is the task's first batch.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from threading import Semaphore

from holdfast.errors import UserActionError
from holdfast_runtime.state.durable.copy import READ_AHEAD, DurableCopy
from holdfast_runtime.state.durable.reading_ahead import read_ahead
from holdfast_runtime.state.durable.restore import RestoredStore, restore
from holdfast_runtime.state.errors import EpochFencedError, StoreDamagedError, StoreDiskError
from holdfast_runtime.state.store.directory import StoreDirectory, file_stamp, read_sidecar
from holdfast_runtime.state.store.environment import Claim, claim
from holdfast_runtime.state.store.store_head import StoreHead
from holdfast_runtime.state.store.task_store import TaskStore
from holdfast_runtime.state.store.trust import Distrust, DistrustReason, ExpectedStore, StoreUse, TrustFacts, trust

_AT_ONCE, _RESTORED_AT_ONCE = 16, 4
"""Stores of a slot that are opened, and of these restored, at once, where the storage's answers take their time."""


@dataclass(frozen=True, slots=True)
class OpenedStore:
    """A store ready for `commit`; if it is not the local one, also why."""

    store: TaskStore
    distrust: Distrust | None = None
    restored: RestoredStore | None = None


@dataclass(frozen=True, slots=True)
class StoreRequest:
    """A store that a batch needs."""

    directory: StoreDirectory
    durable: DurableCopy
    batch: int
    epoch: int
    new: bool
    """Whether it is the task's first batch ever, so that it may have no durable copy."""


def open_store(directory: StoreDirectory, durable: DurableCopy, batch: int, epoch: int, *, new: bool) -> OpenedStore:
    """Return one store, as `open_stores` does."""
    return open_stores([StoreRequest(directory, durable, batch, epoch, new)])[0]


def open_stores(requests: Sequence[StoreRequest]) -> list[OpenedStore]:
    """Return these stores. If one can't be opened, none stays open."""
    if not requests:
        return []
    at_once = min(_AT_ONCE, requests[0].durable.storage.at_once)
    # What was read ahead is in memory, of all that are restored at once.
    ahead = READ_AHEAD if len(requests) == 1 else READ_AHEAD // 2
    restoring = Semaphore(_RESTORED_AT_ONCE)
    with ExitStack() as stack:

        def opened(request: StoreRequest) -> OpenedStore:
            opened_store = _opened(request, restoring, ahead)
            stack.callback(opened_store.store.close)
            return opened_store

        opened_stores = [*read_ahead(requests, opened, at_once)]
        stack.pop_all()
    return opened_stores


def _opened(request: StoreRequest, restoring: Semaphore, ahead: int) -> OpenedStore:
    directory, durable = request.directory, request.durable
    expected = ExpectedStore(directory.identity, request.batch, request.epoch, directory.boot_id())
    store_claim = claim(directory)
    try:
        store, distrust = _local(directory, durable, expected, store_claim)
        if store is not None:
            return OpenedStore(store)
        with restoring:
            restored = _restored(request, store_claim, ahead)
        if restored is not None:
            return OpenedStore(restored.store, distrust, restored)
        if not request.new:
            message = (
                f"{directory.identity} has no usable local store and no durable copy in {durable.storage.directory}, "
                f"but it had state before batch {request.batch}: put the checkpoint back, or start under a new "
                f"spec.runId"
            )
            raise UserActionError(message, code="DeltaMissingError")
        return OpenedStore(TaskStore.create(directory, request.batch - 1, store_claim), distrust)
    except BaseException:
        store_claim.release()
        raise


def _local(
    directory: StoreDirectory, durable: DurableCopy, expected: ExpectedStore, store_claim: Claim
) -> tuple[TaskStore | None, Distrust | None]:
    sidecar = read_sidecar(directory)
    # Check before opening the file: one from before a power cut may contain anything.
    distrust = trust(TrustFacts(sidecar, use=StoreUse(store_claim.left(), file_stamp(directory.data_path))), expected)
    if distrust is not None:
        return None, distrust
    try:
        store = TaskStore(directory, store_claim)
    except (StoreDiskError, StoreDamagedError) as error:
        return None, Distrust(DistrustReason.UNREADABLE, str(error))
    copied = _copied(durable, store.head, expected.epoch)
    distrust = trust(TrustFacts(sidecar, store.head.batch, store.head.epoch, copied), expected)
    if distrust is None:
        return store, None
    store.discard()
    if distrust.reason is DistrustReason.NEWER_EPOCH:
        message = f"the local store of {directory.identity}: {distrust.message}; this process must end"
        raise EpochFencedError(message)
    return None, distrust


def _copied(durable: DurableCopy, head: StoreHead, epoch: int) -> frozenset[int]:
    """Return which attempts wrote the store's batch to the durable copy. Asked once per attempt: it costs a listing."""
    if head.epoch is None or head.epoch >= epoch:
        return frozenset()
    listing = durable.listing()
    return frozenset(named.epoch for named in (*listing.deltas, *listing.snapshots) if named.batch == head.batch)


def _restored(request: StoreRequest, store_claim: Claim, ahead: int) -> RestoredStore | None:
    listing = request.durable.listing()
    deltas, snapshots = [named.batch for named in listing.deltas], [named.batch for named in listing.snapshots]
    if deltas and not snapshots and min(deltas) == request.batch:
        # The task's first batch was written but not committed here; there is no state before it.
        return RestoredStore(TaskStore.create(request.directory, request.batch - 1, store_claim), None, 0, ())
    return restore(request.durable, request.directory, request.batch - 1, store_claim, ahead)
