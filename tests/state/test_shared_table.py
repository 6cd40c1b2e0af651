"""One copy of a table for all processes of a location: who comes first changes it, whoever dies has changed nothing."""

import os
import random
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast_runtime.state.durable.storage import DirectoryStorage
from holdfast_runtime.state.shared import table_copy
from holdfast_runtime.state.shared.shared_table import SHARED_STEPS, SharedTable
from holdfast_runtime.state.shared.table_copy import TableCopy, table_storage
from holdfast_runtime.state.store.directory import TaskIdentity
from tests.forked import FORKS
from tests.waiting import patience

IDENTITY = TaskIdentity("app", "1", "products")
DEADLINE = patience(60.0)


def table(path: Path, at: Callable[[str], None] = lambda _: None, boot: str = "boot") -> SharedTable:
    return SharedTable(path, IDENTITY, boot, at, b"p")


def value(batch: int, key: int) -> bytes:
    """Large for half of the keys."""
    return b"%d of %d " % (batch, key) * (500 if key % 2 else 1)


def apply(shared: SharedTable, target: int, keys: int = 6) -> None:
    """Bring a table to a batch, each of which writes some keys and deletes one."""
    if shared.read(1, {"s/0": target}):
        return
    with shared.changing():
        for batch in range(shared.manifest.offsets.get("s/0", 0), target):
            for key in range(keys):
                shared.put_many([b"p%d" % key if key % 2 else b"k%d" % key], [value(batch, key)])
            shared.purge([b"p%d" % (batch % keys)])
        shared.commit(target, 1, {"s/0": target})


def content(shared: SharedTable) -> dict[bytes, bytes]:
    return {key: bytes(stored) for key, stored in shared.scan()}


def expected(folder: Path, target: int) -> dict[bytes, bytes]:
    shared = table(folder)
    apply(shared, target)
    return content(shared)


def race(folder: Path, target: int, fatal: str, occurrence: int) -> None:
    left = occurrence

    def at(step: str) -> None:
        nonlocal left
        left -= step == fatal
        if step == fatal and not left:
            os.kill(os.getpid(), signal.SIGKILL)

    shared = table(folder, at)
    for batch in range(1, target + 1):
        # Others may be further: then this process has nothing to do in that batch.
        if int(shared.manifest.offsets.get("s/0", 0)) < batch:
            with shared.changing():
                reached = int(shared.manifest.offsets.get("s/0", 0))
            if reached < batch:
                apply(shared, batch)


def run_races(folder: Path, target: int, fates: list[tuple[str, int]]) -> list[int | None]:
    started = [FORKS.Process(target=race, args=(folder, target, *fate)) for fate in fates]
    for process in started:
        process.start()
    for process in started:
        process.join(DEADLINE)
    return [process.exitcode for process in started]


def test_processes_that_race_for_one_table_apply_each_batch_once(tmp_path: Path) -> None:
    assert run_races(tmp_path / "t", 8, [("", 0)] * 4) == [0] * 4
    shared = table(tmp_path / "t")
    assert shared.read(1, {"s/0": 8})
    assert content(shared) == expected(tmp_path / "other", 8)


@pytest.mark.parametrize("step", SHARED_STEPS)
@pytest.mark.parametrize("occurrence", [1, 3])
def test_a_process_killed_at_a_step_leaves_a_usable_table(tmp_path: Path, step: str, occurrence: int) -> None:
    assert run_races(tmp_path / "t", 6, [(step, occurrence)]) == [-signal.SIGKILL]
    assert run_races(tmp_path / "t", 6, [("", 0)] * 2) == [0, 0]
    shared = table(tmp_path / "t")
    assert shared.read(1, {"s/0": 6})
    assert content(shared) == expected(tmp_path / "other", 6)
    names = {path.name for path in (tmp_path / "t").iterdir()}
    assert len([name for name in names if name.startswith("run-")]) <= 2 * 3, "what the dead left is removed"


def test_processes_killed_while_others_race_leave_nothing_half_done(tmp_path: Path) -> None:
    draw = random.Random(5)  # noqa: S311
    for round_ in range(6):
        fates = [(draw.choice(SHARED_STEPS), draw.randrange(1, 5)) for _ in range(3)]
        run_races(tmp_path / "t", 4 * (round_ + 1), [*fates, ("", 0)])
    shared = table(tmp_path / "t")
    assert shared.read(1, {"s/0": 24})
    assert content(shared) == expected(tmp_path / "other", 24)


def test_a_version_stays_readable_while_others_go_on(tmp_path: Path) -> None:
    reader, writer = table(tmp_path), table(tmp_path)
    apply(writer, 1)
    assert reader.read(1, {"s/0": 1})
    before = content(reader)
    for target in range(2, 7):
        apply(writer, target)
    assert content(reader) == before
    assert not reader.read(1, {"s/0": 1, "s/1": 1})


def test_a_power_cut_leaves_nothing_that_is_trusted(tmp_path: Path) -> None:
    apply(table(tmp_path), 3)
    after = table(tmp_path, boot="another")
    assert not after.read(1, {"s/0": 3})
    with after.changing():
        assert dict(after.manifest.offsets) == {}
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]


@pytest.mark.parametrize("harm", ["file gone", "file cut", "manifest cut", "manifest changed"])
def test_a_table_that_was_harmed_is_dropped(tmp_path: Path, harm: str) -> None:
    apply(table(tmp_path), 3)
    kind, _, what = harm.partition(" ")
    for path in tmp_path.iterdir():
        if path.name.startswith("run-" if kind == "file" else "manifest-"):
            text = path.read_bytes()
            path.unlink() if what == "gone" else path.write_bytes(
                text[:-9] if what == "cut" else text[:-9] + b"123456789"
            )
    shared = table(tmp_path)
    with shared.changing():
        assert dict(shared.manifest.offsets) == {}
    apply(shared, 3)
    assert content(shared) == expected(tmp_path / "other", 3)


@pytest.mark.parametrize("beside", [False, True], ids=["at once", "beside batches"])
def test_another_location_has_the_newest_copy_that_is_not_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, beside: bool
) -> None:
    monkeypatch.setattr(table_copy, "_BESIDE", 0 if beside else 1 << 30)
    storage, first = DirectoryStorage(tmp_path / "durable", sync=False), table(tmp_path / "first")
    copy = TableCopy(table_storage(storage, IDENTITY), IDENTITY)
    for target in (2, 4, 6):
        apply(first, target)
        copy.upload(first)
        while beside and not copy._beside.done():  # type: ignore[union-attr] # noqa: SLF001 - as batches pass
            pass
        if beside:
            copy.upload(first)  # takes note that it is done
    for target, restored_batch in ((7, 6), (5, 4), (3, None)):
        other = table(tmp_path / f"at-{target}")
        with other.changing():
            restored = TableCopy(table_storage(storage, IDENTITY), IDENTITY).restore(other, 1, {"s/0": target})
            assert restored == (restored_batch is not None)
            assert other.manifest.offsets.get("s/0") == restored_batch
            if restored_batch is not None:
                assert content(other) == expected(tmp_path / f"as-{restored_batch}", restored_batch)
            assert not TableCopy(table_storage(storage, IDENTITY), IDENTITY).restore(other, 2, {"s/0": target}), (
                "of another generation"
            )


def test_a_damaged_copy_is_not_taken(tmp_path: Path) -> None:
    storage, first = DirectoryStorage(tmp_path / "durable", sync=False), table(tmp_path / "first")
    apply(first, 2)
    TableCopy(table_storage(storage, IDENTITY), IDENTITY).upload(first)
    (run,) = list(tmp_path.glob("durable/**/run-*"))[:1]
    harmed = bytearray(run.read_bytes())
    harmed[100] ^= 1
    run.write_bytes(harmed)
    other = table(tmp_path / "other")
    with other.changing():
        assert not TableCopy(table_storage(storage, IDENTITY), IDENTITY).restore(other, 1, {"s/0": 9})
        assert dict(other.manifest.offsets) == {}


def test_a_copy_is_due_by_new_rows_or_by_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_copy, "_LEAST_BYTES", 1)
    shared = table(tmp_path / "t")
    copy = TableCopy(table_storage(DirectoryStorage(tmp_path / "durable", sync=False), IDENTITY), IDENTITY)
    apply(shared, 1)
    assert copy.due(shared.manifest, {})
    copy.upload(shared)
    assert not copy.due(shared.manifest, {})
    with shared.changing():
        shared.put_many([b"k"], [b"small"])
        shared.commit(2, 1, {"s/0": 2})
    assert not copy.due(shared.manifest, {})
    with shared.changing():
        shared.commit(1 + table_copy._MANY_BATCHES, 1, {"s/0": 3})  # noqa: SLF001
    assert copy.due(shared.manifest, {})
    copy.upload(shared)
    apply(shared, 500)
    assert copy.due(shared.manifest, {})
    copy.upload(shared)
    assert copy.due(shared.manifest, {"s/0": 501}), "what lies before the start can be had from the copy alone"
