"""The loop without a query of Spark's: how it ends, and that it ends what it runs."""

import threading
import time
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import AwayError, HoldfastError
from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.checkpoint.offset_log import read_offset_log
from holdfast_runtime.checkpoint.offsets import DueJump, JumpFile
from holdfast_runtime.checkpoint.query_log import QueryLog
from holdfast_runtime.job import BatchTexts, JobFailedError
from holdfast_runtime.loop.batches import LoopParts
from holdfast_runtime.loop.direct import run_direct
from holdfast_runtime.loop.fed_tables import DataSetsSeen
from holdfast_runtime.loop.next_batch import AttemptInputs
from holdfast_runtime.loop.ranges import BatchLimits
from holdfast_runtime.loop.stopping import StopCondition, Totals
from holdfast_runtime.progress import BatchWaiting, EndCause, Event, Progress, RunDraining
from holdfast_runtime.slot.report import Failure, SlotReport, TaskReport
from holdfast_runtime.streams.records import OffsetBounds
from tests.waiting import patience, wait_until

CLICKS = StreamPartition("clicks", 0)
DEADLINE = patience(20)


@dataclass
class Slots:
    """A job of one task; `answers`: in place of its reports, one after the other."""

    answers: list[str | Exception] = field(default_factory=list)
    plans: list[str] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)

    def run(self, batch: BatchTexts) -> list[str]:
        self.plans.append(batch.text())
        answer = self.answers.pop(0) if self.answers else SlotReport((TaskReport("partition-0"),), {}).text()
        if isinstance(answer, Exception):
            raise answer
        return [answer]

    def end(self) -> None:
        self.ended.set()


@dataclass
class HangingSlots(Slots):
    """A job that answers nothing before it is ended."""

    def run(self, batch: BatchTexts) -> list[str]:
        self.plans.append(batch.text())
        self.ended.wait(DEADLINE)
        message = "the job was ended"
        raise JobFailedError(message)


@dataclass
class Loop:
    """A loop over one partition with ten records for each batch."""

    path: Path
    slots: Slots = field(default_factory=Slots)
    events: list[Event] = field(default_factory=list)
    drain: threading.Event = field(default_factory=threading.Event)
    records: int = 30

    def parts(self) -> LoopParts:
        return LoopParts(
            interval=0,
            epoch=1,
            reading=AttemptInputs({"partition-0": (CLICKS,)}, frozenset(), BatchLimits(10)),
            bounds=lambda: {CLICKS: OffsetBounds(0, self.records)},
            written=dict,
            assumed_bytes=lambda _: {},
            grown=lambda _: False,
            ids=dict,
            cut=lambda _: {},
            jump=DueJump(JumpFile.beside(self.path / "query")),
            data_sets=lambda _: DataSetsSeen(),
            job=lambda: self.slots,
            slots=tuple,
            processed=lambda _: None,
            end=self.slots.end,
            check=lambda: None,
            until=StopCondition(idle=True),
            listen=self.events.append,
            drain=self.drain,
            totals=Totals(),
        )

    @property
    def log(self) -> QueryLog:
        return QueryLog(self.path / "query")

    def batches(self) -> list[int]:
        return [event.batch for event in self.events if isinstance(event, Progress)]

    def left(self) -> tuple[int, int | None]:
        """The batch that was done last, and the one that is planned."""
        logged = read_offset_log(self.path / "query")
        assert logged is not None
        return logged.done.batch, None if logged.planned is None else logged.planned.batch


@pytest.fixture
def loop(tmp_path: Path) -> Loop:
    return Loop(tmp_path)


def test_batches_run_until_nothing_is_left(loop: Loop) -> None:
    ended = run_direct(loop.log, loop.parts())
    assert (ended.ending, ended.batches) == (EndCause.IDLE, 3)
    assert loop.batches() == [1, 2, 3]
    assert loop.left() == (3, None)
    assert loop.slots.ended.is_set()


def test_the_next_run_goes_on_behind_the_last_batch(loop: Loop) -> None:
    run_direct(loop.log, loop.parts())
    loop.records = 50
    run_direct(loop.log, loop.parts())
    assert loop.batches() == [1, 2, 3, 4, 5]


def test_own_rows_that_are_not_readable_yet_are_waited_for(loop: Loop) -> None:
    """A transaction of Kafka is over a moment before its records are there for readers."""
    looks: list[int] = []

    def written() -> dict[StreamPartition, int]:
        looks.append(loop.records)
        if len(looks) == 2:
            message = "the broker is away"
            raise AwayError(message)
        loop.records = 40 if len(looks) == 4 else loop.records
        return {CLICKS: 40}

    ended = run_direct(loop.log, replace(loop.parts(), written=written))
    assert (ended.ending, ended.batches) == (EndCause.IDLE, 4)
    assert looks == [30, 30, 30, 30, 40]
    assert [event.why for event in loop.events if isinstance(event, BatchWaiting)] == ["the broker is away"]


def test_a_drain_ends_the_run_between_batches(loop: Loop) -> None:
    def drained(event: Event) -> None:
        loop.events.append(event)
        if isinstance(event, Progress):
            loop.drain.set()

    ended = run_direct(loop.log, replace(loop.parts(), listen=drained))
    assert (ended.ending, ended.batches) == (EndCause.DRAINED, 1)
    assert loop.left() == (1, None)


def test_a_drain_ends_an_idle_run_at_once(loop: Loop) -> None:
    parts = replace(loop.parts(), until=StopCondition(), interval=60_000)
    loop.records = 10
    thread = threading.Thread(target=run_direct, args=(loop.log, parts))
    thread.start()
    wait_until(lambda: loop.batches() == [1], DEADLINE, "a batch")
    loop.drain.set()
    thread.join(DEADLINE)
    assert not thread.is_alive()
    assert any(isinstance(event, RunDraining) for event in loop.events)


def test_a_drain_leaves_a_batch_that_waits(loop: Loop) -> None:
    away = Failure.of(AwayError("no broker answers"), "task partition-0").text()
    loop.slots.answers = [away]

    def drained(event: Event) -> None:
        loop.events.append(event)
        if isinstance(event, BatchWaiting):
            loop.drain.set()

    ended = run_direct(loop.log, replace(loop.parts(), listen=drained))
    assert ended.ending is EndCause.DRAINED
    assert loop.left() == (0, 1)
    loop.drain.clear()
    run_direct(loop.log, loop.parts())
    assert loop.slots.plans[0] == loop.slots.plans[1]
    assert loop.batches() == [1, 2, 3]


@pytest.mark.parametrize("error", [JobFailedError("a slot's process has ended"), ValueError("a mistake")])
def test_a_failing_batch_ends_the_run_and_stays_planned(loop: Loop, error: Exception) -> None:
    loop.slots.answers = [error]
    expected = HoldfastError if isinstance(error, JobFailedError) else ValueError
    with pytest.raises(expected, match=str(error)):
        run_direct(loop.log, loop.parts())
    assert loop.left() == (0, 1)
    assert loop.slots.ended.is_set()


def test_a_run_taken_over_ends_slots_that_hang(loop: Loop) -> None:
    loop.slots = HangingSlots()
    loop.events = []

    def check() -> None:
        if loop.slots.plans:
            message = "another driver has taken over"
            raise HoldfastError(message)

    parts: dict[str, Any] = {"check": check, "end": loop.slots.end}
    with pytest.raises(HoldfastError, match="another driver has taken over"):
        run_direct(loop.log, replace(loop.parts(), **parts))
    assert loop.slots.ended.is_set()
    assert loop.batches() == []


def test_an_interval_is_kept_from_start_to_start(loop: Loop) -> None:
    moments: list[float] = []

    def note(event: Event) -> None:
        if isinstance(event, Progress):
            moments.append(time.monotonic())

    run_direct(loop.log, replace(loop.parts(), interval=300, listen=note))
    assert all(after - before > 0.2 for before, after in pairwise(moments))


def test_a_run_taken_over_in_a_pause_ends_at_once(loop: Loop) -> None:
    def check() -> None:
        if loop.batches():
            message = "another driver has taken over"
            raise HoldfastError(message)

    parts: dict[str, Any] = {"check": check, "interval": 600_000, "until": StopCondition()}
    began = time.monotonic()
    with pytest.raises(HoldfastError, match="another driver has taken over"):
        run_direct(loop.log, replace(loop.parts(), **parts))
    assert time.monotonic() - began < DEADLINE
