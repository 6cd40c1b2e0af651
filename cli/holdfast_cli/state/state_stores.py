"""The state stores of an app's tasks, in a data directory or in a cluster's checkpoint, read without disturbing a run.

Instead of a store that can't be trusted, its durable copy is read, restored to a temporary directory; of an app on a
cluster always the durable copy. Must not print or decode rows.
"""

import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote, unquote

from holdfast.errors import UserActionError
from holdfast.suggest import did_you_mean
from holdfast_cli.local.local_app import LocalApp
from holdfast_runtime.checkpoint.directories import DataDir, RunPlaces, folder_name
from holdfast_runtime.slot.program import TABLES
from holdfast_runtime.state.durable.copy import DurableCopy
from holdfast_runtime.state.durable.restore import restore
from holdfast_runtime.state.durable.storage import FolderStorage, Storage
from holdfast_runtime.state.shared.data_sets import DataSets
from holdfast_runtime.state.shared.shared_table import SharedTable
from holdfast_runtime.state.shared.table_copy import TableCopy, table_storage
from holdfast_runtime.state.sorted.runs import PIECE
from holdfast_runtime.state.store.directory import StorePlace, TaskIdentity, boot_id, file_stamp, read_sidecar
from holdfast_runtime.state.store.environment import last_use_at
from holdfast_runtime.state.store.offline import OfflineStore, copy_store
from holdfast_runtime.state.store.trust import Distrust, ExpectedStore, StoreUse, TrustFacts, trust

_NUMBERS = re.compile(r"(\d+)")
_ABOVE = 3
"""Directories from the checkpoint location to the copies of a run: namespace, app, run."""


@dataclass(frozen=True, slots=True)
class OpenedState:
    """The opened state of a task."""

    task: str
    store: OfflineStore
    source: str
    """`local` or `durable`."""
    why: str | None = None
    """Why the local store is not used."""
    damaged: tuple[str, ...] = ()
    """Unreadable snapshots, with reasons."""


@dataclass(frozen=True, slots=True)
class OpenedTable:
    """An opened Broadcast table."""

    name: str
    table: SharedTable
    source: str
    """`local` or `durable`."""

    @property
    def batch(self) -> int:
        """The batch that changed it last."""
        return self.table.manifest.batch


@dataclass(frozen=True, slots=True)
class RunStores:
    """The stores of one run of an app."""

    logs: LocalApp
    run: str
    copies: Storage
    """Where durable copies of state are."""
    local: RunPlaces | None
    """None: only durable copies are read."""
    shown: str
    """Where these stores are, for people."""
    batches: dict[str, int] = field(default_factory=dict)
    """Task or Broadcast table that was opened -> its last batch there."""

    @classmethod
    def of(cls, logs: LocalApp, run: str | None, *, durable: bool) -> "RunStores":
        """Return the stores of a run on this host; `run` None: the run in the spec."""
        run = run or logs.app.spec.run_id
        paths = DataDir(logs.data.absolute()).app(logs.app.name).run(run)
        copies = FolderStorage(paths.durable, sync=False)
        return cls(logs, run, copies, None if durable else paths, str(paths.durable if durable else paths.path))

    @classmethod
    def on_cluster(cls, logs: LocalApp, run: str, runs: Storage) -> "RunStores":
        """Return the durable copies of a run on a cluster; `runs`: where all runs of the app are."""
        copies = runs.below(folder_name(run), "state")
        return cls(logs, run, copies, None, copies.directory)

    def require_reached(self) -> None:
        """Raise `UsageError` if the copies are in a directory that only the pods of an app mount."""
        if isinstance(self.copies, FolderStorage) and not self.copies.folder.parents[_ABOVE].is_dir():
            message = (
                f"{self.logs.app.name} keeps its checkpoint in {self.copies.folder.parents[_ABOVE]}, a folder that its "
                "pods mount and that is not here; say where it is mounted on this host: --checkpoint file:///path"
            )
            raise UserActionError(message, code="UsageError")

    def tasks(self, only: str | None = None) -> list[str]:
        """Return the tasks that have state; raise `UsageError` if there are none."""
        tasks = self._here() | self._in_copy()
        if not tasks:
            raise UserActionError(self._nothing(), code="UsageError")
        if only is not None and only not in tasks:
            message = f"task {only} has no state in {self.shown}{did_you_mean(only, sorted(tasks))}"
            raise UserActionError(message, code="UsageError")
        return [only] if only is not None else sorted(tasks, key=_natural)

    @contextmanager
    def opened(self, task: str) -> Iterator[OpenedState]:
        """Open the state of a task. What was read is valid only if the block ends without an error."""
        for opened_state in self._opened(TaskIdentity(self.logs.app.name, self.run, task)):
            self.batches[task] = opened_state.store.head.batch
            yield opened_state

    def _opened(self, identity: TaskIdentity) -> Iterator[OpenedState]:
        with TemporaryDirectory(prefix="holdfast-state-") as directory:
            if self.local is None:
                yield from self._copy(identity, Path(directory), None)
                return
            store_directory = StorePlace(self.local.state / folder_name(identity.task), identity)
            apart = _running(DataDir(self.logs.data).app(self.logs.app.name).lock)
            distrust = _distrust(store_directory, apart=apart)
            if distrust is not None:
                yield from self._copy(identity, Path(directory), distrust)
                return
            file = copy_store(store_directory, Path(directory) / "copy.mdb") if apart else store_directory.data_path
            with OfflineStore(store_directory, file) as store:
                yield OpenedState(identity.task, store, "local")
                store.check()

    @property
    def shared_tables(self) -> list[str]:
        """The Broadcast tables of the app, which belong to no task."""
        return sorted(table.name for table in self.logs.app.spec.tables if table.distribution == "Broadcast")

    @contextmanager
    def shared(self, name: str) -> Iterator[OpenedTable | None]:
        """Open a Broadcast table as the last batch here has left it, or its durable copy; None if there is neither."""
        identity = TaskIdentity(self.logs.app.name, self.run, name)
        if self.local is not None:
            path = self.local.state / TABLES / folder_name(name)
            table = SharedTable(path, identity, boot_id(), lambda _: None, PIECE)
            if table.look():
                self.batches[name] = table.manifest.batch
                yield OpenedTable(name, table, "local")
                return
        with TemporaryDirectory(prefix="holdfast-state-") as directory:
            table = SharedTable(Path(directory), identity, boot_id(), lambda _: None, PIECE)
            if self._fetched(table, identity):
                self.batches[name] = table.manifest.batch
                yield OpenedTable(name, table, "durable")
            else:
                yield None

    def _fetched(self, table: SharedTable, identity: TaskIdentity) -> bool:
        """Fill an empty table from its newest durable copy; return whether there is one."""
        declared = next(spec_table for spec_table in self.logs.app.spec.tables if spec_table.name == identity.task)
        if declared.files is None:
            return TableCopy(table_storage(self.copies, identity), identity).newest(table)
        sets = DataSets(self.copies, identity)
        newest = sets.newest()
        return newest is not None and sets.fetch(table, newest.number)

    def _copy(self, identity: TaskIdentity, directory: Path, distrust: Distrust | None) -> Iterator[OpenedState]:
        why = None if distrust is None else distrust.reason.value
        durable = self._durable(identity)
        listing = durable.listing()
        batches = [named.batch for named in (*listing.deltas, *listing.snapshots)]
        store_directory = StorePlace(directory / "store", identity)
        restored = restore(durable, store_directory, max(batches)) if batches else None
        if restored is None:
            because = "" if distrust is None else f", and its local store can't be used: {distrust.message}"
            message = f"{identity} has no durable copy in {durable.storage.directory}{because}; run the app once more"
            raise UserActionError(message, code="UsageError")
        restored.store.close()
        with OfflineStore(store_directory, store_directory.data_path) as store:
            yield OpenedState(identity.task, store, "durable", why, restored.damaged)

    def _durable(self, identity: TaskIdentity) -> DurableCopy:
        return DurableCopy(self.copies, identity)

    def _here(self) -> set[str]:
        """Return the tasks that local stores name: directory names differ from task names and may be another app's."""
        if self.local is None or not self.local.state.is_dir():
            return set()
        nobody = TaskIdentity(self.logs.app.name, self.run, "")
        sidecars = [read_sidecar(StorePlace(path, nobody)) for path in self.local.state.iterdir() if path.is_dir()]
        return {
            sidecar.identity.task
            for sidecar in sidecars
            if sidecar is not None and (sidecar.identity.app, sidecar.identity.run) == (self.logs.app.name, self.run)
        }

    def _in_copy(self) -> set[str]:
        names = self.copies.below(quote(self.logs.app.name, safe=""), quote(self.run, safe="")).directories()
        return set(map(unquote, names)) - {TABLES}

    def _nothing(self) -> str:
        refusal = f"{self.logs.app.name} has no state of run {self.run}: looked in {self.shown}"
        if self.local is None:
            return f"{refusal}. It may have committed no batch with state yet"
        runs = self.local.path.parent
        other_runs = sorted(unquote(path.name) for path in runs.iterdir() if path.is_dir()) if runs.is_dir() else []
        other_runs = [name for name in other_runs if name != self.run]
        hint = f"; there is state of --run {', '.join(other_runs)}" if other_runs else ""
        return f"{refusal}. Run the app first, or name the directory it ran on with --data{hint}"


def _distrust(store_directory: StorePlace, *, apart: bool) -> Distrust | None:
    expected = ExpectedStore(store_directory.identity, 0, sys.maxsize, store_directory.boot_id())
    use = None if apart else StoreUse(last_use_at(store_directory), file_stamp(store_directory.data_path))
    return trust(TrustFacts(read_sidecar(store_directory), use=use), expected)


def _running(lock: Path) -> bool:
    """Return whether an app is running there, so that its stores may change at any moment."""
    try:
        who = json.loads(lock.read_text(encoding="utf-8"))
        os.kill(int(who["pid"]), 0)
    except PermissionError:
        return True
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return True


def _natural(name: str) -> list[tuple[int, str]]:
    """Return a sort key that puts `partition-2` before `partition-10`."""
    return [(int(part), "") if part.isdigit() else (0, part) for part in _NUMBERS.split(name)]
