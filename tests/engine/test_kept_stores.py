"""Stores that stay open from batch to batch: which are kept, and who may have them next."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.errors import RetrySoonError
from holdfast_runtime.slot import kept_stores, slot
from holdfast_runtime.slot.kept_stores import KeptStores
from holdfast_runtime.state.commit import TaskCommit, commit
from holdfast_runtime.state.durable.copy import DurableCopy
from holdfast_runtime.state.errors import EpochFencedError
from holdfast_runtime.state.store.task_store import TaskStore
from holdfast_runtime.testing import TestDriver
from tests.engine.totals import app, orders
from tests.state.places import TASK, Disk, InDeltas


@pytest.fixture
def stores() -> Iterator[KeptStores]:
    open_stores = KeptStores()
    yield open_stores
    open_stores.close()


def committed(disk: Disk, batch: int, store: TaskStore | None = None, epoch: int = 1) -> TaskCommit:
    """A batch that has been committed, with its store still open."""
    goes_on = store is not None
    part = TaskCommit(store or disk.open(batch, epoch).store, disk.durable, batch, goes_on=goes_on)

    def compute(_: object) -> dict[str, dict[str, bytes]]:
        part.store.table("rows").put(b"%d" % batch, b"x")
        return {part.store.task: {"out/0": b"%d" % batch}}

    commit([part], epoch, compute, lambda _, decided: decided(), InDeltas())
    return part


def is_free(disk: Disk, batch: int) -> bool:
    """Whether somebody else may open the store."""
    try:
        disk.open(batch).store.close()
    except RetrySoonError as error:
        assert error.code == "StoreBusyError"
        return False
    return True


def test_the_batch_that_follows_finds_the_store_open(tmp_path: Path, stores: KeptStores) -> None:
    disk = Disk(tmp_path)
    part = committed(disk, 0)
    for batch in range(1, 4):
        stores.keep([part])
        assert not is_free(disk, batch)
        store = stores.take(TASK.task, batch, epoch=1)
        assert store is part.store
        part = committed(disk, batch, store)
    part.store.close()
    assert disk.rows(3) == {b"%d" % batch: b"x" for batch in range(4)}


@pytest.mark.parametrize(("batch", "epoch"), [(0, 1), (2, 1), (1, 2)])
def test_a_batch_that_does_not_follow_opens_anew(tmp_path: Path, stores: KeptStores, batch: int, epoch: int) -> None:
    disk = Disk(tmp_path)
    stores.keep([committed(disk, 0)])
    assert stores.take(TASK.task, batch, epoch) is None
    assert is_free(disk, 1)


def test_an_earlier_attempt_that_came_further_is_asked_each_time(tmp_path: Path, stores: KeptStores) -> None:
    disk = Disk(tmp_path)
    for batch in range(3):
        committed(disk, batch).store.close()
    # The log of this run was taken from an older copy: batches 1 and 2 come again, as their deltas say.
    with disk.open(1, epoch=2).store as store:
        part = TaskCommit(store, disk.durable, 1)
        assert part.lies_ahead
        stores.keep([part])
        assert stores.take(TASK.task, 2, epoch=2) is None
    with disk.open(2, epoch=2).store as store:
        last = TaskCommit(store, disk.durable, 2)
        assert not last.lies_ahead
        assert replace(last, sent=3).lies_ahead


def test_no_more_stores_are_kept_than_files_allow(
    tmp_path: Path, stores: KeptStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_stores, "_MOST", 1)
    disks = [Disk(tmp_path, replace(TASK, task=f"partition-{number}")) for number in range(2)]
    stores.keep([committed(disk, 0) for disk in disks])
    assert [is_free(disk, 1) for disk in disks] == [False, True]
    stores.close()
    assert is_free(disks[0], 1)


def test_no_store_is_kept_where_a_copy_does_not_answer(
    tmp_path: Path, stores: KeptStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    disks = [Disk(tmp_path, replace(TASK, task=f"partition-{number}")) for number in range(2)]
    parts = [committed(disk, 0) for disk in disks]
    has_after = DurableCopy.has_after

    def away(copy: DurableCopy, batch: int) -> bool:
        if copy is disks[1].durable:
            message = "the object store does not answer"
            raise RetrySoonError(message)
        return has_after(copy, batch)

    monkeypatch.setattr(DurableCopy, "has_after", away)
    with parts[0].store, parts[1].store, pytest.raises(RetrySoonError, match="does not answer"):
        stores.keep(parts)
    assert stores.take(disks[0].store_directory.identity.task, 1, epoch=1) is None


def test_a_newer_attempt_shuts_out_whoever_keeps_a_store(tmp_path: Path, stores: KeptStores) -> None:
    disk = Disk(tmp_path)
    stores.keep([committed(disk, 0)])
    disk.durable.fence(2)
    store = stores.take(TASK.task, 1, epoch=1)
    assert store is not None
    with store, pytest.raises(EpochFencedError, match="attempt 2 works on it"):
        committed(disk, 1, store)


def test_batches_of_one_run_open_each_store_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = list[int]()
    open_stores = vars(slot)["open_stores"]

    def counting(requests: Sequence[object]) -> object:
        opened.extend(1 for _ in requests)
        return open_stores(requests)

    monkeypatch.setattr(slot, "open_stores", counting)
    with TestDriver(app(most=20), tmp_path, slots=2) as driver:
        driver.feed("orders", orders(*range(200)))
        batches = driver.run_until_idle()
        assert len(opened) == len(driver.tasks) < sum(len(batch.tasks) for batch in batches)
