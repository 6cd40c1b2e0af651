"""Whole lives of an app, with an operator that may die between any two things it does."""

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast_operator.decide.decision import LookAgain, WaitForChange
from tests.operator.apps import condition
from tests.operator.world import EXECUTORS, World


def fail(world: World) -> None:
    world.end(1)


def refuse(world: World) -> None:
    world.end(1, '{"failed": "user", "message": "choose"}')


def end_by_itself(world: World) -> None:
    world.end(0)


def delete_driver(world: World) -> None:
    pod = world.driver()
    if pod is not None:
        del world.pods[pod.name]


def change(world: World) -> None:
    world.generation += 1
    driver = world.tree["spec"]["runtime"].get("driver", {"memory": "1g"})
    world.tree["spec"]["runtime"]["driver"] = {"memory": "2g" if driver["memory"] == "1g" else "1g"}


def change_run(world: World) -> None:
    world.generation += 1
    world.tree["spec"]["runId"] = str(world.generation)


def break_spec(world: World) -> None:
    world.generation += 1
    world.tree["spec"]["steps"][0]["from"] = ["nobody"]


def mend_spec(world: World) -> None:
    world.generation += 1
    world.tree["spec"]["steps"][0]["from"] = ["clicks"]
    world.tree["spec"]["suspend"] = False


def suspend(world: World) -> None:
    world.generation += 1
    world.tree["spec"]["suspend"] = True


def delete(world: World) -> None:
    world.deleting = True


ACCIDENTS: tuple[Callable[[World], None], ...] = (
    fail,
    refuse,
    end_by_itself,
    delete_driver,
    change,
    change_run,
    break_spec,
    mend_spec,
    suspend,
)


@given(st.randoms(use_true_random=False))
def test_any_life_has_one_driver_and_the_undisturbed_end(pick: random.Random) -> None:
    world = World()
    for _ in range(pick.randrange(60)):
        if pick.random() < 0.25:
            pick.choice(ACCIDENTS)(world)
        decision = world.look(blind=pick.random() < 0.1, dies_after=pick.randrange(3) if pick.random() < 0.4 else None)
        assert isinstance(decision.wake, (LookAgain, WaitForChange))
        world.pass_time(
            pick.choice((1, 1_000, 20_000, decision.wake.after if isinstance(decision.wake, LookAgain) else 1))
        )
    world.settle()  # who mends has seen what there is to mend: an edit forgives what was told before it
    assert world.driver() is not None or not world.executors, "executors that nobody drives"
    mend_spec(world)
    settled = world.settle()
    assert condition(settled, "Ready") == ("True", "Running"), settled
    assert world.driver() is not None
    assert len(world.executors) == EXECUTORS


@given(st.randoms(use_true_random=False))
def test_an_app_that_is_deleted_goes_whatever_happened_before(pick: random.Random) -> None:
    world = World()
    for _ in range(pick.randrange(40)):
        if pick.random() < 0.3:
            pick.choice((*ACCIDENTS, delete))(world)
        world.look(blind=pick.random() < 0.1, dies_after=pick.randrange(3) if pick.random() < 0.4 else None)
        world.pass_time(pick.choice((1, 1_000, 20_000)))
    if world.deleted or (world.deleting and not world.finalizer):
        return
    delete(world)
    world.settle()
    assert world.deleted or not world.finalizer
    assert not [pod for pod in world.pods.values() if not pod.over]


@pytest.mark.parametrize("accident", ACCIDENTS)
@pytest.mark.parametrize("dies_after", [0, 1])
def test_dying_at_each_point_after_each_accident_changes_nothing(
    accident: Callable[[World], None], dies_after: int
) -> None:
    ends = []
    for dies in (None, dies_after):
        world = World()
        world.settle()
        accident(world)
        for _ in range(8):
            world.look(dies_after=dies)
            world.look()
            world.pass_time(20_000)
        settled = world.settle()
        ends.append((condition(settled, "Ready"), condition(settled, "Stalled"), settled.status.attempt, world.made))
    assert ends[0] == ends[1]
