"""The planner notation: a spec and counts give counts of intermediate streams, mismatches, or one reason."""

from typing import Any

from holdfast.planning.plan import Plan, PlanningFacts, plan
from holdfast.reasons import Reason
from holdfast.spec.parse import SpecInvalidError, parse_app


def run_planner_case(case: dict[str, Any]) -> None:
    expected = case["expect"]
    tree = {
        "apiVersion": "holdfast.dev/v1alpha1",
        "kind": "StreamApp",
        "metadata": {"name": "case"},
        "spec": case["spec"],
    }
    try:
        result = plan(parse_app(tree), PlanningFacts(given=case["partitions"]))
    except SpecInvalidError as error:
        assert expected == {"problem": Reason.INVALID_SPEC}, str(error)
        return
    mismatches = mismatches_of(result)
    if "partitions" in expected:
        made = {stream.name: stream.count for stream in result.streams if stream.role == "intermediate"}
        assert {name: count and count.partitions for name, count in made.items()} == expected["partitions"]
        assert mismatches == []
    elif "problems" in expected:
        assert mismatches == sorted(expected["problems"], key=lambda problem: str(problem["step"]))
    else:
        assert expected["problem"] in [problem.reason for problem in result.problems]


def mismatches_of(result: Plan) -> list[dict[str, Any]]:
    """Every PartitionCountMismatch in the notation's words, by step."""
    mismatches = [
        {
            "reason": problem.reason.value,
            "step": problem.step,
            "streams": {stream.name: stream.partitions for stream in problem.streams},
        }
        for problem in result.problems
        if problem.reason is Reason.PARTITION_COUNT_MISMATCH
    ]
    return sorted(mismatches, key=lambda problem: str(problem["step"]))
