"""The per-task LMDB store: tables, undo of one batch, offsets; one transaction moves it from batch to batch.

`begin` checks where the store stands, steps work on its tables, and `commit` writes rows, deletes, batch, epoch and the
undo of this batch together: killed at any point, the store is at the batch before or at this one. The undo takes it
back one batch, because Spark may run a batch again that was already committed here. Offsets and control bookkeeping are
ordinary tables, so they move, roll back and are copied with the rest. Must not be used by a process forked after it was
opened. Who keeps it open between batches keeps all other processes out.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from enum import Enum
from types import TracebackType
from typing import Self

from holdfast.errors import HoldfastError, RetrySoonError
from holdfast_runtime.lmdb_file import check_metas
from holdfast_runtime.state.errors import EpochFencedError
from holdfast_runtime.state.store.delta import Delta
from holdfast_runtime.state.store.directory import (
    LastUse,
    StoreDirectory,
    UsePhase,
    file_stamp,
    make_directory,
    write_sidecar,
)
from holdfast_runtime.state.store.environment import (
    Claim,
    Environment,
    FrozenState,
    WriteTransaction,
    claim,
    mark_damaged,
    typed_store_errors,
)
from holdfast_runtime.state.store.store_head import HEAD, StoreHead, head_of, put_head
from holdfast_runtime.state.store.table import StateTable, any_long, fold_key, fold_value

OFFSETS = ".offsets"
CONTROL = ".control"
OUTPUTS = ".outputs"
"""Names of tables that begin with a dot are reserved for Holdfast."""

_TABLE, _UNDO = b"table.", b"undo."
_LONGEST_NAME = 200


class CommittedBatch(Enum):
    """What to do with a batch that this store has already committed."""

    UNDO = "undo"
    KEEP = "keep"


class BatchWork(Enum):
    """What is left to do in a batch."""

    RUN = "run"
    KEPT = "kept"
    """The store already has this batch: its tables show the state after it, and `commit` writes nothing."""


class TaskStore:
    """The state of one task. Made by `create`, `open` or `restore`; a context manager that closes it."""

    def __init__(self, directory: StoreDirectory, store_claim: Claim) -> None:
        self.directory = directory
        self._claim = store_claim
        self._process = os.getpid()
        left = store_claim.left()
        self._deaths = 0 if left is None else left.unclosed
        if left is not None and left.phase is UsePhase.WRITING:
            # The last user died in a transaction, and LMDB itself does not verify the meta pages it trusts.
            with typed_store_errors(directory):
                check_metas(directory.data_path)
        self._note(UsePhase.READING)
        self._environment = Environment(directory)
        self._tables: dict[str, StateTable] = {}
        self._batch: tuple[int, int, BatchWork] | None = None
        try:
            self.head = self._read_head()
        except BaseException:
            self._environment.close()
            raise

    @classmethod
    def create(cls, directory: StoreDirectory, batch: int, store_claim: Claim | None = None) -> "TaskStore":
        """Create an empty store for a task whose first batch follows `batch`; an existing store is dropped."""
        store_claim = store_claim or claim(directory)
        try:
            with typed_store_errors(directory):
                make_directory(directory)
                store_claim.note(None)
            environment = Environment(directory)
            try:
                with environment.writing() as txn:
                    put_head(txn, StoreHead(batch, batch))
            finally:
                environment.close()
            with typed_store_errors(directory):
                write_sidecar(directory)
            return cls(directory, store_claim)
        except BaseException:
            store_claim.release()
            raise

    @classmethod
    def open(cls, directory: StoreDirectory, store_claim: Claim | None = None) -> "TaskStore":
        """Open the existing store. `durable.restore` decides whether it can be trusted, and restores it if not."""
        store_claim = store_claim or claim(directory)
        try:
            return cls(directory, store_claim)
        except BaseException:
            store_claim.release()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def task(self) -> str:
        """Name of the task."""
        return self.directory.identity.task

    @property
    def offsets(self) -> StateTable:
        """How far each stream partition is read; moves together with the rows."""
        return self.table(OFFSETS)

    @property
    def control(self) -> StateTable:
        """Entries of the watermark and end-of-stream bookkeeping: `control.put_many(*zip(*entries.items()))`."""
        return self.table(CONTROL)

    def table(self, name: str) -> StateTable:
        """Return a table by name; one that was never written to is empty and costs nothing."""
        state_table = self._tables.get(name)
        if state_table is None:
            if not 0 < len(name.encode()) <= _LONGEST_NAME:
                message = f"a state table can't be named {name!r}: use 1 to {_LONGEST_NAME} bytes"
                raise HoldfastError(message, code="StoreMisuseError")
            state_table = self._tables[name] = StateTable(name, self._environment)
        return state_table

    def tables(self) -> list[str]:
        """Return the tables that were ever written to."""
        stored = {name[len(_TABLE) :].decode() for name in self._environment.names() if name.startswith(_TABLE)}
        return sorted(stored | {name for name, table in self._tables.items() if table.changes()})

    def used(self) -> int:
        """Return the bytes of the quota in use."""
        return self._environment.used()

    def begin(
        self, batch: int, epoch: int, committed: CommittedBatch = CommittedBatch.UNDO, after: int | None = None
    ) -> BatchWork:
        """Start a batch, dropping what an unfinished one left in memory.

        `after`: the batch that the store is at, if many are loaded at once from a bundle. They can't be taken back.

        Raises `StoreRebuildError` if the store is at another batch, `EpochFencedError` if a newer attempt has used it.
        """
        self._check_process()
        self.abandon()
        if self.head.epoch is not None and self.head.epoch > epoch:
            message = (
                f"attempt {epoch} wants to run batch {batch} of {self.directory.identity}, but attempt "
                f"{self.head.epoch} has worked on its state: this process belongs to an older attempt and must end"
            )
            raise EpochFencedError(message)
        work = BatchWork.RUN
        if self.head.batch == batch:
            if committed is CommittedBatch.KEEP:
                work = BatchWork.KEPT
            else:
                self._undo()
        elif self.head.batch != (batch - 1 if after is None else after):
            raise RetrySoonError(self._not_at(batch), code="StoreRebuildError")
        self._batch = (batch, epoch, work)
        return work

    def delta(self, outputs: Mapping[str, bytes] | None = None, elsewhere: str | None = None) -> Delta:
        """Return what this batch changed, with its outputs: opaque bytes by name. `elsewhere`: what stores them."""
        batch, epoch, _ = self._running()
        changes = {name: rows for name, table in sorted(self._tables.items()) if (rows := table.changes())}
        withheld = elsewhere if outputs else None
        return Delta(self.directory.identity, batch, epoch, self.head.epoch, changes, outputs or {}, withheld)

    def load(self, delta: Delta) -> None:
        """Take this batch's changes from its delta instead of computing them."""
        batch, _, _ = self._running()
        if (delta.identity, delta.batch, delta.base) != (self.directory.identity, batch, self.head.epoch):
            message = (
                f"the delta of batch {delta.batch} of {delta.identity} was computed on a state of attempt "
                f"{delta.base}; it can't be applied in batch {batch} to the state of {self.directory.identity} of "
                f"attempt {self.head.epoch}"
            )
            raise RetrySoonError(message, code="StoreRebuildError")
        for name in self._tables:
            self._tables[name].forget()
        for name, rows in delta.tables.items():
            self.table(name).put_many([row[0] for row in rows], [row[1] for row in rows])
        self._batch = (delta.batch, delta.epoch, BatchWork.RUN)

    def commit(self, delta_bytes: int = 0) -> None:
        """Make the batch part of the state. `delta_bytes` is the size of its delta, without outputs."""
        self._check_process()
        batch, epoch, work = self._running()
        if work is BatchWork.KEPT:
            self.abandon()
            return
        head = replace(
            self.head,
            batch=batch,
            epoch=epoch,
            undo=batch == self.head.batch + 1,
            undo_epoch=self.head.epoch,
            delta_bytes=self.head.delta_bytes + delta_bytes,
        )
        # Read what the undo needs before the write transaction: afterwards nothing protects the old pages.
        changed = [(table, rows) for table in self._tables.values() if (rows := table.changes())]
        with self._writing() as txn:
            _clear_undo(txn)
            for table, rows in changed:
                _write(txn, table, rows)
            put_head(txn, head)
            # Whoever dies of reading the store does not get here.
            self._deaths = 0
        self.head = head
        self.abandon()

    def abandon(self) -> None:
        """Drop what this batch has written so far."""
        self._batch = None
        self._environment.stop_reading()
        for table in self._tables.values():
            table.forget()

    def noted_snapshot(self, batch: int, size: int, deltas: int) -> None:
        """Remember that the durable copy has a snapshot of this batch, so that the next one is made when it is due.

        `deltas`: the `delta_bytes` of the head at that batch.
        """
        newest = self.head.start if self.head.snapshot is None else self.head.snapshot
        if not newest < batch <= self.head.batch:
            # Written beside batches, of a store that was here before this one.
            return
        left = max(0, self.head.delta_bytes - deltas)
        head = replace(self.head, snapshot=batch, snapshot_bytes=size, delta_bytes=left)
        self._note_head(replace(head, bundle=None, bundles=0, bundled_bytes=0))

    def noted_bundle(self, batch: int, size: int) -> None:
        """Remember that the durable copy has a bundle that ends with this batch, of deltas of this size."""
        head = self.head
        if max(head.start, head.snapshot or 0, head.bundle or 0) < batch <= head.batch:
            size += head.bundled_bytes
            self._note_head(replace(head, bundle=batch, bundles=head.bundles + 1, bundled_bytes=size))

    def _note_head(self, head: StoreHead) -> None:
        with self._writing() as txn:
            put_head(txn, head)
        self.head = head

    def frozen(self) -> FrozenState:
        """Return the last committed state, to copy it while batches go on; see there."""
        self._check_process()
        return self._environment.frozen()

    def close(self) -> None:
        """Drop the unfinished batch and let other processes in. Calling it again does no harm."""
        if self._process == os.getpid() and self._claim.held:
            self._environment.close()
            self._deaths = 0
            self._note(UsePhase.CLOSED)
            self._claim.release()

    def discard(self) -> None:
        """Close, but keep the claim on the directory, because its content is about to be replaced."""
        self._environment.close()

    def _undo(self) -> None:
        if not self.head.undo:
            raise RetrySoonError(self._not_at(self.head.batch), code="StoreRebuildError")
        head = replace(self.head, batch=self.head.batch - 1, epoch=self.head.undo_epoch, undo=False, undo_epoch=None)
        if head.snapshot is not None and head.snapshot > head.batch:
            head = replace(head, snapshot=None, snapshot_bytes=0)
        if head.bundle is not None and head.bundle > head.batch:
            head = replace(head, bundle=None)
        with self._writing() as txn:
            for name in [name for name in txn.names() if name.startswith(_UNDO)]:
                table, rows = _TABLE + name[len(_UNDO) :], txn.rows(name)
                txn.delete(table, [key for key, old in rows if not old])
                txn.put(table, [(key, old[1:]) for key, old in rows if old])
            _clear_undo(txn)
            put_head(txn, head)
        self.head = head

    @contextmanager
    def _writing(self) -> Iterator[WriteTransaction]:
        self._note(UsePhase.WRITING)
        with self._environment.writing() as txn:
            yield txn
        self._note(UsePhase.READING)

    def _note(self, phase: UsePhase) -> None:
        """Note the state in which the store would be left if this process ended now."""
        file = file_stamp(self.directory.data_path)
        self._claim.note(None if file is None else LastUse(phase, file, self._deaths))

    def _running(self) -> tuple[int, int, BatchWork]:
        if self._batch is None:
            message = f"no batch of {self.directory.identity} has begun"
            raise HoldfastError(message, code="StoreMisuseError")
        return self._batch

    def _check_process(self) -> None:
        if self._process != os.getpid():
            message = (
                f"the store of {self.directory.identity} was opened by process {self._process}; a fork may not use it"
            )
            raise HoldfastError(message, code="StoreMisuseError")

    def _not_at(self, batch: int) -> str:
        undo = "" if self.head.undo else " and can't be taken back"
        return (
            f"the local store of {self.directory.identity} is at batch {self.head.batch}{undo}, "
            f"and batch {batch} is to run: it "
            f"is rebuilt from the durable copy"
        )

    def _read_head(self) -> StoreHead:
        stored = self._environment.get(HEAD, [HEAD]).get(HEAD)
        self._environment.stop_reading()
        try:
            return head_of(stored)
        except ValueError as error:
            raise mark_damaged(self.directory, "it has no readable head") from error


def _write(txn: WriteTransaction, table: StateTable, rows: list[tuple[bytes, bytes | None]]) -> None:
    before, keys = table.before(), [row[0] for row in rows]
    old = [(key, before[key]) for key in keys if key not in table.purged]
    puts = [(key, value) for key, value in rows if value is not None]
    deleted = [] if len(puts) == len(rows) else [key for key, value in rows if value is None]
    if any_long(keys):
        old = sorted((fold_key(key), None if value is None else fold_value(key, value)) for key, value in old)
        puts = sorted((fold_key(key), fold_value(key, value)) for key, value in puts)
        deleted = sorted(map(fold_key, deleted))
    # Old values are marked, because an empty value differs from an absent one.
    undo = [(key, b"" if value is None else b"\x01" + value) for key, value in old]
    txn.put(_UNDO + table.name.encode(), undo, fill=True)
    txn.delete(table.database, deleted)
    txn.put(table.database, puts)


def _clear_undo(txn: WriteTransaction) -> None:
    for name in txn.names():
        if name.startswith(_UNDO):
            txn.clear(name)
