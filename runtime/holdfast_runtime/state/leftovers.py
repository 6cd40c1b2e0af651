"""Leftover local stores: which stores and tables on a location's disk nobody will open again, and their removal.

A local store is a cache of its durable copy. One that no task opens stays for ever, because a task only drops what lies
in its own place. `leftover` decides from what can be read without opening anything:

    committed       nothing goes before the attempt has committed here, so that earlier ones are fenced off
    a gone task     goes if its durable copy is there, from which a task that comes back is restored
    another run     goes: state never crosses runs, and a user who goes back to that run restores it from its copy
    no owner        goes: it was half made or half removed, and `restore` never trusts it
    another app     stays, and so does all that is open in any process

No task is restored from the store of another one, since new partitions join the task of their parent. Who removes a
store holds its claim and looks again. The sidecar goes first and the lock file last: what a death in between leaves has
no owner, so it is not trusted and goes the next time. Must not touch a durable copy, nor fail a batch.
"""

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from holdfast.errors import HoldfastError, RetrySoonError
from holdfast_runtime.progress import Freed
from holdfast_runtime.state.shared.shared_table import SharedTable
from holdfast_runtime.state.store.directory import (
    StoreDirectory,
    TaskIdentity,
    boot_id,
    drop,
    drop_sidecar,
    read_sidecar,
    size_of,
)
from holdfast_runtime.state.store.environment import claim

_LOG = logging.getLogger("holdfast")
REMOVAL_STEPS = ("claimed", "disowned", "dropped", "unlocked")
_LOCK = ".lock"
_NOBODY = TaskIdentity("", "", "")


class Leftover(StrEnum):
    """Why a store goes."""

    GONE = "its task is gone"
    OTHER_RUN = "it is of another run"
    OWNERLESS = "it was half made or half removed"


@dataclass(frozen=True, slots=True)
class FoundStore:
    """A store, or what is left of one, as it can be seen without opening it."""

    directory: str
    owner: TaskIdentity | None
    """None: nothing says whose it is."""
    copied: bool = False
    """Whether its durable copy is there."""


@dataclass(frozen=True, slots=True)
class LocalStores:
    """A directory of local stores, and which of them are in use."""

    path: Path
    app: str
    run: str
    """The run whose stores belong there."""
    current: bool
    """Whether it is the run that the attempt continues."""
    directories: frozenset[str] = field(default_factory=frozenset)
    """The directories of the tasks of the plan, wherever they run now."""


def leftover(store: FoundStore, stores: LocalStores, *, committed: bool) -> Leftover | None:
    """Return why nobody will open this store again; None: it stays. `committed`: the attempt has, at this location."""
    if not committed or store.directory in stores.directories:
        return None
    if store.owner is None:
        return Leftover.OWNERLESS
    if store.owner.app != stores.app:
        return None
    if not stores.current:
        # A store of another run than its directory says was put there by a person.
        return Leftover.OTHER_RUN if store.owner.run == stores.run else None
    if store.owner.run != stores.run:
        return Leftover.OTHER_RUN
    return Leftover.GONE if store.copied else None


Copied = Callable[[TaskIdentity], bool]
At = Callable[[str], None]


def _nothing(_: str) -> None:
    pass


def remove_stores(stores: LocalStores, copied: Copied, *, committed: bool, at: At = _nothing) -> Freed:
    """Remove leftover stores of tasks. May be killed anywhere, and run by several processes at once."""
    freed = Freed()
    for name in _store_names(stores):
        directory = StoreDirectory(stores.path / name, _NOBODY)
        with _left_for_later(directory.path):
            if leftover(_look(directory, copied), stores, committed=committed) is not None:
                freed = freed.with_more(_remove(directory, stores, copied, committed=committed, at=at))
    return freed


def _remove(directory: StoreDirectory, stores: LocalStores, copied: Copied, *, committed: bool, at: At) -> Freed:
    store_claim = claim(directory)
    try:
        at("claimed")
        # Another process may have removed it meanwhile, or made a new one.
        if leftover(_look(directory, copied), stores, committed=committed) is None:
            return Freed()
        size, existed = size_of(directory), directory.path.exists()
        drop_sidecar(directory)
        at("disowned")
        drop(directory)
        at("dropped")
        directory.lock_path.unlink(missing_ok=True)
        at("unlocked")
    finally:
        store_claim.release()
    return Freed(1, size) if existed else Freed()


def _look(directory: StoreDirectory, copied: Copied) -> FoundStore:
    sidecar = read_sidecar(directory)
    if sidecar is None:
        return FoundStore(directory.path.name, None)
    return FoundStore(directory.path.name, sidecar.identity, copied(sidecar.identity))


def _store_names(stores: LocalStores) -> list[str]:
    """Return the stores that no task of the plan has. Each was made under a lock file; others are not stores."""
    locks = (name for name in _names(stores.path) if name.endswith(_LOCK))
    return sorted({name.removesuffix(_LOCK) for name in locks} - stores.directories)


def _names(directory: Path) -> list[str]:
    """Return the names in a directory, none if it can't be read.

    Those of stores and tables never begin with a dot: `.snapshot.lock` is the lock of a location.
    """
    try:
        return [name for name in os.listdir(directory) if not name.startswith(".")]  # noqa: PTH208 - half the time
    except OSError:
        return []


@contextmanager
def _left_for_later(path: Path) -> Iterator[None]:
    """Leave what is in use, or can't be removed, to the next attempt."""
    try:
        yield
    except RetrySoonError:
        pass
    except (HoldfastError, OSError) as error:
        _LOG.warning("%s is not needed any longer and can't be removed: %s", path, error)


def remove_tables(stores: LocalStores, *, committed: bool) -> Freed:
    """Remove the content of leftover Broadcast tables in a directory; what is left of each is an empty lock file."""
    freed = Freed()
    for name in sorted(_names(stores.path)):
        path = stores.path / name
        table = SharedTable(path, _NOBODY, boot_id(), _nothing, b"")
        with _left_for_later(path):
            if leftover(_look_at(table), stores, committed=committed) is not None and _files(path):
                freed = freed.with_more(_remove_table(table, stores, committed=committed))
    return freed


def _remove_table(table: SharedTable, stores: LocalStores, *, committed: bool) -> Freed:
    with table.locked():
        files = _files(table.path)
        if leftover(_look_at(table), stores, committed=committed) is None or not files:
            return Freed()
        size = sum(path.stat().st_blocks * 512 for path in files)
        table.drop()
    return Freed(1, size)


def _look_at(table: SharedTable) -> FoundStore:
    # A table that comes back begins anew, so nothing is asked about its copy.
    return FoundStore(table.path.name, table.manifest.table if table.look() else None, copied=True)


def _files(path: Path) -> list[Path]:
    return [file for file in path.iterdir() if file.name != _LOCK] if path.is_dir() else []
