"""A copy of Spark's query checkpoint in an object store, for runs whose shared storage is one.

Spark keeps its two logs in files. In an object store it could not keep two drivers apart, and would need half a
gigabyte of jars. So the logs stay on the driver's own disk, and what the next driver needs is copied: before a batch
runs, one object with its entry and the one before. Fencing works as for state (`durable`):

    begin:    fence -> look -> take names -> files for Spark
    planned:  write -> look for fences, beside the batch if the name was refused otherwise -> (the batch runs)
    done:     write, unless a later batch is planned: that already implies it

An attempt that begins takes, by an empty object, the name under which each older one would plan its next batch. Where
the storage refuses a name that is taken, that stops the older one in the request that it makes anyway; it looks only to
end soon. Its first plan may be one that it found, under a name nobody takes, so it looks behind that. A taken name
stays for ever: the older attempt may come back at any time. Must not run batches.
"""

import hashlib
import json
import re
import shutil
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from holdfast.attempt_number import PADDED, padded
from holdfast.errors import UserActionError
from holdfast_runtime.checkpoint.directories import RunPaths
from holdfast_runtime.checkpoint.offset_log import check_query, last_entry
from holdfast_runtime.checkpoint.query_log import overtaken
from holdfast_runtime.job import BatchTexts, Job
from holdfast_runtime.state.durable.storage import Storage, obsolete_may_stay
from holdfast_runtime.state.errors import EpochFencedError
from holdfast_runtime.state.local_disk import on_local_disk
from holdfast_runtime.state.store.object_names import fence_name

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

    def older_than(self, epoch: int) -> Iterator[int]:
        """Yield older attempts that may plan: of one that can't, a newer one has removed the fence."""
        return (fence for fence in self.fences if fence < epoch)


class QueryCopy:
    """The copy, as one attempt writes it."""

    def __init__(self, storage: Storage, directory: Path, epoch: int) -> None:
        """`directory`: where Spark will keep its checkpoint in this attempt; what is there is removed."""
        self._storage, self.directory, self._epoch = storage, directory, epoch
        self._planned = self._done = -1
        self._found = _Found((), ())
        self._own = dict[str, _Entry]()
        """The plans of this attempt by name: a look that goes on beside batches may not have seen the last ones."""
        self._beside = ThreadPoolExecutor(1, "look-for-fences")
        self._looking: Future[None] | None = None
        """The look behind the last plan, if it goes on beside its batch."""

    def begin(self) -> None:
        """Fence off earlier attempts, and restore their files for Spark; raise `EpochFencedError` if fenced off."""
        self._look()
        self._storage.write(fence_name(self._epoch), [b"%d\n" % self._epoch], replace=True)
        self._look()
        files = _newest_files(self._storage, self._found)
        while not self._take_names(files):
            self._look()
            files = _newest_files(self._storage, self._found)
        with self._on_disk():
            # An attempt that starts again by itself has left its own there.
            if self.directory.exists():
                shutil.rmtree(self.directory)
            _write_files(files, self.directory)

    def planned(self) -> None:
        """Copy the last batch in Spark's offset log. The batch may run only after this has returned."""
        with self._on_disk():
            batch = last_entry(self.directory / "offsets")
        if batch is None or batch == self._planned:
            return
        if self._looking is not None and self._looking.done():
            self._looking.result()
            self._looking = None
        name = f"planned-{batch:020}-{padded(self._epoch)}"
        entry = _Entry(batch, done=False, epoch=self._epoch, name=name)
        size = self._write(entry.name, batch)
        if size is None:
            self._look()
            self._check_own(entry)
        self._own[entry.name] = entry
        # A newer attempt whose fence a look behind the write does not see will find what was written.
        if self._planned < 0 or size is None or not self._storage.refuses_taken(size):
            self._look()
        elif self._looking is None:
            self._looking = self._beside.submit(self._look)
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
            self._write(f"done-{batch:020}-{padded(self._epoch)}", batch)
            self._done = batch
        entries = sorted({*self._found.entries, *list(self._own.values())})
        newest = max((entry.batch for entry in entries), default=0)
        last_of_older = {entry.epoch: entry.name for entry in entries if not entry.done}
        last_of_older.pop(self._epoch, None)
        old_names = (entry.name for entry in entries if entry.batch < newest - _KEPT)
        # The last plan of an older attempt may be its taken name.
        obsolete = [name for name in old_names if name not in last_of_older.values()]
        obsolete += [fence_name(epoch) for epoch in self._found.fences if epoch < self._found.newest_epoch]
        with obsolete_may_stay(self._storage):
            for name in self._storage.delete(obsolete):
                self._own.pop(name, None)
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

    def _take_names(self, files: Mapping[str, str]) -> bool:
        """Take the names of older attempts' next plans; return whether none of them has planned meanwhile."""
        batch = 1 + max((int(name.split("/")[1]) for name in files if name.startswith("offsets/")), default=-1)
        return all(self._take(f"planned-{batch:020}-{padded(epoch)}") for epoch in self._found.older_than(self._epoch))

    def _take(self, name: str) -> bool:
        return self._storage.write(name, [_TAKEN]) is not None or _files_in(self._storage, name) == {}

    def _check_own(self, entry: _Entry) -> None:
        """Raise `AttemptOvertakenError` unless this attempt itself, before it started again, has planned the same."""
        name = f"offsets/{entry.batch}"
        with self._on_disk():
            planned = (self.directory / name).read_text(encoding="utf-8")
        if (_files_in(self._storage, entry.name) or {}).get(name) != planned:
            raise overtaken()

    def _on_disk(self) -> AbstractContextManager[None]:
        return on_local_disk("Spark's checkpoint on the driver's disk", self.directory)

    def _write(self, object_name: str, batch: int) -> int | None:
        names = ["metadata", *(f"{log}/{number}" for log in ("offsets", "commits") for number in (batch - 1, batch))]
        paths = {name: self.directory / name for name in names}
        with self._on_disk():
            files = {name: path.read_text(encoding="utf-8") for name, path in paths.items() if path.exists()}
        return self._storage.write(object_name, [_packed(files)], replace=object_name.startswith("done"))


class SharedQuery:
    """Stands for `QueryCopy` if Spark's checkpoint is itself shared by all attempts: nothing needs to be copied."""

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

    def run(self, batch: BatchTexts) -> list[str]:
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


def restore_query(storage: Storage, directory: Path) -> None:
    """Write the files of the newest entry to a directory, to be looked at; no attempt is fenced off by that."""
    _write_files(_newest_files(storage, _found(storage.names_behind(""))), directory)


def _write_files(files: Mapping[str, str], directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")


def _newest_files(storage: Storage, listing: _Found) -> Mapping[str, str]:
    """Return the files of the newest entry. If that of a done batch is damaged, its plan says enough."""
    for batch in sorted({entry.batch for entry in listing.entries}, reverse=True):
        damaged = []
        for done in (True, False):
            entries = [entry for entry in listing.entries if (entry.batch, entry.done) == (batch, done)]
            for entry in sorted(entries, reverse=True):
                # Twice: it may have been damaged on its way.
                files = _files_in(storage, entry.name) or _files_in(storage, entry.name)
                if files is None:
                    damaged.append(storage.path(entry.name))
                    break
                if files:  # else only its name is taken
                    return files
        if damaged:
            message = (
                f"{', '.join(damaged)} can't be read: what the next batch is stands there and nowhere else. Put "
                f"the object back from a copy of the checkpoint location, or start under a new spec.runId"
            )
            raise UserActionError(message, code="QueryCopyDamagedError")
    return {}


def _files_in(storage: Storage, name: str) -> Mapping[str, str] | None:
    return _unpacked(storage.read(name) or b"")


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


_TAKEN = _packed({})


def _unpacked(content: bytes) -> dict[str, str] | None:
    header = _HEADER.match(content)
    body = b"" if header is None else content[header.end() :]
    if header is None or hashlib.sha256(body).hexdigest().encode() != header[1]:
        return None
    files = json.loads(body)
    return {name: str(text) for name, text in files.items() if _FILE.fullmatch(name)}
