"""The LMDB store of a task: the claim that keeps other processes out, databases, transactions, typed errors.

LMDB's own lock can't tell processes of different pods apart, because each pod has its own process ids. So one process
at a time may open, drop or rebuild a store: the one with the claim, a lock that the kernel releases when its process
dies. A claim never waits: the scheduler retries. LMDB's lock file only protects the pages of a snapshot that is written
beside batches, by a thread (`FrozenState`) or a process. LMDB and the disk report codes, while a user needs the task,
the size and the cure.
Must not know what a batch is, and must not swallow errors: whatever is not a known disk problem is raised unchanged.
"""

import errno
import fcntl
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import lmdb

from holdfast.errors import HoldfastError, RetrySoonError
from holdfast_runtime.lmdb_file import FileDamagedError
from holdfast_runtime.state.errors import StoreDamagedError, StoreDiskError, StoreFullError
from holdfast_runtime.state.local_disk import NO_SPACE, disk_error
from holdfast_runtime.state.store.directory import LastUse, StoreDirectory, read_last_use, size_of, write_sidecar

_PROBE = 1 << 20
_DAMAGE = (
    FileDamagedError,
    lmdb.BadTxnError,
    lmdb.CorruptedError,
    lmdb.InvalidError,
    lmdb.PageFullError,
    lmdb.PageNotFoundError,
    lmdb.PanicError,
    lmdb.VersionMismatchError,
)
TABLES = 120
"""Most tables a task may have; LMDB needs the limit before opening."""


@contextmanager
def typed_store_errors(directory: StoreDirectory) -> Iterator[None]:
    """Turn errors of LMDB and the disk into typed errors that name this directory."""
    try:
        yield
    except lmdb.MapFullError as error:
        message = (
            f"the state of {directory.identity} has reached its quota of {directory.quota:,} bytes at {directory.path} "
            f"({size_of(directory):,} on disk): raise the quota (state.size), or keep less (retention, TTL, windows); "
            f"the batch was not committed, and the state is as it was before"
        )
        raise StoreFullError(message) from error
    except lmdb.DbsFullError as error:
        message = f"{directory.identity} uses more than {TABLES} state tables: merge some of them"
        raise HoldfastError(message, code="StoreMisuseError") from error
    except _DAMAGE as error:
        raise mark_damaged(directory, str(error)) from error
    except lmdb.Error as error:
        raise _disk_error(directory, error.code, str(error)) from error
    except OSError as error:
        raise _disk_error(directory, error.errno or 0, str(error)) from error


def mark_damaged(directory: StoreDirectory, what: str) -> StoreDamagedError:
    """Note the damage beside the store, so that it is not used again, and return the error to raise."""
    # If even this write fails, the next reader meets the damage too.
    with suppress(OSError):
        write_sidecar(directory, damage=what)
    return StoreDamagedError(
        f"the local store of {directory.identity} at {directory.path} is damaged ({what}): it is restored from the "
        f"durable copy"
    )


def _probed(directory: StoreDirectory) -> int:
    """Return the error code behind LMDB's EIO, which LMDB also reports when a full disk cut a write short."""
    probe = directory.path / "probe"
    try:
        probe.write_bytes(bytes(_PROBE))
    except OSError as error:
        return error.errno or errno.EIO
    finally:
        # A disk that fails may refuse this, too.
        with suppress(OSError):
            probe.unlink(missing_ok=True)
    return errno.EIO


def _disk_error(directory: StoreDirectory, code: int, text: str) -> StoreFullError | StoreDiskError:
    if code == errno.EIO:
        code = _probed(directory)
    what = f"the state of {directory.identity}"
    if code in NO_SPACE:
        what += f" ({size_of(directory):,} bytes now)"
    return disk_error(what, directory.path, code, text)


Rows = list[tuple[bytes, bytes]]

DATABASES = 2 * TABLES + 1
"""Each table with its undo, plus the head."""


class Environment:
    """An LMDB environment with databases by name; a missing database reads as empty."""

    def __init__(self, directory: StoreDirectory) -> None:
        self._directory = directory
        self._open()

    def _open(self) -> None:
        with typed_store_errors(self._directory):
            self._env = lmdb.open(
                str(self._directory.path),
                map_size=self._directory.quota,
                max_dbs=DATABASES,
                sync=False,
                metasync=False,
                # State is read in random order: the kernel's read-ahead would evict pages that are needed.
                readahead=False,
            )
            # Handles opened in a read transaction end with it; an empty write transaction writes nothing.
            with self._env.begin(write=True) as txn:
                self._handles = {name: self._env.open_db(name, txn, create=False) for name in self._env.dbs(txn)}
            self._reading: lmdb.Transaction[bytes] | None = None
            self._viewing: lmdb.Transaction[memoryview] | None = None
        self._frozen: list[FrozenState] = []

    def close(self) -> None:
        """Close the environment once no thread copies it any more. Calling it again does no harm."""
        self.stop_reading()
        for state in self._frozen:
            state.wait_until_released()
        self._frozen.clear()
        self._env.close()

    def names(self) -> list[bytes]:
        """Return the names of existing databases."""
        return sorted(self._handles)

    def used(self) -> int:
        """Return the bytes of the quota in use, including free pages inside the file."""
        return (self._env.info()["last_pgno"] + 1) * self._env.stat()["psize"]

    def get(self, name: bytes, keys: list[bytes]) -> dict[bytes, bytes]:
        """Return the values of those sorted keys that exist."""
        cursor = self._cursor(name)
        if cursor is None:
            return {}
        with typed_store_errors(self._directory):
            return dict(cursor.getmulti(keys))

    def views(self, name: bytes, keys: Sequence[bytes]) -> dict[bytes, memoryview]:
        """Return the values of these sorted keys, which are there.

        A value is memory of the file, which means something else after the next commit, and is no memory once the
        environment is closed: nothing that refers to it may be kept.
        """
        with typed_store_errors(self._directory):
            if self._viewing is None:
                self._viewing = self._env.begin(buffers=True)
            rows = self._viewing.cursor(self._handles[name]).getmulti(keys)
            return {key: value for key, (_, value) in zip(keys, rows, strict=True)}

    def scan(self, name: bytes, first: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield rows in key order from this key on, as of the last commit."""
        cursor = self._cursor(name)
        if cursor is not None:
            with typed_store_errors(self._directory):
                if cursor.set_range(first) if first else cursor.first():
                    yield from cursor.iternext()

    def stop_reading(self) -> None:
        """End the read transactions and release their pages. Earlier cursors become invalid."""
        for reading in (self._reading, self._viewing):
            if reading is not None:
                reading.abort()
        self._reading = self._viewing = None

    @contextmanager
    def writing(self) -> Iterator["WriteTransaction"]:
        """Open a write transaction that commits as a whole or not at all."""
        self.stop_reading()
        try:
            with typed_store_errors(self._directory):
                # LMDB forgets readers that were killed, as a snapshot may be, only when nobody has the store open.
                self._env.reader_check()
                with self._env.begin(write=True) as txn:
                    yield WriteTransaction(self._env, txn, self._handles)
        except BaseException:
            # Databases created in a failed transaction have dead handles, and a failed write of LMDB's meta page leaves
            # the environment unusable. Only a fresh one is known to be in the state before.
            self.close()
            self._open()
            raise

    def frozen(self) -> "FrozenState":
        """Return the state after the last commit; its pages are not used again until it is released."""
        with typed_store_errors(self._directory):
            state = FrozenState(self._directory, self._env)
        self._frozen = [*(frozen for frozen in self._frozen if not frozen.is_released), state]
        return state

    def _cursor(self, name: bytes) -> "lmdb.Cursor[bytes] | None":
        handle = self._handles.get(name)
        if handle is None:
            return None
        with typed_store_errors(self._directory):
            if self._reading is None:
                self._reading = self._env.begin()
            return self._reading.cursor(handle)


class FrozenState:
    """The whole environment after one commit, which any thread may copy while later ones are made.

    A context manager that releases it, which whoever asked for it must do soon: its environment can't be closed before.
    """

    def __init__(self, directory: StoreDirectory, env: lmdb.Environment) -> None:
        self._directory, self._env = directory, env
        self._txn = env.begin()
        self._released = threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def release(self) -> None:
        """Let its pages be used again."""
        self._txn.abort()
        self._released.set()

    @property
    def is_released(self) -> bool:
        """Whether nobody copies it any more."""
        return self._released.is_set()

    def wait_until_released(self) -> None:
        """Wait for whoever copies it."""
        self._released.wait()

    def copy_to(self, descriptor: int) -> None:
        """Write a compact copy in LMDB's own format."""
        with typed_store_errors(self._directory):
            self._env.copyfd(descriptor, compact=True, txn=self._txn)


class WriteTransaction:
    """A write transaction over databases by name."""

    def __init__(
        self, env: lmdb.Environment, txn: "lmdb.Transaction[bytes]", handles: "dict[bytes, lmdb._Database]"
    ) -> None:
        self._env = env
        self._txn = txn
        self._handles = handles

    def names(self) -> list[bytes]:
        """Return the names of existing databases."""
        return sorted(self._handles)

    def put(self, name: bytes, rows: Rows, *, fill: bool = False) -> None:
        """Write sorted rows. `fill` says that the database is empty, which makes it faster."""
        if rows:
            if name not in self._handles:
                self._handles[name] = self._env.open_db(name, self._txn)
            self._txn.cursor(self._handles[name]).putmulti(rows, append=fill)

    def delete(self, name: bytes, keys: list[bytes]) -> None:
        """Remove sorted keys; missing ones are ignored."""
        handle = self._handles.get(name)
        if handle is not None:
            for key in keys:
                self._txn.delete(key, db=handle)

    def rows(self, name: bytes) -> Rows:
        """Return all rows, as this transaction sees them."""
        handle = self._handles.get(name)
        return [] if handle is None else list(self._txn.cursor(handle))

    def get(self, name: bytes, keys: list[bytes]) -> dict[bytes, bytes]:
        """Return the values of those sorted keys that exist."""
        handle = self._handles.get(name)
        return {} if handle is None else dict(self._txn.cursor(handle).getmulti(keys))

    def clear(self, name: bytes) -> None:
        """Remove all rows."""
        handle = self._handles.get(name)
        if handle is not None and self._txn.stat(handle)["entries"]:
            self._txn.drop(handle, delete=False)


# The kernel's lock belongs to the process: without this set, a second claim in the same process would succeed.
_CLAIMED: set[tuple[int, str]] = set()


@dataclass(slots=True)
class Claim:
    """The right to open, drop or rebuild the store in a directory."""

    directory: StoreDirectory
    descriptor: int
    key: tuple[int, str]

    @property
    def held(self) -> bool:
        """Whether the claim still keeps others out."""
        return self.key in _CLAIMED and self.key[0] == os.getpid()

    def left(self) -> LastUse | None:
        """Return how the last user left the store, or None if nothing readable was noted."""
        with typed_store_errors(self.directory):
            return read_last_use(os.pread(self.descriptor, 1 << 10, 0))

    def note(self, left: LastUse | None) -> None:
        """Note the state in which the store would be left now; None marks it as unusable."""
        with typed_store_errors(self.directory):
            if left is None:
                os.ftruncate(self.descriptor, 0)
            else:
                os.pwrite(self.descriptor, left.line(), 0)

    def release(self) -> None:
        """Let others in. Calling it again does no harm."""
        if self.held:
            _CLAIMED.discard(self.key)
            os.close(self.descriptor)


def last_use_at(directory: StoreDirectory) -> LastUse | None:
    """Return how the last user left the store, for a reader that has no claim and changes nothing.

    Must not be called by a process that holds a claim: closing the file a second time would release the lock.
    """
    try:
        return read_last_use(directory.lock_path.read_bytes())
    except OSError:
        return None


def claim(directory: StoreDirectory) -> Claim:
    """Become the only user of this directory, or raise `StoreBusyError`."""
    key = (os.getpid(), str(directory.path.absolute()))
    if key in _CLAIMED:
        message = (
            f"the store of {directory.identity} at {directory.path} is open in this process already: close it first"
        )
        raise RetrySoonError(message, code="StoreBusyError")
    with typed_store_errors(directory):
        directory.lock_path.parent.mkdir(parents=True, exist_ok=True)
        while not _is_at(descriptor := _locked(directory), directory.lock_path):
            os.close(descriptor)
    _CLAIMED.add(key)
    return Claim(directory, descriptor, key)


def _locked(directory: StoreDirectory) -> int:
    # Not `flock`: a child forked by a user function would keep holding it.
    descriptor = os.open(directory.lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError) as error:
        os.close(descriptor)
        message = (
            f"the store of {directory.identity} at {directory.path} is open in another process: try again when it ends"
        )
        raise RetrySoonError(message, code="StoreBusyError") from error
    return descriptor


def _is_at(descriptor: int, path: Path) -> bool:
    """Return False if the file was removed with its store (`leftovers`) before it was locked: others lock a new one."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))  # noqa: PTH116 - half the time
    except FileNotFoundError:
        return False
