"""Checkpoint storage in a log that processes share: small objects, each written in one record.

All objects of a directory are in one partition, so they have an order. Must not know what the objects mean.
"""

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from zlib import crc32

from holdfast_runtime.shared_log import RecordsForgottenError, SharedLog
from holdfast_runtime.state.durable.changelog.log_reader import LogReader, reader_of
from holdfast_runtime.state.durable.changelog.log_view import Deed, LogEntry, LogKey, LogView
from holdfast_runtime.state.durable.storage import Chunk
from holdfast_runtime.state.errors import CheckpointUnavailableError


@dataclass(frozen=True, slots=True)
class LogStorage:
    """The objects of a log whose names share a prefix."""

    log: SharedLog
    prefix: str = ""
    """Without leading or trailing slash."""

    @property
    def at_once(self) -> int:
        """How many threads best use it at once."""
        return 32

    def refuses_taken(self, size: int) -> bool:  # noqa: ARG002 - as storages have it
        """Known: the first record of a name counts."""
        return True

    @property
    def directory(self) -> str:
        """The location, for people to read."""
        return f"{self.log.title}: {self.prefix}"

    def below(self, *names: str) -> "LogStorage":
        """Return the objects below this further prefix."""
        return LogStorage(self.log, "/".join(filter(None, (self.prefix, *names))))

    def path(self, name: str) -> str:
        """Return the path of an object, for people to read."""
        return f"{self.directory}/{name}"

    def names(self) -> list[str]:
        """Return the names of all objects, unordered."""
        return [*self._objects(self._reader.fresh(self._partition))]

    def names_behind(self, name: str) -> list[str]:
        """Return the names that sort behind this one, unordered, as of this process's last write there or later."""
        return [other for other in self._objects(self._reader.known(self._partition)) if other > name]

    def modified(self) -> dict[str, int]:
        """Return when each object was last written, in milliseconds since 1970."""
        entries = self._objects(self._reader.fresh(self._partition))
        return {name: entry.at for name, entry in entries.items()}

    def directories(self) -> list[str]:
        """Return the names of subdirectories, unordered."""
        start = f"{self.prefix}/" if self.prefix else ""
        views = [self._reader.fresh(number) for number in range(self.log.partitions)]
        paths = [path for view in views for path in [*view.directories] if path.startswith(start)]
        return [*{path[len(start) :].split("/")[0] for path in paths}]

    def unfinished(self) -> dict[str, str]:
        """Return nothing: a record is there, or it is not."""
        return {}

    def read(self, name: str) -> bytes | None:
        """Return the whole object, or None if it does not exist."""
        view, missed = self._reader.known(self._partition), -1
        while (entry := self._objects(view).get(name)) is not None:
            try:
                return self._reader.content(self._partition, entry.offset)
            except RecordsForgottenError as error:
                if entry.offset == missed:
                    raise CheckpointUnavailableError(self._lost(name, entry)) from error
                # It was moved, or deleted, and the view is behind.
                view, missed = self._reader.fresh(self._partition), entry.offset
        return None

    def place(self, name: str) -> str:
        """Return the object elsewhere that has the content; empty if this one has it, or does not exist."""
        entry = self._objects(self._reader.known(self._partition)).get(name)
        return "" if entry is None else entry.place

    @contextmanager
    def reading(self, name: str) -> Iterator[Callable[[int], bytes]]:
        """Give a function that reads the next bytes of the object."""
        yield BytesIO(self.read(name) or b"").read

    def write(self, name: str, chunks: Iterable[Chunk], *, replace: bool = False) -> int | None:
        """Create an object and return its size in bytes, or None if the name is taken; that object stays."""
        content = b"".join(chunks)
        return len(content) if self._written(name, content, content, replace=replace) else None

    def refer(self, name: str, place: str, content: bytes, *, replace: bool = False) -> bool:
        """Create an object whose content is elsewhere; return whether the name was free."""
        return self._written(name, content, b"", place, replace=replace)

    def delete(self, names: Iterable[str]) -> Iterator[str]:
        """Delete objects, all in one record, yielding each name then; ones already gone are ignored."""
        all_names, partition = [*names], self._partition
        known = self._objects(self._reader.known(partition))
        if deleted := [name for name in all_names if name in known]:
            self._reader.write(partition, LogKey(Deed.DELETE, self.prefix), json.dumps(deleted).encode())
        yield from all_names
        self._reader.tidy(partition)

    def clear(self, keep: Collection[str]) -> int:
        """Delete everything, also in subdirectories, except objects of these names in this one; return the count."""
        removed = 0
        for partition in range(self.log.partitions):
            for path, objects in [*self._reader.fresh(partition).directories.items()]:
                names = [name for name in objects if path != self.prefix or name not in keep]
                if names and (path == self.prefix or path.startswith(f"{self.prefix}/")):
                    self._reader.write(partition, LogKey(Deed.DELETE, path), json.dumps(names).encode())
                    removed += len(names)
        return removed

    def _written(self, name: str, content: bytes, value: bytes, place: str = "", *, replace: bool) -> bool:
        digest = hashlib.sha256(content).hexdigest()
        key = LogKey(Deed.REPLACE if replace else Deed.CREATE, self.prefix, name, digest, place)
        offset = self._reader.write(self._partition, key, value)
        entry = self._objects(self._reader.known(self._partition)).get(name)
        return replace or (entry is not None and (entry.offset == offset or entry.digest == digest))

    def _lost(self, name: str, entry: LogEntry) -> str:
        return (
            f"{self.path(name)} is gone: its record {entry.offset} of partition {self._partition} was deleted by "
            f"something else than Holdfast. See that the topic keeps all records (retention.ms=-1, retention.bytes=-1, "
            f"cleanup.policy=delete), and bring it back from a copy, or start under a new spec.runId"
        )

    @property
    def _reader(self) -> LogReader:
        return reader_of(self.log)

    @property
    def _partition(self) -> int:
        return crc32(self.prefix.encode()) % self.log.partitions

    def _objects(self, view: LogView) -> dict[str, LogEntry]:
        # A copy: other threads may write beside.
        return dict(view.directories.get(self.prefix, {}))
