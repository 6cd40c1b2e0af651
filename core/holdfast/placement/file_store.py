"""The metadata store in a directory, for runs on one host: one file per key, replaced atomically, with a checksum.

The only module of the core that touches files. A value is written to a temporary file, synced and renamed over the
key's file, then the directory is synced: whenever the process dies, each key has its old or its new value. Each put
holds a lock, which the kernel releases if the writer dies; readers need none. One line precedes the value,
`holdfast-value 1 version=12 length=345 sha256=<64 digits>`. Its checksum covers its numbers, the key and the value, so
that a damaged file, or one copied to another key's name, is refused before its bytes are used. Must not keep values in
memory: another process may have written since.
"""

import fcntl
import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.errors import UserActionError, WorldChangeError
from holdfast.placement.metadata_store import Version, VersionConflictError, Versioned, check_size, object_name

FORMAT = 1
_MAGIC = b"holdfast-value "
_HEADER = re.compile(rb"holdfast-value 1 version=(0|[1-9]\d{0,17}) length=(0|[1-9]\d{0,17}) sha256=([0-9a-f]{64})\n")
_FORMAT = re.compile(rb"holdfast-value ([1-9]\d{0,8}) ")
# File names that start with a dot are never keys.
_LOCK, _TEMPORARY, _REMOVED = ".lock", ".writing", ".removed"


class FileStore:
    """A metadata store in a directory. Threads and processes may share it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def get(self, key: str) -> Versioned | None:
        """Return the value of this key; raise `ContentUnreadableError` if its file is damaged."""
        path = self._directory / object_name(key)
        with _reporting(path):
            try:
                content = path.read_bytes()
            except FileNotFoundError:
                return None
        version, value = read_file(str(path), key, content)
        return Versioned(value, Version(str(version)))

    def put(self, key: str, value: bytes, expected: Version | None) -> Version:
        """Replace the expected version with this value; a file that can't be read is never overwritten."""
        path = self._directory / object_name(key)
        check_size(key, value)
        with _reporting(path), self._locked():
            stored_value = self.get(key)
            if (None if stored_value is None else stored_value.version) != expected:
                raise VersionConflictError(key, expected)
            version = 1 + (self._highest_removed() if stored_value is None else int(stored_value.version))
            self._write(path, header_of(key, version, value), value)
        return Version(str(version))

    def remove(self, key: str, expected: Version) -> None:
        """Remove this version of the key; a file that can't be read is never removed."""
        path = self._directory / object_name(key)
        with _reporting(path), self._locked():
            stored_value = self.get(key)
            if stored_value is None:
                return
            if stored_value.version != expected:
                raise VersionConflictError(key, expected)
            # First: a key with a version that it had before could be overwritten by who read that one.
            highest = max(self._highest_removed(), int(stored_value.version))
            self._write(self._directory / _REMOVED, b"%d\n" % highest)
            path.unlink()
            _sync(self._directory)

    def _highest_removed(self) -> int:
        """Return the highest version of all keys that were removed; the lock is held."""
        try:
            return int((self._directory / _REMOVED).read_bytes())
        except FileNotFoundError:
            return 0
        except ValueError as error:
            raise _unreadable(str(self._directory / _REMOVED), "it holds no number") from error

    def _write(self, path: Path, *content: bytes) -> None:
        """Replace a file; the lock is held."""
        temporary = self._directory / _TEMPORARY
        with temporary.open("wb") as file:
            for part in content:
                file.write(part)
            file.flush()
            # If it were renamed before its bytes are on the disk, the file could be empty after a power cut.
            os.fsync(file.fileno())
        temporary.replace(path)
        # If it were acknowledged before the new name is on the disk, a power cut could undo the write.
        _sync(self._directory)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        if not self._directory.is_dir():
            self._directory.mkdir(parents=True, exist_ok=True)
            _sync(self._directory.parent)
        # The lock file is never removed: otherwise two writers could lock two files of the same name.
        lock = os.open(self._directory / _LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)


def header_of(key: str, version: int, value: bytes) -> bytes:
    """Return the header line of this value."""
    checksum = _checksum(key, version, value)
    return f"holdfast-value {FORMAT} version={version} length={len(value)} sha256={checksum}\n".encode()


def read_file(path: str, key: str, content: bytes) -> tuple[int, bytes]:
    """Return version and value in a key's file; raise `ContentUnreadableError` naming file and damage."""
    header = _HEADER.match(content)
    if header is None:
        raise _unreadable(path, _why_no_header(content))
    version, length, checksum = int(header[1]), int(header[2]), header[3].decode()
    value = content[header.end() :]
    if len(value) != length:
        raise _unreadable(path, f"it holds {len(value)} bytes where its header says {length}")
    if _checksum(key, version, value) != checksum:
        raise _unreadable(path, f"its checksum is wrong: damaged, or not written as {key}")
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
        return f"it has format {int(format_[1])}, and this Holdfast reads formats up to {FORMAT}: upgrade Holdfast"
    return "its first line is damaged"


def _unreadable(path: str, why: str) -> UserActionError:
    return UserActionError(
        f"{path} can't be read: {why}; it is left as it is. Restore it from a copy, or set a new spec.runId to start "
        f"with empty state",
        code="ContentUnreadableError",
    )


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
        raise WorldChangeError(message, code="FileStoreUnavailableError") from error
