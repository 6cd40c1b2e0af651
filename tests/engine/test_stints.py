"""Slots that stay, on real executors and in processes of this host: who answers, who is lost, who stays out."""

import os
import signal
import threading
from collections.abc import Iterator
from functools import partial
from multiprocessing import AuthenticationError
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from holdfast_runtime.job import JobFailedError
from holdfast_runtime.spark import stint_job
from holdfast_runtime.spark.located import SlotLocation, by_processor, registered
from holdfast_runtime.spark.stint_job import starting_in_spark
from holdfast_runtime.stints import slot_connections, slot_processes, stints
from holdfast_runtime.stints.slot_connections import DriverAddress, SlotConnections
from holdfast_runtime.stints.slot_processes import SlotProcesses
from holdfast_runtime.stints.stints import Stints
from tests.processes import parent_of
from tests.waiting import patience, wait_until

SLOTS = 3
DEADLINE = patience(60)


class Told:
    """Answers as `told` says, and notes when it lets go."""

    def __init__(self, folder: Path, slot: int) -> None:
        self._folder, self._slot = folder, slot

    def answer(self, batch: str) -> str:
        """Answer."""
        return told(self._folder, self._slot, batch)

    def let_go(self) -> None:
        """Leave a file."""
        (self._folder / f"let go-{self._slot}").touch()

    def end(self) -> None:
        """Leave a file, too."""
        self.let_go()


def told(folder: Path, slot: int, batch: str) -> str:
    """Answer with the slot, its process and executor; die, fail or hang where `batch` names the slot."""
    mark = folder / f"{batch}-{slot}"
    if batch in (f"die once in {slot}", f"fail once in {slot}") and not mark.exists():
        mark.touch()
        if batch.startswith("die"):
            os.kill(os.getpid(), signal.SIGKILL)
        message = "a mistake"
        raise ValueError(message)
    if batch == f"fail in {slot}":
        message = f"no answer to {batch}"
        raise ValueError(message)
    if batch == f"hang in {slot}":
        mark.touch()
        threading.Event().wait(DEADLINE)
    return f"{slot} {batch} {os.getpid()} {Path.cwd().name}"


def ways_to(spark: SparkSession) -> list[SlotLocation]:
    names = by_processor(registered(spark))
    return [SlotLocation(f"slot-{slot}", names[name]) for slot, name in enumerate(sorted(names))]


def in_spark(spark: SparkSession, slots: list[SlotLocation], folder: Path) -> Stints:
    return Stints(len(slots), starting_in_spark(spark, slots, partial(Told, folder)))


@pytest.fixture(params=["Spark", "processes"])
def slots(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stints]:
    if request.param == "Spark":
        spark = request.getfixturevalue("spark")
        staying = in_spark(spark, ways_to(spark), tmp_path)
        yield staying
        staying.end()
        return
    with SlotProcesses() as processes:
        staying = Stints(SLOTS, processes.starting(SLOTS, partial(Told, tmp_path)))
        yield staying
        staying.end()


class DyingYoung:
    """Lets the first slots that are forked die before they connect."""

    def __init__(self, folder: Path, deaths: int) -> None:
        self._folder, self._deaths = folder, deaths

    def __call__(self, slot: int) -> Told:
        """Begin."""
        return Told(self._folder, slot)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Arrive where slots are forked from."""
        self.__dict__.update(state)
        forks, mark = list[None](), self._folder / "dying"
        if mark.exists():
            return
        mark.touch()

        def die() -> None:
            if len(forks) <= self._deaths:
                os.kill(os.getpid(), signal.SIGKILL)

        os.register_at_fork(before=lambda: forks.append(None), after_in_child=die)


def is_there(pid: int) -> bool:
    try:
        parent_of(pid)
    except OSError:
        return False
    return True


def processes_of(slots: Stints, batch: str) -> list[list[str]]:
    answers = slots.ask([batch] * SLOTS)
    assert answers is not None
    return [answer.removeprefix(f"{slot} {batch} ").split() for slot, answer in enumerate(answers)]


def test_the_same_processes_answer_batch_after_batch(slots: Stints) -> None:
    first = processes_of(slots, "1")
    assert len({process for process, _ in first}) == SLOTS
    assert [processes_of(slots, str(batch)) for batch in range(2, 30)] == [first] * 28


def test_each_slot_is_asked_its_own_part(slots: Stints) -> None:
    parts = [f"part-{slot}" for slot in range(SLOTS)]
    answers = slots.ask(parts)
    assert answers is not None
    assert [answer.split()[:2] for answer in answers] == [[str(slot), part] for slot, part in enumerate(parts)]


def test_slots_are_where_they_were_placed(spark: SparkSession, tmp_path: Path) -> None:
    staying = in_spark(spark, ways_to(spark), tmp_path)
    assert [executor for _, executor in processes_of(staying, "1")] == sorted(by_processor(registered(spark)))
    staying.end()


def test_a_batch_is_asked_again_when_a_process_dies(slots: Stints) -> None:
    before = processes_of(slots, "1")
    after = processes_of(slots, "die once in 1")
    assert after[1] != before[1]
    assert processes_of(slots, "2") == after


@pytest.mark.parametrize("deaths", [1, SLOTS])
def test_slots_that_die_before_they_connect_are_started_again(tmp_path: Path, deaths: int) -> None:
    with SlotProcesses() as processes:
        staying = Stints(SLOTS, processes.starting(SLOTS, DyingYoung(tmp_path, deaths)))
        processes_of(staying, "1")
        staying.end()
    assert (tmp_path / "dying").exists()


def test_a_batch_is_asked_again_when_a_slot_raises(slots: Stints) -> None:
    processes_of(slots, "fail once in 2")
    processes_of(slots, "2")


def test_slots_let_go_in_silence_and_at_the_end(slots: Stints, tmp_path: Path) -> None:
    marks = [tmp_path / f"let go-{slot}" for slot in range(SLOTS)]
    processes_of(slots, "1")
    wait_until(lambda: all(mark.exists() for mark in marks), DEADLINE, "slots that are not asked any more")
    processes_of(slots, "2")
    for mark in marks:
        mark.unlink()
    slots.end()
    wait_until(lambda: all(mark.exists() for mark in marks), DEADLINE, "slots that end")


def test_what_a_slot_raises_each_time_is_told(slots: Stints) -> None:
    processes_of(slots, "1")
    with pytest.raises(JobFailedError, match="ValueError: no answer to fail in 0"):
        slots.ask(["fail in 0"] * SLOTS)
    processes_of(slots, "2")


def test_slots_that_hang_are_ended_with_the_job(
    slots: Stints, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stint_job, "_ENDS_WITHIN", 0.5)
    monkeypatch.setattr(slot_processes, "ENDS_WITHIN", 0.5)
    hanging = int(processes_of(slots, "1")[1][0])
    failures: list[Exception] = []

    def ask() -> None:
        try:
            slots.ask(["hang in 1"] * SLOTS)
        except JobFailedError as error:
            failures.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    wait_until((tmp_path / "hang in 1-1").exists, DEADLINE, "a slot that hangs")
    slots.end()
    asking.join(DEADLINE)
    assert not asking.is_alive()
    assert len(failures) == 1
    wait_until(lambda: not spark.sparkContext.statusTracker().getActiveJobsIds(), DEADLINE, "the end of Spark's job")
    wait_until(lambda: not is_there(hanging), DEADLINE, "the end of the process that hangs")


def test_nothing_is_left_of_slots_that_were_ended(spark: SparkSession, tmp_path: Path) -> None:
    for _ in range(3):
        staying = in_spark(spark, ways_to(spark), tmp_path)
        processes_of(staying, "1")
        staying.end()
        wait_until(
            lambda: not spark.sparkContext.statusTracker().getActiveJobsIds(), DEADLINE, "the end of Spark's job"
        )
    with pytest.raises(JobFailedError, match="the slots were ended"):
        staying.ask(["2"] * SLOTS)


def test_too_few_cores_are_told_and_hold_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stints, "_BEGINS_WITHIN", 5.0)
    slots = in_spark(spark, ways_to(spark), tmp_path)
    more = in_spark(spark, [SlotLocation(f"slot-{slot}") for slot in range(SLOTS + 1)], tmp_path)
    assert more.ask(["1"] * (SLOTS + 1)) is None
    assert more.ask(["1"] * (SLOTS + 1)) is None
    more.end()
    processes_of(slots, "1")
    slots.end()


@pytest.fixture(params=[None, "127.0.0.1", "::1"])
def connections(request: pytest.FixtureRequest) -> Iterator[SlotConnections]:
    server = SlotConnections(request.param)
    yield server
    server.close()


def test_strangers_do_not_get_in_nor_hold_up_slots(
    connections: SlotConnections, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slot_connections, "_GREETED_WITHIN", 1)
    connections.expect(1)
    with connections.address.reach() as silent:
        with pytest.raises((AuthenticationError, OSError, EOFError)):
            DriverAddress(connections.address.address, b"guessed").connect(1, 0)
        with connections.address.connect(1, 0) as slot:
            gathered = connections.gathered(1, lambda: False, DEADLINE)
            assert gathered is not None
            gathered[0].send_bytes(b"batch")
            assert slot.recv_bytes() == b"batch"
        silent.settimeout(DEADLINE)
        while silent.recv(64):
            pass


def test_slots_of_another_stint_are_sent_away(connections: SlotConnections) -> None:
    connections.expect(2)
    with connections.address.connect(1, 0) as late, pytest.raises((EOFError, OSError)):
        late.recv_bytes()
    assert connections.gathered(1, lambda: True, DEADLINE) is None


def test_a_slot_that_comes_again_replaces_none(connections: SlotConnections) -> None:
    connections.expect(1)
    with connections.address.connect(1, 0) as first:
        gathered = connections.gathered(1, lambda: False, DEADLINE)
        assert gathered is not None
        with connections.address.connect(1, 0):
            for side in (first, *gathered):
                with pytest.raises((EOFError, OSError)):
                    side.recv_bytes()


def test_slots_end_when_the_driver_leaves(connections: SlotConnections) -> None:
    connections.expect(1)
    with connections.address.connect(1, 0) as slot:
        assert connections.gathered(1, lambda: False, DEADLINE) is not None
        connections.leave()
        with pytest.raises((EOFError, OSError)):
            slot.recv_bytes()


def test_a_secret_is_not_shown() -> None:
    assert "secret" not in repr(DriverAddress("there", b"secret-1"))
