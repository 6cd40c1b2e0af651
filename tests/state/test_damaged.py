"""A local store that was damaged is set aside and restored, and that is said; no process ends by it, no row is wrong.

The durable copy is good in all of these but the last.
"""

import multiprocessing
import os
import shutil
import signal
from collections.abc import Callable
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import lmdb
import pytest

from holdfast.errors import UserActionError
from holdfast_runtime.state.store.delta import Changes, pack_delta, read_delta
from holdfast_runtime.state.store.directory import FileStamp, LastUse, Sidecar, TaskIdentity, UsePhase, read_last_use
from holdfast_runtime.state.store.task_store import TaskStore
from holdfast_runtime.state.store.trust import DistrustReason, ExpectedStore, StoreUse, TrustFacts, trust
from holdfast_runtime.testing import TestDriver
from tests.state.places import TASK, Disk
from tests.waiting import patience

LAST = 9


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    disk = Disk(tmp_path)
    for batch in range(LAST + 1):
        disk.run(batch)
    return disk


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def cut_a_little(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 4096)


def emptied(path: Path) -> None:
    os.truncate(path, 0)


def flipped(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 4]))


def garbled(path: Path) -> None:
    path.write_bytes(os.urandom(path.stat().st_size))


def deleted(path: Path) -> None:
    path.unlink()


def copied_with_its_time_from_another(path: Path) -> None:
    other = path.parent.parent / "other"
    other.mkdir()
    foreign = Disk(other, TaskIdentity("ad-clicks", "1", "partition-1"))
    foreign.run(0)
    shutil.copy2(foreign.store_directory.data_path, path)


DAMAGES = [cut, cut_a_little, emptied, flipped, garbled, deleted, copied_with_its_time_from_another]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_data_file_not_as_left_is_restored_unread(disk: Disk, damage: Callable[[Path], None]) -> None:
    before = disk.rows(LAST)
    damage(disk.store_directory.data_path)
    opened = disk.open(LAST + 1)
    opened.store.close()
    assert opened.distrust is not None
    assert opened.distrust.reason is DistrustReason.CHANGED
    assert opened.restored is not None
    assert disk.rows(LAST) == before
    assert disk.open(LAST + 1).distrust is None


@pytest.mark.parametrize("damage", [emptied, flipped, garbled, deleted])
def test_a_store_nobody_says_anything_about_is_restored(disk: Disk, damage: Callable[[Path], None]) -> None:
    before = disk.rows(LAST)
    line = disk.store_directory.lock_path.read_bytes()
    assert read_last_use(line) is not None
    damage(disk.store_directory.lock_path)
    opened = disk.open(LAST + 1)
    opened.store.close()
    assert disk.rows(LAST) == before
    assert opened.distrust is not None or read_last_use(disk.store_directory.lock_path.read_bytes()) is not None


def killed_while_open(disk: Disk, batch: int = LAST + 1, *, committed: bool = False) -> None:
    def die() -> None:
        store = disk.open(batch).store
        if committed:
            store.begin(batch, 1)
            disk.durable.write_delta(pack_delta(store.delta()))
            store.commit()
        os.kill(os.getpid(), signal.SIGKILL)

    process = multiprocessing.get_context("fork").Process(target=die)
    process.start()
    process.join(timeout=patience(60))
    assert process.exitcode == -signal.SIGKILL


def test_a_store_whose_user_was_killed_is_used(disk: Disk) -> None:
    killed_while_open(disk)
    assert disk.open(LAST + 1).distrust is None


def test_killed_users_that_had_committed_are_no_reason(disk: Disk) -> None:
    for batch in (LAST + 1, LAST + 2):
        killed_while_open(disk, batch, committed=True)
    assert disk.open(LAST + 3).distrust is None


def test_a_store_two_users_did_not_survive_is_restored(disk: Disk) -> None:
    before = disk.rows(LAST)
    for _ in range(2):
        killed_while_open(disk)
    opened = disk.open(LAST + 1)
    opened.store.close()
    assert opened.distrust is not None
    assert opened.distrust.reason is DistrustReason.DEADLY
    assert disk.rows(LAST) == before
    killed_while_open(disk)
    assert disk.open(LAST + 1).distrust is None


NOW = FileStamp(1 << 20, 1_000)


@pytest.mark.parametrize(
    ("left", "file", "reason"),
    [
        (LastUse(UsePhase.CLOSED, NOW), NOW, None),
        (LastUse(UsePhase.READING, NOW), NOW, None),
        (LastUse(UsePhase.READING, NOW, 1), NOW, DistrustReason.DEADLY),
        (LastUse(UsePhase.CLOSED, NOW), FileStamp(1 << 20, 1_001), DistrustReason.CHANGED),
        (LastUse(UsePhase.CLOSED, NOW), FileStamp(1 << 21, 1_000), DistrustReason.CHANGED),
        (LastUse(UsePhase.READING, NOW), FileStamp(1 << 20, 1_001), DistrustReason.CHANGED),
        (LastUse(UsePhase.WRITING, NOW), FileStamp(1 << 21, 1_001), None),
        (LastUse(UsePhase.WRITING, NOW, 1), FileStamp(1 << 21, 1_001), DistrustReason.DEADLY),
        (LastUse(UsePhase.WRITING, NOW), FileStamp(1 << 19, 1_001), DistrustReason.CHANGED),
        (None, NOW, DistrustReason.CHANGED),
        (LastUse(UsePhase.CLOSED, NOW), None, DistrustReason.CHANGED),
    ],
)
def test_a_file_is_trusted_only_as_it_was_left(
    left: LastUse | None, file: FileStamp | None, reason: DistrustReason | None
) -> None:
    distrust = trust(TrustFacts(Sidecar(1, TASK, "boot"), use=StoreUse(left, file)), ExpectedStore(TASK, 5, 2, "boot"))
    assert (None if distrust is None else distrust.reason) is reason


def test_a_line_with_any_wrong_byte_says_nothing() -> None:
    left = LastUse(UsePhase.CLOSED, FileStamp(4096, 1_795_331_490_543_022_517), 1)
    line = left.line()
    assert read_last_use(line) == left
    meant = line.rstrip()
    for at in range(len(meant)):
        for bit in range(8):
            other = bytearray(line)
            other[at] ^= 1 << bit
            assert read_last_use(bytes(other)) in {None, left}


TOTALS: dict[str, Any] = {
    "apiVersion": "holdfast.dev/v1alpha1",
    "kind": "StreamApp",
    "metadata": {"name": "totals"},
    "spec": {
        "systems": [{"name": "shop", "log": {}}],
        "streams": [
            {
                "name": "orders",
                "system": "shop",
                "partitions": 1,
                "key": ["customer"],
                "schema": "customer STRING, n BIGINT",
            },
            {"name": "totals", "system": "shop", "partitions": 1, "key": ["customer"]},
        ],
        "steps": [
            {
                "name": "summed",
                "from": ["orders"],
                "process": {"function": "app:total", "by": ["customer"], "schema": "customer STRING, total BIGINT"},
            },
            {"name": "out", "from": ["summed"], "to": "totals"},
        ],
        "runtime": {
            "code": {
                "app": "def total(customer, rows, state):\n"
                "    state['total'] = state.get('total', 0) + sum(row['n'] for row in rows)\n"
                "    return [{'customer': customer, 'total': state['total']}]\n"
            }
        },
    },
}


def rotten(store_directory: Path, table: bytes) -> None:
    """What a disk does beneath the file system: other bytes, and nobody has changed the file."""
    path = store_directory / "data.mdb"
    before = path.stat()
    with lmdb.open(str(store_directory), max_dbs=20, lock=False) as env, env.begin(write=True) as txn:
        handle = env.open_db(table, txn)
        for key, value in list(txn.cursor(handle)):
            txn.put(key, b"\xc1" + value[1:], db=handle)
    os.truncate(path, before.st_size)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("table", [b"table.summed", b"table..offsets", b"table..control", b"table..marks"])
def test_a_value_that_rots_on_disk_is_restored_and_reported(tmp_path: Path, table: bytes) -> None:
    with TestDriver(TOTALS, tmp_path) as driver:
        for n in range(3):
            driver.feed("orders", [{"customer": "ann", "n": n}])
            driver.run()
        rotten(tmp_path / "apps" / "totals" / "runs" / "1" / "state" / "partition-0", table)
        driver.feed("orders", [{"customer": "ann", "n": 10}])
        (result,) = driver.run()
        assert "it is damaged" in str(result.tasks[0].restored)
        assert [row["total"] for row in driver.rows("totals")] == [0, 1, 3, 13]


def test_a_meaningless_value_in_a_whole_copy_is_refused(tmp_path: Path) -> None:
    with TestDriver(TOTALS, tmp_path) as driver:
        for n in range(3):
            driver.feed("orders", [{"customer": "ann", "n": n}])
            driver.run()
        folder = tmp_path / "apps" / "totals" / "runs" / "1" / "checkpoint" / "state" / "totals" / "1" / "partition-0"
        last = max(folder.glob("delta-*"))
        delta = read_delta(str(last), BytesIO(last.read_bytes()).read)
        nonsense: Changes = [(key, b"\xc1") for key, _ in delta.tables["summed"]]
        tables = {**delta.tables, "summed": nonsense}
        last.write_bytes(b"".join(pack_delta(replace(delta, tables=tables)).chunks))
        driver.lose_local_state()
        driver.feed("orders", [{"customer": "ann", "n": 10}])
        with pytest.raises(UserActionError, match="the state of some keys can't be read"):
            driver.run()


def test_a_store_opened_by_itself_is_left_closed(disk: Disk) -> None:
    with TaskStore.open(disk.store_directory) as store:
        assert read_last_use(disk.store_directory.lock_path.read_bytes()).phase is UsePhase.READING  # type: ignore[union-attr]
        assert store.head.batch == LAST
    assert read_last_use(disk.store_directory.lock_path.read_bytes()).phase is UsePhase.CLOSED  # type: ignore[union-attr]
