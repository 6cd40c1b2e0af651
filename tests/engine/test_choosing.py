"""Which assignment a driver applies, and which one it makes itself."""

import pytest

from holdfast.protocol.assignment import Assignment, VersionedAssignment
from holdfast.tasks.partitions import StreamPartition
from holdfast.tasks.record import PlacementRecord
from holdfast_runtime.coordination.coordinator import Placement, RunPlacement, count_in_place, misfit, own_placement

TASKS = ["p-0", "p-1"]
HANDED = VersionedAssignment(
    3, 2, {"pod-0": "claim-0", "pod-1": "claim-1"}, Assignment({"pod-0": ("p-0",), "pod-1": ("p-1",)})
)
GROUPING = {task: (StreamPartition("clicks", at),) for at, task in enumerate(TASKS)}


def record(**places: tuple[str, str]) -> PlacementRecord:
    """Task -> processor and location."""
    tasks = {name.replace("_", "-"): place for name, place in places.items()}
    locations = {task: location for task, (_, location) in tasks.items()}
    return PlacementRecord("1", GROUPING, locations, {task: processor for task, (processor, _) in tasks.items()})


@pytest.mark.parametrize(
    ("attempt", "tasks", "up", "why"),
    [
        (2, TASKS, ["pod-0", "pod-1", "pod-2"], None),
        (1, TASKS, ["pod-0", "pod-1"], "meant for attempt 2"),
        (2, [*TASKS, "p-2"], ["pod-0", "pod-1"], "not those of the app"),
        (2, ["p-0"], ["pod-0", "pod-1"], "not those of the app"),
        (2, TASKS, ["pod-0"], "pod-1 did not register"),
        (2, TASKS, [], "pod-0, pod-1 did not register"),
    ],
)
def test_an_assignment_must_fit_attempt_tasks_and_processors(
    attempt: int, tasks: list[str], up: list[str], why: str | None
) -> None:
    refusal = misfit(HANDED, attempt, tasks, up)
    assert refusal is None if why is None else refusal is not None and why in refusal


def test_an_assignment_that_has_a_task_twice_is_not_applied() -> None:
    twice = VersionedAssignment(3, 2, HANDED.processors, Assignment({"pod-0": ("p-0", "p-1"), "pod-1": ("p-1",)}))
    assert "each once" in str(misfit(twice, 2, TASKS, ["pod-0", "pod-1"]))


def test_without_a_record_each_processor_is_its_own_location() -> None:
    placement = own_placement(TASKS, ["pod-1", "pod-0"], None)
    assert placement == Placement(0, {"pod-0": "pod-0", "pod-1": "pod-1"}, HANDED.assignment)


def test_an_own_assignment_leaves_tasks_where_the_record_has_them() -> None:
    known = record(p_0=("pod-1", "claim-1"), p_1=("pod-0", "claim-0"))
    placement = own_placement(TASKS, ["pod-0", "pod-1"], known)
    assert placement.assignment.tasks_of == {"pod-0": ("p-1",), "pod-1": ("p-0",)}
    assert placement.locations == {"pod-0": "claim-0", "pod-1": "claim-1"}


def test_a_processor_unknown_to_the_record_is_its_own_location() -> None:
    placement = own_placement(TASKS, ["pod-0", "pod-9"], record(p_0=("pod-0", "claim-0"), p_1=("pod-1", "claim-1")))
    assert placement.locations == {"pod-0": "claim-0", "pod-9": "pod-9"}
    assert placement.assignment.processor_of() == {"p-0": "pod-0", "p-1": "pod-9"}


def test_tasks_are_placed_where_their_state_was_or_had_none() -> None:
    what = RunPlacement(GROUPING, Placement(3, HANDED.processors, HANDED.assignment), {})
    assert count_in_place(None, what) == 2
    assert count_in_place(record(p_0=("pod-5", "claim-0"), p_1=("pod-1", "claim-7")), what) == 1
    assert count_in_place(record(p_1=("pod-1", "claim-1")), what) == 2
