"""What the records of one partition of a log say: which objects there are. All who read it come to the same.

An object is what the first record of its name says; a later one of the same name changes nothing, unless it replaces.
So who creates one learns by the order of the records whether the name was free. Before the oldest record that counts
is forgotten, it is written once more at the end (`MOVE`). Must not read a log.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from holdfast_runtime.shared_log import LogRecord


class Deed(StrEnum):
    """What a record does."""

    CREATE = "create"
    REPLACE = "replace"
    DELETE = "delete"
    MOVE = "move"


@dataclass(frozen=True, slots=True)
class LogKey:
    """The key of a record."""

    deed: Deed
    directory: str
    name: str = ""
    """Empty for a deletion: its value has all names."""
    digest: str = ""
    """Of the content: a name that is taken by the same content counts as free."""
    place: str = ""
    """The object elsewhere that has the content, if the record does not have it itself."""
    origin: int = -1
    """The offset of the record that is moved."""

    def packed(self) -> bytes:
        """Return the bytes of the key."""
        parts = [self.deed.value, self.directory, self.name, self.digest, self.place, self.origin]
        return json.dumps(parts, separators=(",", ":")).encode()

    @classmethod
    def unpacked(cls, key: bytes) -> "LogKey":
        """Return the key with these bytes; raise `ValueError` for those of others."""
        match json.loads(key):
            case [str(deed), str(directory), str(name), str(digest), str(place), int(origin)]:
                return cls(Deed(deed), directory, name, digest, place, origin)
        message = f"{key[:200]!r} is no key of a changelog"
        raise ValueError(message)


class LogEntry(NamedTuple):
    """An object that there is."""

    offset: int
    """Of the record with its content."""
    size: int
    at: int
    digest: str
    place: str


@dataclass(slots=True)
class LogView:
    """The objects of a partition, as its records from `begin` to `end` say."""

    begin: int
    end: int = field(init=False)
    directories: dict[str, dict[str, LogEntry]] = field(default_factory=dict)
    """Directory -> name -> object."""
    _sizes: dict[int, int] = field(default_factory=dict)
    """Offset -> bytes of each record that is not forgotten, the oldest first."""
    _bytes: int = 0
    live_bytes: int = 0
    """How many bytes the objects have."""

    def __post_init__(self) -> None:
        self.end = self.begin

    def add(self, record: LogRecord) -> None:
        """Take in the next record."""
        key = LogKey.unpacked(record.key)
        self.end = record.offset + 1
        self._sizes[record.offset] = len(record.value)
        self._bytes += len(record.value)
        if key.deed is Deed.DELETE:
            for name in json.loads(record.value):
                self._remove(key.directory, name)
        elif self._counts(key):
            self._remove(key.directory, key.name)
            names = self.directories.setdefault(key.directory, {})
            names[key.name] = LogEntry(record.offset, len(record.value), record.at, key.digest, key.place)
            self.live_bytes += len(record.value)

    def forget(self, before: int) -> None:
        """Note that the records before an offset are gone."""
        while self._sizes and (oldest := next(iter(self._sizes))) < before:
            self._bytes -= self._sizes.pop(oldest)

    @property
    def obsolete_bytes(self) -> int:
        """How many bytes of records say nothing that counts."""
        return self._bytes - self.live_bytes

    def needed_from(self) -> int:
        """Return the offset before which no record counts."""
        return min((entry.offset for _, _, entry in self._entries()), default=self.end)

    def oldest(self, least_obsolete: int) -> list[tuple[str, str, LogEntry]]:
        """Return directory, name and entry of the oldest objects: so many obsolete bytes are between their records."""
        oldest, obsolete = list[tuple[str, str, LogEntry]](), 0
        by_offset = {entry.offset: (directory, name, entry) for directory, name, entry in self._entries()}
        for offset, size in self._sizes.items():
            if obsolete >= least_obsolete:
                break
            if offset in by_offset:
                oldest.append(by_offset[offset])
            else:
                obsolete += size
        return oldest

    def _counts(self, key: LogKey) -> bool:
        entry = self.directories.get(key.directory, {}).get(key.name)
        if key.deed is Deed.MOVE:
            # Whoever began to read behind the original takes the word of who moved it.
            return key.origin < self.begin if entry is None else entry.offset == key.origin
        return entry is None or key.deed is Deed.REPLACE

    def _remove(self, directory: str, name: str) -> None:
        names = self.directories.get(directory, {})
        if name in names:
            self.live_bytes -= names.pop(name).size
            if not names:
                del self.directories[directory]

    def _entries(self) -> Iterator[tuple[str, str, LogEntry]]:
        for directory, names in self.directories.items():
            for name, entry in names.items():
                yield directory, name, entry
