"""A task that runs elsewhere for a while: what stays behind on its old disk is never taken for its state again.

Nor can a process that still has it open there write anything: there is one delta for each batch of a task.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.errors import RetrySoonError
from holdfast_runtime.state.commit import TaskCommit, commit
from holdfast_runtime.state.store.trust import DistrustReason
from tests.error_codes import has_code
from tests.state.places import Disk, InDeltas


@pytest.fixture
def disks(tmp_path: Path) -> tuple[Disk, Disk]:
    """Two locations with the same checkpoint."""
    for name in ("here", "there", "checkpoint"):
        (tmp_path / name).mkdir()
    for name in ("here", "there"):
        (tmp_path / name / "checkpoint").symlink_to(tmp_path / "checkpoint")
    return Disk(tmp_path / "here"), Disk(tmp_path / "there")


def test_a_task_that_moves_back_does_not_trust_its_store(disks: tuple[Disk, Disk]) -> None:
    first, second = disks
    for batch in range(3):
        first.run(batch)
    moved = second.run(3)
    assert moved.distrust is not None
    assert moved.distrust.reason is DistrustReason.NO_STORE
    assert moved.restored is not None
    second.run(4)
    back = first.run(5)
    assert back.distrust is not None
    assert back.distrust.reason is DistrustReason.OTHER_BATCH
    assert first.rows(5) == {b"last": b"5 computed as 4", **{b"row-%03d" % batch: b"x" * 100 for batch in (3, 4, 5)}}


def test_a_task_that_returns_before_it_ran_finds_its_store(disks: tuple[Disk, Disk]) -> None:
    first, second = disks
    first.run(0)
    second.open(1).store.close()
    assert first.run(1).distrust is None


def test_a_batch_still_running_at_the_old_place_writes_nothing(disks: tuple[Disk, Disk]) -> None:
    first, second = disks
    for batch in range(3):
        first.run(batch)
    with first.open(3).store as old:

        def compute(_: object) -> dict[str, dict[str, bytes]]:
            second.run(3)
            second.run(4)
            old.table("rows").put(b"last", b"by nobody")
            return {old.task: {"out/0": b"by nobody"}}

        def publish(_: object, decided: Callable[[], None]) -> None:
            decided()
            pytest.fail("outputs of a batch that somebody else has written")

        with pytest.raises(RetrySoonError, check=has_code("DeltaExistsError")):
            commit([TaskCommit(old, first.durable, 3)], 1, compute, publish, InDeltas())
    state = second.rows(4)
    assert state[b"last"] == b"4 computed as 2"
    back = first.run(5)
    assert back.distrust is not None
    assert back.distrust.reason is DistrustReason.OTHER_BATCH
    assert first.rows(5).items() >= {b"row-004": state[b"row-004"]}.items()
