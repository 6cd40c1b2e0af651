"""Why: one stream partition of the embedded log: an LMDB environment whose every transaction leaves it whole.

Records lie in chunks, each one value under the offset of its last record: a fetch is a seek and a few slices, an append
one put. Where a process dies does not matter; LMDB shows the old or the new state and frees the dead writer's lock.

Must not be carried across a fork, nor be opened twice in one process: `log` sees to both.
"""

import shutil
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from typing import NoReturn

import lmdb
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import UserActionError, WorldChangeError
from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.streams.records import (
    WRITTEN,
    Bounds,
    FencedError,
    Marker,
    Range,
    check_range,
    joined,
    with_offsets,
)

_READERS = 1024
_CHUNK_ROWS, _CHUNK_BYTES = 16_384, 8 << 20
_SMALL_ROWS, _SMALL_BYTES = 256, 16 << 10
"""A last chunk below both is written anew with the records that follow, or single appends would make slow fetches."""
_SLACK_PAGES = 16
"""Pages at the end that LMDB took and gave back in one transaction are counted but not in the file."""
_LONGEST_KEY = 511

_BOUNDS, _NAME = b"b", b"n"
_CHUNK, _FENCE, _MARKER = b"c", b"f", b"m"
_PAIR = struct.Struct(">qq")
_HEAD = struct.Struct(">qq")  # first offset, highest timestamp


class LogDamagedError(UserActionError):
    """Files of the log that are not as the log wrote them."""


class LogFullError(UserActionError):
    """A partition has reached its largest size."""


class LogUnavailableError(WorldChangeError):
    """The file system or LMDB refuses: no space, no permission, too many readers. Nothing was written."""


class LogPartition:
    """An open partition. Threads may share it; each process opens its own."""

    def __init__(self, path: Path, partition: StreamPartition, *, map_size: int, sync: bool) -> None:
        self.partition, self.path, self.sync = partition, path, sync
        self._threads = RLock()
        with self._explained():
            self._env = _opened(path, map_size, sync=sync)
        try:
            self._check()
        except BaseException:
            self._env.close()
            raise

    def close(self) -> None:
        """Give up files and memory."""
        self._env.close()

    def bounds(self) -> Bounds:
        """What there is."""
        with self._reading() as txn:
            return self._bounds(txn)

    def fetch(self, wanted: Range) -> pa.RecordBatch:
        """Exactly the records of a range."""
        parts = []
        with self._reading() as txn:
            check_range(wanted, self._bounds(txn))
            at = wanted.start
            cursor = txn.cursor()
            found = at < wanted.end and cursor.set_range(_chunk_key(at))
            while at < wanted.end:
                key, value = (cursor.key(), cursor.value()) if found else (b"", b"")
                if key[:1] != _CHUNK:
                    self._damaged(f"its records end at offset {at}, before its end")
                first, rows = self._rows(value)
                last = first + rows.num_rows
                if not first <= at < last or _chunk_key(last - 1) != key:
                    self._damaged(f"the records around offset {at} are not where they belong")
                stop = min(last, wanted.end)
                parts.append(with_offsets(rows.slice(at - first, stop - at), at))
                at = stop
                found = cursor.next()
        return joined(parts, wanted)

    def append_all(self, writes: Sequence[tuple[pa.RecordBatch, Marker | None]]) -> list[bool]:
        """Records and markers of several tasks in one transaction."""
        with self._writing() as txn:
            done = [marker is None or _mark(txn, marker, self.partition) for _, marker in writes]
            batches = [records for (records, _), new in zip(writes, done, strict=True) if new and records.num_rows]
            if batches:
                self._add(txn, batches)
            return done

    def written(self, owner: str, task: str) -> Marker | None:
        """The last marker of a task."""
        with self._reading() as txn:
            seen = txn.get(_marker_key(owner, task))
        return None if seen is None else Marker(owner, task, *_PAIR.unpack(seen))

    def fences(self) -> dict[str, int]:
        """The lowest epoch that may still write, by owner."""
        with self._reading() as txn:
            cursor = txn.cursor()
            found = {}
            more = cursor.set_range(_FENCE)
            while more and cursor.key()[:1] == _FENCE:
                found[cursor.key()[1:].decode()] = _PAIR.unpack(cursor.value())[0]
                more = cursor.next()
            return found

    def fence(self, owner: str, epoch: int) -> None:
        """Refuse earlier epochs of an owner from now on."""
        with self._writing() as txn:
            if epoch > _fence_of(txn, owner):
                txn.put(_fence_key(owner), _PAIR.pack(epoch, 0))

    def trim(self, before: int) -> Bounds:
        """Forget the records below an offset."""
        with self._writing() as txn:
            bounds = self._bounds(txn)
            oldest = min(max(bounds.oldest, before), bounds.end)
            self._forget(txn, oldest)
        self._settle()
        return Bounds(oldest, bounds.end)

    def trim_to(self, records: int) -> Bounds:
        """Keep only the newest records."""
        return self.trim(self.bounds().end - records)

    def trim_older(self, timestamp: int) -> Bounds:
        """Forget records as long as they are older than a time; stops at the first chunk that holds a newer one."""
        with self._writing() as txn:
            bounds, cursor = self._bounds(txn), txn.cursor()
            oldest, more = bounds.oldest, cursor.set_range(_CHUNK)
            while more and cursor.key()[:1] == _CHUNK and _HEAD.unpack_from(cursor.value())[1] < timestamp:
                oldest = _offset_of(cursor.key()) + 1
                more = cursor.next()
            self._forget(txn, oldest)
        self._settle()
        return Bounds(oldest, bounds.end)

    def size(self) -> int:
        """Bytes on disk."""
        return (self.path / "data.mdb").stat().st_size

    def _add(self, txn: "lmdb.Transaction[bytes]", batches: list[pa.RecordBatch]) -> None:
        bounds = self._bounds(txn)
        first = bounds.end
        added = sum(batch.num_rows for batch in batches)
        cursor = txn.cursor()
        if cursor.set_key(_chunk_key(first - 1)) if first else False:
            value = cursor.value()
            start, rows = self._rows(value)
            if rows.num_rows < _SMALL_ROWS and len(value) < _SMALL_BYTES:
                cursor.delete()
                first, batches = start, [rows, *batches]
        for batch in _chunks(batches):
            last = first + batch.num_rows - 1
            head = _HEAD.pack(first, pc.max(batch.column(2)).as_py())
            txn.put(_chunk_key(last), head + batch.serialize().to_pybytes(), append=False)
            first = last + 1
        txn.put(_BOUNDS, _PAIR.pack(bounds.oldest, bounds.end + added))

    def _forget(self, txn: "lmdb.Transaction[bytes]", oldest: int) -> None:
        cursor = txn.cursor()
        more = cursor.set_range(_CHUNK)
        while more and cursor.key()[:1] == _CHUNK and _offset_of(cursor.key()) < oldest:
            more = cursor.delete()
        txn.put(_BOUNDS, _PAIR.pack(oldest, self._bounds(txn).end))

    def _settle(self) -> None:
        """One more commit: LMDB uses pages again from the transaction after next, and a full partition has none."""
        with self._writing() as txn:
            txn.put(_BOUNDS, _PAIR.pack(*self._bounds(txn)))

    def _rows(self, value: bytes) -> tuple[int, pa.RecordBatch]:
        try:
            rows = pa.ipc.read_record_batch(pa.py_buffer(value).slice(_HEAD.size), WRITTEN)
        except (pa.ArrowException, OSError, struct.error) as error:
            self._damaged(f"a chunk can't be read: {error}", error)
        return _HEAD.unpack_from(value)[0], rows

    def _bounds(self, txn: "lmdb.Transaction[bytes]") -> Bounds:
        found = txn.get(_BOUNDS)
        return Bounds(0, 0) if found is None else Bounds(*_PAIR.unpack(found))

    def _check(self) -> None:
        info, stat = self._env.info(), self._env.stat()
        pages = (self.path / "data.mdb").stat().st_size // stat["psize"]
        # Reading a page that is not there would end the process by a signal.
        if pages + _SLACK_PAGES < info["last_pgno"] + 1:
            self._damaged(f"it was cut off: {pages} of {info['last_pgno'] + 1} pages are there")
        with self._reading() as txn:
            name = txn.get(_NAME)
        if name != str(self.partition).encode():
            says = "no name" if name is None else f"the name {name.decode(errors='replace')}"
            self._damaged(f"it has {says}, and should be {self.partition}")

    def _damaged(self, what: str, cause: Exception | None = None) -> NoReturn:
        message = (
            f"{self.path} is not a whole partition of the embedded log: {what}. Bring it back or remove the stream"
        )
        raise LogDamagedError(message) from cause

    @contextmanager
    def _reading(self) -> Iterator["lmdb.Transaction[bytes]"]:
        with self._threads, self._explained(), self._env.begin() as txn:
            yield txn

    @contextmanager
    def _writing(self) -> Iterator["lmdb.Transaction[bytes]"]:
        with self._threads, self._explained(), self._env.begin(write=True) as txn:
            yield txn

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except lmdb.MapFullError as error:
            size = self._env.info()["map_size"]
            message = (
                f"{self.partition} is full: {self.path} may hold {size} bytes and needs more. Nothing of this append "
                "was written; trim the partition, or create the stream with a larger map_size"
            )
            raise LogFullError(message) from error
        except (lmdb.InvalidError, lmdb.VersionMismatchError, lmdb.CorruptedError, lmdb.PageNotFoundError) as error:
            self._damaged(str(error), error)
        except (lmdb.Error, OSError) as error:
            # LMDB says "Input/output error" too when a full disk took the first half of a write.
            message = (
                f"{self.partition}: {self.path} can't be used: {error}; its disk has {_free(self.path)} bytes free"
            )
            raise LogUnavailableError(message) from error


def create_partition(path: Path, partition: StreamPartition, *, map_size: int) -> None:
    """A new, empty partition in a folder that nobody reads yet."""
    path.mkdir(parents=True)
    env = lmdb.open(str(path), map_size=map_size, max_readers=_READERS, sync=False)
    with env.begin(write=True) as txn:
        txn.put(_NAME, str(partition).encode())
        txn.put(_BOUNDS, _PAIR.pack(0, 0))
    env.sync(True)  # noqa: FBT003 - the name of the argument is not LMDB's
    env.close()


def _free(path: Path) -> int:
    try:
        return shutil.disk_usage(path).free
    except OSError:
        return 0


def _opened(path: Path, map_size: int, *, sync: bool) -> lmdb.Environment:
    if not (path / "data.mdb").is_file():
        message = (
            f"{path} is not a partition of the embedded log: it has no data.mdb. Bring it back or remove the stream"
        )
        raise LogDamagedError(message)
    env = lmdb.open(str(path), map_size=map_size, max_readers=_READERS, sync=sync, create=False)
    env.reader_check()  # slots of readers that were killed would run out
    return env


def _mark(txn: "lmdb.Transaction[bytes]", marker: Marker, partition: StreamPartition) -> bool:
    fence = _fence_of(txn, marker.owner)
    if marker.epoch < fence:
        message = (
            f"{partition}: attempt {marker.epoch} of {marker.owner} wants to write batch {marker.batch} of "
            f"{marker.task}, but attempt {fence} has taken over; this process must end"
        )
        raise FencedError(message)
    key = _marker_key(marker.owner, marker.task)
    seen = txn.get(key)
    if seen is not None and _PAIR.unpack(seen)[0] >= marker.batch:
        return False
    txn.put(key, _PAIR.pack(marker.batch, marker.epoch))
    if marker.epoch > fence:
        txn.put(_fence_key(marker.owner), _PAIR.pack(marker.epoch, 0))
    return True


def _fence_of(txn: "lmdb.Transaction[bytes]", owner: str) -> int:
    found = txn.get(_fence_key(owner))
    return 0 if found is None else int(_PAIR.unpack(found)[0])


def _chunks(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of a good size: small ones together, large ones cut."""
    for whole in pa.Table.from_batches(batches, WRITTEN).combine_chunks().to_batches():
        per_row = max(1, whole.nbytes // whole.num_rows)
        rows = max(1, min(_CHUNK_ROWS, _CHUNK_BYTES // per_row))
        for start in range(0, whole.num_rows, rows):
            yield whole.slice(start, rows)


def _chunk_key(last: int) -> bytes:
    return _CHUNK + last.to_bytes(8, "big")


def _offset_of(key: bytes) -> int:
    return int.from_bytes(key[1:], "big")


def _fence_key(owner: str) -> bytes:
    return _named(_FENCE + owner.encode())


def _marker_key(owner: str, task: str) -> bytes:
    return _named(_MARKER + owner.encode() + b"\0" + task.encode())


def _named(key: bytes) -> bytes:
    if len(key) > _LONGEST_KEY:
        message = f"names too long for the embedded log ({len(key)} bytes, at most {_LONGEST_KEY}): {key[1:]!r}"
        raise ValueError(message)
    return key
