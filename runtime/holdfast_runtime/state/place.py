"""Why: where a task's local store is, whose it is, and the little file beside it that says both before LMDB is opened.

Commits do not wait for the disk, so a store survives the death of any process, but not of the machine: after a power
cut its file may hold anything, and opening it may crash. Hence the sidecar: it carries the kernel's boot id, and is
looked at first. It is written last when a store is made or restored, so a directory without one is not a store yet.

Must not open LMDB, and must not decide whether to trust anything: that is `trust`.
"""

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from holdfast.spec.values import in_bytes

FORMAT = 1
DEFAULT_QUOTA = 16 << 30
_SMALLEST, _LARGEST, _PAGE = 1 << 20, 1 << 40, 1 << 16
_SIDECAR = "store.json"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def quota_for(size: str) -> int:
    """How large a store may grow on a disk of this `state.size`: LMDB maps whole pages, and not any number of them."""
    return min(_LARGEST, max(_SMALLEST, in_bytes(size))) // _PAGE * _PAGE


@dataclass(frozen=True, slots=True)
class TaskIdentity:
    """Whose state."""

    app: str
    run: str
    task: str

    def __str__(self) -> str:
        return f"task {self.task} of app {self.app}, run {self.run}"


@dataclass(frozen=True, slots=True)
class StorePlace:
    """A directory for the local store of one task, and how large the store may grow."""

    path: Path
    identity: TaskIdentity
    quota: int = DEFAULT_QUOTA
    boot_id_file: Path = _BOOT_ID

    @property
    def data_path(self) -> Path:
        """LMDB's file."""
        return self.path / "data.mdb"

    @property
    def lock_path(self) -> Path:
        """Beside the directory, because the directory comes and goes while the lock is held."""
        return self.path.with_name(self.path.name + ".lock")

    def boot_id(self) -> str:
        """Of the running kernel; without one every store counts as from before a power cut."""
        try:
            return self.boot_id_file.read_text().strip()
        except OSError:
            return ""


@dataclass(frozen=True, slots=True)
class Sidecar:
    """What a store says about itself without being opened."""

    format: int
    identity: TaskIdentity
    boot_id: str
    damage: str | None = None
    """What was found in it that can't be right."""


def read_sidecar(place: StorePlace) -> Sidecar | None:
    """None where there is no store, or only a half-made one, or the file is not ours."""
    try:
        tree = json.loads((place.path / _SIDECAR).read_bytes())
        identity = TaskIdentity(str(tree["app"]), str(tree["run"]), str(tree["task"]))
        damage = tree.get("damage")
        return Sidecar(int(tree["format"]), identity, str(tree["bootId"]), None if damage is None else str(damage))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def write_sidecar(place: StorePlace, damage: str | None = None) -> None:
    """Declare the store whole, under the running kernel; or damaged, so that it is not used again."""
    one = place.identity
    tree = {"format": FORMAT, "app": one.app, "run": one.run, "task": one.task, "bootId": place.boot_id()}
    if damage is not None:
        tree["damage"] = damage
    temporary = place.path / (_SIDECAR + ".writing")
    temporary.write_text(json.dumps(tree))
    temporary.replace(place.path / _SIDECAR)


def drop_sidecar(place: StorePlace) -> None:
    """Declare that what is there is no whole store."""
    (place.path / _SIDECAR).unlink(missing_ok=True)


def make_directory(place: StorePlace) -> None:
    """An empty directory for a new store."""
    drop(place)
    place.path.mkdir(parents=True)


def drop(place: StorePlace) -> None:
    """Remove what is there. The sidecar goes first: killed half-way, what is left is not taken for a store."""
    drop_sidecar(place)
    if place.path.exists():
        shutil.rmtree(place.path)


def size_of(place: StorePlace) -> int:
    """Bytes the store takes on the disk."""
    try:
        return os.stat(place.data_path).st_blocks * 512  # noqa: PTH116 - Path has no blocks either
    except OSError:
        return 0
