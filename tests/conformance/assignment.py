"""The assignment notation: tasks, processors and the record give the sizes and what is kept, or a problem."""

from typing import Any

from holdfast.errors import HoldfastError
from holdfast.placement.assignment import assign
from tests.placement.assignment_cases import locality

PROBLEMS = {"NoTasks": "NoTasksError", "NoProcessors": "NoProcessorsError"}


def run_assignment_case(case: dict[str, Any]) -> None:
    tasks, processors, expected = case["tasks"], case["processors"], case["expect"]
    places, ran_on = case.get("taskLocation", {}), case.get("taskProcessor", {})
    try:
        assignment = assign(tasks, processors, places, ran_on)
    except HoldfastError as error:
        assert error.code == PROBLEMS[expected["problem"]], str(error)
        return
    assert "problem" not in expected
    assert sorted(assignment.processor_of()) == sorted(tasks)
    assert set(assignment.tasks_of) == set(processors)
    keeps = locality(assignment, processors, places, ran_on)
    assert {
        "sizes": sorted((len(part) for part in assignment.tasks_of.values()), reverse=True),
        "keptAtLocation": keeps.at_location,
        "keptOnProcessor": keeps.on_processor,
    } == {**expected, "sizes": sorted(expected["sizes"], reverse=True)}
    assert assign(tasks[::-1], backwards(processors), backwards(places), backwards(ran_on)) == assignment


def backwards(names: dict[str, str]) -> dict[str, str]:
    return dict(reversed(names.items()))
