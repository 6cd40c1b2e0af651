"""Checkpoint storage: what a folder and an object store both can do with objects, and the one in a folder.

A reader sees a whole object or none. Write, read, list, delete, and no more: there is no renaming and no lock. That a
name is free is looked at before the write; who must be the only writer of an object puts the attempt in its name, and
looks at the names after the write. Storages are plain values: they travel to executors and hold nothing open. Readers
of a file see it grow, so a folder's file is written beside its name, synced, and then named by a hard link, which
refuses a name that is taken. Must not know what the objects mean.
"""

import errno
import os
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol, TypeAlias

from holdfast_runtime.state.errors import CheckpointUnavailableError

Chunk: TypeAlias = bytes | memoryview


class Storage(Protocol):
    """The objects in one directory."""

    @property
    def directory(self) -> str:
        """Where they are, for people."""
        ...

    def below(self, *names: str) -> "Storage":
        """A directory in this one; it need not be there."""
        ...

    def path(self, name: str) -> str:
        """Of an object, for people."""
        ...

    def names(self) -> list[str]:
        """Objects, in no order; unfinished ones are not among them."""
        ...

    def modified(self) -> dict[str, int]:
        """Objects, and when each was written last: milliseconds since 1970, by the storage's clock."""
        ...

    def directories(self) -> list[str]:
        """Directories in this one, in no order."""
        ...

    def unfinished(self) -> dict[str, str]:
        """What dead (or living) writers have not finished: by its name, the object's name it would have got."""
        ...

    def read(self, name: str) -> bytes | None:
        """The whole object, None where there is none."""
        ...

    def reading(self, name: str) -> AbstractContextManager[Callable[[int], bytes]]:
        """A function that reads the next bytes of the object."""
        ...

    def write(self, name: str, chunks: Iterable[Chunk], *, replace: bool = False) -> int | None:
        """Make an object, and say how many bytes it has; None: the name was taken, and its object stays."""
        ...

    def delete(self, names: Iterable[str]) -> Iterator[str]:
        """Remove objects, each gone when it is named; that somebody else did is fine."""
        ...

    def clear(self, keep: Collection[str]) -> int:
        """Remove all there is, also in directories below, but objects of these names in this one; how many went."""
        ...


def storage_unavailable(path: str, error: Exception, cure: str) -> CheckpointUnavailableError:
    """What to raise where a storage can't do what it is asked to."""
    return CheckpointUnavailableError(f"the checkpoint location refuses {path} ({error}): {cure}")


_TEMPORARY = ".writing-"
# Some mounted shares know none; there the look before the write has to do.
_NO_HARD_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS)
_CURE = "see that it exists (on a cluster: is mounted), has space, and lets this process read and write"


@dataclass(frozen=True, slots=True)
class FolderStorage:
    """The objects in one folder."""

    folder: Path
    sync: bool = True
    """Wait for the disk, so that objects survive a power cut; costs some milliseconds each."""

    @property
    def directory(self) -> str:
        """Where they are, for people."""
        return str(self.folder)

    def below(self, *names: str) -> "FolderStorage":
        """A folder in this one; it need not be there."""
        return FolderStorage(self.folder.joinpath(*names), self.sync)

    def path(self, name: str) -> str:
        """Of an object, for people."""
        return f"{self.folder}/{name}"

    def names(self) -> list[str]:
        """Objects, in no order; unfinished ones are not among them."""
        return [name for name in self._all() if not name.startswith(_TEMPORARY)]

    def modified(self) -> dict[str, int]:
        """Objects, and when each was written last: milliseconds since 1970, by the clock of the file system."""
        found = {}
        for name in self.names():
            with self._reporting(name), suppress(FileNotFoundError):
                found[name] = (self.folder / name).stat().st_mtime_ns // 1_000_000
        return found

    def directories(self) -> list[str]:
        """Folders in this one, in no order."""
        with self._reporting(""):
            try:
                with os.scandir(self.folder) as found:
                    return [one.name for one in found if one.is_dir(follow_symlinks=False)]
            except FileNotFoundError:
                return []

    def unfinished(self) -> dict[str, str]:
        """What dead (or living) writers have not finished: by its name, the object's name it would have got."""
        marked = [name for name in self._all() if name.startswith(_TEMPORARY)]
        return {name: name.removeprefix(_TEMPORARY).rpartition(".")[0] for name in marked}

    def read(self, name: str) -> bytes | None:
        """The whole object, None where there is none."""
        with self._reporting(name):
            try:
                return (self.folder / name).read_bytes()
            except FileNotFoundError:
                return None

    @contextmanager
    def reading(self, name: str) -> Iterator[Callable[[int], bytes]]:
        """A function that reads the next bytes of the object."""
        with self._reporting(name), (self.folder / name).open("rb") as file:
            yield file.read

    def write(self, name: str, chunks: Iterable[Chunk], *, replace: bool = False) -> int | None:
        """Make an object, and say how many bytes it has; None: the name was taken, and its object stays."""
        with self._reporting(name):
            if not replace and (self.folder / name).exists():
                return None
            temporary = self.folder / f"{_TEMPORARY}{name}.{secrets.token_hex(6)}"
            try:
                size = self._fill(temporary, chunks)
                return size if self._publish(temporary, name, replace=replace) else None
            finally:
                temporary.unlink(missing_ok=True)

    def delete(self, names: Iterable[str]) -> Iterator[str]:
        """Remove objects, one after the other; that somebody else did is fine."""
        for name in names:
            with self._reporting(name):
                (self.folder / name).unlink(missing_ok=True)
            yield name

    def clear(self, keep: Collection[str]) -> int:
        """Remove all there is, also in folders below, but files of these names in this one; how many files went."""
        with self._reporting(""):
            return self._cleared(keep)

    def _cleared(self, keep: Collection[str]) -> int:
        gone = 0
        # From below upwards; links are not followed, they are removed.
        for at, below, files in os.walk(self.folder, topdown=False, onerror=_unless_gone):
            folder = Path(at)
            top = folder == self.folder
            links = [name for name in below if (folder / name).is_symlink()]
            for name in [*links, *(name for name in files if not (top and name in keep))]:
                with suppress(FileNotFoundError):
                    (folder / name).unlink()
                    gone += 1
            if not top:
                with suppress(FileNotFoundError):
                    folder.rmdir()
        return gone

    def _all(self) -> list[str]:
        with self._reporting(""):
            try:
                # Every task is listed twice in each batch, so without asking for more than names.
                with os.scandir(self.folder) as found:
                    return [one.name for one in found if one.is_file()]
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
            self.folder.mkdir(parents=True, exist_ok=True)
            return path.open("wb")

    def _publish(self, temporary: Path, name: str, *, replace: bool) -> bool:
        try:
            if replace:
                temporary.replace(self.folder / name)
            else:
                (self.folder / name).hardlink_to(temporary)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in _NO_HARD_LINKS:
                raise
            temporary.replace(self.folder / name)
        if self.sync:
            _sync(self.folder)
        return True

    @contextmanager
    def _reporting(self, name: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise storage_unavailable(self.path(name), error, _CURE) from error


def _unless_gone(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
