"""Logs that processes share, for tests: in memory, and in files, which outlive who writes them."""

import fcntl
import struct
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from holdfast_runtime.shared_log import LogRecord, RecordsForgottenError

_HEADER = struct.Struct("<qqii")


@dataclass(eq=False)
class MemoryLog:
    """A log of this process; `all` has what was forgotten, too."""

    partitions: int = 1
    title: str = "memory"
    all: list[list[LogRecord]] = field(default_factory=list)
    oldest: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.all, self.oldest = [[] for _ in range(self.partitions)], [0] * self.partitions

    def append(self, partition: int, key: bytes, value: bytes) -> LogRecord:
        record = LogRecord(len(self.all[partition]), len(self.all[partition]), key, value)
        self.all[partition].append(record)
        return record

    def bounds(self, partition: int) -> tuple[int, int]:
        return self.oldest[partition], len(self.all[partition])

    def records(self, partition: int, start: int, end: int) -> list[LogRecord]:
        if start < self.oldest[partition]:
            raise RecordsForgottenError
        return self.all[partition][start:end]

    def forget(self, partition: int, before: int) -> None:
        self.oldest[partition] = max(self.oldest[partition], before)


@dataclass(frozen=True)
class FileLog:
    """A log in a directory: for each partition a file of its records, named by the offset of the first."""

    directory: Path
    partitions: int = 2

    @property
    def title(self) -> str:
        return f"log {self.directory}"

    def append(self, partition: int, key: bytes, value: bytes) -> LogRecord:
        with self._locked(partition) as file:
            record = LogRecord(file.end, int(time.time() * 1000), key, value)
            # At once: a process may be killed anywhere, and half of a record would stop all others.
            with file.path.open("ab", buffering=0) as appended:
                appended.write(_packed([record]))
            return record

    def bounds(self, partition: int) -> tuple[int, int]:
        with self._locked(partition) as file:
            return file.oldest, file.end

    def records(self, partition: int, start: int, end: int) -> list[LogRecord]:
        with self._locked(partition) as file:
            if start < file.oldest:
                raise RecordsForgottenError
            return file.records[start - file.oldest : end - file.oldest]

    def forget(self, partition: int, before: int) -> None:
        with self._locked(partition) as file:
            if before > file.oldest:
                written = file.path.with_suffix(".new")
                written.write_bytes(_packed(file.records[before - file.oldest :]))
                written.replace(self._path(partition, before))
                file.path.unlink()

    def _path(self, partition: int, oldest: int) -> Path:
        return self.directory / f"{partition}-{oldest:020}.records"

    @contextmanager
    def _locked(self, partition: int) -> Iterator["_RecordFile"]:
        self.directory.mkdir(exist_ok=True)
        with (self.directory / f"{partition}.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            path = max(self.directory.glob(f"{partition}-*.records"), default=self._path(partition, 0))
            file = _READ.setdefault(path, _RecordFile(path, int(path.stem.partition("-")[2])))
            file.read_on()
            yield file


@dataclass
class _RecordFile:
    """What this process has read of a file."""

    path: Path
    oldest: int
    records: list[LogRecord] = field(default_factory=list)
    size: int = 0

    @property
    def end(self) -> int:
        return self.oldest + len(self.records)

    def read_on(self) -> None:
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            file.seek(self.size)
            content = file.read()
        self.size += len(content)
        at = 0
        while at < len(content):
            offset, written_at, key, value = _HEADER.unpack_from(content, at)
            at += _HEADER.size
            self.records.append(LogRecord(offset, written_at, content[at : at + key], content[at + key :][:value]))
            at += key + value


_READ: dict[Path, _RecordFile] = {}


def _packed(records: Iterable[LogRecord]) -> bytes:
    parts = list[bytes]()
    for record in records:
        parts += [_HEADER.pack(record.offset, record.at, len(record.key), len(record.value)), record.key, record.value]
    return b"".join(parts)
