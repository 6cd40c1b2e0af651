"""Why: objects in checkpoint storage, through any `pyarrow.fs`, of which a reader sees the whole or nothing.

Object stores show an object when its upload completes. File systems show a file while it grows, so there the object is
written beside its name, synced, and renamed; on a local disk by a hard link, which refuses a name that is taken.
Must not know what the objects mean.
"""

import errno
import os
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
from pyarrow import fs as pafs

from holdfast_runtime.state.errors import CheckpointUnavailableError

_TEMPORARY = ".writing-"
# Some mounted shares know none; there the look before the write has to do.
_NO_HARD_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS)
_UPLOADS_AT_ONCE = ("s3", "gcs", "gs", "abfs")
Chunk: TypeAlias = bytes | memoryview


class Storage:
    """The objects in one directory.

    `sync`: wait for a local disk, so that objects survive a power cut; costs some milliseconds each.
    """

    def __init__(self, fs: pafs.FileSystem, directory: str, *, sync: bool = True) -> None:
        self._fs = fs
        self.directory = directory.rstrip("/")
        self._sync = sync
        self._made = False
        self._local = isinstance(fs, pafs.LocalFileSystem)
        self._uploads = fs.type_name in _UPLOADS_AT_ONCE

    def path(self, name: str) -> str:
        """Of an object."""
        return f"{self.directory}/{name}"

    def names(self) -> list[str]:
        """Objects, in no order; unfinished ones are not among them."""
        return [name for name in self._all() if not name.startswith(_TEMPORARY)]

    def unfinished(self) -> dict[str, str]:
        """What dead (or living) writers have not finished: by its name, the object's name it would have got."""
        marked = [name for name in self._all() if name.startswith(_TEMPORARY)]
        return {name: name.removeprefix(_TEMPORARY).rpartition(".")[0] for name in marked}

    def read(self, name: str) -> bytes | None:
        """The whole object, None where there is none."""
        with self._reporting(name):
            try:
                with self._fs.open_input_file(self.path(name)) as file:
                    return file.readall()  # type: ignore[no-any-return]
            except FileNotFoundError:
                return None

    @contextmanager
    def reading(self, name: str) -> Iterator[Callable[[int], bytes]]:
        """A function that reads the next bytes of the object."""
        with self._reporting(name), self._fs.open_input_file(self.path(name)) as file:
            yield file.read

    def write(self, name: str, chunks: Iterable[Chunk], *, replace: bool = False) -> int | None:
        """Make an object, and say how many bytes it has; None: the name was taken, and its object stays.

        Where neither the disk nor the object store can refuse a taken name, the look and the write are two steps.
        """
        with self._reporting(name):
            if not self._made:
                self._fs.create_dir(self.directory, recursive=True)
                self._made = True
            if not replace and self._fs.get_file_info(self.path(name)).type != pafs.FileType.NotFound:
                return None
            if self._uploads:
                return self._fill(self.path(name), chunks)
            temporary = self.path(f"{_TEMPORARY}{name}.{secrets.token_hex(6)}")
            try:
                size = self._fill(temporary, chunks)
                return size if self._publish(temporary, name, replace=replace) else None
            finally:
                self._forget(temporary)

    def delete(self, name: str) -> None:
        """Remove an object; that somebody else did is fine."""
        with self._reporting(name):
            self._forget(self.path(name))

    def _all(self) -> list[str]:
        with self._reporting(""):
            if self._local:
                return self._in_folder()
            selector = pafs.FileSelector(self.directory, allow_not_found=True)
            return [one.base_name for one in self._fs.get_file_info(selector) if one.type == pafs.FileType.File]

    def _in_folder(self) -> list[str]:
        # Every task is listed twice in each batch; pyarrow asks for the size of each file too, at twice the time.
        try:
            with os.scandir(self.directory) as found:
                return [one.name for one in found if one.is_file()]
        except FileNotFoundError:
            return []

    def _fill(self, path: str, chunks: Iterable[Chunk]) -> int:
        size = 0
        with self._fs.open_output_stream(path) as file:
            for chunk in chunks:
                file.write(chunk)
                size += len(chunk)
        return size

    def _publish(self, temporary: str, name: str, *, replace: bool) -> bool:
        if not self._local:
            self._fs.move(temporary, self.path(name))
            return True
        if self._sync:
            _sync(temporary)
        try:
            if replace:
                Path(temporary).replace(self.path(name))
            else:
                Path(self.path(name)).hardlink_to(temporary)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in _NO_HARD_LINKS:
                raise
            Path(temporary).replace(self.path(name))
        if self._sync:
            _sync(self.directory)
        return True

    def _forget(self, path: str) -> None:
        try:
            self._fs.delete_file(path)
        except FileNotFoundError:
            return

    @contextmanager
    def _reporting(self, name: str) -> Iterator[None]:
        try:
            yield
        except (OSError, pa.ArrowException) as error:
            message = (
                f"the checkpoint location refuses {self.path(name)} ({error}): see that it exists, has space, and lets "
                f"this process read and write"
            )
            raise CheckpointUnavailableError(message) from error


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
