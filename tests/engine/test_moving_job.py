"""When a job follows its tasks: between batches, and after it is remembered where they will run."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from holdfast.errors import RetrySoonError
from holdfast.protocol.assignment import Assignment
from holdfast_runtime.coordination.coordinator import Placement
from holdfast_runtime.driver import slot_placement
from holdfast_runtime.driver.slot_placement import MoveActions, MovingJob, SlotPlacement
from holdfast_runtime.job import BatchTexts
from tests.waiting import wait_until

FIRST = SlotPlacement(Placement(1, {"p": "l"}, Assignment({"p": ("a",)})), {"p": "h_1"}, 1)
SECOND = SlotPlacement(Placement(2, {"q": "l"}, Assignment({"q": ("b", "c")})), {"q": "h_2"}, 1)
ELSEWHERE = SlotPlacement(SECOND.placement, {"q": "h_3"}, 1)


@dataclass(frozen=True)
class Job:
    slot_placement: SlotPlacement
    ended: list[int] = field(default_factory=list, compare=False)

    def run(self, batch: BatchTexts) -> list[str]:
        return [batch.text()]

    def end(self) -> None:
        self.ended.append(self.slot_placement.placement.version)


@dataclass
class World:
    """What is wanted, and what was done about it, in order."""

    target: SlotPlacement = FIRST
    trouble: Exception | None = None
    done: list[str] = field(default_factory=list)
    looks: int = 0
    ended: list[int] = field(default_factory=list)
    """Versions of the placements whose jobs were ended."""

    def moves(self) -> MoveActions:
        return MoveActions(self.look, self.build, self.remember, self.applied)

    def look(self, _: SlotPlacement) -> SlotPlacement:
        self.looks += 1
        if self.trouble is not None:
            raise self.trouble
        return self.target

    def build(self, slot_placement: SlotPlacement) -> Job:
        self.done.append(f"built {slot_placement.placement.version}")
        return Job(slot_placement, self.ended)

    def remember(self, placement: Placement) -> None:
        self.done.append(f"remembered {placement.version}")

    def applied(self, placement: Placement) -> None:
        self.done.append(f"applied {placement.version}")

    def seen(self) -> None:
        """Wait until it has been looked twice more: what was seen first has been dealt with."""
        at = self.looks
        wait_until(lambda: self.looks >= at + 2, 20, "two looks")


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(slot_placement, "_EVERY", 0.01)
    return World()


@pytest.fixture
def job(world: World) -> Iterator[MovingJob]:
    with MovingJob(Job(FIRST, world.ended), FIRST, world.moves()) as moving:
        yield moving


def test_tasks_that_stay_keep_their_job(world: World, job: MovingJob) -> None:
    first = job.between()
    world.seen()
    assert job.between() is first
    assert world.done == []


def test_a_move_is_recorded_first_and_applied_between_batches(world: World, job: MovingJob) -> None:
    world.target = SECOND
    world.seen()
    assert world.done == ["built 2", "remembered 2"]
    slots, locations = job.slots, job.locations
    assert job.between() == Job(SECOND)
    assert world.done == ["built 2", "remembered 2", "applied 2"]
    assert (slots, job.slots) == ((("a",),), (("b", "c"),))
    assert (locations, job.locations) == ({"p/0": "l"}, {"q/0": "l"})


def test_a_moved_processor_gets_a_new_job_and_writes_nothing(world: World, job: MovingJob) -> None:
    world.target = SECOND
    world.seen()
    job.between()
    world.target = ELSEWHERE
    world.seen()
    assert job.between() == Job(ELSEWHERE)
    assert world.done == ["built 2", "remembered 2", "applied 2", "built 2"]


def test_a_move_that_was_overtaken_is_told_all_the_same(world: World, job: MovingJob) -> None:
    world.target = SECOND
    world.seen()
    world.target = ELSEWHERE
    world.seen()
    assert job.between() == Job(ELSEWHERE)
    assert world.done[-1] == "applied 2"


def test_a_job_ends_before_the_next_one_runs(world: World) -> None:
    with MovingJob(Job(FIRST, world.ended), FIRST, world.moves()) as job:
        world.target = SECOND
        world.seen()
        assert world.ended == []
        job.between()
        assert world.ended == [1]
    assert world.ended == [1, 2]


def test_a_job_that_was_overtaken_ends_too(world: World, job: MovingJob) -> None:
    world.target = SECOND
    world.seen()
    world.target = ELSEWHERE
    world.seen()
    assert world.ended == [2]
    job.between()
    assert world.ended == [2, 1]


def test_what_cannot_be_looked_at_now_is_looked_at_again(world: World, job: MovingJob) -> None:
    world.trouble = RetrySoonError("no answer")
    world.seen()
    assert job.between() == Job(FIRST)
    world.trouble = None
    world.target = SECOND
    world.seen()
    assert job.between() == Job(SECOND)


def test_what_is_wrong_for_good_surfaces_at_the_next_batch(world: World, job: MovingJob) -> None:
    world.trouble = ValueError("a mistake")
    wait_until(lambda: raised(job) is world.trouble, 20, "the mistake")


def raised(job: MovingJob) -> Exception | None:
    try:
        job.between()
    except ValueError as error:
        return error
    return None
