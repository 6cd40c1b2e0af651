"""A batch is decided when its deltas are durable: outputs begin before, and nobody sees them before."""

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from holdfast_runtime.state.commit import TaskCommit, commit
from holdfast_runtime.state.durable.copy import DurableCopy
from holdfast_runtime.state.durable.storage import Chunk, DirectoryStorage
from holdfast_runtime.state.errors import CheckpointUnavailableError
from holdfast_runtime.state.store.directory import TaskIdentity
from tests.state.places import Disk, InDeltas
from tests.waiting import patience, wait_until

TASKS = ("a", "b", "c")


@dataclass(frozen=True, slots=True)
class GatedStorage(DirectoryStorage):
    """A folder in which deltas are written once a gate is open, and refused where a task's name says so."""

    gate: threading.Event = field(default_factory=threading.Event)
    refused: str = ""
    many: int = 1
    under_way: list[str] = field(default_factory=list)
    """Names of objects that are being written."""

    @property
    def at_once(self) -> int:
        return self.many

    def below(self, *names: str) -> "GatedStorage":
        return GatedStorage(self.root.joinpath(*names), self.sync, self.gate, self.refused, self.many, self.under_way)

    def write(self, name: str, chunks: Iterable[Chunk], *, replace: bool = False) -> int | None:
        self.under_way.append(name)
        try:
            if name.startswith("delta-"):
                assert self.gate.wait(patience(60))
                if self.root.name == self.refused:
                    message = "the disk is full"
                    raise CheckpointUnavailableError(message)
            return DirectoryStorage.write(self, name, chunks, replace=replace)
        finally:
            self.under_way.remove(name)


class Batch:
    """The first batch of a slot's tasks; its outputs are what `publish` does."""

    def __init__(self, root: Path, storage: GatedStorage) -> None:
        self.gate, self.under_way, self.steps = storage.gate, storage.under_way, list[str]()
        self.parts: list[TaskCommit] = []
        for task in TASKS:
            (root / task).mkdir()
            disk = Disk(root / task, TaskIdentity("shop", "1", task))
            disk.durable = DurableCopy(storage, disk.durable.identity)
            self.parts.append(TaskCommit(disk.open(0).store, disk.durable, 0))

    def durable(self) -> list[str]:
        """Tasks whose deltas are there."""
        return [part.store.task for part in self.parts if part.durable.listing().deltas]

    def commit(self, publish: Callable[[Callable[[], None]], None]) -> None:
        try:
            commit(self.parts, 1, lambda _: {}, lambda _, decided: publish(decided), InDeltas(), self.steps.append)
        finally:
            for part in self.parts:
                part.store.close()


@pytest.mark.parametrize("many", [1, 2, 32])
def test_outputs_begin_while_deltas_are_written(tmp_path: Path, many: int) -> None:
    batch = Batch(tmp_path, GatedStorage(tmp_path / "checkpoint", sync=False, many=many))

    def publish(decided: Callable[[], None]) -> None:
        assert batch.durable() == []
        batch.gate.set()
        decided()
        assert batch.durable() == [*TASKS]

    batch.commit(publish)
    assert [part.store.head.batch for part in batch.parts] == [0, 0, 0]


def test_a_batch_without_outputs_waits_for_its_deltas(tmp_path: Path) -> None:
    batch = Batch(tmp_path, GatedStorage(tmp_path / "checkpoint", sync=False))
    batch.commit(lambda _: batch.gate.set())
    assert batch.steps == ["computed", *["delta written"] * 3, "outputs committed", *["state committed"] * 3]


@pytest.mark.parametrize(("refused", "written"), [("a", []), ("b", ["a"]), ("c", ["a", "b"])])
def test_a_delta_that_fails_lets_nothing_be_seen(tmp_path: Path, refused: str, written: list[str]) -> None:
    batch = Batch(tmp_path, GatedStorage(tmp_path / "checkpoint", sync=False, refused=refused))

    def publish(decided: Callable[[], None]) -> None:
        batch.gate.set()
        decided()
        pytest.fail("an output of a batch that is not decided")

    with pytest.raises(CheckpointUnavailableError, match="full"):
        batch.commit(publish)
    assert batch.durable() == written, "on a disk those behind it are not begun"
    assert "outputs committed" not in batch.steps


def test_outputs_that_fail_leave_no_write_behind(tmp_path: Path) -> None:
    batch = Batch(tmp_path, GatedStorage(tmp_path / "checkpoint", sync=False))

    def publish(_: object) -> None:
        wait_until(lambda: len(batch.under_way) > 0, 60, "a delta that is being written")
        threading.Timer(0.05, batch.gate.set).start()
        message = "the broker is away"
        raise ConnectionError(message)

    with pytest.raises(ConnectionError):
        batch.commit(publish)
    assert batch.under_way == []
    assert batch.durable() == ["a"], "the one that was under way, and no other"
