"""The stores of a slot's tasks, opened together where each answer of the storage takes its time."""

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from holdfast.errors import UserActionError
from holdfast_runtime.state.durable.copy import DurableCopy
from holdfast_runtime.state.durable.opening import StoreRequest, open_stores
from holdfast_runtime.state.durable.storage import DirectoryStorage
from holdfast_runtime.state.store.directory import TaskIdentity
from tests.error_codes import has_code
from tests.state.places import Disk, history, lose
from tests.waiting import patience

LAST, TASKS = 6, 9
AT_ONCE = 4
"""Restores of a slot that are under way together."""


class FarFolder(DirectoryStorage):
    """A folder that is used as if its answers came from far away."""

    @property
    def at_once(self) -> int:
        return 32

    def below(self, *names: str) -> "FarFolder":
        return FarFolder(self.root.joinpath(*names), self.sync)


class Steps:
    """What restores do, as they tell."""

    def __init__(self, together: int) -> None:
        self.meeting = threading.Barrier(together)
        self.under_way, self.most = 0, 0
        self._lock = threading.Lock()

    def __call__(self, step: str) -> None:
        if step == "old store dropped":
            with self._lock:
                self.under_way += 1
                self.most = max(self.most, self.under_way)
            self.meeting.wait(patience(20))
        elif step == "declared whole":
            with self._lock:
                self.under_way -= 1


@pytest.fixture
def disks(tmp_path: Path) -> list[Disk]:
    made = [Disk(tmp_path, TaskIdentity("ad-clicks", "1", f"partition-{number}")) for number in range(TASKS)]
    for disk in made:
        history(disk, LAST, snapshots=(2,))
    return made


def request(disk: Disk, at: Callable[[str], None] = lambda _: None) -> StoreRequest:
    durable = DurableCopy(FarFolder(disk.directory / "checkpoint", sync=False), disk.durable.identity, at=at)
    return StoreRequest(disk.store_directory, durable, LAST + 1, 1, new=False)


def contents(disks: Sequence[Disk]) -> list[dict[bytes, bytes]]:
    with ExitStack() as stack:
        stores = [stack.enter_context(opened.store) for opened in open_stores([request(disk) for disk in disks])]
        return [dict(store.table("rows").scan()) for store in stores]


def test_stores_opened_together_have_what_each_has_alone(disks: list[Disk]) -> None:
    before = [disk.rows(LAST) for disk in disks]
    for disk in disks[::2]:
        lose(disk)
    assert contents(disks) == before


def test_if_one_store_cannot_be_opened_none_stays_open(disks: list[Disk]) -> None:
    hurt, whole = disks[4], [*disks[:4], *disks[5:]]
    before = [disk.rows(LAST) for disk in whole]
    for disk in disks[::2]:
        lose(disk)
    (delta,) = hurt.objects.glob("delta-*05-*")
    delta.unlink()
    with pytest.raises(UserActionError, match=f"{hurt.durable.identity}", check=has_code("DeltaMissingError")):
        open_stores([request(disk) for disk in disks])
    assert contents(whole) == before  # a store that was still claimed would be refused


def test_few_of_many_lost_stores_are_restored_at_once(disks: list[Disk]) -> None:
    lost = disks[: 2 * AT_ONCE]
    for disk in lost:
        lose(disk)
    steps = Steps(AT_ONCE)
    for opened in open_stores([request(disk, steps) for disk in lost]):
        opened.store.close()
    assert steps.most == AT_ONCE


def test_without_tasks_nothing_is_opened() -> None:
    assert open_stores([]) == []
