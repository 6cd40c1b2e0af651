"""What can happen to a store and its durable copy, each named after the situation."""

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import RetrySoonError, UserActionError
from holdfast_runtime.state.commit import TaskCommit, commit
from holdfast_runtime.state.durable.copy import SnapshotPolicy
from holdfast_runtime.state.errors import CheckpointUnavailableError, EpochFencedError
from holdfast_runtime.state.store.delta import Delta, pack_delta
from holdfast_runtime.state.store.directory import TaskIdentity
from holdfast_runtime.state.store.store_head import StoreHead
from holdfast_runtime.state.store.trust import DistrustReason
from tests.error_codes import has_code
from tests.state.places import TASK, Disk, InDeltas, damage, history, lose, restored, snapshot


@pytest.fixture
def in_folder(tmp_path: Path) -> Disk:
    return Disk(tmp_path)


def test_a_valid_local_store_is_used_as_it_is(disk: Disk) -> None:
    history(disk)
    opened = disk.run(10)
    assert (opened.distrust, opened.restored) == (None, None)


def test_a_lost_disk_is_restored_from_snapshot_and_later_deltas(disk: Disk) -> None:
    before = history(disk)
    lose(disk)
    opened = disk.open(10)
    opened.store.close()
    assert opened.restored is not None
    assert (opened.restored.deltas, opened.restored.damaged) == (4, ())
    assert "00000000000000000005" in str(opened.restored.snapshot)
    assert disk.rows(9) == before
    assert opened.distrust is not None
    assert opened.distrust.reason is DistrustReason.NO_STORE


def test_a_lost_disk_without_snapshots_is_restored_from_the_deltas(disk: Disk) -> None:
    before = history(disk, snapshots=())
    lose(disk)
    assert disk.rows(9) == before


def test_a_restarted_machine_drops_the_store_without_opening_it(disk: Disk) -> None:
    before = history(disk)
    (disk.directory / "boot_id").write_text("second boot\n")
    (disk.store_directory.path / "data.mdb").write_bytes(b"torn" * 10_000)
    opened = disk.open(10)
    opened.store.close()
    assert opened.distrust is not None
    assert opened.distrust.reason is DistrustReason.MACHINE_RESTARTED
    assert disk.rows(9) == before


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (TaskIdentity("other", "1", "partition-0"), DistrustReason.OTHER_APP),
        (TaskIdentity("ad-clicks", "2", "partition-0"), DistrustReason.OTHER_RUN),
        (TaskIdentity("ad-clicks", "1", "partition-1"), DistrustReason.OTHER_TASK),
    ],
)
def test_another_apps_runs_or_tasks_store_is_not_used(
    disk: Disk, tmp_path: Path, other: TaskIdentity, reason: DistrustReason
) -> None:
    before = history(disk)
    (tmp_path / "other").mkdir()
    foreign = Disk(tmp_path / "other", other)
    foreign.run(0)
    lose(disk)
    shutil.copytree(foreign.store_directory.path, disk.store_directory.path)
    opened = disk.open(10)
    opened.store.close()
    assert opened.distrust is not None
    assert opened.distrust.reason is reason
    assert disk.rows(9) == before


def test_a_store_that_lags_behind_is_rebuilt(disk: Disk, tmp_path: Path) -> None:
    history(disk, last=5)
    shutil.copytree(disk.store_directory.path, tmp_path / "old")
    shutil.copy2(disk.store_directory.lock_path, tmp_path / "old.lock")
    for batch in range(6, 10):
        disk.run(batch)
    before = disk.rows(9)
    lose(disk)
    shutil.copytree(tmp_path / "old", disk.store_directory.path)
    shutil.copy2(tmp_path / "old.lock", disk.store_directory.lock_path)
    opened = disk.open(10)
    opened.store.close()
    assert opened.distrust is not None
    assert opened.distrust.reason is DistrustReason.OTHER_BATCH
    assert disk.rows(9) == before


def test_outputs_do_not_count_when_a_snapshot_is_due(disk: Disk) -> None:
    with disk.open(0).store as store:

        def compute(_: object) -> dict[str, dict[str, bytes]]:
            store.table("rows").put(b"key", b"value")
            return {store.task: {"out/0": os.urandom(1 << 20)}}

        commit([TaskCommit(store, disk.durable, 0)], 1, compute, lambda _, decided: decided(), InDeltas())
        assert store.head.delta_bytes < 2000


def test_a_task_that_lost_everything_does_not_start_empty(disk: Disk) -> None:
    with pytest.raises(UserActionError, match="had state before batch 4", check=has_code("DeltaMissingError")):
        disk.open(4)


def test_a_replayed_batch_takes_state_and_outputs_from_its_delta(disk: Disk) -> None:
    history(disk, last=4, snapshots=())
    before, computed = disk.rows(4), disk.computed
    published = dict(disk.published)
    disk.published.clear()
    disk.run(4, epoch=2)
    assert disk.computed == computed
    assert disk.published == {4: published[4]}
    lose(disk)
    disk.run(4, epoch=3)
    assert (disk.computed, disk.rows(4, epoch=3)) == (computed, before)


def test_a_committed_batch_without_its_delta_is_not_computed_again(disk: Disk) -> None:
    history(disk, last=4, snapshots=())
    next(disk.objects.glob("delta-*04-*")).unlink()
    with pytest.raises(
        UserActionError,
        match=r"batch 4 .* was committed here, but its delta is gone",
        check=has_code("DeltaMissingError"),
    ):
        disk.run(4)


def test_of_two_attempts_the_older_is_refused_before_its_outputs(disk: Disk, tmp_path: Path) -> None:
    history(disk, last=3, snapshots=())
    published: list[object] = []

    def publish(deltas: object, decided: Callable[[], None]) -> None:
        decided()
        published.append(deltas)

    with disk.open(4).store as older:
        older.begin(4, 1)
        older.table("rows").put(b"by", b"older")
        (tmp_path / "newer").mkdir()
        newer = Disk(tmp_path / "newer")
        newer.durable = disk.durable
        newer.run(4, epoch=2)
        with pytest.raises(EpochFencedError, match=r"attempt 1 .* attempt 2 works on it"):
            disk.durable.write_delta(pack_delta(older.delta()))
        with pytest.raises(EpochFencedError):
            commit([TaskCommit(older, disk.durable, 4)], 1, lambda _: {}, publish, InDeltas())
        assert (older.head.batch, published) == (3, [])
    lose(newer)
    assert newer.rows(4, epoch=2)[b"last"].startswith(b"4 computed")


def test_a_newer_attempt_takes_over_an_older_ones_written_batch(disk: Disk, tmp_path: Path) -> None:
    history(disk, last=3, snapshots=())
    with disk.open(4).store as older:
        older.begin(4, 1)
        older.table("rows").put(b"by", b"older")
        disk.durable.write_delta(pack_delta(older.delta({"out/0": b"older"})))
    (tmp_path / "newer").mkdir()
    newer = Disk(tmp_path / "newer")
    newer.durable = disk.durable
    newer.run(4, epoch=2)
    assert (newer.computed, newer.published) == (0, {4: b"older"})
    assert newer.rows(4, epoch=2)[b"by"] == b"older"


def test_a_batch_written_twice_by_one_attempt_keeps_the_first(disk: Disk) -> None:
    first = Delta(TASK, 0, 1, None, {}, {"out/0": b"first"})
    disk.durable.write_delta(pack_delta(first))
    with pytest.raises(RetrySoonError, match="batch 0", check=has_code("DeltaExistsError")):
        disk.durable.write_delta(pack_delta(Delta(TASK, 0, 1, None, {}, {"out/0": b"second"})))
    assert getattr(disk.durable.find_delta(0), "delta", None) == first


def test_a_delta_of_another_history_is_not_applied(disk: Disk) -> None:
    history(disk, last=1, snapshots=())
    with disk.open(2).store as store:
        store.begin(2, 3)
        with pytest.raises(
            RetrySoonError, match="computed on a state of attempt 2", check=has_code("StoreRebuildError")
        ):
            store.load(Delta(TASK, 2, 3, 2))


def test_a_checkpoint_that_takes_nothing_stops_the_commit(disk: Disk) -> None:
    history(disk, last=1, snapshots=())
    shutil.move(disk.objects, disk.directory / "away")
    disk.objects.write_text("in the way")
    with pytest.raises(CheckpointUnavailableError, match="checkpoint"):
        disk.run(2)
    disk.objects.unlink()
    shutil.move(disk.directory / "away", disk.objects)
    disk.run(2)
    assert disk.rows(2)[b"last"].startswith(b"2 computed")


def test_garbage_collection_keeps_two_snapshots_and_what_follows_the_older(disk: Disk) -> None:
    history(disk, snapshots=(1, 3, 6))
    disk.durable.collect()
    listing = disk.durable.listing()
    assert [one.batch for one in listing.snapshots] == [3, 6]
    assert [one.batch for one in listing.deltas] == [4, 5, 6, 7, 8, 9]
    assert disk.durable.collect() == 0


def test_a_dead_writers_leftovers_go_and_a_living_ones_stay(in_folder: Disk) -> None:
    history(in_folder, snapshots=(1, 3, 6))
    litter = in_folder.objects / ".writing-delta-00000000000000000002-0000000001.abc"
    living = in_folder.objects / ".writing-delta-00000000000000000010-0000000001.abc"
    in_folder.durable.fence(3)
    older = in_folder.objects / ".writing-fence-0000000002.abc"
    newer = in_folder.objects / ".writing-fence-0000000004.abc"
    for path in (litter, living, older, newer):
        path.touch()
    in_folder.durable.collect()
    assert [path.exists() for path in (litter, living, older, newer)] == [False, True, False, True]


@settings(max_examples=25)
@given(
    last=st.integers(0, 9),
    snapshots=st.sets(st.integers(0, 9)),
    collected=st.integers(0, 9),
    back=st.integers(0, 3),
    hurt=st.booleans(),
)
def test_any_mix_of_snapshots_and_deltas_restores_the_live_store(
    tmp_path_factory: pytest.TempPathFactory, last: int, snapshots: set[int], collected: int, back: int, hurt: bool
) -> None:
    disk, states = Disk(tmp_path_factory.mktemp("mix")), {}
    for batch in range(last + 1):
        disk.run(batch)
        if batch in snapshots:
            snapshot(disk, batch)
        if batch == collected:
            disk.durable.collect()
        states[batch] = disk.rows(batch)
    remaining = disk.durable.listing().snapshots
    if hurt and len(remaining) > 1:
        hurt_one = disk.objects / remaining[-1].name
        disk.spoil(hurt_one, damage(hurt_one.read_bytes()))
    target = max(last - back, remaining[0].batch if remaining else 0)
    with restored(disk, target) as store:
        assert dict(store.table("rows").scan()) == states[target]
        # The restored store can be taken back like the live one.
        assert store.head.undo


def test_a_snapshot_is_due_by_deltas_or_by_bytes() -> None:
    policy = SnapshotPolicy(most_deltas=100, least_deltas=10)
    due = [policy.due(StoreHead(batch, -1, 1), "partition-0") for batch in range(200)]
    assert 49 <= due.index(True) <= 99
    grown = StoreHead(20, -1, 1, snapshot=10, snapshot_bytes=1 << 20, delta_bytes=2 << 20)
    assert policy.due(grown, "partition-0")
    assert policy.due(StoreHead(9, -1, 1, delta_bytes=2 << 20), "partition-0")  # much at once, and no snapshot yet
    assert not policy.due(StoreHead(19, -1, 1, snapshot=10, snapshot_bytes=1 << 20, delta_bytes=2 << 20), "partition-0")
    assert not policy.due(StoreHead(20, -1, 1, snapshot=10, snapshot_bytes=4 << 20, delta_bytes=2 << 20), "partition-0")


@pytest.mark.parametrize(
    ("changed", "due"), [(0, 800), (0.01, 800), (0.0625, 400), (0.125, 200), (0.25, 100), (1, 100)]
)
def test_a_state_that_changes_little_is_copied_seldom(changed: float, due: int) -> None:
    policy, size = SnapshotPolicy(), 4 << 20

    def head(deltas: int) -> StoreHead:
        return StoreHead(deltas, -1, 1, snapshot=0, snapshot_bytes=size, delta_bytes=int(size * changed))

    first = next(deltas for deltas in range(1000) if policy.due(head(deltas), "partition-0"))
    assert due / 2 <= first <= due
    late = next(deltas for deltas in range(2000) if policy.overdue(head(deltas)))
    assert late == 2 * due


def test_a_large_state_is_copied_when_as_much_has_changed() -> None:
    policy, size = SnapshotPolicy(), 1 << 30
    head, bundles = StoreHead(0, -1, 1, snapshot=0, snapshot_bytes=size), 0
    while policy.bundles(head):
        head = replace(head, batch=head.batch + 1, delta_bytes=head.delta_bytes + (size >> 10))
        if policy.due(head, "partition-0") and policy.bundles(head):
            bundles += 1
            head = replace(head, bundle=head.batch, bundles=bundles, bundled_bytes=head.delta_bytes)
    assert head.batch == 1025
    assert policy.due(replace(head, batch=head.batch + policy.least_deltas), "partition-0")
    assert bundles == 1024 // 16, "of 16 MiB each"


def test_what_a_restore_replays_counts_for_the_next_snapshot(disk: Disk) -> None:
    history(disk)
    with disk.open(10).store as store:
        before = store.head
    lose(disk)
    with disk.open(10).store as store:
        assert store.head.delta_bytes == before.delta_bytes > 0
