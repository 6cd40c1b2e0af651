"""A task's store read from outside, as `holdfast state` does, without disturbing a running app.

LMDB is opened read-only, without locks and without the task's claim, because holding the claim would make the app wait.
But then nothing protects the pages being read: the second commit after the opened one may overwrite them. So while an
app runs, its file is copied first, and the copy is used if at most one commit happened meanwhile. When no app runs, the
file is read in place, and `check` at the end tells whether an app has started. Must not write anything but the copy,
and must not decide whether a store can be trusted.
"""

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import lmdb

from holdfast.errors import RetrySoonError
from holdfast_runtime.lmdb_file import FileDamagedError, check_metas
from holdfast_runtime.state.errors import StoreDiskError
from holdfast_runtime.state.store.directory import StoreDirectory
from holdfast_runtime.state.store.environment import DATABASES
from holdfast_runtime.state.store.store_head import HEAD, StoreHead, head_of
from holdfast_runtime.state.store.table import LONGEST_PLAIN, fold_key, in_order, selected, unfold

_TRIES = 5
_SLACK_PAGES = 16
"""Pages at the end that LMDB took and returned in one transaction are counted but not in the file."""
_TABLE = b"table."
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class TableSize:
    """Name and size of one table of a store."""

    name: str
    keys: int
    bytes: int
    """Bytes on disk."""


class OfflineStore:
    """The last committed state of a task, read-only."""

    def __init__(self, directory: StoreDirectory, file: Path) -> None:
        self._directory = directory
        try:
            self._env = _opened(file)
            self._txn = self._env.begin()
            self._read = self._txn.id()
            self._handles = {
                name: self._env.open_db(name, self._txn, create=False) for name in self._env.dbs(self._txn)
            }
            self.head = self._head()
        except (lmdb.Error, OSError, ValueError, TypeError) as error:
            message = f"the store of {directory.identity} at {directory.path} can't be read ({error}); try --durable"
            raise StoreDiskError(message) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._txn.abort()
        self._env.close()

    def tables(self) -> list[TableSize]:
        """Return the tables that were ever written to, sorted by name."""
        sizes = []
        for name, handle in sorted(self._handles.items()):
            if name.startswith(_TABLE):
                stat = self._txn.stat(handle)
                pages = stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"]
                sizes.append(TableSize(name[len(_TABLE) :].decode(), stat["entries"], pages * stat["psize"]))
        return sizes

    def get(self, table: str, key: bytes) -> bytes | None:
        """Return one value, or None if the table does not have the key."""
        handle = self._handles.get(_TABLE + table.encode())
        if handle is None or not key:
            return None
        stored = self._txn.get(fold_key(key), db=handle)
        if stored is None or len(key) <= LONGEST_PLAIN:
            return stored
        whole, value = unfold(fold_key(key), stored)
        return value if whole == key else None

    def rows(self, table: str) -> Iterator[tuple[bytes, bytes]]:
        """Return all rows in key order."""
        handle = self._handles.get(_TABLE + table.encode())
        return iter(()) if handle is None else in_order(self._txn.cursor(handle).iternext())

    def table(self, name: str) -> "OfflineTable":
        """Return a table by name; one that was never written to is empty."""
        return OfflineTable(self, name)

    def scan(self, table: str, prefix: bytes, start: bytes, stop: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        """Return the rows in key order from `start` to before `stop` whose keys begin with `prefix`."""
        handle, first = self._handles.get(_TABLE + table.encode()), max(prefix, start)
        if handle is None:
            return iter(())
        cursor = self._txn.cursor(handle)
        if first and not cursor.set_range(first[:LONGEST_PLAIN]):
            return iter(())
        return selected(cursor.iternext(), first, prefix, stop)

    def check(self) -> None:
        """Raise `StoreBusyError` if what was read may have been overwritten meanwhile."""
        if self._env.info()["last_txnid"] > self._read + 1:
            message = f"an app has started to work on {self._directory.path}: run this again, or with --durable"
            raise RetrySoonError(message, code="StoreBusyError")

    def _head(self) -> StoreHead:
        return head_of(self._txn.get(HEAD, db=self._handles[HEAD]) if HEAD in self._handles else None)


@dataclass(frozen=True, slots=True)
class OfflineTable:
    """One table of such a store, as steps and readers of layers know tables."""

    store: OfflineStore
    name: str

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of these keys, None for missing ones."""
        return [self.store.get(self.name, key) for key in keys]

    def view_many(self, keys: Sequence[bytes], view: Callable[[Sequence[Any]], _T]) -> _T:
        """Return what `view` makes of the values of these keys."""
        return view(self.get_many(keys))

    def scan(self, prefix: bytes = b"", start: bytes = b"", stop: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """Return the rows in key order."""
        return self.store.scan(self.name, prefix, start, stop)

    def put_many(self, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        """Fail: the store is read-only."""
        raise NotImplementedError

    def purge(self, keys: Sequence[bytes]) -> None:
        """Fail: the store is read-only."""
        raise NotImplementedError

    def forget(self) -> None:
        """Do nothing: there is nothing that was not committed."""


def copy_store(directory: StoreDirectory, to: Path) -> Path:
    """Copy the store's file as of one commit; raise `StoreBusyError` if commits come too fast."""
    file = directory.data_path
    for _ in range(_TRIES):
        try:
            before = file.stat().st_ino
            shutil.copyfile(file, to)
            with _opened(to) as copied, _opened(file) as original:
                moved_on = original.info()["last_txnid"] - copied.info()["last_txnid"]
            # A different file means that the store was created again, so its transaction numbers say nothing about the
            # copy.
            if 0 <= moved_on <= 1 and file.stat().st_ino == before:
                return to
        except (FileDamagedError, lmdb.Error, OSError) as error:
            message = f"the store of {directory.identity} at {directory.path} can't be copied ({error})"
            raise StoreDiskError(message) from error
    message = f"the store of {directory.identity} changes faster than it can be copied: use --durable, or stop the app"
    raise RetrySoonError(message, code="StoreBusyError")


def _opened(file: Path) -> lmdb.Environment:
    meta = check_metas(file)
    if file.stat().st_size < (meta.last + 1 - _SLACK_PAGES) * meta.page:
        message = "it was cut off"
        raise FileDamagedError(message)
    return lmdb.open(
        str(file), subdir=False, readonly=True, lock=False, create=False, max_dbs=DATABASES, readahead=False
    )
