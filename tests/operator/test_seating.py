"""Which executors get tasks, and when; what becomes of those that are lost."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from holdfast.placement.assignment import assign
from holdfast.protocol.assignment import VersionedAssignment
from holdfast.protocol.pods import PodPhase, PodState
from holdfast.tasks.partitions import parse_partition
from holdfast.tasks.record import PlacementRecord
from holdfast_operator.decide.decision import Decision, ForceDeletePod, GiveUpClaim, HandOver, LookAgain
from holdfast_operator.decide.facts import ExecutorLocations, Unknown
from tests.operator.apps import LIMITS, NOW, TREE, app, condition, decided, driver, report, seen, started

TASKS = [f"partition-{number}" for number in range(4)]
SPEC: dict[str, Any] = {"runtime": {**TREE["spec"]["runtime"], "executors": {"count": 2}}}
LONG_AGO = NOW - 3_600_000


def executor(number: int, **facts: Any) -> PodState:
    fields = {"phase": PodPhase.RUNNING, "created": LONG_AGO, "started": LONG_AGO, "claim": f"state-{number}", **facts}
    return PodState(f"exec-{number}", f"uid-exec-{number}", attempt=1, role="executor", **fields)


def executor_locations(*numbers: int) -> dict[str, str]:
    return {f"exec-{number}": f"state-{number}" for number in numbers}


def handed(version: int, *numbers: int, attempt: int = 1) -> VersionedAssignment:
    return VersionedAssignment(
        version, attempt, executor_locations(*numbers), assign(TASKS, executor_locations(*numbers), {}, {})
    )


def look(executors: tuple[PodState, ...], locations: ExecutorLocations | Unknown | None, **facts: Any) -> Decision:
    of = app(started(**SPEC), **SPEC)
    return decided(seen(of, driver=driver(), executors=executors, locations=locations, report=report(), **facts))


def hands_over(decision: Decision) -> VersionedAssignment | None:
    return next((one.handed for one in decision.actions if isinstance(one, HandOver)), None)


def test_when_all_executors_are_up_they_get_their_tasks_once() -> None:
    executors = (executor(0), executor(1))
    handover = hands_over(look(executors, ExecutorLocations(executor_locations(0, 1), None)))
    assert handover is not None
    assert (handover.version, handover.attempt, dict(handover.processors)) == (1, 1, executor_locations(0, 1))
    assert sorted(handover.assignment.processor_of()) == TASKS
    assert hands_over(look(executors, ExecutorLocations(executor_locations(0, 1), handover))) is None
    assert hands_over(look(executors, None)) is None


def test_missing_executors_are_waited_for_and_then_done_without() -> None:
    late = executor(0, started=NOW - LIMITS.settle + 1)
    assert hands_over(look((late,), ExecutorLocations(executor_locations(0), None))) is None
    handover = hands_over(look((executor(0),), ExecutorLocations(executor_locations(0), None)))
    assert handover is not None
    assert handover.assignment.tasks_of == {"exec-0": tuple(TASKS)}


def test_a_lost_executor_is_waited_for_and_then_replaced() -> None:
    executors, last = (executor(0),), handed(3, 0, 1)
    decision = look(executors, ExecutorLocations(executor_locations(0), last))
    assert condition(decision, "Assigned") == ("False", "ExecutorsMissing")
    assert hands_over(decision) is None
    status = decision.status
    later = seen(
        app(status, **SPEC),
        driver=driver(),
        executors=executors,
        locations=ExecutorLocations(executor_locations(0), last),
        report=report(),
    )
    handover = hands_over(decided(later, NOW + LIMITS.missing))
    assert handover is not None
    assert (handover.version, handover.assignment.tasks_of) == (4, {"exec-0": tuple(TASKS)})


def test_tasks_stay_where_the_last_run_had_them() -> None:
    grouping = {task: (parse_partition(f"clicks/{number}"),) for number, task in enumerate(TASKS)}
    at = {task: f"state-{1 - number % 2}" for number, task in enumerate(TASKS)}
    record = PlacementRecord("1", grouping, at, {})
    handover = hands_over(
        look((executor(0), executor(1)), ExecutorLocations(executor_locations(0, 1), None), record=record)
    )
    assert handover is not None
    assert {task: handover.processors[name] for task, name in handover.assignment.processor_of().items()} == at


def test_a_lost_assignment_is_followed_by_a_newer_version() -> None:
    of = app(started(**SPEC), **SPEC)
    executors = (executor(0), executor(1))
    lost = seen(
        of,
        driver=driver(),
        executors=executors,
        locations=ExecutorLocations(executor_locations(0, 1), None),
        report=report(assignment=7),
    )
    handover = hands_over(decided(lost))
    assert handover is not None
    assert handover.version == 8


def test_an_earlier_attempts_assignment_counts_only_by_its_number() -> None:
    handover = hands_over(
        look((executor(0), executor(1)), ExecutorLocations(executor_locations(0, 1), handed(5, 0, 1, attempt=0)))
    )
    assert handover is not None
    assert handover.version == 6


def test_an_executor_without_a_location_is_said() -> None:
    locations = ExecutorLocations(executor_locations(0), handed(1, 0, 1), wrong="its node has no label rack")
    assert condition(look((executor(0), executor(1)), locations), "Assigned") == ("False", "LocationMissing")


def test_unreadable_locations_are_reported_without_a_handover() -> None:
    executors = (executor(0), executor(1))
    decision = look(executors, Unknown("get Node: nodes is forbidden"))
    assert condition(decision, "Assigned") == ("Unknown", "ClusterUnreadable")
    assert decision.actions == ()


def test_what_an_executor_waits_for_is_said() -> None:
    waiting = executor(1, phase=PodPhase.PENDING, unschedulable="0/3 nodes are available", started=None)
    decision = look((executor(0), waiting), None)
    message = next(one.message for one in decision.status.conditions if one.type == "Assigned")
    assert "1 of 2 executors" in message
    assert "0/3 nodes are available" in message


def test_executors_of_lost_but_not_silent_nodes_are_given_up() -> None:
    silent = executor(1, silent_since=NOW - LIMITS.lost_after + 1_500)
    waits = look((executor(0), silent), None)
    assert waits.actions == ()
    assert condition(waits, "Assigned") == ("True", "Assigned")
    assert waits.wake == LookAgain(1_500)
    lost = executor(1, silent_since=NOW - LIMITS.lost_after, node_lost=True)
    assert look((executor(0), lost), ExecutorLocations(executor_locations(0), handed(1, 0, 1))).actions == (
        ForceDeletePod("exec-1", "uid-exec-1"),
    )


def test_an_executor_whose_node_shuts_down_may_end_first() -> None:
    lost = executor(1, node_lost=True)
    first = look((executor(0), lost), ExecutorLocations(executor_locations(0), handed(1, 0, 1)))
    assert first.actions == ()
    later = seen(app(first.status, **SPEC), driver=driver(), executors=(executor(0), lost), report=report())
    assert ForceDeletePod("exec-1", "uid-exec-1") in decided(later, NOW + LIMITS.lost_after + 1).actions


def test_a_lost_nodes_claim_goes_before_the_driver_has_begun() -> None:
    waiting = executor(
        1, phase=PodPhase.PENDING, unschedulable="volume node affinity conflict", created=NOW, started=None
    )
    locations = ExecutorLocations(executor_locations(0), None, lost_claims={"state-1": "uid-of-claim"})
    of = app(started(**SPEC), **SPEC)
    young = seen(of, driver=driver(created=NOW - 1_000), executors=(executor(0), waiting), locations=locations)
    assert GiveUpClaim("state-1", "uid-of-claim") in decided(young).actions


def test_a_lost_nodes_claim_goes_with_its_waiting_pod() -> None:
    waiting = executor(1, phase=PodPhase.PENDING, unschedulable="volume node affinity conflict", started=None)
    locations = ExecutorLocations(executor_locations(0), handed(1, 0, 1), lost_claims={"state-1": "uid-of-claim"})
    decision = look((executor(0), waiting), locations)
    assert (GiveUpClaim("state-1", "uid-of-claim"), ForceDeletePod("exec-1", "uid-exec-1")) == decision.actions
    assert [told.reason.value for told in decision.events] == ["ClaimGivenUp"]
    assert look((executor(0), waiting), ExecutorLocations(executor_locations(0), handed(1, 0, 1))).actions == ()


@given(st.sets(st.integers(0, 6)), st.sets(st.integers(0, 6)))
def test_whoever_is_up_in_the_end_has_all_tasks(before: set[int], after: set[int]) -> None:
    last = handed(1, *before) if before else None
    pods = tuple(executor(number) for number in sorted(after))
    locations = ExecutorLocations(executor_locations(*sorted(after)), last)
    first = look(pods, locations)
    later = seen(app(first.status, **SPEC), driver=driver(), executors=pods, locations=locations, report=report())
    handover = hands_over(first) or hands_over(decided(later, NOW + LIMITS.missing)) or last
    if after:
        assert handover is not None
        assert dict(handover.processors) == executor_locations(*sorted(after))
        assert sorted(handover.assignment.processor_of()) == TASKS
