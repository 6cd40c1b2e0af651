"""Snapshots written beside batches, by processes that the slots of a run begin."""

import shutil
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from holdfast_runtime.checkpoint.directories import DataDir
from holdfast_runtime.state.durable.copy import DurableCopy, SnapshotPolicy
from holdfast_runtime.state.durable.restore import restore
from holdfast_runtime.state.store.directory import StoreDirectory, TaskIdentity
from holdfast_runtime.state.store.task_store import TaskStore
from tests.engine.runs import APP, DEADLINE, Run, check, feed
from tests.processes import processes_below
from tests.state.test_beside import at_work
from tests.waiting import wait_until

ROWS = 12_000
WRITER = "holdfast_runtime.state.durable.snapshot_process"


def snapshots_often() -> None:
    """One is due every few batches, and none is written within one unless another came to nothing."""
    SnapshotPolicy.__init__.__defaults__ = (4, 2, 1000, 0, 0, 1 << 60, 0, 0)


def tables(store: TaskStore) -> dict[str, dict[bytes, bytes]]:
    with store:
        return {name: dict(store.table(name).scan()) for name in store.tables()}


def ended(store_directory: StoreDirectory) -> bool:
    return not at_work(store_directory)


@contextmanager
def notes_of(state: Path) -> Iterator[set[str]]:
    """Collect all notes of snapshots below this folder; it looks often, as the task's next batch takes one away."""
    notes, over = set[str](), threading.Event()

    def look() -> None:
        while not over.wait(0.005):
            for path in state.glob("*/snapshot.json"):
                with suppress(FileNotFoundError):
                    notes.add(path.read_text())

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield notes
    finally:
        over.set()
        looking.join()


def test_slots_begin_snapshots_that_give_the_state_back(tmp_path: Path) -> None:
    app, data = tmp_path / "app.yaml", tmp_path / "data"
    app.write_text(APP.replace("interval: 0s", "interval: 200ms"))  # so long can a note be seen
    feed(data, ROWS)
    paths, writers = DataDir(data).paths("counted", "1"), set[int]()
    with Run(app, data, prepare=snapshots_often) as run, notes_of(paths.state) as noted:

        def written() -> bool:
            """Whether one was; a run until its rows are done could take all its writers with it."""
            writers.update(run.children(WRITER))
            return any('"done"' in one for one in noted)

        wait_until(written, DEADLINE, "a snapshot written beside batches")
        run.process.send_signal(signal.SIGTERM)
        run.ended()
    with Run(app, data, "--until-idle", prepare=snapshots_often) as run:
        run.ended()
    assert writers
    assert processes_below(1, str(data)) == []
    check(data, ROWS)
    snapshots = []
    for path in sorted(paths.state.glob("partition-*/")):
        identity = TaskIdentity("counted", "1", path.name)
        store_directory, durable = StoreDirectory(path, identity), DurableCopy(paths.durable, identity)
        wait_until(partial(ended, store_directory), DEADLINE, "the end of a snapshot whose worker has ended")
        store = TaskStore.open(store_directory)
        batch, contents = store.head.batch, tables(store)
        got = restore(durable, replace(store_directory, path=tmp_path / "restored" / path.name), batch)
        assert got is not None
        snapshots.append(got.snapshot)
        assert tables(got.store) == contents
    # One at a time per location: in a short run some tasks may have got none.
    assert any(one is not None for one in snapshots)
    shutil.rmtree(paths.state)
    feed(data, 100, ROWS)
    with Run(app, data, "--until-idle") as run:
        run.ended()
    check(data, ROWS + 100)
