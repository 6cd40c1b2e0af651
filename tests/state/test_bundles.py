"""Bundles stand for the deltas of many batches: whatever is there or damaged, a restore gives the live state."""

from collections.abc import Mapping
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import UserActionError
from holdfast_runtime.state.durable import copy
from holdfast_runtime.state.durable.copy import SnapshotPolicy
from holdfast_runtime.state.durable.restorable import keep_restorable
from holdfast_runtime.state.errors import EpochFencedError
from holdfast_runtime.state.store.delta import Changes, Delta, pack_bundle, pack_delta, read_columns, read_delta
from holdfast_runtime.state.store.object_names import bundle_name, delta_name, listing, obsolete, snapshot_name
from holdfast_runtime.state.store.task_store import TaskStore
from tests.error_codes import has_code
from tests.state.places import TASK, Disk, damage, lose, restored, snapshot
from tests.state.test_beside_far import FarDisk

SOON = SnapshotPolicy(most_deltas=2, least_deltas=1, bundled=0, most_bundles=2)


def bundle(disk: Disk) -> bool:
    with TaskStore.open(disk.store_directory) as store:
        return disk.durable.bundle(store)


@settings(max_examples=40)
@given(
    st.integers(3, 14),
    st.lists(st.sets(st.integers(0, 14)), min_size=4, max_size=4),
    st.integers(0, 1),
    st.sampled_from(["nothing", "bundle", "snapshot"]),
)
def test_any_mix_of_snapshots_and_bundles_restores_the_live_store(
    tmp_path_factory: pytest.TempPathFactory, last: int, batches: list[set[int]], back: int, hurt: str
) -> None:
    """Also where another attempt runs a batch `again`, behind its bundle."""
    snapshots, bundles, collected, again = batches
    disk, states, epoch = Disk(tmp_path_factory.mktemp("mix")), dict[int, Mapping[bytes, bytes]](), 1
    for batch in range(last + 1):
        disk.run(batch, epoch)
        for _ in range(2 if batch in again else 1):
            if batch in snapshots:
                snapshot(disk, batch)
            if batch in bundles:
                bundle(disk)
            if batch in collected:
                disk.durable.collect()
            states[batch] = disk.rows(batch, epoch)
            if batch in again:
                epoch += 1
                disk.run(batch, epoch)
    objects = disk.durable.listing()
    named = {"bundle": objects.bundles[-1:], "snapshot": objects.snapshots[1:][-1:], "nothing": ()}[hurt]
    for spoiled in named:
        disk.spoil(disk.objects / spoiled.name, damage((disk.objects / spoiled.name).read_bytes()))
    target = max(last - back, objects.snapshots[0].batch if objects.snapshots else 0)
    with restored(disk, target) as store:
        assert dict(store.table("rows").scan()) == states[target]
    lose(disk)
    assert disk.rows(target, epoch) == states[target]


def test_a_bundle_goes_on_where_the_last_one_ended(disk: Disk) -> None:
    for batch in range(10):
        disk.run(batch)
        if batch in (0, 1):
            snapshot(disk, batch)
        if batch in (4, 7, 9):
            assert bundle(disk)
    assert [(one.after, one.batch) for one in disk.durable.listing().bundles] == [(1, 4), (4, 7), (7, 9)]
    disk.durable.collect()
    assert [one.batch for one in disk.durable.listing().deltas] == [1, 8, 9], "those of the last one stay"
    snapshot(disk, 9)
    disk.run(10)
    snapshot(disk, 10)
    disk.durable.collect()
    assert disk.durable.listing().bundles == ()


def test_a_bundle_has_the_last_value_of_each_key() -> None:
    def stored(batch: int, **tables: Changes) -> Delta:
        content = b"".join(pack_delta(Delta(TASK, batch, 3, 3, tables, {"out/0": b"row"})).chunks)
        return read_delta("delta", BytesIO(content).read)

    deltas = [
        stored(5, counts=[(b"a", b"1"), (b"b", b"1")]),
        stored(6, counts=[(b"a", None), (b"c", b"")], last=[(b"k", b"x")]),
        stored(7, counts=[(b"b", b"2")]),
    ]
    parts = [read_columns("delta", BytesIO(b"".join(pack_delta(delta).chunks)).read) for delta in deltas]
    packed = pack_bundle(parts, 4)
    reread = read_delta("bundle", BytesIO(b"".join(packed.chunks)).read)
    assert reread.tables == {"counts": [(b"a", None), (b"b", b"2"), (b"c", b"")], "last": [(b"k", b"x")]}
    assert (reread.after, reread.batch, reread.epoch, reread.base, reread.outputs) == (4, 7, 3, 3, {})
    assert reread.size == packed.delta.size < sum(delta.size for delta in deltas)


def test_deltas_behind_a_snapshot_inside_of_a_bundle_stay() -> None:
    """It was begun before the bundle, and written later."""
    names = [
        *(delta_name(batch, 1) for batch in range(1, 10)),
        snapshot_name(1, 1),
        snapshot_name(4, 1),
        bundle_name(6, 1, 1),
        bundle_name(8, 1, 6),
    ]
    objects = listing(names)
    assert obsolete(objects) == (delta_name(1, 1), *(delta_name(batch, 1) for batch in (2, 3, 4)))
    later = listing([*(name for name in names if name not in obsolete(objects)), snapshot_name(9, 1)])
    assert obsolete(later)[:2] == (snapshot_name(1, 1),)


def test_a_snapshot_that_comes_too_late_counts_as_none(disk: Disk) -> None:
    """Its deltas went when two bundles had followed: the task had been moved, and the process wrote on."""
    late: tuple[Path, bytes] | None = None
    for batch in range(11):
        disk.run(batch)
        if batch in (0, 1, 4):
            path = snapshot(disk, batch)
        if batch == 4:
            late = path, path.read_bytes()
            path.unlink()
        if batch in (3, 6, 9):
            with TaskStore.open(disk.store_directory) as store:
                assert disk.durable.write_bundle(replace(store.head, snapshot=1))
            disk.durable.collect()
    before = disk.rows(10)
    assert late is not None
    disk.durable.storage.write(late[0].name, [late[1]])
    lose(disk)
    opened = disk.open(11)
    with opened.store as store:
        assert dict(store.table("rows").scan()) == before
    assert opened.restored is not None
    assert opened.restored.snapshot == snapshot_name(1, 1)
    snapshot(disk, 10)
    disk.durable.collect()
    assert [one.batch for one in disk.durable.listing().snapshots] == [1, 4, 10]


def test_many_deltas_become_several_bundles(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copy, "_BUNDLE_BYTES", 1)
    monkeypatch.setattr(copy, "READ_AHEAD", 3)
    for batch in range(9):
        disk.run(batch)
        if batch == 0:
            snapshot(disk, batch)
    assert [bundle(disk) for _ in range(4)] == [True, True, True, False]
    assert [(one.after, one.batch) for one in disk.durable.listing().bundles] == [(0, 3), (3, 6), (6, 8)]
    with TaskStore.open(disk.store_directory) as store:
        assert store.head.bundled_bytes == store.head.delta_bytes
        assert (store.head.bundles, store.head.deltas) == (3, 0)
    before = disk.rows(8)
    lose(disk)
    assert disk.rows(8) == before


def test_the_longest_bundle_that_ends_in_time_is_taken() -> None:
    objects = listing([bundle_name(6, 1, 1), bundle_name(9, 2, 1), *(delta_name(batch, 1) for batch in range(2, 11))])
    ways = {until: [named.batch for named in objects.way(1, until)] for until in (5, 8, 10)}
    assert ways == {5: [2, 3, 4, 5], 8: [6, 7, 8], 10: [9, 10]}


def test_a_damaged_bundle_whose_deltas_are_gone_is_refused(disk: Disk) -> None:
    for batch in range(8):
        disk.run(batch)
        if batch in (0, 1):
            snapshot(disk, batch)
        if batch in (4, 7):
            assert bundle(disk)
    disk.durable.collect()
    first = disk.objects / disk.durable.listing().bundles[0].name
    disk.spoil(first, damage(first.read_bytes()))
    lose(disk)
    why = r"the delta of batch 2 is missing; .*bundle-0{19}4-.*checksum"
    with pytest.raises(UserActionError, check=has_code("DeltaMissingError"), match=why):
        disk.rows(7)


def test_a_bundle_under_the_name_of_another_is_not_used(disk: Disk) -> None:
    for batch in range(8):
        disk.run(batch)
        if batch == 0:
            snapshot(disk, batch)
        if batch in (3, 6):
            assert bundle(disk)
    before = disk.rows(7)
    first, second = (disk.objects / one.name for one in disk.durable.listing().bundles)
    disk.spoil(second, first.read_bytes())
    lose(disk)
    opened = disk.open(8)
    with opened.store as store:
        assert dict(store.table("rows").scan()) == before
    assert opened.restored is not None
    assert "a name that is not its own" in "".join(opened.restored.damaged)


def kept(disk: FarDisk, batches: range, policy: SnapshotPolicy = SOON) -> None:
    for batch in batches:
        disk.keep(batch, policy)
        disk.written()


@pytest.fixture
def far(tmp_path: Path) -> FarDisk:
    return FarDisk(tmp_path)


def test_bundles_are_written_beside_batches_until_a_snapshot_is_due(far: FarDisk) -> None:
    kept(far, range(12))
    objects = far.durable.listing()
    assert len(objects.snapshots) == 2
    assert len(objects.bundles) >= 2
    assert len(objects.deltas) < 12
    before = far.rows(11)
    lose(far)
    assert far.rows(11) == before


def test_where_a_delta_is_gone_a_snapshot_is_written_instead(far: FarDisk) -> None:
    kept(far, range(5))
    kept(far, range(5, 6), SnapshotPolicy())
    (far.objects / delta_name(5, 1)).unlink()
    kept(far, range(6, 9))
    assert far.snapshots()[-1] >= 6
    assert all(one.batch < 5 or one.after > 5 for one in far.durable.listing().bundles if one.after is not None)
    before = far.rows(8)
    lose(far)
    assert far.rows(8) == before


def test_an_attempt_that_was_shut_out_leaves_no_bundle(far: FarDisk) -> None:
    kept(far, range(3), SnapshotPolicy(most_deltas=1))
    with TaskStore.open(far.store_directory) as store:
        head = store.head
    far.durable.fence(2)
    with pytest.raises(EpochFencedError):
        far.durable.write_bundle(head, epoch=1)
    assert far.durable.listing().bundles == ()


def test_a_batch_with_too_many_deltas_waits_for_its_bundle(far: FarDisk) -> None:
    policy = SnapshotPolicy(most_deltas=1, latest_deltas=0, bundled=0, most_bundles=3)
    for batch in range(9):
        with far.run(batch).store:
            pass
        with far.open(batch + 1).store as store:
            keep_restorable(store, far.durable, policy, 1)
            assert store.head.deltas == 0
    assert {one.batch for one in far.durable.listing().bundles} >= {5, 6, 7}
    before = far.rows(8)
    lose(far)
    assert far.rows(8) == before
