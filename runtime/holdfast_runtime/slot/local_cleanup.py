"""The cleanup of a location by a slot: once per attempt and process, after the slot has committed a batch of it.

Only slots reach the disk of a location. Those of one location all clean up the same directories, and whoever comes
first removes. On a laptop the directories of the app's other runs are there too; the lock of the app keeps their
attempts out. Must not decide what goes: `state.leftovers` does.
"""

from pathlib import Path
from urllib.parse import unquote

from holdfast_runtime.checkpoint.directories import RunDir, directory_name
from holdfast_runtime.progress import Freed
from holdfast_runtime.slot.program import Program
from holdfast_runtime.state.durable.copy import CrashHook, DurableCopy
from holdfast_runtime.state.leftovers import LocalStores, remove_stores, remove_tables
from holdfast_runtime.state.shared.shared_table import TABLES
from holdfast_runtime.state.store.directory import TaskIdentity


class LocalCleanup:
    """Removes leftover local stores."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._done = 0
        """The last attempt that has cleaned up in this process."""

    def after(self, epoch: int, at: CrashHook, *, committed: bool) -> Freed:
        """Clean up, unless this attempt has; `committed`: whether it has committed a batch of this slot."""
        freed = Freed()
        if committed and self._done != epoch:
            self._done = epoch
            for stores, tables in self._directories():
                freed = freed.with_more(remove_stores(stores, self._copied, committed=committed, at=at))
                freed = freed.with_more(remove_tables(tables, committed=committed))
        return freed

    def _directories(self) -> list[tuple[LocalStores, LocalStores]]:
        """Return the directories of stores, each with that of its Broadcast tables."""
        program = self._program
        app, run, state = program.app, program.spec.run_id, program.state
        shared = (table.name for table in program.compiled.tables if table.broadcast)
        current_stores = (
            LocalStores(state.local, app, run, current=True, directories=frozenset(map(directory_name, program.tasks))),
            LocalStores(
                state.local / TABLES, app, run, current=True, directories=frozenset(map(directory_name, shared))
            ),
        )
        return [current_stores, *(_left(path, app) for path in self._others())]

    def _others(self) -> list[Path]:
        """Return the directories of the app's other runs, where this location has them."""
        runs = self._program.state.runs
        if runs is None:
            return []
        return sorted(path for path in runs.glob("*") if path.name != directory_name(self._program.spec.run_id))

    def _copied(self, store: TaskIdentity) -> bool:
        listing = DurableCopy(self._program.state.durable, store).listing()
        return bool(listing.deltas or listing.snapshots)


def _left(path: Path, app: str) -> tuple[LocalStores, LocalStores]:
    run, state = unquote(path.name), RunDir(path).state
    return LocalStores(state, app, run, current=False), LocalStores(state / TABLES, app, run, current=False)
