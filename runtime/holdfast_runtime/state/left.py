"""How a store was left: a line in its lock file that tells whether its data file is as its last user left it.

LMDB notices almost nothing: of a file that was cut off, flipped, swapped or put back it gives wrong rows, or ends the
process that reads. Whoever has the store notes size and time of the last change of the file: when it opens it, around
each transaction, and when it closes it. That costs microseconds, where checksums on rows cost a tenth of a batch and
more (`docs/decisions/0018`). Must not open LMDB, and must not decide what becomes of the store: that is `trust`.
"""

import os
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from zlib import crc32

_LENGTH = 128


class UsePhase(StrEnum):
    """What the last user was doing."""

    CLOSED = "closed"
    READING = "reading"
    WRITING = "writing"
    """A transaction: nobody knows how much of it is in the file."""


@dataclass(frozen=True, slots=True)
class FileStamp:
    """A file, as it looks from outside."""

    size: int
    changed: int
    """Nanoseconds since 1970."""


@dataclass(frozen=True, slots=True)
class LastUse:
    """What the last user noted."""

    phase: UsePhase
    file: FileStamp
    deaths: int = 0
    """How many users in a row, before this one, ended without closing the store."""

    @property
    def unclosed(self) -> int:
        """The same with this one."""
        return 0 if self.phase is UsePhase.CLOSED else self.deaths + 1

    def line(self) -> bytes:
        """For the lock file; all lines are of one length, so that one is replaced by a single write."""
        text = f"{self.phase} {self.file.size} {self.file.changed} {self.deaths}".encode()
        return (b"%08x " % crc32(text) + text).ljust(_LENGTH - 1) + b"\n"


def read_last_use(content: bytes) -> LastUse | None:
    """What this lock file says; None: nothing that can be read."""
    checksum, _, text = content[:_LENGTH].rstrip().partition(b" ")
    try:
        if int(checksum, 16) != crc32(text):
            return None
        phase, size, changed, deaths = text.decode().split(" ")
        return LastUse(UsePhase(phase), FileStamp(int(size), int(changed)), int(deaths))
    except ValueError:
        return None


def file_stamp(path: Path) -> FileStamp | None:
    """The file of this path as it is now; None where there is none."""
    try:
        found = os.stat(path)  # noqa: PTH116 - half the time
    except OSError:
        return None
    return FileStamp(found.st_size, found.st_mtime_ns)
