"""The state of a task, opened to be read: its local store if that can be trusted, else its durable copy, restored.

While an app may be at work on the local store, a copy of it is read. Whether the store is at the batch that a run would
need is not asked: what it committed last is shown. Must not write anything but in a temporary directory.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from holdfast.errors import UserActionError
from holdfast_runtime.state.durable.copy import DurableCopy
from holdfast_runtime.state.durable.restore import restore
from holdfast_runtime.state.store.directory import StoreDirectory, file_stamp, read_sidecar
from holdfast_runtime.state.store.environment import last_use_at
from holdfast_runtime.state.store.offline import OfflineStore, copy_store
from holdfast_runtime.state.store.trust import Distrust, ExpectedStore, StoreUse, TrustFacts, trust


@dataclass(frozen=True, slots=True)
class StateSource:
    """Where the state of a task is."""

    durable: DurableCopy
    local: StoreDirectory | None
    """None: only the durable copy is read."""
    changing: bool = False
    """Whether an app may be at work on the local store."""
    batch: int | None = None
    """The batch of the task after which a restored state is; None: the newest in the durable copy."""


@dataclass(frozen=True, slots=True)
class OpenedState:
    """The opened state of a task."""

    task: str
    store: OfflineStore
    source: str
    """`local` or `durable`."""
    why: str | None = None
    """Why the local store is not used."""
    damaged: tuple[str, ...] = ()
    """Unreadable snapshots, with reasons."""


@contextmanager
def opened_state(source: StateSource) -> Iterator[OpenedState]:
    """Open the state of a task. What was read is valid only if the block ends without an error."""
    store_directory, task = source.local, source.durable.identity.task
    distrust = None if store_directory is None else _distrust(store_directory, changing=source.changing)
    with TemporaryDirectory(prefix="holdfast-state-") as directory:
        if store_directory is not None and distrust is None:
            file = (
                copy_store(store_directory, Path(directory) / "copy.mdb")
                if source.changing
                else store_directory.data_path
            )
            with OfflineStore(store_directory, file) as store:
                yield OpenedState(task, store, "local")
                store.check()
            return
        store_directory, damaged = _restored(source, Path(directory), distrust)
        with OfflineStore(store_directory, store_directory.data_path) as store:
            yield OpenedState(task, store, "durable", None if distrust is None else distrust.reason.value, damaged)


def _distrust(store_directory: StoreDirectory, *, changing: bool) -> Distrust | None:
    expected = ExpectedStore(store_directory.identity, 0, sys.maxsize, store_directory.boot_id())
    use = None if changing else StoreUse(last_use_at(store_directory), file_stamp(store_directory.data_path))
    return trust(TrustFacts(read_sidecar(store_directory), use=use), expected)


def _restored(
    source: StateSource, directory: Path, distrust: Distrust | None
) -> tuple[StoreDirectory, tuple[str, ...]]:
    """Restore the durable copy; return the directory of the store, and snapshots that could not be read."""
    durable, path = source.durable, directory / "store"
    store_directory = (
        StoreDirectory(path, durable.identity) if source.local is None else replace(source.local, path=path)
    )
    listing = durable.listing()
    batches = [named.batch for named in (*listing.deltas, *listing.bundles, *listing.snapshots)]
    batch = max(batches, default=0) if source.batch is None else source.batch
    restored = restore(durable, store_directory, batch)
    if restored is None:
        because = "" if distrust is None else f", and its local store can't be used: {distrust.message}"
        message = (
            f"{durable.identity} has no durable copy in {durable.storage.directory}{because}; run the app once more"
        )
        raise UserActionError(message, code="UsageError")
    restored.store.close()
    return store_directory, restored.damaged
