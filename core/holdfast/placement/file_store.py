"""The metadata store in a directory, for runs on one host: one file a key, replaced as a whole, with a checksum.

The only module of the core that touches files. A value is written beside its file, synced, renamed over it, the
directory synced: whatever instant the process dies at, each key has its old or its new value, and the next writer
can write at once, as the kernel gives up a dead writer's lock. Readers need no lock. Before the value stands one
line, `holdfast-value 1 version=12 length=345 sha256=<64 digits>`, whose checksum covers its numbers, the key and the
value, so that damage, or a file copied to another key's name, is refused before its bytes are used. Must not keep
values in memory: another process may have written since.
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
    """A file of the store that is damaged, foreign, or of a newer Holdfast."""


def header_of(key: str, version: int, value: bytes) -> bytes:
    """The line in front of this value."""
    checksum = _checksum(key, version, value)
    return f"holdfast-value {FORMAT} version={version} length={len(value)} sha256={checksum}\n".encode()


def read_file(path: str, key: str, content: bytes) -> tuple[int, bytes]:
    """Version and value of this key in a file's content; raises `StoreFileUnreadableError` naming file and damage."""
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


# Names that start with a dot are never keys.
_LOCK = ".lock"
_TEMPORARY = ".writing"
_HIGHEST = ".highest"

WRITE_STEPS = ("opened", "header-written", "value-written", "synced", "renamed", "directory-synced")
"""What a write does, one after the other; `at` is told when each is done."""
DELETE_STEPS = (*WRITE_STEPS, "removed", "removal-synced")
"""A delete first writes down the highest version, then removes."""


class FileStoreLockedError(WorldChangeError):
    """Another process writes this directory."""


class FileStoreUnavailableError(WorldChangeError):
    """The file system refuses: no space, no permission, a broken disk. Nothing was acknowledged."""


@dataclass(frozen=True, slots=True)
class _Writer:
    """The right to write, until the file is closed or the process is gone."""

    lock: int
    process: int


class FileStore:
    """Keys to bytes, in a directory. The first write makes this the one writer, until `close` or the process ends.

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
        """The value of this key; raises `StoreFileUnreadableError` where its file is damaged."""
        found = self._read(object_name(key), key)
        return None if found is None else Versioned(found[1], Version(str(found[0])))

    def put(self, key: str, value: bytes, expected: Version | None) -> Version:
        """Write this value over the expected version; what can't be read has none, so it is never overwritten."""
        check_size(check_key(key), value, self.budget)
        with self._threads:
            self.lock()
            self._check(key, expected)
            # Also if the write fails half-way: a version that may have been seen is not given to other bytes.
            self._highest += 1
            self._write(object_name(key), key, self._highest, value)
            return Version(str(self._highest))

    def delete(self, key: str, expected: Version) -> None:
        """Remove this key, which has the expected version."""
        with self._threads:
            self.lock()
            self._check(key, expected)
            # Without this the next process could give the key's old versions again, and a stale writer would pass.
            self._write(_HIGHEST, _HIGHEST, self._highest, b"")
            path = self._directory / object_name(key)
            with _reporting(path):
                path.unlink()
                self._at("removed")
                _sync(self._directory)
            self._at("removal-synced")

    def list(self, prefix: str) -> dict[str, Version]:
        """All keys that start with this text, in order, each file read and checked."""
        versions: dict[str, Version] = {}
        for key in self._keys():
            found = self.get(key) if key.startswith(prefix) else None
            if found is not None:
                versions[key] = found.version
        return versions

    def lock(self) -> None:
        """Become the writer now rather than at the first write; raises `FileStoreLockedError` naming who is."""
        with self._threads, _reporting(self._directory):
            if self._writer is None:
                self._begin_writing()
            elif self._writer.process != os.getpid():
                # A forked process holds its parent's lock without having asked for it.
                raise FileStoreLockedError(self._locked_by(str(self._writer.process)))

    def close(self) -> None:
        """Let another process write."""
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
        # The lock file stays for ever: removing it would let two writers lock two files of one name.
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
                continue  # its key refuses every put, so no put can meet a version it had; the others go on
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
                # Renamed before its bytes are on the disk, a file may be empty after a power cut.
                os.fsync(file.fileno())
                self._at("synced")
            temporary.replace(path)
            self._at("renamed")
            # Acknowledged before the new name is on the disk, a write may be undone by a power cut.
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
