"""A durable copy of which an object was damaged or is missing: restores say which, or go by an older one."""

from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.errors import UserActionError
from holdfast_runtime.state.errors import CheckpointUnavailableError
from tests.error_codes import has_code
from tests.s3.gateway import Gateway
from tests.state.places import Disk, damage, history, lose

Spoil = Callable[[bytes], bytes]


def cut(content: bytes) -> bytes:
    return content[:-7]


def halved(content: bytes) -> bytes:
    return content[: len(content) // 2]


def empty(_: bytes) -> bytes:
    return b""


@pytest.mark.parametrize("spoil", [damage, halved, empty])
def test_a_damaged_delta_stops_the_restore_naming_object_and_choices(disk: Disk, spoil: Spoil) -> None:
    history(disk)
    (hurt,) = disk.objects.glob("delta-*07-*")
    disk.spoil(hurt, spoil(hurt.read_bytes()))
    lose(disk)
    with pytest.raises(
        UserActionError,
        match=rf"{disk.durable.storage.path(hurt.name)}.*copy of the checkpoint.*new spec.runId",
        check=has_code("DeltaDamagedError"),
    ):
        disk.open(10)
    assert hurt.exists()
    with pytest.raises(UserActionError, check=has_code("DeltaDamagedError")):
        disk.open(10)


def test_a_restore_does_not_read_outputs_and_a_replay_does(disk: Disk) -> None:
    before = history(disk)
    (last,) = disk.objects.glob("delta-*09-*")
    disk.spoil(last, cut(last.read_bytes()))
    lose(disk)
    assert disk.rows(9) == before
    with pytest.raises(
        UserActionError, match=r"part of it holds \d+ bytes where its header says", check=has_code("DeltaDamagedError")
    ):
        disk.run(9, epoch=2)


def test_a_missing_delta_stops_the_restore(disk: Disk) -> None:
    history(disk)
    (delta,) = disk.objects.glob("delta-*07-*")
    delta.unlink()
    lose(disk)
    with pytest.raises(UserActionError, match="delta of batch 7 is missing", check=has_code("DeltaMissingError")):
        disk.open(10)


def test_a_delta_under_another_batchs_name_is_seen(disk: Disk) -> None:
    history(disk)
    (six,), (seven,) = disk.objects.glob("delta-*06-*"), disk.objects.glob("delta-*07-*")
    disk.spoil(seven, six.read_bytes())
    lose(disk)
    with pytest.raises(UserActionError, match="copied to a name", check=has_code("DeltaDamagedError")):
        disk.open(10)


@pytest.mark.parametrize("spoil", [damage, cut, empty])
def test_a_delta_that_is_damaged_meanwhile_is_not_adopted(disk: Disk, spoil: Spoil) -> None:
    disk.run(0)
    stored = disk.durable.find_delta(0)
    assert stored is not None
    (delta,) = disk.objects.glob("delta-*")
    disk.spoil(delta, spoil(delta.read_bytes()))
    with pytest.raises(UserActionError, check=has_code("DeltaDamagedError")):
        disk.durable.adopt(stored, 2)
    assert [*disk.objects.glob("delta-*")] == [delta]


@pytest.mark.parametrize("spoil", [damage, cut, empty])
def test_a_damaged_snapshot_gives_way_to_the_one_before(disk: Disk, spoil: Spoil) -> None:
    before = history(disk)
    disk.durable.collect()
    hurt = max(disk.objects.glob("snapshot-*"))
    disk.spoil(hurt, spoil(hurt.read_bytes()))
    lose(disk)
    opened = disk.open(10)
    opened.store.close()
    assert opened.restored is not None
    assert opened.restored.deltas == 7
    assert disk.durable.storage.path(hurt.name) in opened.restored.damaged[0]
    assert disk.rows(9) == before


def test_a_snapshot_the_object_store_calls_rotten_gives_way_too(tmp_path: Path, gateway: Gateway) -> None:
    disk = Disk(tmp_path, bucket=gateway.bucket())
    before = history(disk)
    hurt = max(disk.objects.glob("snapshot-*"))
    hurt.write_bytes(damage(hurt.read_bytes()))
    lose(disk)
    opened = disk.open(10)
    opened.store.close()
    assert opened.restored is not None
    assert disk.durable.storage.path(hurt.name) in opened.restored.damaged[0]
    assert disk.rows(9) == before


def test_without_a_whole_snapshot_the_last_damage_is_reported(tmp_path: Path, gateway: Gateway) -> None:
    disk = Disk(tmp_path, bucket=gateway.bucket())
    history(disk)
    disk.durable.collect()
    for hurt in disk.objects.glob("snapshot-*"):
        hurt.write_bytes(damage(hurt.read_bytes()))
    lose(disk)
    with pytest.raises(
        CheckpointUnavailableError, match=r"is damaged, each time it was asked for.*put it back from a copy"
    ):
        disk.open(10)


def test_snapshots_all_damaged_are_an_error_that_names_them(disk: Disk) -> None:
    history(disk)
    disk.durable.collect()
    for hurt in disk.objects.glob("snapshot-*"):
        disk.spoil(hurt, damage(hurt.read_bytes()))
    lose(disk)
    with pytest.raises(
        UserActionError, match=r"snapshot-0.*02-.*snapshot-0.*05-", check=has_code("NoUsableSnapshotError")
    ):
        disk.open(10)
