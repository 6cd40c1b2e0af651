"""A copy of Spark's query checkpoint in an object store, for runs whose shared storage is one.

Spark keeps its two logs in files. In an object store it could not keep two drivers apart, and would need half a
gigabyte of jars. So the logs stay on the driver's own disk, and what the next driver needs is copied: before a batch
runs, one object with its entry and the one before. Fencing works as for state (`durable`):

    begin:    fence -> look -> files for Spark
    planned:  write -> look for fences -> (the batch runs)
    done:     write, unless a later batch is planned: that already implies it

No two attempts write the same name, and no attempt writes a name twice with different content. Must not run batches.
"""

import hashlib
import json
import re
import shutil
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from holdfast.attempt_number import PADDED, padded
from holdfast.errors import UserActionError
from holdfast_runtime.checkpoint.directories import RunPaths
from holdfast_runtime.checkpoint.offset_log import check_query, last_entry
from holdfast_runtime.job import Job
from holdfast_runtime.state.durable.storage import Storage, obsolete_may_stay
from holdfast_runtime.state.errors import EpochFencedError
from holdfast_runtime.state.local_disk import on_local_disk
from holdfast_runtime.state.store.delta import fence_name

_NAME = re.compile(rf"(planned|done)-([0-9]{{20}})-({PADDED})|fence-({PADDED})")
_HEADER = re.compile(rb"holdfast-query 1 sha256=([0-9a-f]{64})\n")
_FILE = re.compile(r"metadata|(?:offsets|commits)/\d+")
_KEPT = 2
"""How many batches before the newest are kept; they only help people."""


@dataclass(frozen=True, slots=True, order=True)
class _Entry:
    """An object of the copy; the greatest entry counts."""

    batch: int
    done: bool
    epoch: int
    name: str


@dataclass(frozen=True, slots=True)
class _Found:
    entries: tuple[_Entry, ...]
    fences: tuple[int, ...]

    @property
    def newest_epoch(self) -> int:
        return max([*self.fences, *(entry.epoch for entry in self.entries)], default=0)


class QueryCopy:
    """The copy, as one attempt writes it."""

    lasts_on_disk = False
    """Whether the next attempt reads the directory itself."""

    def __init__(self, storage: Storage, directory: Path, epoch: int) -> None:
        """`directory`: where Spark will keep its checkpoint in this attempt; what is there is removed."""
        self._storage, self.directory, self._epoch = storage, directory, epoch
        self._planned = self._done = -1
        self._found = _Found((), ())

    def begin(self) -> None:
        """Fence off earlier attempts, and restore their files for Spark; raise `EpochFencedError` if fenced off."""
        self._look()
        self._storage.write(fence_name(self._epoch), [b"%d\n" % self._epoch], replace=True)
        self._look()
        files = self._newest()
        with self._on_disk():
            # An attempt that starts again by itself has left its own there.
            if self.directory.exists():
                shutil.rmtree(self.directory)
            self.directory.mkdir(parents=True)
            for name, text in files.items():
                path = self.directory / name
                path.parent.mkdir(exist_ok=True)
                path.write_text(text, encoding="utf-8")

    def planned(self) -> None:
        """Copy the last batch in Spark's offset log. The batch may run only after this has returned."""
        with self._on_disk():
            batch = last_entry(self.directory / "offsets")
        if batch is None or batch == self._planned:
            return
        self._write("planned", batch)
        # Look after writing: a newer attempt whose fence this look does not see will find what was written.
        self._look()
        self._planned = batch

    def recorded(self, job: Job) -> Job:
        """Return a job that copies the plan of each batch before it runs it."""
        return _RecordedJob(self, job)

    def done(self) -> None:
        """Copy that the last batch in Spark's commit log is done, and remove obsolete objects.

        May run in a thread beside `planned`: a later batch's plan counts more, whichever is written first.
        """
        with self._on_disk():
            batch = last_entry(self.directory / "commits")
        if batch is not None and batch > self._done and batch >= self._planned:
            self._write("done", batch)
            self._done = batch
        newest = max((entry.batch for entry in self._found.entries), default=0)
        obsolete = [entry.name for entry in self._found.entries if entry.batch < newest - _KEPT]
        obsolete += [fence_name(epoch) for epoch in self._found.fences if epoch < self._found.newest_epoch]
        with obsolete_may_stay(self._storage):
            for _ in self._storage.delete(obsolete):
                pass
        self._found = _Found(tuple(entry for entry in self._found.entries if entry.name not in obsolete), ())

    def _look(self) -> None:
        listing = _found(self._storage.names_behind(""))
        if listing.newest_epoch > self._epoch:
            message = (
                f"attempt {self._epoch} may not plan batches in {self._storage.directory}: attempt "
                f"{listing.newest_epoch} works there; this process belongs to an older attempt and must end"
            )
            raise EpochFencedError(message)
        self._found = listing

    def _newest(self) -> Mapping[str, str]:
        """Return the files of the newest entry. If that of a done batch is damaged, its plan says enough."""
        entries = [
            entry
            for entry in self._found.entries
            if entry.batch == max(other_entry.batch for other_entry in self._found.entries)
        ]
        by_kind = [max((entry for entry in entries if entry.done is done), default=None) for done in (True, False)]
        damaged = []
        for entry in filter(None, by_kind):
            # Twice: it may have been damaged on its way.
            files = self._files(entry) or self._files(entry)
            if files is not None:
                return files
            damaged.append(self._storage.path(entry.name))
        if not damaged:
            return {}
        message = (
            f"{', '.join(damaged)} can't be read: what the next batch is stands there and nowhere else. Put the "
            f"object back from a copy of the checkpoint location, or start under a new spec.runId"
        )
        raise UserActionError(message, code="QueryCopyDamagedError")

    def _on_disk(self) -> AbstractContextManager[None]:
        return on_local_disk("Spark's checkpoint on the driver's disk", self.directory)

    def _files(self, entry: _Entry) -> Mapping[str, str] | None:
        return _unpacked(self._storage.read(entry.name) or b"")

    def _write(self, kind: str, batch: int) -> None:
        names = ["metadata", *(f"{log}/{number}" for log in ("offsets", "commits") for number in (batch - 1, batch))]
        paths = {name: self.directory / name for name in names}
        with self._on_disk():
            files = {name: path.read_text(encoding="utf-8") for name, path in paths.items() if path.exists()}
        self._storage.write(f"{kind}-{batch:020}-{padded(self._epoch)}", [_packed(files)], replace=True)


class SharedQuery:
    """Stands for `QueryCopy` if Spark's checkpoint is itself shared by all attempts: nothing needs to be copied."""

    lasts_on_disk = True

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def recorded(self, job: Job) -> Job:
        """Return the job unchanged."""
        return job

    def done(self) -> None:
        """Do nothing: Spark's commit log already says so."""


@dataclass(frozen=True, slots=True)
class _RecordedJob:
    copy: QueryCopy
    job: Job

    def run(self, batch: str) -> list[str]:
        """Copy the batch's plan, then run it; return one answer per slot."""
        self.copy.planned()
        return self.job.run(batch)

    def end(self) -> None:
        """End the job."""
        self.job.end()


Query: TypeAlias = QueryCopy | SharedQuery


def query_of(paths: RunPaths, epoch: int) -> Query:
    """Return Spark's checkpoint for this attempt, fenced and checked."""
    if paths.planned is None:
        check_query(paths.query)
        return SharedQuery(paths.query)
    copy = QueryCopy(paths.planned, paths.query / str(epoch), epoch)
    copy.begin()
    check_query(copy.directory)
    return copy


def _found(names: list[str]) -> _Found:
    entries, fences = [], []
    for name in names:
        match = _NAME.fullmatch(name)
        if match is not None and match[1]:
            entries.append(_Entry(int(match[2]), match[1] == "done", int(match[3]), name))
        elif match is not None:
            fences.append(int(match[4]))
    return _Found(tuple(entries), tuple(fences))


def _packed(files: Mapping[str, str]) -> bytes:
    body = json.dumps(files).encode()
    return b"holdfast-query 1 sha256=%s\n" % hashlib.sha256(body).hexdigest().encode() + body


def _unpacked(content: bytes) -> dict[str, str] | None:
    header = _HEADER.match(content)
    body = b"" if header is None else content[header.end() :]
    if header is None or hashlib.sha256(body).hexdigest().encode() != header[1]:
        return None
    files = json.loads(body)
    return {name: str(text) for name, text in files.items() if _FILE.fullmatch(name)}
