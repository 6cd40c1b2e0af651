"""Which local stores go, by drawn examples, and that their removal may be killed anywhere."""

import fcntl
import os
import signal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import RetrySoonError
from holdfast_runtime.progress import Freed
from holdfast_runtime.state.leftovers import (
    REMOVAL_STEPS,
    FoundStore,
    Leftover,
    LocalStores,
    leftover,
    remove_stores,
    remove_tables,
)
from holdfast_runtime.state.shared.shared_table import SharedTable
from holdfast_runtime.state.store.directory import TaskIdentity, read_sidecar
from holdfast_runtime.state.store.environment import claim
from tests.forked import ForkedProcess
from tests.state.places import Disk
from tests.waiting import patience

APP, RUN = "ad-clicks", "1"
HERE = TaskIdentity(APP, RUN, "partition-0")
GONE = TaskIdentity(APP, RUN, "partition-7")
LEFT = TaskIdentity(APP, "0", "partition-8")
ANOTHERS = TaskIdentity("shop", RUN, "partition-9")
UNCOPIED = TaskIdentity(APP, RUN, "partition-10")

NAMES = st.sampled_from(["partition-0", "partition-1", "partition-2"])
OWNERS = st.none() | st.builds(TaskIdentity, st.sampled_from([APP, "shop"]), st.sampled_from("012"), NAMES)
STORES = st.builds(FoundStore, NAMES, OWNERS, st.booleans())
FOLDERS = st.builds(
    LocalStores, st.just(Path()), st.just(APP), st.sampled_from("01"), st.booleans(), st.frozensets(NAMES)
)


@given(STORES, FOLDERS)
def test_whatever_lies_there_nothing_goes_that_anybody_may_open_again(store: FoundStore, stores: LocalStores) -> None:
    assert leftover(store, stores, committed=False) is None
    why = leftover(store, stores, committed=True)
    if why is not None:
        assert store.directory not in stores.directories
        assert store.owner is None or store.owner.app == stores.app
        if store.owner is not None and stores.current and store.owner.run == stores.run:
            assert store.copied, "the last copy of a task's state"
        if store.owner is not None and not stores.current:
            assert store.owner.run == stores.run


@given(NAMES, FOLDERS)
def test_what_nobody_will_open_goes_and_says_why(name: str, stores: LocalStores) -> None:
    reasons = {
        Leftover.OWNERLESS: FoundStore(name, None),
        Leftover.GONE: FoundStore(name, TaskIdentity(APP, stores.run, name), copied=True),
        Leftover.OTHER_RUN: FoundStore(name, TaskIdentity(APP, "9" if stores.current else stores.run, name)),
    }
    for why, store in reasons.items():
        decided = leftover(store, stores, committed=True)
        if name in stores.directories:
            assert decided is None
        elif why is not Leftover.GONE or stores.current:
            assert decided is why


def local_stores(directory: Path) -> LocalStores:
    return LocalStores(directory / "disk", APP, RUN, current=True, directories=frozenset({HERE.task}))


def copied(store: TaskIdentity) -> bool:
    return store != UNCOPIED


def filled(directory: Path) -> dict[TaskIdentity, dict[bytes, bytes]]:
    """One store of each kind, and what it holds."""
    stored_rows: dict[TaskIdentity, dict[bytes, bytes]] = {}
    for identity in (HERE, GONE, LEFT, ANOTHERS, UNCOPIED):
        disk = Disk(directory, identity)
        for batch in range(3):
            disk.run(batch)
        stored_rows[identity] = disk.rows(2)
    return stored_rows


def names(directory: Path) -> set[str]:
    return {path.name for path in (directory / "disk").iterdir()}


def of(*stores: TaskIdentity) -> set[str]:
    return {name for identity in stores for name in (identity.task, f"{identity.task}.lock")}


def test_only_stores_of_gone_tasks_and_other_runs_go(tmp_path: Path) -> None:
    stored_rows = filled(tmp_path)
    assert remove_stores(local_stores(tmp_path), copied, committed=False) == Freed()
    freed = remove_stores(local_stores(tmp_path), copied, committed=True)
    assert freed.stores == 2
    assert freed.bytes > 0
    assert names(tmp_path) == of(HERE, ANOTHERS, UNCOPIED)
    assert remove_stores(local_stores(tmp_path), copied, committed=True) == Freed()
    for identity in (HERE, ANOTHERS, UNCOPIED):
        disk = Disk(tmp_path, identity)
        assert disk.open(3).distrust is None
    assert {one: Disk(tmp_path, one).rows(2) for one in (GONE, LEFT)} == {one: stored_rows[one] for one in (GONE, LEFT)}


def test_a_store_in_use_stays_until_it_is_closed(tmp_path: Path) -> None:
    filled(tmp_path)
    holder = ForkedProcess(hold, tmp_path)
    assert holder.stdout.readline() == "held\n"
    assert remove_stores(local_stores(tmp_path), copied, committed=True).stores == 1
    assert names(tmp_path) == of(HERE, GONE, ANOTHERS, UNCOPIED)
    holder.kill()
    holder.wait(patience(10))
    assert remove_stores(local_stores(tmp_path), copied, committed=True).stores == 1
    assert names(tmp_path) == of(HERE, ANOTHERS, UNCOPIED)


def hold(directory: Path) -> None:
    held = claim(Disk(directory, GONE).store_directory)
    print("held", flush=True)  # noqa: T201
    signal.pause()
    held.release()


@pytest.mark.parametrize("occurrence", [1, 2])
@pytest.mark.parametrize("step", REMOVAL_STEPS)
def test_a_removal_killed_at_any_step_leaves_no_trusted_half(tmp_path: Path, step: str, occurrence: int) -> None:
    stored_rows = filled(tmp_path)
    assert ForkedProcess(remove, tmp_path, step, occurrence).wait(patience(20)) == -signal.SIGKILL
    for identity in (GONE, LEFT):
        disk = Disk(tmp_path, identity)
        whole = read_sidecar(disk.store_directory) is not None
        opened = disk.open(3)
        with opened.store as store:
            assert dict(store.table("rows").scan()) == stored_rows[identity]
        assert (opened.distrust is None) == whole
    # Tasks that came back have made their stores again; the next attempt is without them once more.
    assert remove_stores(local_stores(tmp_path), copied, committed=True).stores == 2
    assert names(tmp_path) == of(HERE, ANOTHERS, UNCOPIED)


@pytest.mark.parametrize("step", REMOVAL_STEPS)
def test_the_next_removal_ends_what_a_killed_one_began(tmp_path: Path, step: str) -> None:
    stored_rows = filled(tmp_path)
    assert ForkedProcess(remove, tmp_path, step, 1).wait(patience(20)) == -signal.SIGKILL
    remove_stores(local_stores(tmp_path), copied, committed=True)
    assert names(tmp_path) == of(HERE, ANOTHERS, UNCOPIED)
    assert {one: Disk(tmp_path, one).rows(2) for one in stored_rows} == stored_rows


def remove(directory: Path, fatal: str, occurrence: int) -> None:
    hits = 0

    def at(step: str) -> None:
        nonlocal hits
        hits += step == fatal
        if hits == occurrence:
            os.kill(os.getpid(), signal.SIGKILL)

    remove_stores(local_stores(directory), copied, committed=True, at=at)


def test_who_opened_a_removed_lock_file_locks_the_new_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store_directory = Disk(tmp_path, GONE).store_directory
    store_directory.lock_path.parent.mkdir()
    lock, removed = fcntl.lockf, 0

    def locked_late(descriptor: int, operation: int) -> None:
        """Between open and lock, another process removes the store with its lock file."""
        nonlocal removed
        if not removed:
            removed += 1
            store_directory.lock_path.unlink()
        lock(descriptor, operation)

    monkeypatch.setattr("holdfast_runtime.state.store.environment.fcntl.lockf", locked_late)
    held = claim(store_directory)
    assert removed == 1
    assert store_directory.lock_path.exists()
    other = ForkedProcess(claimed, tmp_path)
    assert other.stdout.readline() == "busy\n"
    other.wait(patience(10))
    held.release()


def claimed(directory: Path) -> None:
    try:
        claim(Disk(directory, GONE).store_directory).release()
    except RetrySoonError as error:
        assert error.code == "StoreBusyError"
        print("busy", flush=True)  # noqa: T201


def test_a_locations_lock_and_folders_without_stores_stay(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    (disk / ".snapshot.lock").touch()
    for name in ("lost+found", "tables", ".holdfast-x"):
        (disk / name).mkdir()
        (disk / name / "file").touch()
    before = names(tmp_path)
    assert remove_stores(local_stores(tmp_path), copied, committed=True) == Freed()
    assert names(tmp_path) == before


def table(path: Path, owner: TaskIdentity) -> SharedTable:
    return SharedTable(path / owner.task, owner, "boot", lambda _: None, b"large")


def test_tables_that_the_app_has_no_longer_are_emptied(tmp_path: Path) -> None:
    owners = [TaskIdentity(APP, RUN, name) for name in ("prices", "dropped")] + [TaskIdentity("shop", RUN, "stock")]
    for owner in owners:
        shared_table = table(tmp_path, owner)
        with shared_table.changing():
            shared_table.put_many([b"large-1", b"small"], [bytes(5000), b"value"])
            shared_table.commit(1, 1, {})
    stores = LocalStores(tmp_path, APP, RUN, current=True, directories=frozenset({"prices"}))
    assert remove_tables(stores, committed=False) == Freed()
    freed = remove_tables(stores, committed=True)
    assert freed.stores == 1
    assert freed.bytes >= 5000
    assert remove_tables(stores, committed=True) == Freed()
    assert [table(tmp_path, owner).look() for owner in owners] == [True, False, True]
