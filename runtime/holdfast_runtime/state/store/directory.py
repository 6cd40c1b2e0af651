"""Where a task's local store lies, and the two notes beside it that are read before LMDB opens it.

Commits do not wait for the disk: a store survives the death of any process but not of the machine, and opening a
damaged file may crash. Therefore `store.json` holds the owner and the kernel's boot id. It is written last when a store
is made or restored, so a directory without it is not a store yet. LMDB notices almost no damage: a file that was cut
off, flipped, swapped or put back gives wrong rows or ends the process. Therefore a line in the lock file holds size and
time of the data file as its last user left it, updated at open, at close and around each transaction. This takes
microseconds, while checksums on rows would cost a tenth of a batch or more (`docs/decisions/0018`). Must not open LMDB
or decide: `trust` does.
"""

import json
import os
import shutil
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from zlib import crc32

from holdfast.spec.values import in_bytes

FORMAT = 1
DEFAULT_QUOTA = 16 << 30
_SMALLEST, _LARGEST, _PAGE = 1 << 20, 1 << 40, 1 << 16
_SIDECAR = "store.json"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id(file: Path = _BOOT_ID) -> str:
    """Return the boot id of the running kernel; nothing where it can't be read."""
    try:
        return file.read_text().strip()
    except OSError:
        return ""


def quota_for(size: str) -> int:
    """Return how large a store may grow on a disk of this `state.size`, rounded to what LMDB can map."""
    return min(_LARGEST, max(_SMALLEST, in_bytes(size))) // _PAGE * _PAGE


@dataclass(frozen=True, slots=True)
class TaskIdentity:
    """The app, run and task a state belongs to."""

    app: str
    run: str
    task: str

    def __str__(self) -> str:
        return f"task {self.task} of app {self.app}, run {self.run}"


@dataclass(frozen=True, slots=True)
class StoreDirectory:
    """The directory of one task's local store, and how large the store may grow."""

    path: Path
    identity: TaskIdentity
    quota: int = DEFAULT_QUOTA
    boot_id_file: Path = _BOOT_ID

    @property
    def data_path(self) -> Path:
        """The data file of LMDB."""
        return self.path / "data.mdb"

    @property
    def lock_path(self) -> Path:
        """The lock file. It lies beside the directory, which is deleted and made again while the lock is held."""
        return self.path.with_name(self.path.name + ".lock")

    def boot_id(self) -> str:
        """Return the boot id of the running kernel. Without one, every store counts as from before a power cut."""
        return boot_id(self.boot_id_file)


@dataclass(frozen=True, slots=True)
class Sidecar:
    """What `store.json` says about a store, readable without opening the store."""

    format: int
    identity: TaskIdentity
    boot_id: str
    damage: str | None = None
    """Damage that was found in the store."""


def read_sidecar(directory: StoreDirectory) -> Sidecar | None:
    """Read the sidecar; None if there is no store, only a half-made one, or the file is not Holdfast's."""
    try:
        tree = json.loads((directory.path / _SIDECAR).read_bytes())
        identity = TaskIdentity(str(tree["app"]), str(tree["run"]), str(tree["task"]))
        damage = tree.get("damage")
        return Sidecar(int(tree["format"]), identity, str(tree["bootId"]), None if damage is None else str(damage))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def write_sidecar(directory: StoreDirectory, damage: str | None = None) -> None:
    """Declare the store whole under the running kernel, or damaged, so that it is not used again."""
    identity = directory.identity
    tree = {
        "format": FORMAT,
        "app": identity.app,
        "run": identity.run,
        "task": identity.task,
        "bootId": directory.boot_id(),
    }
    if damage is not None:
        tree["damage"] = damage
    temporary = directory.path / (_SIDECAR + ".writing")
    temporary.write_text(json.dumps(tree))
    temporary.replace(directory.path / _SIDECAR)


def drop_sidecar(directory: StoreDirectory) -> None:
    """Declare that the directory does not hold a whole store."""
    (directory.path / _SIDECAR).unlink(missing_ok=True)


def make_directory(directory: StoreDirectory) -> None:
    """Make an empty directory for a new store."""
    drop(directory)
    directory.path.mkdir(parents=True)


def drop(directory: StoreDirectory) -> None:
    """Remove the store. The sidecar goes first, so that what a kill leaves behind is not taken for a store."""
    drop_sidecar(directory)
    if directory.path.exists():
        shutil.rmtree(directory.path)


def size_of(directory: StoreDirectory) -> int:
    """Return the bytes the store takes on the disk."""
    try:
        return os.stat(directory.data_path).st_blocks * 512  # noqa: PTH116 - Path has no blocks either
    except OSError:
        return 0


_LENGTH = 128


class UsePhase(StrEnum):
    """What the last user was doing."""

    CLOSED = "closed"
    READING = "reading"
    WRITING = "writing"
    """In a transaction, of which an unknown part is in the file."""


@dataclass(frozen=True, slots=True)
class FileStamp:
    """Size and modification time of a file."""

    size: int
    changed: int
    """Nanoseconds since 1970."""


@dataclass(frozen=True, slots=True)
class LastUse:
    """What the last user of a store noted."""

    phase: UsePhase
    file: FileStamp
    deaths: int = 0
    """How many users in a row before this one ended without closing the store."""

    @property
    def unclosed(self) -> int:
        """The same count including this user."""
        return 0 if self.phase is UsePhase.CLOSED else self.deaths + 1

    def line(self) -> bytes:
        """Return the line for the lock file. All lines have one length, so that a single write replaces one."""
        text = f"{self.phase} {self.file.size} {self.file.changed} {self.deaths}".encode()
        return (b"%08x " % crc32(text) + text).ljust(_LENGTH - 1) + b"\n"


def read_last_use(content: bytes) -> LastUse | None:
    """Parse the lock file's content; None if it can't be read."""
    checksum, _, text = content[:_LENGTH].rstrip().partition(b" ")
    try:
        if int(checksum, 16) != crc32(text):
            return None
        phase, size, changed, deaths = text.decode().split(" ")
        return LastUse(UsePhase(phase), FileStamp(int(size), int(changed)), int(deaths))
    except ValueError:
        return None


def file_stamp(path: Path) -> FileStamp | None:
    """Return the stamp of the file as it is now, or None if it does not exist."""
    try:
        status = os.stat(path)  # noqa: PTH116 - half the time
    except OSError:
        return None
    return FileStamp(status.st_size, status.st_mtime_ns)
