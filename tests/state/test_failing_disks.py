"""A local disk that fails: errors name path, content and cure, and a restore elsewhere has it all."""

import errno
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.errors import HoldfastError, WorldChangeError
from holdfast_runtime.checkpoint.directories import disk_refusals
from holdfast_runtime.checkpoint.query_copy import QueryCopy
from holdfast_runtime.state.durable.copy import SnapshotPolicy
from holdfast_runtime.state.durable.restorable import keep_restorable
from holdfast_runtime.state.durable.storage import DirectoryStorage
from holdfast_runtime.state.errors import StoreDiskError, StoreFullError
from holdfast_runtime.state.local_disk import disk_error, on_local_disk
from holdfast_runtime.state.shared.shared_table import SharedTable
from holdfast_runtime.state.store.directory import TaskIdentity
from holdfast_runtime.state.store.task_store import TaskStore
from tests.state.places import Disk, history, lose

FAILING = Path("/proc/self/mem")
"""Reading or writing its first bytes is an input/output error."""
EAGER = SnapshotPolicy(most_deltas=1, least_deltas=1, beside=0)


def failing(path: Path) -> None:
    """Let a file lie where the disk can't be read or written any longer."""
    path.unlink(missing_ok=True)
    path.symlink_to(FAILING)


def in_the_way(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()


def kept(disk: Disk) -> None:
    with TaskStore.open(disk.store_directory) as store:
        keep_restorable(store, disk.durable, EAGER, 1)


def opened(disk: Disk) -> None:
    disk.run(10)


SPOTS: dict[str, tuple[str, Callable[[Path], None], Callable[[Disk], None]]] = {
    "how the store was left": ("../partition-0.lock", failing, opened),
    "the data file of a restore": ("data.mdb", failing, opened),
    "the sidecar of a restore": ("store.json.writing", in_the_way, opened),
    "the note of a snapshot": ("snapshot.json.writing", in_the_way, kept),
    "the lock of snapshots": ("../.snapshot.lock", in_the_way, kept),
}


@pytest.mark.parametrize("spot", SPOTS)
def test_each_failing_file_is_told_with_path_and_cure(
    tmp_path: Path, spot: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, spoil, act = SPOTS[spot]
    disk = Disk(tmp_path)
    before = history(disk)
    if "restore" in spot:
        # Between the making of the directory and the first write to it.
        make = spoiled_after_making(disk, name, spoil)
        monkeypatch.setattr("holdfast_runtime.state.durable.restore.make_directory", make)
        lose(disk)
    else:
        spoil(disk.store_directory.path / name)
    with pytest.raises(
        StoreDiskError, match=rf"{disk.store_directory.identity}.* at {disk.store_directory.path}.*(fails|in its place)"
    ):
        act(disk)
    monkeypatch.undo()
    (tmp_path / "other").mkdir()
    moved = Disk(tmp_path / "other")
    moved.durable = disk.durable
    assert moved.rows(9) == before


def spoiled_after_making(disk: Disk, name: str, spoil: Callable[[Path], None]) -> Callable[[object], None]:
    def make(_: object) -> None:
        disk.store_directory.path.mkdir(parents=True, exist_ok=True)
        spoil(disk.store_directory.path / name)

    return make


@pytest.fixture
def read_only() -> Iterator[Callable[[Path], None]]:
    mounted = list[Path]()

    def remount(path: Path) -> None:
        for options in (["--bind", str(path), str(path)], ["-o", "remount,ro,bind", str(path)]):
            done = subprocess.run(["/bin/mount", *options], check=False, capture_output=True, text=True)
            if done.returncode:
                pytest.skip(f"needs the right to mount: {done.stderr.strip()}")
            mounted.append(path)

    yield remount
    if mounted:
        subprocess.run(["/bin/umount", "-l", mounted[0]], check=True)


def test_a_disk_linux_made_read_only_is_told_as_such(tmp_path: Path, read_only: Callable[[Path], None]) -> None:
    disk = Disk(tmp_path)
    history(disk)
    read_only(tmp_path / "disk")
    with pytest.raises(StoreDiskError, match=r"mounted read-only.*repair or replace"):
        disk.run(10)


def test_a_shared_table_on_a_failing_disk_shows_its_cure(tmp_path: Path) -> None:
    table = SharedTable(tmp_path, TaskIdentity("app", "1", "zones"), "boot", lambda _: None, b"p")
    failing(tmp_path / "manifest-00000000000000000001.json")
    with pytest.raises(WorldChangeError, match=rf"table zones: {tmp_path} can't be used: .*disk fails.*made again"):
        table.read(1, {})


def test_sparks_checkpoint_on_the_drivers_failing_disk_is_told(tmp_path: Path) -> None:
    query = QueryCopy(DirectoryStorage(tmp_path / "shared"), tmp_path / "query", 1)
    query.begin()
    (tmp_path / "query" / "offsets").mkdir()
    failing(tmp_path / "query" / "offsets" / "0")
    with pytest.raises(StoreDiskError, match=rf"Spark's checkpoint on the driver's disk at {tmp_path / 'query'}"):
        query.planned()


@pytest.mark.parametrize("number", [errno.EIO, errno.ENXIO, errno.ESTALE, errno.EROFS, errno.EACCES, errno.EDQUOT])
def test_an_error_of_the_data_directory_names_it_with_cure(tmp_path: Path, number: int) -> None:
    with pytest.raises(WorldChangeError, match=rf"{tmp_path}.*{os.strerror(number)}; .+"), disk_refusals(tmp_path):
        raise OSError(number, os.strerror(number), str(tmp_path / "apps"))


def test_nobody_is_told_to_remove_a_data_directory(tmp_path: Path) -> None:
    with pytest.raises(WorldChangeError, match="copy the directory") as raised, disk_refusals(tmp_path):
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(tmp_path / "apps"))
    assert "remove this path" not in str(raised.value)


@pytest.mark.parametrize(
    ("number", "kind", "cure"),
    [
        (errno.ENOSPC, StoreFullError, "free or add space"),
        (errno.EDQUOT, StoreFullError, "free or add space"),
        (errno.EIO, StoreDiskError, "repair or replace it, or remove this path, and start again"),
        (errno.ENODEV, StoreDiskError, "the disk fails"),
        (errno.EROFS, StoreDiskError, "mounted read-only"),
        (errno.EPERM, StoreDiskError, "may read and write there"),
        (0, StoreDiskError, "the disk fails"),
    ],
)
def test_an_error_number_of_a_disk_has_its_cure(number: int, kind: type[HoldfastError], cure: str) -> None:
    error = disk_error("the state", Path("/state"), number, os.strerror(number))
    assert type(error) is kind
    assert cure in str(error)
    assert "/state" in str(error)


def test_what_is_no_error_of_a_disk_passes() -> None:
    with pytest.raises(ValueError, match="else"), on_local_disk("the state", Path("/state")):
        raise ValueError("something else")  # noqa: EM101
