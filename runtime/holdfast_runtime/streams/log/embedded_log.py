"""The embedded log: streams on one host with nothing but files, for laptops and tests, as safe as a broker.

A stream is a directory of partitions with a file that holds their number. It is created by one rename, so nobody sees
half of it, and grows under a lock. Any number of processes read and append at once, if they see each other's process
ids: so not from two containers, and not over a network file system. Must not cache what other processes may change: the
number of partitions is read from the file each time.

Partitions are opened once per process: LMDB allows one environment per path and process, and none across a fork. They
stay open until the process ends or a test is over, because they may be in use.
"""

import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from threading import Lock
from urllib.parse import quote

import numpy as np
import pyarrow as pa

from holdfast.errors import UserActionError
from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.sealed_json import sealed, unsealed
from holdfast_runtime.streams.log.log_partition import LogPartition, create_partition
from holdfast_runtime.streams.records import Marker, OffsetBounds, OffsetRange, StreamMissingError, check_partition

MAP_SIZE = 16 << 30
"""How large a partition may become. It costs address space, not memory or disk; all processes must use the same."""
_FORMAT = 2
_META, _LOCK = "stream.json", ".lock"
_LONGEST_NAME = 255
_AT_ONCE = 10_000
"""Records that are looked through at a time."""


@dataclass(frozen=True, slots=True)
class StreamMeta:
    """The content of a stream's file."""

    stream: str
    partitions: int
    created: int
    """Milliseconds since 1970."""
    map_size: int
    format: int = _FORMAT


class EmbeddedLog:
    """The streams in a directory. Cheap: it opens partitions when they are used, once per process."""

    def __init__(self, directory: Path, *, sync: bool = True) -> None:
        """With `sync`, an append is on disk when it returns; without, it survives the process but not the machine."""
        self._directory, self._sync = directory, sync

    def streams(self) -> list[StreamMeta]:
        """Return all existing streams, by name."""
        if not self._directory.is_dir():
            return []
        directories = (path for path in sorted(self._directory.iterdir()) if not path.name.startswith("."))
        return sorted((self._read_meta(path) for path in directories if path.is_dir()), key=lambda meta: meta.stream)

    def has(self, stream: str) -> bool:
        """Whether such a stream exists."""
        return self._path(stream).is_dir()

    def meta(self, stream: str) -> StreamMeta:
        """Return the file content of a stream."""
        path = self._path(stream)
        if not path.is_dir():
            message = f"there is no stream {stream} in {self._directory}"
            raise StreamMissingError(message)
        meta = self._read_meta(path)
        if meta.stream != stream:
            message = f"{path} says that it is the stream {meta.stream}, not {stream}; bring back the right files"
            raise UserActionError(message, code="LogDamagedError")
        return meta

    def ensure(self, stream: str, partitions: int, *, now: int, map_size: int = MAP_SIZE) -> StreamMeta:
        """Return the stream with this many partitions: create it if missing, refuse it if the count differs."""
        if partitions < 1:
            message = f"{stream} needs at least one partition, not {partitions}"
            raise ValueError(message)
        path = self._path(stream)
        if not path.is_dir():
            self._create(path, StreamMeta(stream, partitions, now, map_size))
        meta = self.meta(stream)
        if meta.partitions != partitions:
            message = (
                f"{stream} has {meta.partitions} partitions in {self._directory}, but {partitions} are wanted; "
                f"set partitions: {meta.partitions}, or grow it, or remove {path}"
            )
            raise UserActionError(message, code="PartitionCountError")
        return meta

    def grow(self, stream: str, partitions: int) -> StreamMeta:
        """Add partitions to a stream; existing ones keep their records."""
        with self._locked(stream) as path:
            meta = self.meta(stream)
            if partitions < meta.partitions:
                message = f"{stream} has {meta.partitions} partitions and can't shrink to {partitions}"
                raise UserActionError(message, code="PartitionCountError")
            fences = self._open(StreamPartition(stream, 0), meta).fences()
            for i in range(meta.partitions, partitions):
                self._add_partition(path, StreamPartition(stream, i), meta)
                for owner, epoch in fences.items():
                    self._open(StreamPartition(stream, i), meta).fence(owner, epoch)
            grown = replace(meta, partitions=partitions)
            _sync_directory(path)
            _write_meta(path, grown)
            return grown

    def bounds(self, stream: str) -> dict[StreamPartition, OffsetBounds]:
        """Return the current offsets of each partition of a stream."""
        return {partition.partition: partition.bounds() for partition in self._all(stream)}

    def since(self, stream: str, moment: int) -> dict[int, int]:
        """Return the first offsets with a timestamp at this moment or later, of partitions that have one."""
        first_offsets = {}
        for partition, bounds in self.bounds(stream).items():
            for start in range(bounds.oldest, bounds.end, _AT_ONCE):
                stamps = self.fetch(OffsetRange(partition, start, min(bounds.end, start + _AT_ONCE))).column(
                    "timestamp"
                )
                later = np.flatnonzero(stamps.to_numpy() >= moment)
                if len(later):
                    first_offsets[partition.partition] = start + int(later[0])
                    break
        return first_offsets

    def record_bytes(self, stream: str) -> float:
        """Return the average size of a record on disk."""
        all_ = self._all(stream)
        records = sum(bounds.end - bounds.oldest for bounds in (partition.bounds() for partition in all_))
        return sum(partition.size() for partition in all_) / records if records else 0.0

    def fetch(self, offset_range: OffsetRange) -> pa.RecordBatch:
        """Return exactly the records of a range."""
        return self._known(offset_range.partition).fetch(offset_range)

    def append(self, partition: StreamPartition, records: pa.RecordBatch, marker: Marker | None = None) -> bool:
        """Write records and marker, both or neither; return False if this batch is already written."""
        return self.append_all(partition, [(records, marker)])[0]

    def append_all(
        self, partition: StreamPartition, writes: Sequence[tuple[pa.RecordBatch, Marker | None]]
    ) -> list[bool]:
        """Write the records of several tasks at once, as `append` does."""
        return self._known(partition).append_all(writes)

    def written(self, partition: StreamPartition, owner: str, task: str) -> Marker | None:
        """Return the last marker of a task."""
        return self._known(partition).written(owner, task)

    def fence(self, streams: Sequence[str], owner: str, epoch: int) -> None:
        """From now on, refuse writes to these streams by earlier epochs of this owner."""
        for stream in streams:
            with self._locked(stream):  # otherwise partitions that are being added would miss it
                for partition in self._all(stream):
                    partition.fence(owner, epoch)

    def markers(self, stream: str, owner: str) -> dict[StreamPartition, list[Marker]]:
        """Return the last marker of each task of an owner, in each partition."""
        return {partition.partition: partition.markers(owner) for partition in self._all(stream)}

    def trim(self, partition: StreamPartition, before: int) -> OffsetBounds:
        """Delete the records below an offset."""
        return self._known(partition).trim(before)

    def trim_to(self, partition: StreamPartition, records: int) -> OffsetBounds:
        """Keep only the newest records."""
        return self._known(partition).trim_to(records)

    def trim_older(self, partition: StreamPartition, timestamp: int) -> OffsetBounds:
        """Delete records older than a time; those written together with a newer one stay."""
        return self._known(partition).trim_older(timestamp)

    def size(self, stream: str) -> int:
        """Return the bytes on disk."""
        return sum(partition.size() for partition in self._all(stream))

    def _all(self, stream: str) -> list[LogPartition]:
        meta = self.meta(stream)
        return [self._open(StreamPartition(stream, i), meta) for i in range(meta.partitions)]

    def _known(self, partition: StreamPartition) -> LogPartition:
        meta = self.meta(partition.stream)
        check_partition(partition, {meta.stream: meta.partitions})
        return self._open(partition, meta)

    def _open(self, partition: StreamPartition, meta: StreamMeta) -> LogPartition:
        path = self._path(partition.stream) / str(partition.partition)
        return open_partition(path, partition, map_size=meta.map_size, sync=self._sync)

    def _path(self, stream: str) -> Path:
        return self._directory / _folder_of(stream)

    def _create(self, path: Path, meta: StreamMeta) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=".creating-", dir=self._directory))
        try:
            for i in range(meta.partitions):
                create_partition(draft / str(i), StreamPartition(meta.stream, i), map_size=meta.map_size)
            _write_meta(draft, meta)
            draft.chmod(0o755)
            draft.rename(path)
            _sync_directory(self._directory)
        except OSError:
            if not path.is_dir():
                raise
            # Another process was faster; `ensure` checks what it made.
        finally:
            shutil.rmtree(draft, ignore_errors=True)

    def _add_partition(self, path: Path, partition: StreamPartition, meta: StreamMeta) -> None:
        target = path / str(partition.partition)
        if target.is_dir():
            return  # an earlier, interrupted growth made it; nobody could write there
        draft = Path(tempfile.mkdtemp(prefix=".creating-", dir=path))
        try:
            create_partition(draft / "new", partition, map_size=meta.map_size)
            (draft / "new").rename(target)
        finally:
            shutil.rmtree(draft, ignore_errors=True)

    def _read_meta(self, path: Path) -> StreamMeta:
        try:
            meta = _meta_in((path / _META).read_text(encoding="utf-8"))
        except (OSError, ValueError, TypeError, LookupError) as error:
            message = f"{path} is not a stream of the embedded log: {_META} can't be read: {error}; bring it back"
            raise UserActionError(message, code="LogDamagedError") from error
        if isinstance(meta, StreamMeta):
            return meta
        message = f"{path} is in format {meta} of the embedded log; this release reads {_FORMAT}"
        raise UserActionError(message, code="LogDamagedError")

    @contextmanager
    def _locked(self, stream: str) -> Iterator[Path]:
        path = self._path(stream)
        self.meta(stream)
        with (path / _LOCK).open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield path


@lru_cache(maxsize=1_000)
def _folder_of(stream: str) -> str:
    name = quote(stream, safe="")
    name = f"%2E{name[1:]}" if name.startswith(".") else name
    if not 0 < len(name) <= _LONGEST_NAME:
        message = f"{stream!r} can't be the name of a stream of the embedded log: its folder would be {name!r}"
        raise StreamMissingError(message)
    return name


@lru_cache(maxsize=1_000)
def _meta_in(text: str) -> object:
    """Return what a stream's file says, or its format if that is another one. Files are read each time, texts once."""
    stored_format = json.loads(text)["format"]
    return StreamMeta(**unsealed(text)) if stored_format == _FORMAT else stored_format


def _write_meta(path: Path, meta: StreamMeta) -> None:
    draft = path / f".{_META}.{os.getpid()}"
    with draft.open("w", encoding="utf-8") as file:
        file.write(sealed(asdict(meta)) + "\n")
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path / _META)
    _sync_directory(path)


def _sync_directory(path: Path) -> None:
    directory = os.open(path, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


@dataclass(slots=True)
class _Open:
    process: int
    partitions: dict[Path, tuple[LogPartition, tuple[int, int]]] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)


_state = _Open(os.getpid())


def open_partition(path: Path, partition: StreamPartition, *, map_size: int, sync: bool) -> LogPartition:
    """Return the partition at this path, opened by this process."""
    path = path.absolute()
    process_state = _own()
    with process_state.lock:
        if path in process_state.partitions:
            log_partition, identity = process_state.partitions[path]
            if identity == _identity(path):
                if log_partition.sync != sync:
                    message = (
                        f"{path} is open with sync={log_partition.sync} in this process; open the log the same way"
                    )
                    raise UserActionError(message, code="OpenedOtherwiseError")
                return log_partition
            del process_state.partitions[
                path
            ]  # the files were removed, perhaps made again: the open one is a file without a name
            log_partition.close()
        opened = LogPartition(path, partition, map_size=map_size, sync=sync)
        process_state.partitions[path] = opened, _identity(path)
        return opened


def close_all() -> None:
    """Close all partitions of this process; none may be in use."""
    process_state = _own()
    with process_state.lock:
        while process_state.partitions:
            process_state.partitions.popitem()[1][0].close()


def close_under(directory: Path) -> None:
    """Close the partitions of this process whose files are below a directory; none may be in use."""
    process_state, directory = _own(), directory.absolute()
    with process_state.lock:
        for path in [path for path in process_state.partitions if path.is_relative_to(directory)]:
            process_state.partitions.pop(path)[0].close()


def _own() -> _Open:
    global _state  # noqa: PLW0603 - a process has one set of environments, as LMDB has it
    if _state.process != os.getpid():
        # After a fork, the parent's environments must not be used, nor its lock, which may be held for ever. LMDB's own
        # clean-up knows that they belong to another process.
        _state = _Open(os.getpid())
    return _state


def _identity(path: Path) -> tuple[int, int]:
    try:
        status = (path / "data.mdb").stat()
    except FileNotFoundError:
        return 0, 0
    return status.st_dev, status.st_ino
