"""Checkpoint storage: the operations that a directory and an object store both offer, and the storage in a directory.

A reader sees a whole object or none. The operations are write, read, list and delete; there is no renaming and no lock.
Whether a name is free is checked before the write; an object that must have a single writer carries the attempt in its
name, and the writer looks at the names after the write. Storages are plain values: they travel to executors and hold
nothing open. A file would be visible while it grows, so a directory's file is written under a temporary name, synced,
and then published by a hard link, which fails if the name is taken. Must not know what the objects mean.
"""

import errno
import logging
import os
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol, TypeAlias

from holdfast_runtime.state.errors import CheckpointUnavailableError, DeleteRefusedError

Chunk: TypeAlias = bytes | memoryview


class Storage(Protocol):
    """The objects in one directory."""

    @property
    def at_once(self) -> int:
        """How many threads best use it at once."""
        ...

    def refuses_taken(self, size: int) -> bool:
        """Whether writing so many bytes is known to be refused if the name is taken, whoever writes at that time."""
        ...

    @property
    def directory(self) -> str:
        """The location, for people to read."""
        ...

    def below(self, *names: str) -> "Storage":
        """Return the storage of a subdirectory, which need not exist."""
        ...

    def path(self, name: str) -> str:
        """Return the path of an object, for people to read."""
        ...

    def names(self) -> list[str]:
        """Return the names of all objects, unordered, without unfinished ones."""
        ...

    def names_behind(self, name: str) -> list[str]:
        """Return the names that sort behind this one, unordered, in a directory that has no subdirectories."""
        ...

    def modified(self) -> dict[str, int]:
        """Return when each object was last written, in milliseconds since 1970 by the storage's clock."""
        ...

    def directories(self) -> list[str]:
        """Return the names of subdirectories, unordered."""
        ...

    def unfinished(self) -> dict[str, str]:
        """Return the unfinished objects of dead or living writers, each temporary name with its intended name."""
        ...

    def read(self, name: str) -> bytes | None:
        """Return the whole object, or None if it does not exist."""
        ...

    def reading(self, name: str) -> AbstractContextManager[Callable[[int], bytes]]:
        """Give a function that reads the next bytes of the object."""
        ...

    def write(self, name: str, chunks: Iterable[Chunk], *, replace: bool = False) -> int | None:
        """Create an object and return its size in bytes, or None if the name is taken; that object stays.

        By the same content, a name may count as free: an answer may have been lost, and its write be tried again.
        """
        ...

    def delete(self, names: Iterable[str]) -> Iterator[str]:
        """Delete objects, yielding each name once it is gone; ones already gone are ignored."""
        ...

    def clear(self, keep: Collection[str]) -> int:
        """Delete everything, also in subdirectories, except objects of these names in this one; return the count."""
        ...


_LOG = logging.getLogger("holdfast")
_SAID = set[str]()
"""Directories of which this process has said that nothing can be deleted there."""


@contextmanager
def obsolete_may_stay(storage: Storage) -> Iterator[None]:
    """Let the block delete what nobody needs any longer. Without the right to do so, it stays, and a warning says so.

    Not for what would be taken for valid if it stayed.
    """
    try:
        yield
    except DeleteRefusedError as error:
        if storage.directory not in _SAID:
            _SAID.add(storage.directory)
            _LOG.warning("what is obsolete in %s stays there and takes space: %s", storage.directory, error)


_TEMPORARY = ".writing-"
# Some mounted shares have no hard links; there the check before the write has to be enough.
_NO_HARD_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS)
_CURE = (
    "see that it exists (on a cluster: is mounted), has space, lets this process read and write, and that its disk "
    "works (dmesg)"
)


@dataclass(frozen=True, slots=True)
class DirectoryStorage:
    """The objects in one folder."""

    root: Path
    sync: bool = True
    """Wait for the disk, so that objects survive a power cut; costs some milliseconds each."""

    @property
    def at_once(self) -> int:
        """How many threads best use it at once."""
        return 1

    def refuses_taken(self, size: int) -> bool:  # noqa: ARG002 - as storages have it
        """Never known: some mounted shares have no hard links."""
        return False

    @property
    def directory(self) -> str:
        """The location, for people to read."""
        return str(self.root)

    def below(self, *names: str) -> "DirectoryStorage":
        """Return the storage of a subdirectory, which need not exist."""
        return DirectoryStorage(self.root.joinpath(*names), self.sync)

    def path(self, name: str) -> str:
        """Return the path of an object, for people to read."""
        return f"{self.root}/{name}"

    def names(self) -> list[str]:
        """Return the names of all objects, unordered, without unfinished ones."""
        return [name for name in self._files() if not name.startswith(_TEMPORARY)]

    def names_behind(self, name: str) -> list[str]:
        """Return the names that sort behind this one, unordered."""
        # Each task is listed in each batch, so ask for nothing but names.
        names = self._entries(lambda _: True)
        return [other for other in names if other > name and not other.startswith(_TEMPORARY)]

    def modified(self) -> dict[str, int]:
        """Return when each object was last written, in milliseconds since 1970 by the file system's clock."""
        times = {}
        for name in self.names():
            with self._reporting(name), suppress(FileNotFoundError):
                times[name] = (self.root / name).stat().st_mtime_ns // 1_000_000
        return times

    def directories(self) -> list[str]:
        """Return the names of subdirectories, unordered."""
        return self._entries(lambda entry: entry.is_dir(follow_symlinks=False))

    def unfinished(self) -> dict[str, str]:
        """Return the unfinished objects of dead or living writers, each temporary name with its intended name."""
        marked = [name for name in self._files() if name.startswith(_TEMPORARY)]
        return {name: name.removeprefix(_TEMPORARY).rpartition(".")[0] for name in marked}

    def read(self, name: str) -> bytes | None:
        """Return the whole object, or None if it does not exist."""
        with self._reporting(name):
            try:
                return (self.root / name).read_bytes()
            except FileNotFoundError:
                return None

    @contextmanager
    def reading(self, name: str) -> Iterator[Callable[[int], bytes]]:
        """Give a function that reads the next bytes of the object."""
        with self._reporting(name), (self.root / name).open("rb") as file:
            yield file.read

    def write(self, name: str, chunks: Iterable[Chunk], *, replace: bool = False) -> int | None:
        """Create an object and return its size in bytes, or None if the name is taken; that object stays."""
        with self._reporting(name):
            if not replace and (self.root / name).exists():
                return None
            temporary = self.root / f"{_TEMPORARY}{name}.{secrets.token_hex(6)}"
            try:
                size = self._fill(temporary, chunks)
                return size if self._publish(temporary, name, replace=replace) else None
            finally:
                temporary.unlink(missing_ok=True)

    def delete(self, names: Iterable[str]) -> Iterator[str]:
        """Delete objects one after the other; ones already gone are ignored."""
        for name in names:
            with self._reporting(name):
                try:
                    (self.root / name).unlink(missing_ok=True)
                except PermissionError as error:
                    message = f"this process may not delete {self.path(name)} ({error.strerror}): give it the right to"
                    raise DeleteRefusedError(message) from error
            yield name

    def clear(self, keep: Collection[str]) -> int:
        """Delete everything, also in subfolders, except files of these names in this one; return the count."""
        with self._reporting(""):
            return self._cleared(keep)

    def _cleared(self, keep: Collection[str]) -> int:
        removed = 0
        # Bottom up. Links are removed, not followed.
        for path, below, files in os.walk(self.root, topdown=False, onerror=_unless_gone):
            directory = Path(path)
            top = directory == self.root
            links = [name for name in below if (directory / name).is_symlink()]
            for name in [*links, *(name for name in files if not (top and name in keep))]:
                with suppress(FileNotFoundError):
                    (directory / name).unlink()
                    removed += 1
            if not top:
                with suppress(FileNotFoundError):
                    directory.rmdir()
        return removed

    def _files(self) -> list[str]:
        return self._entries(os.DirEntry.is_file)

    def _entries(self, fits: "Callable[[os.DirEntry[str]], bool]") -> list[str]:
        with self._reporting(""):
            try:
                with os.scandir(self.root) as entries:
                    return [entry.name for entry in entries if fits(entry)]
            except FileNotFoundError:
                return []

    def _fill(self, path: Path, chunks: Iterable[Chunk]) -> int:
        size = 0
        with self._opened(path) as file:
            for chunk in chunks:
                file.write(chunk)
                size += len(chunk)
            if self.sync:
                file.flush()
                os.fsync(file.fileno())
        return size

    def _opened(self, path: Path) -> BinaryIO:
        try:
            return path.open("wb")
        except FileNotFoundError:
            self.root.mkdir(parents=True, exist_ok=True)
            return path.open("wb")

    def _publish(self, temporary: Path, name: str, *, replace: bool) -> bool:
        try:
            if replace:
                temporary.replace(self.root / name)
            else:
                (self.root / name).hardlink_to(temporary)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in _NO_HARD_LINKS:
                raise
            temporary.replace(self.root / name)
        if self.sync:
            _sync(self.root)
        return True

    @contextmanager
    def _reporting(self, name: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            message = f"the checkpoint location refuses {self.path(name)} ({error}): {_CURE}"
            raise CheckpointUnavailableError(message) from error


def _unless_gone(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
