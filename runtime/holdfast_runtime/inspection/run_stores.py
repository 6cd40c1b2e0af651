"""The stores of one run, of its tasks and of its Broadcast tables: which there are, and each opened to be read.

They are in a data directory, or in the checkpoint of an app on a cluster, of which only durable copies are read. Must
not decode rows.
"""

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote, unquote

from holdfast.errors import UserActionError
from holdfast.planning.plan import plan
from holdfast.spec.app import StreamApp
from holdfast.suggest import did_you_mean
from holdfast_runtime.checkpoint.directories import DataDir, RunDir, cluster_runs, directory_name
from holdfast_runtime.inspection.local_app import LocalApp
from holdfast_runtime.inspection.task_state import OpenedState, StateSource, opened_state
from holdfast_runtime.state.durable.copy import DurableCopy
from holdfast_runtime.state.durable.storage import DirectoryStorage, Storage
from holdfast_runtime.state.shared.data_sets import DataSets
from holdfast_runtime.state.shared.shared_table import TABLES, SharedTable
from holdfast_runtime.state.shared.table_copy import TableCopy, table_storage
from holdfast_runtime.state.sorted.stored_pieces import PIECE
from holdfast_runtime.state.store.directory import StoreDirectory, TaskIdentity, boot_id, read_sidecar

_NUMBERS = re.compile(r"(\d+)")
_ABOVE = 3
"""Directories from the checkpoint location to the copies of a run: namespace, app, run."""


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

    local_app: LocalApp
    run: str
    copies: Storage
    """Where durable copies of state are."""
    local: RunDir | None
    """None: only durable copies are read."""
    shown: str
    """Where these stores are, for people."""
    batches: dict[str, int] = field(default_factory=dict)
    """Task or Broadcast table that was opened -> its last batch there."""

    @classmethod
    def of(cls, local_app: LocalApp, run: str | None, *, durable: bool) -> "RunStores":
        """Return the stores of a run; `run` None: the run in the spec. In a driver's pod these are durable copies."""
        run = run or local_app.app.spec.run_id
        if local_app.cluster is not None:
            copies: Storage = local_app.cluster.runs.below(directory_name(run), "state")
            return cls(local_app, run, copies, None, copies.directory)
        run_directory = DataDir(local_app.data.absolute()).app(local_app.app.name).run(run)
        copies = DirectoryStorage(run_directory.durable, sync=False)
        return cls(
            local_app,
            run,
            copies,
            None if durable else run_directory,
            str(run_directory.durable if durable else run_directory.path),
        )

    @classmethod
    def on_cluster(cls, app: StreamApp, run: str, namespace: str, location: str | None) -> "RunStores":
        """Return the durable copies of a run on a cluster; `location`: as in `cluster_runs`.

        Raise `UsageError` if they are in a directory that only the pods of the app mount.
        """
        copies = cluster_runs(app, namespace, location).below(directory_name(run), "state")
        if isinstance(copies, DirectoryStorage) and not copies.root.parents[_ABOVE].is_dir():
            message = (
                f"{app.name} keeps its checkpoint in {copies.root.parents[_ABOVE]}, a folder that its pods mount and "
                "that is not here; say where it is mounted on this host: --checkpoint file:///path"
            )
            raise UserActionError(message, code="UsageError")
        return cls(LocalApp(app, plan(app), Path()), run, copies, None, copies.directory)

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
        identity = self._identity(task)
        store_directory = (
            None if self.local is None else StoreDirectory(self.local.state / directory_name(task), identity)
        )
        changing = _running(DataDir(self.local_app.data).app(identity.app).lock)
        with opened_state(StateSource(DurableCopy(self.copies, identity), store_directory, changing=changing)) as state:
            self.batches[task] = state.store.head.batch
            yield state

    @property
    def shared_tables(self) -> list[str]:
        """The Broadcast tables of the app, which belong to no task."""
        return sorted(table.name for table in self.local_app.app.spec.tables if table.distribution == "Broadcast")

    @contextmanager
    def shared(self, name: str) -> Iterator[OpenedTable | None]:
        """Open a Broadcast table as the last batch here has left it, or its durable copy; None if there is neither."""
        identity = self._identity(name)
        if self.local is not None:
            path = self.local.state / TABLES / directory_name(name)
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
        declared = next(spec_table for spec_table in self.local_app.app.spec.tables if spec_table.name == identity.task)
        if declared.files is None:
            return TableCopy(table_storage(self.copies, identity), identity).newest(table)
        sets = DataSets(self.copies, identity)
        newest = sets.newest()
        return newest is not None and sets.fetch(table, newest.number)

    def _here(self) -> set[str]:
        """Return the tasks that local stores name: directory names differ from task names and may be another app's."""
        if self.local is None or not self.local.state.is_dir():
            return set()
        nobody = self._identity("")
        sidecars = [read_sidecar(StoreDirectory(path, nobody)) for path in self.local.state.iterdir() if path.is_dir()]
        identities = [sidecar.identity for sidecar in sidecars if sidecar is not None]
        return {identity.task for identity in identities if identity == self._identity(identity.task)}

    def _in_copy(self) -> set[str]:
        names = self.copies.below(quote(self.local_app.app.name, safe=""), quote(self.run, safe="")).directories()
        return set(map(unquote, names)) - {TABLES}

    def _identity(self, name: str) -> TaskIdentity:
        """Return the identity of a task's state, or of a Broadcast table."""
        return TaskIdentity(self.local_app.app.name, self.run, name)

    def _nothing(self) -> str:
        refusal = f"{self.local_app.app.name} has no state of run {self.run}: looked in {self.shown}"
        if self.local is None:
            return f"{refusal}. It may have committed no batch with state yet"
        runs = self.local.path.parent
        other_runs = sorted(unquote(path.name) for path in runs.iterdir() if path.is_dir()) if runs.is_dir() else []
        other_runs = [name for name in other_runs if name != self.run]
        hint = f"; there is state of --run {', '.join(other_runs)}" if other_runs else ""
        return f"{refusal}. Run the app first, or name the directory it ran on with --data{hint}"


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
