"""Why: one LMDB environment, its databases, and the two kinds of transaction a batch needs.

Opened per batch, hence cheap. Without LMDB's locks: `claim` keeps everybody else out, and the read transaction ends
before a write transaction begins, as nobody would keep pages alive for it. Must not know what a batch is.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import lmdb

from holdfast_runtime.state.place import StorePlace
from holdfast_runtime.state.trouble import TABLES, typed_store_errors

Rows = list[tuple[bytes, bytes]]

_DATABASES = 2 * TABLES + 1  # each table with its undo, and the head


class Environment:
    """Databases by name; those that are not there read as empty."""

    def __init__(self, place: StorePlace) -> None:
        self._place = place
        self._open()

    def _open(self) -> None:
        with typed_store_errors(self._place):
            self._env = lmdb.open(
                str(self._place.path),
                map_size=self._place.quota,
                max_dbs=_DATABASES,
                lock=False,
                sync=False,
                metasync=False,
                # State is read in random order: what the kernel reads ahead would push out what is needed.
                readahead=False,
            )
            # Handles opened in a read transaction die with it; an empty write transaction writes nothing.
            with self._env.begin(write=True) as txn:
                self._handles = {name: self._env.open_db(name, txn, create=False) for name in self._env.dbs(txn)}
            self._reading: lmdb.Transaction[bytes] | None = None

    def close(self) -> None:
        """Again is fine."""
        self.stop_reading()
        self._env.close()

    def names(self) -> list[bytes]:
        """The databases there are."""
        return sorted(self._handles)

    def used(self) -> int:
        """Bytes of the quota that are taken, free pages inside the file included."""
        return (self._env.info()["last_pgno"] + 1) * self._env.stat()["psize"]

    def get(self, name: bytes, keys: list[bytes]) -> dict[bytes, bytes]:
        """What is there of these sorted keys."""
        cursor = self._cursor(name)
        if cursor is None:
            return {}
        with typed_store_errors(self._place):
            return dict(cursor.getmulti(keys))

    def scan(self, name: bytes, first: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Rows in order, from this key on, as they were at the last commit."""
        cursor = self._cursor(name)
        if cursor is not None:
            with typed_store_errors(self._place):
                if cursor.set_range(first) if first else cursor.first():
                    yield from cursor.iternext()

    def stop_reading(self) -> None:
        """Let go of the pages that were readable; cursors of before are void."""
        if self._reading is not None:
            self._reading.abort()
            self._reading = None

    @contextmanager
    def writing(self) -> Iterator["WriteTransaction"]:
        """All of it is committed, or nothing."""
        self.stop_reading()
        try:
            with typed_store_errors(self._place), self._env.begin(write=True) as txn:
                yield WriteTransaction(self._env, txn, self._handles)
        except BaseException:
            # Databases made in a transaction that failed have dead handles, and a failed write of LMDB's own page
            # leaves the environment unusable: only a fresh one is known to be as before.
            self._env.close()
            self._open()
            raise

    def copy_to(self, descriptor: int) -> None:
        """Write a compact copy of the whole environment."""
        with typed_store_errors(self._place):
            self._env.copyfd(descriptor, compact=True)

    def _cursor(self, name: bytes) -> "lmdb.Cursor[bytes] | None":
        handle = self._handles.get(name)
        if handle is None:
            return None
        with typed_store_errors(self._place):
            if self._reading is None:
                self._reading = self._env.begin()
            return self._reading.cursor(handle)


class WriteTransaction:
    """A write transaction."""

    def __init__(
        self, env: lmdb.Environment, txn: "lmdb.Transaction[bytes]", handles: "dict[bytes, lmdb._Database]"
    ) -> None:
        self._env = env
        self._txn = txn
        self._handles = handles

    def names(self) -> list[bytes]:
        """The databases there are."""
        return sorted(self._handles)

    def put(self, name: bytes, rows: Rows, *, fill: bool = False) -> None:
        """Write sorted rows; `fill`: into an empty database, which is faster."""
        if rows:
            if name not in self._handles:
                self._handles[name] = self._env.open_db(name, self._txn)
            self._txn.cursor(self._handles[name]).putmulti(rows, append=fill)

    def delete(self, name: bytes, keys: list[bytes]) -> None:
        """Remove sorted keys; those that are not there are fine."""
        handle = self._handles.get(name)
        if handle is not None:
            for key in keys:
                self._txn.delete(key, db=handle)

    def rows(self, name: bytes) -> Rows:
        """All rows, as this transaction sees them."""
        handle = self._handles.get(name)
        return [] if handle is None else list(self._txn.cursor(handle))

    def get(self, name: bytes, keys: list[bytes]) -> dict[bytes, bytes]:
        """What is there of these sorted keys."""
        handle = self._handles.get(name)
        return {} if handle is None else dict(self._txn.cursor(handle).getmulti(keys))

    def clear(self, name: bytes) -> None:
        """Remove all rows."""
        handle = self._handles.get(name)
        if handle is not None and self._txn.stat(handle)["entries"]:
            self._txn.drop(handle, delete=False)
