"""Restoring a task's store from its durable copy.

It takes the newest snapshot that is not after the batch, then each bundle and delta up to it; each must be
computed on the state the one before left. A damaged snapshot is replaced by the one before, a damaged bundle by its
deltas, as long as they are there. A damaged or missing delta is not: the state after it would be wrong, and only a user
can choose to live without it. The store is declared whole as the last step, so that after a death at any point the next
try drops what is there. Must not delete anything in the durable copy.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import BinaryIO

from holdfast.errors import UserActionError
from holdfast_runtime.state.durable.copy import READ_AHEAD, DurableCopy
from holdfast_runtime.state.durable.reading_ahead import read_ahead
from holdfast_runtime.state.durable.snapshot import UNREADABLE_SNAPSHOT, unpack_snapshot
from holdfast_runtime.state.errors import (
    CheckpointUnavailableError,
    DeltaDamagedError,
    StoreDamagedError,
    StoreFullError,
)
from holdfast_runtime.state.store.delta import Delta
from holdfast_runtime.state.store.directory import (
    StoreDirectory,
    drop,
    drop_sidecar,
    make_directory,
    write_sidecar,
)
from holdfast_runtime.state.store.environment import Claim, claim, typed_store_errors
from holdfast_runtime.state.store.object_names import Listing, ObjectName
from holdfast_runtime.state.store.task_store import TaskStore

RESTORE_STEPS = ("old store dropped", "snapshot unpacked", "delta applied", "declared whole")


@dataclass(frozen=True, slots=True)
class RestoredStore:
    """A restored store and what it was made from."""

    store: TaskStore
    snapshot: str | None
    """Name of the snapshot; None if the task's first batches still existed as deltas."""
    deltas: int
    damaged: tuple[str, ...]
    """Snapshots that could not be read, with reasons. They must be reported: the next loss may find none readable."""


def restore(
    durable: DurableCopy,
    directory: StoreDirectory,
    batch: int,
    store_claim: Claim | None = None,
    ahead: int = READ_AHEAD,
) -> RestoredStore | None:
    """Build the local store as it was after this batch; return None if there is no durable copy at all.

    `ahead`: how many deltas are read at once, where an answer takes longer than a delta.
    """
    listing = durable.listing()
    if not listing.deltas and not listing.snapshots:
        return None
    store_claim = store_claim or claim(directory)
    try:
        return _Restoring(durable, directory, batch, store_claim, durable.at, ahead).run(listing)
    except BaseException:
        store_claim.release()
        raise


@dataclass(frozen=True, slots=True)
class _Restoring:
    durable: DurableCopy
    directory: StoreDirectory
    batch: int
    held: Claim
    at: Callable[[str], None]
    ahead: int
    refused: list[CheckpointUnavailableError] = field(default_factory=list)
    """The storage's errors for snapshots it did not deliver."""

    def run(self, listing: Listing) -> RestoredStore:
        damaged: list[str] = []
        snapshots = [named for named in listing.snapshots if named.batch <= self.batch]
        for snapshot in reversed([one for one in snapshots if listing.leads(one.batch, self.batch)] or snapshots):
            store = self._from(snapshot, damaged)
            if store is not None:
                return self._forward(store, listing, snapshot.name, damaged)
        if self.refused and len(self.refused) == len(damaged):
            raise self.refused[0]
        first = next(iter(listing.deltas), None)
        if first is None or first.batch > self.batch + 1 or not self._begins(first):
            raise UserActionError(self._no_snapshot(listing, damaged), code="NoUsableSnapshotError")
        return self._forward(TaskStore.create(self.directory, first.batch - 1, self.held), listing, None, damaged)

    def _from(self, snapshot: ObjectName, damaged: list[str]) -> TaskStore | None:
        path = self.durable.storage.path(snapshot.name)
        with typed_store_errors(self.directory):
            make_directory(self.directory)
            self.held.note(None)
        self.at("old store dropped")
        try:
            # The file first: an error of the local disk is none of the checkpoint, and has another cure.
            with self._data_file() as file, self.durable.storage.reading(snapshot.name) as read:
                unpack_snapshot(path, self.directory.identity, read, self._writer(file))
            self.at("snapshot unpacked")
            store = TaskStore(self.directory, self.held)
        except (*UNREADABLE_SNAPSHOT, StoreDamagedError) as error:
            damaged.append(str(error))
            return None
        except CheckpointUnavailableError as error:
            # The snapshot is gone, or the storage reports it damaged. If no snapshot can be read, the error is raised
            # at the end.
            self.refused.append(error)
            damaged.append(str(error))
            return None
        if (store.head.batch, store.head.epoch) != (snapshot.batch, snapshot.epoch):
            damaged.append(f"snapshot {path} holds the state after batch {store.head.batch}")
            store.discard()
            return None
        return store

    def _data_file(self) -> BinaryIO:
        with typed_store_errors(self.directory):
            return self.directory.data_path.open("wb")

    def _writer(self, file: BinaryIO) -> Callable[[bytes], None]:
        def write(piece: bytes) -> None:
            # Errors of the local disk are separated here from those of the checkpoint, which have other cures.
            with typed_store_errors(self.directory):
                file.write(piece)
                file.flush()

        return write

    def _forward(self, store: TaskStore, listing: Listing, snapshot: str | None, damaged: list[str]) -> RestoredStore:
        try:
            # A half-restored store is not usable, but the sidecar of an empty one would vouch for it.
            with typed_store_errors(self.directory):
                drop_sidecar(self.directory)
            start = store.head.batch
            if snapshot is not None:
                store.noted_snapshot(start, store.head.snapshot_bytes, store.head.delta_bytes)
            self._follow(store, listing, damaged)
            with typed_store_errors(self.directory):
                write_sidecar(self.directory)
            self.at("declared whole")
        except StoreFullError:
            store.discard()
            with typed_store_errors(self.directory):
                drop(self.directory)
            raise
        except BaseException:
            store.discard()
            raise
        return RestoredStore(store, snapshot, self.batch - start, tuple(damaged))

    def _follow(self, store: TaskStore, listing: Listing, damaged: list[str]) -> None:
        """Take the store to the batch, by bundles and deltas."""
        unusable = set[str]()
        while store.head.batch < self.batch:
            way = [*listing.way(store.head.batch, self.batch, unusable)]
            if not way:
                raise self._lost(store, f"the delta of batch {store.head.batch + 1} is missing", damaged)
            with closing(self._read(way)) as deltas:
                for named, delta in deltas:
                    why = str(delta) if isinstance(delta, DeltaDamagedError) else self._unfit(store, delta)
                    if why is not None and named.after is None:
                        raise self._lost(store, why, damaged)
                    if why is not None:
                        damaged.append(f"{self.durable.storage.path(named.name)}: {why}")
                        unusable.add(named.name)
                        break
                    assert isinstance(delta, Delta)  # noqa: S101 - a delta that can't be read is raised
                    self._apply(store, delta)
                    self.at("delta applied")

    def _read(self, way: Sequence[ObjectName]) -> Generator[tuple[ObjectName, Delta | DeltaDamagedError]]:
        """Yield what there is on this way, read ahead where an answer takes longer than its delta."""

        def read(named: ObjectName) -> Delta | DeltaDamagedError:
            try:
                return self.durable.read_delta(named, outputs=False)
            except DeltaDamagedError as error:
                if named.after is None:
                    raise
                return error

        with closing(read_ahead(way, read, min(self.durable.storage.at_once, self.ahead))) as deltas:
            yield from zip(way, deltas, strict=True)

    def _unfit(self, store: TaskStore, delta: Delta) -> str | None:
        if delta.base == store.head.epoch:
            return None
        what = f"the delta of batch {delta.batch}" if delta.after is None else "it"
        bases = f"of attempt {delta.base}, where the state is of attempt {store.head.epoch}"
        return f"{what} was computed on the state {bases}"

    def _apply(self, store: TaskStore, delta: Delta) -> None:
        store.begin(delta.batch, delta.epoch, after=delta.after)
        store.load(delta)
        store.commit(delta.size)
        if delta.after is not None:
            store.noted_bundle(delta.batch, delta.size)

    def _lost(self, store: TaskStore, why: str, damaged: Sequence[str]) -> UserActionError:
        message = (
            f"the durable copy of {self.directory.identity} in {self.durable.storage.directory} can't be followed from "
            f"batch {store.head.batch} to {self.batch}: {'; '.join([why, *damaged])}. Put the object back from a copy "
            f"of the checkpoint location, or start with empty state under a new spec.runId"
        )
        return UserActionError(message, code="DeltaMissingError")

    def _begins(self, first: ObjectName) -> bool:
        return self.durable.read_delta(first, outputs=False).base is None

    def _no_snapshot(self, listing: Listing, damaged: list[str]) -> str:
        names = ", ".join(snapshot.name for snapshot in listing.snapshots) or "none"
        return (
            f"{self.directory.identity} can't be restored to batch {self.batch}: no snapshot in "
            f"{self.durable.storage.directory} leads there (snapshots: {names}"
            + "".join(f"; {sentence}" for sentence in damaged)
            + "). Put the objects back from a copy of the checkpoint location, or start with empty state under a new "
            "spec.runId"
        )
