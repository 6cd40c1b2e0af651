"""Checkpoint storage in a bucket of an S3 object store, with as few requests as possible.

An object exists once its upload is complete; every later read and listing sees it. There is no renaming. A small object
is created in one request, which fails if the name is taken; one whose answer was lost is told from another's by its
content. Where the store knows no such condition, and for what comes in parts, `write` looks first, which is not atomic:
so an object that must have a single writer carries the attempt in its name. A "directory" is only a common prefix of
names. Must not know what the objects mean.
"""

from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import fs as pafs

from holdfast_runtime.state.durable.object_answers import (
    ClientFinding,
    ShortAnswerError,
    StoreAnswerError,
    answer_error,
    asked_again,
    asked_until_answered,
)
from holdfast_runtime.state.durable.object_service import AT_ONCE, S3Service
from holdfast_runtime.state.durable.object_writes import ObjectWrites
from holdfast_runtime.state.durable.reading_ahead import read_ahead
from holdfast_runtime.state.durable.storage import Chunk, obsolete_may_stay

_DELETES_AT_ONCE = 16
"""A snapshot may make a hundred objects obsolete, and each delete takes one to three round trips."""
_READ, _AHEAD = 8 << 20, 3
"""Bytes asked for in one request, and how many of these are in memory or under way."""
_SMALL = 8 << 20
"""Bytes that are written in one request; a larger object goes in parts, some of them at once."""


@dataclass(frozen=True, slots=True)
class ObjectStorage:
    """The objects of a bucket whose names share a prefix."""

    service: S3Service
    bucket: str
    prefix: str = ""
    """Without leading or trailing slash."""

    @property
    def at_once(self) -> int:
        """How many threads best use it at once."""
        return AT_ONCE

    def refuses_taken(self, size: int) -> bool:
        """Whether the store knows the condition, and so many bytes are one request; known once one is created."""
        return size <= _SMALL and bool(self._writes.creates)

    @property
    def directory(self) -> str:
        """The location, for people to read."""
        return "s3a://" + "/".join(filter(None, (self.bucket, self.prefix)))

    def below(self, *names: str) -> "ObjectStorage":
        """Return the objects below this further prefix."""
        return ObjectStorage(self.service, self.bucket, "/".join(filter(None, (self.prefix, *names))))

    def path(self, name: str) -> str:
        """Return the path of an object, for people to read."""
        return f"{self.directory}/{name}"

    def names(self) -> list[str]:
        """Return the names of all complete objects, unordered."""
        return [info.base_name for info in self._listed() if info.type == pafs.FileType.File]

    def modified(self) -> dict[str, int]:
        """Return when each object was last written, in milliseconds since 1970 by the store's clock."""
        files = (info for info in self._listed() if info.type == pafs.FileType.File)
        return {info.base_name: info.mtime_ns // 1_000_000 for info in files}

    def directories(self) -> list[str]:
        """Return the next path segments below the prefix, unordered."""
        return [info.base_name for info in self._listed() if info.type == pafs.FileType.Directory]

    def unfinished(self) -> dict[str, str]:
        """Return nothing: listings don't show incomplete uploads, and the bucket's rules expire them."""
        return {}

    def read(self, name: str) -> bytes | None:
        """Return the whole object, or None if it does not exist."""
        with self._reporting(name):
            try:
                with self._opened(name) as file:
                    return _piece(file, 0, file.size())
            except FileNotFoundError:
                return None

    @contextmanager
    def reading(self, name: str) -> Iterator[Callable[[int], bytes]]:
        """Give a function that reads the next bytes of the object."""
        with self._reporting(name), closing(self._pieces(name)) as pieces:
            yield _Reader(pieces).read

    def names_behind(self, name: str) -> list[str]:
        """Return the names that sort behind this one, in a directory that has no further ones."""
        with self._reporting(""):
            return asked_until_answered(lambda: self._writes.names_behind(self._within(""), name))

    def write(self, name: str, chunks: Iterable[Chunk], *, replace: bool = False) -> int | None:
        """Create an object and return its size in bytes, or None if other content has the name; that object stays."""
        with self._reporting(name):
            if isinstance(chunks, list | tuple) and (size := sum(map(len, chunks))) <= _SMALL:
                return size if self._written(name, b"".join(chunks), replace=replace) else None
            if not replace and self._is_there(name):
                return None
            if isinstance(chunks, list | tuple):
                return asked_again(lambda: self._fill(name, chunks))
            return self._fill(name, chunks)

    def delete(self, names: Iterable[str]) -> Iterator[str]:
        """Delete objects, many at once; ones already gone are ignored."""
        with ThreadPoolExecutor(_DELETES_AT_ONCE) as pool:
            yield from pool.map(self._delete, names)

    def clear(self, keep: Collection[str]) -> int:
        """Delete everything below the prefix except objects of these names directly in it; return how many went."""
        paths_kept = {self._key(name) for name in keep}
        removed = [info for info in self._listed(recursive=True) if info.path not in paths_kept]
        objects = [info.path for info in removed if info.type == pafs.FileType.File]
        if objects:
            prefix = len(self._key("")) + 1
            for _ in self.delete(path[prefix:] for path in objects if "/" not in path[prefix:]):
                pass
            for name in sorted(
                {info.path[prefix:].split("/")[0] for info in removed if info.type == pafs.FileType.Directory}
            ):
                self.below(name)._delete_all()  # noqa: SLF001 - of this class
        return len(objects)

    @property
    def _client(self) -> pafs.S3FileSystem:
        return self.service.opened(self.bucket)

    @property
    def _writes(self) -> ObjectWrites:
        return self.service.writes(self.bucket)

    def _written(self, name: str, content: bytes, *, replace: bool) -> bool:
        """Write a small object and return whether it is there, not another."""
        writes, key = self._writes, self._within(name)
        if replace:
            asked_until_answered(lambda: writes.replace(key, content))
            return True
        return asked_until_answered(lambda: self._created(writes, name, content))

    def _created(self, writes: ObjectWrites, name: str, content: bytes) -> bool:
        looks_first = not writes.creates
        if not (looks_first and self._is_there(name)) and writes.create(self._within(name), content):
            return True
        # Perhaps an earlier try has written it, whose answer was lost.
        stored = self.read(name)
        if stored is None:
            # Deleted meanwhile, or the store was busy with another request about it.
            raise StoreAnswerError(ClientFinding("CONFLICT", None, "PutObject"), "the name is taken, and nothing there")
        return stored == content

    def _listed(self, *, recursive: bool = False) -> list[pafs.FileInfo]:
        with self._reporting(""):
            selector = pafs.FileSelector(self._key(""), allow_not_found=True, recursive=recursive)
            return asked_again(lambda: self._client.get_file_info(selector))

    def _key(self, name: str) -> str:
        return "/".join(filter(None, (self.bucket, self.prefix, name)))

    def _within(self, name: str) -> str:
        """Return the name in the bucket."""
        return "/".join(filter(None, (self.prefix, name)))

    def _is_there(self, name: str) -> bool:
        # Opening asks for the object only; asking for file info would ask for a directory of that name as well.
        try:
            self._opened(name).close()
        except FileNotFoundError:
            return False
        return True

    def _pieces(self, name: str) -> Generator[bytes]:
        """Yield an object piece by piece; those of a large one are asked for ahead, each by a file of its own."""
        with ExitStack() as stack:
            idle = deque([stack.enter_context(self._opened(name))])
            size = idle[0].size()

            def read(start: int) -> bytes:
                try:
                    file = idle.pop()
                except IndexError:
                    file = stack.enter_context(self._opened(name))
                piece = _piece(file, start, min(_READ, size - start))
                idle.append(file)
                return piece

            with closing(read_ahead(range(0, size, _READ), read, _AHEAD)) as pieces:
                yield from pieces

    def _opened(self, name: str) -> pa.NativeFile:
        return asked_again(lambda: self._client.open_input_file(self._key(name)))

    def _fill(self, name: str, chunks: Iterable[Chunk]) -> int:
        size, whole = 0, False
        try:
            with self._client.open_output_stream(self._key(name)) as file:
                for chunk in chunks:
                    file.write(chunk)
                    size += len(chunk)
            whole = True
        finally:
            if not whole:
                # Closing completes the upload even if the chunks broke off. This leaves a torn object for a moment; its
                # checksums reveal it.
                with obsolete_may_stay(self):
                    self._delete(name)
        return size

    def _delete_all(self) -> None:
        """Delete everything below the prefix, a thousand objects per request, with markers of empty directories."""
        left = len(self._listed(recursive=True))
        while left:
            with self._reporting(""):
                left = self._deleted_all(left)

    def _deleted_all(self, before: int) -> int:
        """Delete what can be deleted and return how many objects are left, fewer than before."""
        try:
            self._client.delete_dir(self._key(""))
        except (OSError, pa.ArrowException):
            # Stores that keep objects as files refuse to remove directories that still hold a file: each call removes
            # one level.
            left = len(self._listed(recursive=True))
            if left >= before:
                raise
            return left
        return 0

    def _delete(self, name: str) -> str:
        with self._reporting(name), suppress(FileNotFoundError):
            asked_again(lambda: self._client.delete_file(self._key(name)))
        return name

    @contextmanager
    def _reporting(self, name: str) -> Iterator[None]:
        try:
            yield
        except (OSError, pa.ArrowException) as error:
            raise answer_error(self.path(name), error) from error


class _Reader:
    """Reads as many bytes as are asked for from pieces of any size."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._piece, self._given = b"", 0

    def read(self, count: int) -> bytes:
        """Return the next bytes, fewer only at the end."""
        parts = []
        while count > 0:
            if self._given == len(self._piece):
                self._piece, self._given = next(self._pieces, b""), 0
                if not self._piece:
                    break
            part = self._piece[self._given : self._given + count]
            parts.append(part)
            self._given += len(part)
            count -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)


_MARKS = (0xA5, 0x5A)


def _piece(file: pa.NativeFile, offset: int, size: int) -> bytes:
    """Return these bytes of an object.

    Where an answer has fewer, and the store sends no checksums, the client leaves the rest of the buffer as it was and
    calls it read. So the last byte is marked before; one that by chance has the value of the mark is read again.
    """

    def ask() -> bytes:
        content = bytearray(size)
        for mark in _MARKS:
            content[-1] = mark
            file.seek(offset)
            if file.readinto(content) == size and content[-1] != mark:
                return bytes(content)
        message = f"fewer bytes came than the {size} from byte {offset} on"
        raise ShortAnswerError(message)

    return asked_again(ask) if size else b""
