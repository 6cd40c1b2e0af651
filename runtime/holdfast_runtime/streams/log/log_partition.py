"""One stream partition of the embedded log: an LMDB environment whose every transaction leaves it whole.

Records are stored in chunks, each one value under the offset of its last record: a fetch is a seek and a few slices, an
append is one put. A process may die at any point: LMDB shows the old or the new state and frees the dead writer's lock.
The file is checked when it is opened (`lmdb_file`): disk damage is refused by name, because nothing can restore it. So
no record is wrong, and no process crashes because of it. Must not be carried across a fork, nor be opened twice in one
process: `embedded_log` ensures both.
"""

import json
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
from holdfast_runtime.lmdb_file import FileDamagedError, check_metas, check_pages
from holdfast_runtime.streams.log.entries import (
    AFTER_CHUNKS,
    BOUNDS_KEY,
    CHUNK_KEY,
    ENTRY_KINDS,
    FENCE_KEY,
    NAME_KEY,
    PAIR,
    checked_value,
    chunk_key,
    fence_key,
    fence_of,
    get_entry,
    marker_key,
    marker_of,
    offset_of_chunk,
    put_entry,
    put_marker,
)
from holdfast_runtime.streams.records import (
    WRITTEN,
    Marker,
    OffsetBounds,
    OffsetRange,
    check_range,
    joined,
    with_offsets,
)

_READERS = 1024
_CHUNK_ROWS, _CHUNK_BYTES = 16_384, 8 << 20
_SMALL_ROWS, _SMALL_BYTES = 256, 16 << 10
"""A last chunk below both limits is rewritten with the records that follow; single appends would make slow fetches."""
_SLACK_PAGES = 16
"""Pages at the end that LMDB took and returned in one transaction are counted but not in the file."""
_DATA = "data.mdb"
_HEAD = struct.Struct(">qq")  # first offset, highest timestamp
_LOOKS = 10


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
        """Release files and memory."""
        self._env.close()

    def bounds(self) -> OffsetBounds:
        """Return the current offsets."""
        with self._reading() as txn:
            return self._bounds(txn)

    def fetch(self, offset_range: OffsetRange) -> pa.RecordBatch:
        """Return exactly the records of a range."""
        parts = []
        with self._reading() as txn:
            check_range(offset_range, self._bounds(txn))
            offset = offset_range.start
            cursor = txn.cursor()
            positioned = offset < offset_range.end and cursor.set_range(chunk_key(offset))
            while offset < offset_range.end:
                key, value = (cursor.key(), cursor.value()) if positioned else (b"", b"")
                if key[:1] != CHUNK_KEY:
                    self._damaged(f"its records end at offset {offset}, before its end")
                first, rows = self._rows(key, value)
                last = first + rows.num_rows
                if not first <= offset < last or chunk_key(last - 1) != key:
                    self._damaged(f"the records around offset {offset} are not where they belong")
                stop = min(last, offset_range.end)
                parts.append(with_offsets(rows.slice(offset - first, stop - offset), offset))
                offset = stop
                positioned = cursor.next()
        return joined(parts, offset_range)

    def append_all(self, writes: Sequence[tuple[pa.RecordBatch, Marker | None]]) -> list[bool]:
        """Write records, but for their headers, and markers of several tasks in one transaction."""
        with self._writing() as txn:
            done = [marker is None or put_marker(txn, marker, self.partition) for _, marker in writes]
            fresh = [records for (records, _), new in zip(writes, done, strict=True) if new and records.num_rows]
            batches = [records.select(WRITTEN.names) for records in fresh]
            if batches:
                self._add(txn, batches)
            return done

    def written(self, owner: str, task: str) -> Marker | None:
        """Return the last marker of a task."""
        with self._reading() as txn:
            return marker_of(txn, owner, task)

    def markers(self, owner: str) -> list[Marker]:
        """Return the last marker of each task of an owner."""
        prefix = marker_key(owner, "")
        with self._reading() as txn:
            cursor = txn.cursor()
            markers = []
            more = cursor.set_range(prefix)
            while more and cursor.key().startswith(prefix):
                task = cursor.key()[len(prefix) :].decode()
                markers.append(Marker(owner, task, *json.loads(checked_value(cursor.key(), cursor.value()).tobytes())))
                more = cursor.next()
            return markers

    def fences(self) -> dict[str, int]:
        """Return the lowest epoch that may still write, by owner."""
        with self._reading() as txn:
            cursor = txn.cursor()
            fences = {}
            more = cursor.set_range(FENCE_KEY)
            while more and cursor.key()[:1] == FENCE_KEY:
                fences[cursor.key()[1:].decode()] = PAIR.unpack(checked_value(*cursor.item()))[0]
                more = cursor.next()
            return fences

    def fence(self, owner: str, epoch: int) -> None:
        """Refuse earlier epochs of an owner from now on."""
        with self._writing() as txn:
            if epoch > fence_of(txn, owner):
                put_entry(txn, fence_key(owner), PAIR.pack(epoch, 0))

    def trim(self, before: int) -> OffsetBounds:
        """Delete the records below an offset."""
        with self._writing() as txn:
            bounds = self._bounds(txn)
            oldest = min(max(bounds.oldest, before), bounds.end)
            self._forget(txn, oldest)
        self._settle()
        return OffsetBounds(oldest, bounds.end)

    def trim_to(self, records: int) -> OffsetBounds:
        """Keep only the newest records."""
        return self.trim(self.bounds().end - records)

    def trim_older(self, timestamp: int) -> OffsetBounds:
        """Delete records older than a time, up to the first chunk that holds a newer one."""
        with self._writing() as txn:
            bounds, cursor = self._bounds(txn), txn.cursor()
            oldest, more = bounds.oldest, cursor.set_range(CHUNK_KEY)
            while (
                more
                and cursor.key()[:1] == CHUNK_KEY
                and _HEAD.unpack_from(checked_value(*cursor.item()))[1] < timestamp
            ):
                oldest = offset_of_chunk(cursor.key()) + 1
                more = cursor.next()
            self._forget(txn, oldest)
        self._settle()
        return OffsetBounds(oldest, bounds.end)

    def size(self) -> int:
        """Return the bytes on disk."""
        return (self.path / _DATA).stat().st_size

    def _add(self, txn: "lmdb.Transaction[bytes]", batches: list[pa.RecordBatch]) -> None:
        bounds = self._bounds(txn)
        first = bounds.end
        added = sum(batch.num_rows for batch in batches)
        cursor = txn.cursor()
        if cursor.set_key(chunk_key(first - 1)) if first else False:
            key, value = cursor.item()
            start, rows = self._rows(key, value)
            if rows.num_rows < _SMALL_ROWS and len(value) < _SMALL_BYTES:
                cursor.delete()
                first, batches = start, [rows, *batches]
        for batch in _chunks(batches):
            last = first + batch.num_rows - 1
            head = _HEAD.pack(first, pc.max(batch.column(2)).as_py())
            put_entry(txn, chunk_key(last), head, batch.serialize().to_pybytes())
            first = last + 1
        put_entry(txn, BOUNDS_KEY, PAIR.pack(bounds.oldest, bounds.end + added))

    def _forget(self, txn: "lmdb.Transaction[bytes]", oldest: int) -> None:
        cursor = txn.cursor()
        more = cursor.set_range(CHUNK_KEY)
        while more and cursor.key()[:1] == CHUNK_KEY and offset_of_chunk(cursor.key()) < oldest:
            more = cursor.delete()
        put_entry(txn, BOUNDS_KEY, PAIR.pack(oldest, self._bounds(txn).end))

    def _settle(self) -> None:
        """Commit once more: LMDB reuses pages only after the next transaction, and a full partition has no others."""
        with self._writing() as txn:
            put_entry(txn, BOUNDS_KEY, PAIR.pack(*self._bounds(txn)[:2]))

    def _rows(self, key: bytes, value: bytes) -> tuple[int, pa.RecordBatch]:
        try:
            length = len(checked_value(key, value)) - _HEAD.size
            rows = pa.ipc.read_record_batch(pa.py_buffer(value).slice(_HEAD.size, length), WRITTEN)
        except (pa.ArrowException, OSError, struct.error) as error:
            self._damaged(f"a chunk can't be read: {error}", error)
        return _HEAD.unpack_from(value)[0], rows

    def _bounds(self, txn: "lmdb.Transaction[bytes]") -> OffsetBounds:
        stored = get_entry(txn, BOUNDS_KEY)
        if stored is None:
            self._damaged("nothing says how far its records go")
        return OffsetBounds(*PAIR.unpack(stored))

    def _check(self) -> None:
        info, stat = self._env.info(), self._env.stat()
        pages = (self.path / _DATA).stat().st_size // stat["psize"]
        # Reading a missing page would end the process by a signal.
        if pages + _SLACK_PAGES < info["last_pgno"] + 1:
            self._damaged(f"it was cut off: {pages} of {info['last_pgno'] + 1} pages are there")
        if not any(self._whole() for _ in range(_LOOKS)):
            # Others write faster than that, or one was killed as it committed: LMDB then lets nobody read its last
            # transaction until somebody asks to write.
            with self._writing():
                if not self._whole():
                    self._damaged("what can be read is not its last transaction")
        with self._reading() as txn:
            name = get_entry(txn, NAME_KEY)
        if name != str(self.partition).encode():
            says = "no name" if name is None else f"the name {name.decode(errors='replace')}"
            self._damaged(f"it has {says}, and should be {self.partition}")

    def _whole(self) -> bool:
        """Check all pages, and all entries whose loss nobody would notice; return False if somebody wrote meanwhile."""
        with self._reading() as txn:
            if not check_pages(self.path / _DATA, txn.id()):
                return False
            cursor = txn.cursor()
            more = cursor.first()
            while more:
                kind = cursor.key()[:1]
                if kind == CHUNK_KEY:
                    # Records are checked when they are fetched, and a missing one is noticed then.
                    more = cursor.set_range(AFTER_CHUNKS)
                    continue
                if kind not in ENTRY_KINDS:
                    self._damaged(f"it has an entry {cursor.key()!r}")
                checked_value(*cursor.item())
                more = cursor.next()
            return True

    def _damaged(self, what: str, cause: Exception | None = None) -> NoReturn:
        message = (
            f"{self.path} is not a whole partition of the embedded log: {what}. Bring it back or remove the stream"
        )
        raise UserActionError(message, code="LogDamagedError") from cause

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
            raise UserActionError(message, code="LogFullError") from error
        except (
            FileDamagedError,
            lmdb.InvalidError,
            lmdb.VersionMismatchError,
            lmdb.CorruptedError,
            lmdb.PageNotFoundError,
        ) as error:
            self._damaged(str(error), error)
        except (lmdb.Error, OSError) as error:
            # LMDB also says "Input/output error" when a full disk cut a write short.
            message = (
                f"{self.partition}: {self.path} can't be used: {error}; its disk has {_free(self.path)} bytes free. "
                f"Make room if it is full, else see that it works (dmesg)"
            )
            raise WorldChangeError(message, code="LogUnavailableError") from error


def create_partition(path: Path, partition: StreamPartition, *, map_size: int) -> None:
    """Create a new, empty partition in a directory that nobody reads yet."""
    path.mkdir(parents=True)
    env = lmdb.open(str(path), map_size=map_size, max_readers=_READERS, sync=False)
    with env.begin(write=True) as txn:
        put_entry(txn, NAME_KEY, str(partition).encode())
        put_entry(txn, BOUNDS_KEY, PAIR.pack(0, 0))
    env.sync(True)  # noqa: FBT003 - the name of the argument is not LMDB's
    env.close()


def _free(path: Path) -> int:
    try:
        return shutil.disk_usage(path).free
    except OSError:
        return 0


def _opened(path: Path, map_size: int, *, sync: bool) -> lmdb.Environment:
    if not (path / _DATA).is_file():
        message = (
            f"{path} is not a partition of the embedded log: it has no data.mdb. Bring it back or remove the stream"
        )
        raise UserActionError(message, code="LogDamagedError")
    check_metas(path / _DATA)
    env = lmdb.open(str(path), map_size=map_size, max_readers=_READERS, sync=sync, create=False)
    env.reader_check()  # otherwise slots of killed readers would run out
    return env


def _chunks(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in batches of a good size: small ones joined, large ones split."""
    whole = pa.concat_batches(batches)
    per_row = max(1, whole.nbytes // whole.num_rows)
    rows = max(1, min(_CHUNK_ROWS, _CHUNK_BYTES // per_row))
    for start in range(0, whole.num_rows, rows):
        yield whole.slice(start, rows)
