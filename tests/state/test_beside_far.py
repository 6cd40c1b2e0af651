"""Snapshots that threads write beside batches, also to a storage that is far away: no batch waits for them."""

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from holdfast.errors import UserActionError
from holdfast_runtime.state.durable import snapshot_thread
from holdfast_runtime.state.durable.copy import DurableCopy, SnapshotPolicy
from holdfast_runtime.state.durable.restorable import keep_restorable
from holdfast_runtime.state.durable.snapshot import snapshot_chunks
from holdfast_runtime.state.durable.storage import Chunk, DirectoryStorage
from holdfast_runtime.state.errors import CheckpointUnavailableError
from holdfast_runtime.state.store.directory import TaskIdentity
from holdfast_runtime.state.store.environment import FrozenState
from holdfast_runtime.state.store.task_store import TaskStore
from tests.state.places import TASK, Disk, commit_alone, history, lose
from tests.waiting import patience, wait_until

DUE = SnapshotPolicy(most_deltas=1)


@dataclass(frozen=True, slots=True)
class FarStorage(DirectoryStorage):
    """A folder in which snapshots of other threads than that of the batch wait for a gate."""

    gate: threading.Event = field(default_factory=threading.Event)
    full: threading.Event = field(default_factory=threading.Event)

    @property
    def at_once(self) -> int:
        return 32

    def below(self, *names: str) -> "FarStorage":
        return replace(self, root=self.root.joinpath(*names))

    def write(self, name: str, chunks: Iterable[Chunk], *, replace: bool = False) -> int | None:
        content = self._waited(chunks) if name.startswith("snapshot-") else chunks
        return DirectoryStorage.write(self, name, content, replace=replace)

    def _waited(self, chunks: Iterable[Chunk]) -> Iterator[Chunk]:
        if threading.current_thread() is not threading.main_thread():
            assert self.gate.wait(patience(60.0))
        if self.full.is_set():
            raise OSError(28, "No space left on device")
        yield from chunks


class FarDisk(Disk):
    """A task whose durable copy is far away."""

    def __init__(self, directory: Path, identity: TaskIdentity = TASK, far: FarStorage | None = None) -> None:
        super().__init__(directory, identity)
        self.far = FarStorage(directory / "checkpoint", sync=False) if far is None else far
        self.durable = type(self.durable)(self.far, identity)

    def keep(self, batch: int, policy: SnapshotPolicy = DUE, epoch: int = 1) -> None:
        """Run a batch, and what follows it."""
        with self.run(batch, epoch).store:
            pass
        with self.open(batch + 1, epoch).store as store:
            keep_restorable(store, self.durable, policy, epoch)

    def written(self) -> None:
        """Let the snapshot be written."""
        self.far.gate.set()
        wait_until(self.is_idle, patience(60.0), "the snapshot under way has ended")
        self.far.gate.clear()

    def is_idle(self) -> bool:
        write = snapshot_thread._WRITES.get(self.store_directory.path)  # noqa: SLF001
        return write is None or not write.thread.is_alive()

    def snapshots(self) -> list[int]:
        return sorted(one.batch for one in self.durable.listing().snapshots)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[FarDisk]:
    made = FarDisk(tmp_path)
    yield made
    made.far.gate.set()


def test_batches_go_on_while_a_far_snapshot_is_written(disk: FarDisk) -> None:
    for batch in range(5):
        disk.keep(batch)
    assert disk.snapshots() == []
    disk.written()
    disk.keep(5, SnapshotPolicy())
    assert disk.snapshots() == [0]
    with disk.open(6).store as store:
        assert (store.head.snapshot, store.head.deltas) == (0, 5)


def test_a_far_snapshot_restores_what_its_batch_left(disk: FarDisk) -> None:
    disk.keep(0, SnapshotPolicy())
    disk.keep(1)
    disk.keep(2)
    disk.written()
    for delta in disk.objects.glob("delta-*1-*"):
        delta.unlink()
    disk.keep(3, SnapshotPolicy())
    before = disk.rows(3)
    lose(disk)
    assert disk.snapshots() == [1]
    assert disk.rows(3) == before


def test_a_far_snapshot_that_fails_is_taken_by_a_batch(disk: FarDisk) -> None:
    disk.keep(0)
    disk.far.full.set()
    disk.written()
    with pytest.raises(CheckpointUnavailableError, match=r"snapshot-.*No space left"):
        disk.keep(1)
    disk.far.full.clear()
    disk.keep(2)
    disk.written()
    assert disk.snapshots() == [2]


def test_a_shut_out_attempt_leaves_no_far_snapshot(disk: FarDisk) -> None:
    disk.keep(0)
    disk.durable.fence(2)
    disk.written()
    assert disk.snapshots() == []


def test_a_batch_waits_for_a_snapshot_that_is_overdue(disk: FarDisk) -> None:
    disk.keep(0)
    for batch in range(1, 3):
        disk.keep(batch, replace(DUE, latest_deltas=3))
    assert disk.snapshots() == [2]
    disk.written()
    disk.keep(3, SnapshotPolicy())
    with disk.open(4).store as store:
        assert (store.head.snapshot, store.head.deltas) == (2, 1)


def test_a_snapshot_is_of_one_batch_though_others_commit(disk: FarDisk) -> None:
    before = history(disk, snapshots=())
    state, packed = threading.Event(), threading.Event()

    def copied(opened: FrozenState) -> list[bytes]:
        state.set()
        assert packed.wait(patience(60.0))
        with opened:
            return list(snapshot_chunks(TASK, head, opened.copy_to))

    with ThreadPoolExecutor(1) as pool, disk.open(10).store as store:
        head = store.head
        chunks = pool.submit(copied, store.frozen())
        assert state.wait(patience(60.0))
        for batch in range(10, 20):
            store.begin(batch, 1)
            store.table("rows").put(b"last", b"later" * 1000)
            store.table("rows").put(b"row-%03d" % batch, b"y" * 10_000)
            store.table("rows").delete(b"row-%03d" % (batch - 3))
            commit_alone(store, disk.durable)
        packed.set()
        disk.durable.write_snapshot(head, (chunk for chunk in chunks.result()))
    for delta in disk.objects.glob("delta-*"):
        delta.unlink()
    lose(disk)
    assert disk.rows(9) == before


def test_a_store_stays_open_until_its_copy_is_made(disk: FarDisk) -> None:
    disk.run(0)
    order = []

    def close() -> None:
        store.close()
        order.append("closed")

    with ThreadPoolExecutor(1) as pool:
        store = disk.open(1).store
        with store.frozen() as state:
            closing = pool.submit(close)
            chunks = list(snapshot_chunks(TASK, store.head, state.copy_to))
            order.append("copied")
        closing.result(patience(60.0))
    assert order == ["copied", "closed"]
    assert len(chunks) > 2


@dataclass(frozen=True, slots=True)
class SlowStorage(DirectoryStorage):
    """A folder that answers threads once so many of them ask that a restore reads ahead."""

    barrier: threading.Barrier = field(default_factory=lambda: threading.Barrier(8))

    @property
    def at_once(self) -> int:
        return 32

    def below(self, *names: str) -> "SlowStorage":
        return replace(self, root=self.root.joinpath(*names))

    @contextmanager
    def reading(self, name: str) -> Iterator[Callable[[int], bytes]]:
        if threading.current_thread() is not threading.main_thread():
            self.barrier.wait(patience(60.0))
        with DirectoryStorage.reading(self, name) as read:
            yield read


def test_a_restore_reads_deltas_ahead_and_in_order(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    before = history(disk, last=15, snapshots=())
    lose(disk)
    disk.durable = DurableCopy(SlowStorage(tmp_path / "checkpoint", sync=False), TASK)
    assert disk.rows(15) == before


def test_a_delta_that_is_missing_ends_a_restore_from_far(disk: FarDisk) -> None:
    history(disk, snapshots=())
    lose(disk)
    next(disk.objects.glob("delta-*7-*")).unlink()
    with pytest.raises(UserActionError, match="the delta of batch 7 is missing"):
        disk.rows(9)
    with TaskStore.create(disk.store_directory, -1) as store:
        assert store.head.batch == -1


def test_many_tasks_at_once_write_a_few_snapshots(disk: FarDisk, tmp_path: Path) -> None:
    tasks = [
        FarDisk(tmp_path, TaskIdentity("ad-clicks", "1", f"partition-{number}"), disk.far)
        for number in range(snapshot_thread.MOST + 2)
    ]
    for task in tasks:
        task.keep(0)
    for task in tasks:
        task.written()
    late = [task for task in tasks if task.snapshots() != [0]]
    assert len(late) == 2
    for task in late:
        task.keep(1)
        task.written()
        assert task.snapshots() == [1]
