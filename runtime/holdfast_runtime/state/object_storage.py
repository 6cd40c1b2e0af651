"""Checkpoint storage in a bucket of an S3 object store, with as few requests as possible.

An object is there when its upload is complete, and every reader and every listing after that sees it. There is no
renaming and, through `pyarrow`, no write that is refused because the name is taken: `write` looks before, which is
one step of two, so names whose object must have one writer have to carry the attempt. "Directories" are only how
names begin. Must not know what the objects mean.
"""

import os
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache

import pyarrow as pa
from pyarrow import fs as pafs

from holdfast_runtime.state.storage import Chunk, storage_unavailable

_CURE = (
    "see that the bucket is there, that endpoint and region are right, and that the credentials of this pod allow to "
    "list, read, write and delete there (docs/object-stores.md)"
)
_DELETES_AT_ONCE = 16
"""A snapshot may make a hundred objects superfluous, and each takes a round trip or three."""
_TRIES = 6
"""Within some fifteen seconds, each after twice the wait: a store that throttles or restarts is no reason to end."""
_READ = 8 << 20
_ANY_REGION = "us-east-1"


@dataclass(frozen=True, slots=True)
class S3Service:
    """How an object store is reached. Credentials are not in it: each process finds those of its pod."""

    endpoint: str | None = None
    """Host and port; None: Amazon's."""
    encrypted: bool = True
    region: str | None = None
    """None: as the environment says; else, at Amazon, where the bucket is."""
    virtual_hosts: bool = False
    """Whether the bucket is part of the host's name also at an endpoint of one's own."""

    def opened(self, bucket: str) -> pafs.S3FileSystem:
        """A client; one for each process."""
        return _opened(self, bucket, os.getpid())


@dataclass(frozen=True, slots=True)
class ObjectStorage:
    """The objects of a bucket whose names begin alike."""

    service: S3Service
    bucket: str
    prefix: str = ""
    """Without slashes around it."""

    @property
    def directory(self) -> str:
        """Where they are, for people."""
        return "s3a://" + "/".join(filter(None, (self.bucket, self.prefix)))

    def below(self, *names: str) -> "ObjectStorage":
        """Names that begin with these, too."""
        return ObjectStorage(self.service, self.bucket, "/".join(filter(None, (self.prefix, *names))))

    def path(self, name: str) -> str:
        """Of an object, for people."""
        return f"{self.directory}/{name}"

    def names(self) -> list[str]:
        """Objects, in no order; uploads that are not complete are none."""
        return [one.base_name for one in self._listed() if one.type == pafs.FileType.File]

    def modified(self) -> dict[str, int]:
        """Objects, and when each was written last: milliseconds since 1970, by the store's clock."""
        files = (one for one in self._listed() if one.type == pafs.FileType.File)
        return {one.base_name: one.mtime_ns // 1_000_000 for one in files}

    def directories(self) -> list[str]:
        """What names go on with up to a slash, in no order."""
        return [one.base_name for one in self._listed() if one.type == pafs.FileType.Directory]

    def unfinished(self) -> dict[str, str]:
        """None that a listing shows: incomplete uploads are the bucket's to expire."""
        return {}

    def read(self, name: str) -> bytes | None:
        """The whole object, None where there is none."""
        with self._reporting(name):
            try:
                with self._client.open_input_file(self._key(name)) as file:
                    return file.readall()  # type: ignore[no-any-return]
            except FileNotFoundError:
                return None

    @contextmanager
    def reading(self, name: str) -> Iterator[Callable[[int], bytes]]:
        """A function that reads the next bytes of the object."""
        with self._reporting(name), self._client.open_input_stream(self._key(name), buffer_size=_READ) as file:
            yield file.read

    def write(self, name: str, chunks: Iterable[Chunk], *, replace: bool = False) -> int | None:
        """Make an object, and say how many bytes it has; None: the name was taken, and its object stays."""
        with self._reporting(name):
            if not replace and self._is_there(name):
                return None
            return self._fill(name, chunks)

    def delete(self, names: Iterable[str]) -> Iterator[str]:
        """Remove objects, many at once; that somebody else did is fine."""
        with ThreadPoolExecutor(_DELETES_AT_ONCE) as pool:
            yield from pool.map(self._delete, names)

    def clear(self, keep: Collection[str]) -> int:
        """Remove all whose names begin so, but objects of these names directly here; how many went."""
        kept = {self._key(name) for name in keep}
        gone = [one for one in self._listed(recursive=True) if one.path not in kept]
        objects = [one.path for one in gone if one.type == pafs.FileType.File]
        if objects:
            mine = len(self._key("")) + 1
            for _ in self.delete(path[mine:] for path in objects if "/" not in path[mine:]):
                pass
            for name in sorted({one.path[mine:].split("/")[0] for one in gone if one.type == pafs.FileType.Directory}):
                self.below(name)._delete_all()  # noqa: SLF001 - of this class
        return len(objects)

    @property
    def _client(self) -> pafs.S3FileSystem:
        return self.service.opened(self.bucket)

    def _listed(self, *, recursive: bool = False) -> list[pafs.FileInfo]:
        with self._reporting(""):
            selector = pafs.FileSelector(self._key(""), allow_not_found=True, recursive=recursive)
            return self._client.get_file_info(selector)  # type: ignore[no-any-return]

    def _key(self, name: str) -> str:
        return "/".join(filter(None, (self.bucket, self.prefix, name)))

    def _is_there(self, name: str) -> bool:
        # To open asks for the object only; to ask what is there asks for a directory of that name as well.
        try:
            self._client.open_input_file(self._key(name)).close()
        except FileNotFoundError:
            return False
        return True

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
                # Closing completes the upload, also where the chunks broke off: a torn object, if only for a moment,
                # which its checksums give away.
                self._delete(name)
        return size

    def _delete_all(self) -> None:
        """A thousand objects a request, and with them what stands for directories that are empty."""
        left = len(self._listed(recursive=True))
        while left:
            with self._reporting(""):
                left = self._deleted_all(left)

    def _deleted_all(self, before: int) -> int:
        """How many are left; less than before."""
        try:
            self._client.delete_dir(self._key(""))
        except (OSError, pa.ArrowException):
            # Stores that keep objects as files refuse directories from which a file is still to be removed: a level
            # goes each time.
            left = len(self._listed(recursive=True))
            if left >= before:
                raise
            return left
        return 0

    def _delete(self, name: str) -> str:
        with self._reporting(name), suppress(FileNotFoundError):
            self._client.delete_file(self._key(name))
        return name

    @contextmanager
    def _reporting(self, name: str) -> Iterator[None]:
        try:
            yield
        except (OSError, pa.ArrowException) as error:
            raise storage_unavailable(self.path(name), error, _CURE) from error


@cache
def _opened(service: S3Service, bucket: str, _: int) -> pafs.S3FileSystem:
    """`_`: the process: what one has opened, its children can't use."""
    given = {} if service.endpoint is None else {"endpoint_override": service.endpoint}
    return pafs.S3FileSystem(
        scheme="https" if service.encrypted else "http",
        region=service.region or _region(service, bucket),
        force_virtual_addressing=service.virtual_hosts,
        # A small object is then one request, and not the three of an upload in parts.
        allow_delayed_open=True,
        retry_strategy=pafs.AwsStandardS3RetryStrategy(max_attempts=_TRIES),
        **given,
    )


def _region(service: S3Service, bucket: str) -> str:
    named = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if named:
        return named
    if service.endpoint is not None or "AWS_ENDPOINT_URL" in os.environ or "AWS_ENDPOINT_URL_S3" in os.environ:
        return _ANY_REGION
    return pafs.resolve_s3_region(bucket)  # type: ignore[no-any-return]
