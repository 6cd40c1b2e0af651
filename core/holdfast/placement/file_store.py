"""The metadata store in a directory, for runs on one host: one file per key, replaced atomically, with a checksum.

The only module of the core that touches files. A value is written to a temporary file, synced and renamed over the
key's file, then the directory is synced: whenever the process dies, each key has its old or its new value. The kernel
releases a dead writer's lock, so the next writer can start at once. Readers need no lock. One line precedes the value,
`holdfast-value 1 version=12 length=345 sha256=<64 digits>`. Its checksum covers its numbers, the key and the value, so
that a damaged file, or one copied to another key's name, is refused before its bytes are used. Must not keep values in
memory: another process may have written since.
"""

import fcntl
import hashlib
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from types import TracebackType
from typing import Self

from holdfast.errors import WorldChangeError
from holdfast.placement.metadata_store import (
    DEFAULT_BUDGET,
    ContentUnreadableError,
    Version,
    Versioned,
    check_key,
    check_size,
    check_version,
    key_of,
    object_name,
)

FORMAT = 1
_MAGIC = b"holdfast-value "
_HEADER = re.compile(rb"holdfast-value 1 version=(0|[1-9]\d{0,17}) length=(0|[1-9]\d{0,17}) sha256=([0-9a-f]{64})\n")
_FORMAT = re.compile(rb"holdfast-value ([1-9]\d{0,8}) ")


class StoreFileUnreadableError(ContentUnreadableError):
    """A file of the store that is damaged, not written by Holdfast, or written by a newer Holdfast."""


def header_of(key: str, version: int, value: bytes) -> bytes:
    """Return the header line of this value."""
    checksum = _checksum(key, version, value)
    return f"holdfast-value {FORMAT} version={version} length={len(value)} sha256={checksum}\n".encode()


def read_file(path: str, key: str, content: bytes) -> tuple[int, bytes]:
    """Return version and value in a key's file; raise `StoreFileUnreadableError` naming file and damage."""
    header = _HEADER.match(content)
    if header is None:
        raise StoreFileUnreadableError(_refusal(path, _why_no_header(content)))
    version, length, checksum = int(header[1]), int(header[2]), header[3].decode()
    value = content[header.end() :]
    if len(value) != length:
        raise StoreFileUnreadableError(_refusal(path, f"it holds {len(value)} bytes where its header says {length}"))
    if _checksum(key, version, value) != checksum:
        raise StoreFileUnreadableError(_refusal(path, f"its checksum is wrong: damaged, or not written as {key}"))
    return version, value


def _checksum(key: str, version: int, value: bytes) -> str:
    return hashlib.sha256(b"%d %s %d %d\n" % (FORMAT, key.encode(), version, len(value)) + value).hexdigest()


def _why_no_header(content: bytes) -> str:
    if not content:
        return "it is empty"
    if not content.startswith(_MAGIC):
        return f"it starts with {content[:16]!r} and was not written by Holdfast"
    format_ = _FORMAT.match(content)
    if format_ is not None and int(format_[1]) > FORMAT:
        return f"it has format {int(format_[1])}, and this Holdfast reads formats up to {FORMAT}"
    return "its first line is damaged"


def _refusal(path: str, why: str) -> str:
    return f"{path} can't be read: {why}; it is left as it is: restore it from a copy, or remove it to give it up"


# File names that start with a dot are never keys.
_LOCK = ".lock"
_TEMPORARY = ".writing"
_HIGHEST = ".highest"

WRITE_STEPS = ("opened", "header-written", "value-written", "synced", "renamed", "directory-synced")
"""The steps of a write, in order; `at` is called after each."""
DELETE_STEPS = (*WRITE_STEPS, "removed", "removal-synced")
"""The steps of a delete: it first stores the highest version, then removes the file."""


class FileStoreLockedError(WorldChangeError):
    """Another process is the writer of this directory."""


class FileStoreUnavailableError(WorldChangeError):
    """The file system failed: no space, no permission, a broken disk. Nothing was acknowledged."""


@dataclass(frozen=True, slots=True)
class _Writer:
    """The lock of the one writer, held until the lock file is closed or the process ends."""

    lock: int
    process: int


class FileStore:
    """A metadata store in a directory. The first write makes it the one writer, until `close` or the process ends.

    Threads may share it.
    """

    def __init__(
        self, directory: Path, *, budget: int = DEFAULT_BUDGET, at: Callable[[str], None] = lambda _: None
    ) -> None:
        self.budget = budget
        self._directory = directory
        self._at = at
        self._threads = RLock()
        self._writer: _Writer | None = None
        self._highest = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def get(self, key: str) -> Versioned | None:
        """Return the value of this key; raise `StoreFileUnreadableError` if its file is damaged."""
        found = self._read(object_name(key), key)
        return None if found is None else Versioned(found[1], Version(str(found[0])))

    def put(self, key: str, value: bytes, expected: Version | None) -> Version:
        """Replace the expected version with this value; a file that can't be read is never overwritten."""
        check_size(check_key(key), value, self.budget)
        with self._threads:
            self.lock()
            self._check(key, expected)
            # Counted also if the write fails: a version that a reader may have seen is never used for other bytes.
            self._highest += 1
            self._write(object_name(key), key, self._highest, value)
            return Version(str(self._highest))

    def delete(self, key: str, expected: Version) -> None:
        """Remove this key if it has the expected version."""
        with self._threads:
            self.lock()
            self._check(key, expected)
            # Otherwise the next process could use the key's old versions again, and a stale writer would succeed.
            self._write(_HIGHEST, _HIGHEST, self._highest, b"")
            path = self._directory / object_name(key)
            with _reporting(path):
                path.unlink()
                self._at("removed")
                _sync(self._directory)
            self._at("removal-synced")

    def list(self, prefix: str) -> dict[str, Version]:
        """Return all keys with this prefix, sorted, with their versions; each file is read and checked."""
        versions: dict[str, Version] = {}
        for key in self._keys():
            found = self.get(key) if key.startswith(prefix) else None
            if found is not None:
                versions[key] = found.version
        return versions

    def lock(self) -> None:
        """Become the writer now, not at the first write; raise `FileStoreLockedError` naming the process that is."""
        with self._threads, _reporting(self._directory):
            if self._writer is None:
                self._begin_writing()
            elif self._writer.process != os.getpid():
                # A forked process inherits its parent's lock, but is not the writer.
                raise FileStoreLockedError(self._locked_by(str(self._writer.process)))

    def close(self) -> None:
        """Release the lock, so that another process can write."""
        with self._threads:
            if self._writer is not None:
                os.close(self._writer.lock)
                self._writer = None

    def _begin_writing(self) -> None:
        if not self._directory.is_dir():
            self._directory.mkdir(parents=True)
            _sync(self._directory.parent)
        lock = os.open(self._directory / _LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(lock, 0)
            os.pwrite(lock, str(os.getpid()).encode(), 0)
            (self._directory / _TEMPORARY).unlink(missing_ok=True)
            self._highest = self._highest_version()
        except BlockingIOError as error:
            holder = os.pread(lock, 20, 0).decode(errors="replace")
            os.close(lock)
            raise FileStoreLockedError(self._locked_by(holder)) from error
        except BaseException:
            os.close(lock)
            raise
        # The lock file is never removed: otherwise two writers could lock two files of the same name.
        self._writer = _Writer(lock, os.getpid())

    def _locked_by(self, process: str) -> str:
        return (
            f"{self._directory} is being written by process {process or 'unknown'}, and it takes one writer: "
            f"stop that process, or use another directory"
        )

    def _highest_version(self) -> int:
        marked = self._read(_HIGHEST, _HIGHEST)
        versions = [0 if marked is None else marked[0]]
        for key in self._keys():
            try:
                found = self._read(object_name(key), key)
            except StoreFileUnreadableError:
                continue  # every put to this key is refused, so its versions can't be used again; other keys go on
            versions.append(0 if found is None else found[0])
        return max(versions)

    def _check(self, key: str, expected: Version | None) -> None:
        found = self.get(key)
        check_version(key, expected, None if found is None else found.version)

    def _keys(self) -> tuple[str, ...]:
        with _reporting(self._directory):
            names = [path.name for path in self._directory.iterdir()] if self._directory.exists() else []
        return tuple(sorted(key for name in names if (key := key_of(name)) is not None))

    def _read(self, name: str, key: str) -> tuple[int, bytes] | None:
        path = self._directory / name
        with _reporting(path):
            try:
                content = path.read_bytes()
            except FileNotFoundError:
                return None
        return read_file(str(path), key, content)

    def _write(self, name: str, key: str, version: int, value: bytes) -> None:
        temporary, path = self._directory / _TEMPORARY, self._directory / name
        with _reporting(path):
            with temporary.open("wb") as file:
                self._at("opened")
                file.write(header_of(key, version, value))
                file.flush()
                self._at("header-written")
                file.write(value)
                file.flush()
                self._at("value-written")
                # If it were renamed before its bytes are on the disk, the file could be empty after a power cut.
                os.fsync(file.fileno())
                self._at("synced")
            temporary.replace(path)
            self._at("renamed")
            # If it were acknowledged before the new name is on the disk, a power cut could undo the write.
            _sync(self._directory)
        self._at("directory-synced")


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _reporting(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        message = f"{path}: {error.strerror or error}; see that its disk works, has space, and lets this process write"
        raise FileStoreUnavailableError(message) from error
