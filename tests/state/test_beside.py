"""Snapshots written beside later batches, each test named after what befalls one."""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import lmdb
import pytest

from holdfast_runtime.state.durable.copy import SnapshotPolicy
from holdfast_runtime.state.durable.restorable import keep_restorable
from holdfast_runtime.state.durable.restore import restore
from holdfast_runtime.state.durable.storage import Chunk, DirectoryStorage
from holdfast_runtime.state.errors import CheckpointUnavailableError
from holdfast_runtime.state.store.delta import pack_delta
from holdfast_runtime.state.store.directory import StoreDirectory
from holdfast_runtime.state.store.task_store import TaskStore
from tests.state.places import TASK, Disk
from tests.waiting import patience

DEADLINE = patience(60.0)
BESIDE = SnapshotPolicy(most_deltas=1, beside=0)
INSIDE = SnapshotPolicy(most_deltas=1)


@dataclass(frozen=True, slots=True)
class SlowStorage(DirectoryStorage):
    """A folder in which a snapshot stops after its first line until a file says how it goes on."""

    def below(self, *names: str) -> "SlowStorage":
        return SlowStorage(self.root.joinpath(*names), self.sync)

    def write(self, name: str, chunks: Iterable[Chunk], *, replace: bool = False) -> int | None:
        content = self._stopped(chunks) if name.startswith("snapshot-") else chunks
        return DirectoryStorage.write(self, name, content, replace=replace)

    def _stopped(self, chunks: Iterable[Chunk]) -> Iterator[Chunk]:
        gate = next(one for one in self.root.parents if (one / "boot_id").exists())
        for number, chunk in enumerate(chunks):
            yield chunk
            if number == 1:
                (gate / "stopped").write_text(json.dumps(os.getpid()))
                if said(gate / "go") == "full":
                    raise OSError(28, "No space left on device")


def wait(until: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE
    while not until():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def said(path: Path) -> str:
    """Wait for the text of a file that another process writes, which is empty at first."""
    wait(lambda: path.exists() and path.stat().st_size > 0)
    return path.read_text()


class SlowDisk(Disk):
    """A task whose snapshots stop in the middle."""

    def __init__(self, directory: Path, quota: int = 1 << 26) -> None:
        super().__init__(directory, quota=quota)
        self.durable = type(self.durable)(SlowStorage(directory / "checkpoint", sync=False), TASK)

    def keep(self, policy: SnapshotPolicy = BESIDE, epoch: int = 1) -> None:
        with TaskStore.open(self.store_directory) as store:
            keep_restorable(store, self.durable, policy, epoch)

    def stopped(self) -> int:
        """Wait until a snapshot has stopped in the middle; return its process."""
        return int(said(self.directory / "stopped"))

    def go(self, how: str = "on") -> None:
        (self.directory / "go").write_text(how)
        wait(lambda: not at_work(self.store_directory))

    def snapshots(self) -> list[int]:
        return [one.batch for one in self.durable.listing().snapshots]

    def restored(self, batch: int) -> dict[bytes, bytes]:
        shutil.rmtree(self.store_directory.path)
        got = restore(self.durable, self.store_directory, batch)
        assert got is not None
        assert got.damaged == ()
        with got.store as store:
            return dict(store.table("rows").scan())


def at_work(store_directory: StoreDirectory) -> bool:
    try:
        descriptor = os.open(store_directory.path.with_name(".snapshot.lock"), os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


@contextmanager
def begun(disk: SlowDisk) -> Iterator[int]:
    """A snapshot after batch 2 that has stopped in the middle."""
    for batch in range(3):
        disk.run(batch)
    disk.keep()
    try:
        yield disk.stopped()
    finally:
        disk.go()


@pytest.fixture
def disk(tmp_path: Path) -> SlowDisk:
    return SlowDisk(tmp_path)


def test_batches_go_on_beside_the_snapshot_of_one_of_them(disk: SlowDisk) -> None:
    with begun(disk):
        for batch in range(3, 40):
            disk.run(batch)
            disk.keep()
        assert disk.snapshots() == []
    disk.keep(SnapshotPolicy())
    assert disk.snapshots() == [2]
    with TaskStore.open(disk.store_directory) as store:
        assert (store.head.snapshot, store.head.deltas) == (2, 37)
        assert store.head.delta_bytes > 0
    before = disk.rows(39)
    assert disk.restored(39) == before


def test_a_snapshot_beside_batches_has_its_own_batchs_state(disk: SlowDisk) -> None:
    with begun(disk):
        states = {2: disk.rows(2)}
        for batch in range(3, 20):
            disk.run(batch)
    for delta in disk.objects.glob("delta-*"):
        delta.unlink()
    assert disk.restored(2) == states[2]


def test_killed_while_a_snapshot_is_written_beside_later_batches(disk: SlowDisk) -> None:
    with begun(disk) as process:
        disk.run(3)
        os.kill(process, signal.SIGKILL)
        wait(lambda: not at_work(disk.store_directory))
    assert disk.snapshots() == []
    before = disk.rows(3)
    # The next batch takes it itself.
    disk.keep()
    assert disk.snapshots() == [3]
    assert disk.restored(3) == before


def test_the_worker_is_killed_and_its_snapshot_ends_with_it(disk: SlowDisk) -> None:
    for batch in range(3):
        disk.run(batch)
    worker = os.fork()
    if worker == 0:
        disk.keep()
        signal.pause()
    process = disk.stopped()
    os.kill(worker, signal.SIGKILL)
    os.waitpid(worker, 0)
    wait(lambda: not at_work(disk.store_directory))
    assert not Path(f"/proc/{process}/cwd").exists()
    disk.go()
    disk.run(3)
    disk.keep()
    assert disk.snapshots() == [3]


def test_a_store_that_is_dropped_and_restored_meanwhile(disk: SlowDisk) -> None:
    with begun(disk):
        disk.run(3)
        shutil.rmtree(disk.store_directory.path)
        disk.run(4)
    disk.run(5)
    disk.keep(SnapshotPolicy())
    assert disk.snapshots() == [2]
    before = disk.rows(5)
    assert disk.restored(5) == before


def test_a_task_that_moved_to_another_location_meanwhile(disk: SlowDisk, tmp_path: Path) -> None:
    with begun(disk):
        disk.run(3)
        (tmp_path / "elsewhere").mkdir()
        elsewhere = Disk(tmp_path / "elsewhere")
        elsewhere.durable = disk.durable
        for batch in range(4, 8):
            elsewhere.run(batch, epoch=2)
    # A newer attempt has begun to work: this one may not leave anything.
    assert disk.snapshots() == []
    assert elsewhere.rows(7, epoch=2)[b"last"].startswith(b"7 computed")


def test_a_full_checkpoint_disk_is_reported_by_the_next_batch(disk: SlowDisk) -> None:
    with begun(disk):
        disk.run(3)
        disk.go("full")
        with pytest.raises(CheckpointUnavailableError, match=r"snapshot-.*No space left"):
            disk.keep()
        assert [one.name for one in disk.objects.iterdir() if "snapshot" in one.name] == []
    disk.keep()
    wait(lambda: not at_work(disk.store_directory))
    assert disk.snapshots() == [3]


def test_a_store_that_doubles_meanwhile_makes_the_snapshot_give_up(tmp_path: Path) -> None:
    disk = SlowDisk(tmp_path, quota=1 << 30)
    with begun(disk):
        for batch in range(3, 7):
            with disk.open(batch).store as store:
                store.begin(batch, 1)
                store.table("large").put(b"key", os.urandom(24 << 20))
                disk.durable.write_delta(pack_delta(store.delta()))
                store.commit()
            if not at_work(disk.store_directory):
                break
        wait(lambda: not at_work(disk.store_directory))
        last = batch
    assert disk.snapshots() == []
    disk.keep()
    assert disk.snapshots() == [last]


def test_a_snapshot_that_waits_too_long_is_taken_inside(disk: SlowDisk) -> None:
    with begun(disk):
        waits = SnapshotPolicy(most_deltas=1, latest_deltas=6, beside=0)
        disk.run(3)
        disk.keep(waits)
        assert disk.snapshots() == []
        (disk.directory / "go").write_text("on")
        wait(lambda: not at_work(disk.store_directory))
        descriptor = os.open(disk.store_directory.path.with_name(".snapshot.lock"), os.O_RDWR)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        for batch in range(4, 10):
            disk.run(batch)
            disk.keep(waits)
        os.close(descriptor)
    assert disk.snapshots() == [2, 8]


def test_a_small_store_has_its_snapshot_at_once(disk: SlowDisk) -> None:
    (disk.directory / "go").write_text("on")
    disk.run(0)
    disk.keep(INSIDE)
    assert disk.snapshots() == [0]


def test_a_snapshot_overtaken_within_a_batch_is_no_error(disk: SlowDisk, tmp_path: Path) -> None:
    with begun(disk):
        disk.run(3)
        slow, disk.durable = disk.durable, Disk(tmp_path).durable
        # The batch collects what the slow one has begun to write.
        for batch in (4, 5):
            disk.keep(SnapshotPolicy(most_deltas=1, latest_deltas=1, beside=0))
            disk.run(batch)
        disk.keep(SnapshotPolicy(most_deltas=1, latest_deltas=1, beside=0))
        assert disk.snapshots() == [4, 5]
        assert slow.storage.unfinished() == {}
    disk.run(6)
    disk.keep(INSIDE)
    assert disk.snapshots()[-1] == 6


def test_processes_that_have_ended_are_gone_after_the_next_batch(disk: SlowDisk) -> None:
    with begun(disk) as process:
        disk.run(3)
    # The lock is free before the process has ended.
    wait(lambda: os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None)
    assert Path(f"/proc/{process}").exists()
    disk.keep(SnapshotPolicy())
    assert not Path(f"/proc/{process}").exists()


def test_pages_of_a_killed_reader_are_used_again(tmp_path: Path) -> None:
    disk = SlowDisk(tmp_path)
    fill(disk, range(5))
    kill(reader(disk.store_directory))
    fill(disk, range(5, 10))
    before = disk.store_directory.data_path.stat().st_size
    fill(disk, range(10, 40))
    assert disk.store_directory.data_path.stat().st_size == before


def test_a_killed_readers_pages_are_reused_while_another_reads(tmp_path: Path) -> None:
    disk = SlowDisk(tmp_path)
    fill(disk, range(5))
    killed = reader(disk.store_directory)
    fill(disk, range(5, 8))
    alive = reader(disk.store_directory)
    kill(killed)
    try:
        fill(disk, [8])
        assert readers(disk.store_directory) == {alive}
    finally:
        kill(alive)


def fill(disk: SlowDisk, batches: Iterable[int]) -> None:
    """Batches that write a megabyte each, over the one before."""
    for batch in batches:
        with disk.open(batch).store as store:
            store.begin(batch, 1)
            store.table("large").put(b"key", os.urandom(1 << 20))
            store.commit()


def reader(store_directory: StoreDirectory) -> int:
    """A process that reads one commit and does not end."""
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        env = lmdb.open(str(store_directory.path), readonly=True)
        with env.begin():
            os.write(writing, b".")
            signal.pause()
    os.read(reading, 1)
    os.close(reading)
    os.close(writing)
    return process


def kill(process: int) -> None:
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)


def readers(store_directory: StoreDirectory) -> set[int]:
    """The processes in the table of readers, as another process sees it."""
    code = "import lmdb, sys; print(lmdb.open(sys.argv[1], readonly=True).readers())"
    listing = subprocess.run(
        [sys.executable, "-c", code, str(store_directory.path)], capture_output=True, text=True, check=True
    )
    return {int(line.split()[0]) for line in listing.stdout.splitlines()[1:] if line.strip()}
