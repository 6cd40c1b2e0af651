"""Stores, durable copies and small batches for tests."""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from holdfast_runtime.state.commit import TaskCommit, commit
from holdfast_runtime.state.durable.copy import DurableCopy
from holdfast_runtime.state.durable.opening import OpenedStore, open_store
from holdfast_runtime.state.durable.restore import restore
from holdfast_runtime.state.durable.storage import DirectoryStorage
from holdfast_runtime.state.store.delta import Delta, pack_delta
from holdfast_runtime.state.store.directory import StoreDirectory, TaskIdentity
from holdfast_runtime.state.store.task_store import TaskStore
from tests.s3.gateway import Bucket

TASK = TaskIdentity("ad-clicks", "1", "partition-0")


class InDeltas:
    """Outputs are in deltas, which decide."""

    decides = None

    def hold(self) -> None:
        """No name is held."""

    def take(self) -> None:
        """Nothing is known but what deltas say."""

    def has(self, delta: Delta) -> bool:
        message = f"batch {delta.batch} has no outputs"
        raise AssertionError(message)


def commit_alone(store: TaskStore, durable: DurableCopy) -> None:
    """Commit the batch of a store whose task writes nothing."""
    packed = pack_delta(store.delta())
    durable.write_delta(packed)
    store.commit(packed.delta.size)


class Disk:
    """One task's store, durable copy and outputs, in a directory."""

    def __init__(
        self, directory: Path, identity: TaskIdentity = TASK, quota: int = 1 << 26, bucket: Bucket | None = None
    ) -> None:
        (directory / "boot_id").write_text("first boot\n")
        self.directory = directory
        self.store_directory = StoreDirectory(
            directory / "disk" / identity.task, identity, quota, directory / "boot_id"
        )
        self._bucket = bucket
        root = DirectoryStorage(directory / "checkpoint", sync=False) if bucket is None else bucket.storage
        self.durable = DurableCopy(root, identity)
        self.published: dict[int, bytes] = {}
        self.computed = 0

    @property
    def objects(self) -> Path:
        """The objects as files: an object store of tests keeps them as such, too."""
        directory = self.durable.storage.directory
        return Path(directory) if self._bucket is None else self._bucket.folder(directory)

    def spoil(self, path: Path, content: bytes) -> None:
        """Put other bytes in place of an object."""
        if self._bucket is None:
            path.write_bytes(content)
        else:
            self.durable.storage.write(path.name, [content], replace=True)

    def open(self, batch: int, epoch: int = 1) -> OpenedStore:
        return open_store(self.store_directory, self.durable, batch, epoch, new=batch == 0)

    def run(self, batch: int, epoch: int = 1) -> OpenedStore:
        """One batch: counts itself, and marks its own row and computing."""
        opened = self.open(batch, epoch)
        with opened.store as store:

            def compute(_: object) -> dict[str, dict[str, bytes]]:
                self.computed += 1
                table = store.table("rows")
                table.put(b"last", b"%d computed as %d" % (batch, self.computed))
                table.put(b"row-%03d" % batch, b"x" * 100)
                table.delete(b"row-%03d" % (batch - 3))
                return {store.task: {"out/0": b"%d" % self.computed}}

            def publish(deltas: Sequence[Delta], decided: Callable[[], None]) -> None:
                decided()
                for delta in deltas:
                    self.published.setdefault(delta.batch, delta.outputs["out/0"])

            commit([TaskCommit(store, self.durable, batch)], epoch, compute, publish, InDeltas())
        return opened

    def rows(self, batch: int, epoch: int = 1) -> dict[bytes, bytes]:
        """The state after this batch."""
        with self.open(batch + 1, epoch).store as store:
            return dict(store.table("rows").scan())


def snapshot(disk: Disk, batch: int) -> Path:
    with TaskStore.open(disk.store_directory) as store:
        assert store.head.batch == batch
        disk.durable.snapshot(store)
    return max(disk.objects.glob("snapshot-*"))


def history(disk: Disk, last: int = 9, snapshots: tuple[int, ...] = (2, 5)) -> dict[bytes, bytes]:
    for batch in range(last + 1):
        disk.run(batch)
        if batch in snapshots:
            snapshot(disk, batch)
    return disk.rows(last)


def lose(disk: Disk) -> None:
    shutil.rmtree(disk.store_directory.path)


def restored(disk: Disk, batch: int) -> TaskStore:
    """What the durable copy alone gives after this batch."""
    lose(disk)
    made = restore(disk.durable, disk.store_directory, batch)
    assert made is not None
    assert made.store.head.batch == batch
    return made.store


def damage(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
