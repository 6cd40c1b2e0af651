"""The executors of a running attempt: their next assignment, those that are missing, those on lost nodes.

An assignment is due once when all executors are up or no more come up: a new one for each executor that comes up would
move tasks again and again. Tasks stay where they were as far as possible, by the last assignment handed over, else by
the placement record. Must not read anything.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.placement.assignment import assign
from holdfast.protocol.assignment import VersionedAssignment
from holdfast.protocol.pods import PodState
from holdfast.protocol.report import DriverReport
from holdfast.reasons import Reason
from holdfast.spec.app import Status, StreamApp
from holdfast.tasks.record import PlacementRecord
from holdfast.times import moment
from holdfast_operator.decide.conditions import (
    unreadable,
)
from holdfast_operator.decide.decision import (
    Action,
    ConditionUpdates,
    ForceDeletePod,
    GiveUpClaim,
    HandOver,
    LookAgain,
    OperatorEvent,
    given_up,
)
from holdfast_operator.decide.facts import Case, ExecutorLocations, Snapshot, Unknown


@dataclass(frozen=True, slots=True)
class ExecutorEffects:
    """The conditions, actions and events that follow from the executors."""

    conditions: ConditionUpdates
    wake: LookAgain | None = None
    actions: tuple[Action, ...] = ()
    events: tuple[OperatorEvent, ...] = ()


def executor_effects(case: Case, driver: PodState, report: DriverReport | None) -> ExecutorEffects:
    """Give tasks to executors that are up; report and wait for missing ones, and give up those on lost nodes."""
    app = running_app(case)
    if app is None or not driver.works:
        return ExecutorEffects({})
    pods, locations = executors(case.snapshot, driver.attempt), case.snapshot.locations
    count, up = app.spec.runtime.executors.count, sum(pod.works for pod in pods)
    since = missing_since(case.status)
    hands = new_assignment(case, driver, report)
    hands_over: tuple[Action, ...] = () if hands is None else (hands,)
    young = case.now - driver.created < case.limits.start
    wake = None if locations is None else LookAgain(case.limits.soon if young else case.limits.look)
    if isinstance(locations, Unknown):
        return ExecutorEffects(unreadable("Assigned", locations.why), wake)
    if up >= count:
        wrong = locations.wrong if isinstance(locations, ExecutorLocations) else ""
        conditions: ConditionUpdates = {"Assigned": (False, Reason.LOCATION_MISSING, wrong)} if wrong else {}
        return ExecutorEffects(conditions, wake, hands_over)
    end_actions, events = _given_up_pods(case, pods, since)
    if (report is None or not report.begun) and case.now - driver.created < case.limits.missing:
        return ExecutorEffects({}, wake, (*hands_over, *end_actions), events)
    conditions = {
        "Assigned": (False, Reason.EXECUTORS_MISSING, f"{up} of {count} executors run{waiting_executor(pods)}")
    }
    return ExecutorEffects(conditions, wake, (*hands_over, *end_actions), events)


def running_app(case: Case) -> StreamApp | None:
    """Return the app as the attempt runs it: an attempt may go on though the spec has changed."""
    return case.snapshot.running if isinstance(case.snapshot.running, StreamApp) else case.judged.app


def waiting_executor(executors: tuple[PodState, ...]) -> str:
    """Return, as the end of a sentence, what one of the executors waits for; empty: none waits."""
    for pod in executors:
        if why := pod.unschedulable or ": ".join(filter(None, pod.waiting or ())):
            return f"; {pod.name} waits: {why}"
    return ""


def _given_up_pods(
    case: Case, pods: tuple[PodState, ...], since: int | None
) -> tuple[tuple[Action, ...], tuple[OperatorEvent, ...]]:
    """Return actions to give up pods on lost nodes, and claims reachable only from lost nodes if a pod needs them."""
    locations = case.snapshot.locations
    actions: list[Action] = []
    events: list[OperatorEvent] = []
    for pod in pods:
        if given_up(case, pod, since):
            actions.append(ForceDeletePod(pod.name, pod.uid))
        elif isinstance(locations, ExecutorLocations) and pod.claim is not None and pod.claim in locations.lost_claims:
            actions += (GiveUpClaim(pod.claim, locations.lost_claims[pod.claim]), ForceDeletePod(pod.name, pod.uid))
            message = f"claim {pod.claim} was on a node that is lost; {pod.name} gets a new one and restores its tasks"
            events.append(OperatorEvent(Reason.CLAIM_GIVEN_UP, message, warning=True))
    return tuple(actions), tuple(events)


def new_assignment(case: Case, driver: PodState, report: DriverReport | None) -> HandOver | None:
    """Return the assignment to hand to this driver now; None: nothing, or not yet. `report` is the driver's."""
    locations, plan, attempt = case.snapshot.locations, case.judged.plan, driver.attempt or 0
    if not isinstance(locations, ExecutorLocations) or not locations.location_of or plan is None or not plan.valid:
        return None
    last, record = _last(locations, attempt), case.snapshot.record
    # A plan of another spec has other tasks.
    if (last is None and case.judged.differs(case.status)) or not _due(case, locations, last, attempt):
        return None
    tasks: list[str] = [task.name for task in plan.tasks]
    task_location: Mapping[str, str] = {}
    before: Mapping[str, str] = {}
    if last is not None:
        before = last.assignment.processor_of()
        tasks = list(before)
        task_location = {task: last.processors[name] for task, name in before.items()}
    elif isinstance(record, PlacementRecord):
        task_location, before = record.task_location, record.task_processor
    # Also count the driver's version, in case the assignment was deleted: a driver applies only newer versions.
    version = max(
        0 if report is None else report.assignment, 0 if locations.handed is None else locations.handed.version
    )
    handed = VersionedAssignment(
        version + 1, attempt, locations.location_of, assign(tasks, locations.location_of, task_location, before)
    )
    now = handed.assignment.processor_of()
    moved = sum(task in task_location and task_location[task] != locations.location_of[now[task]] for task in tasks)
    return HandOver(handed, moved)


def _last(locations: ExecutorLocations, attempt: int) -> VersionedAssignment | None:
    """Return the last assignment handed to this attempt."""
    return locations.handed if locations.handed is not None and locations.handed.attempt == attempt else None


def _due(case: Case, locations: ExecutorLocations, last: VersionedAssignment | None, attempt: int) -> bool:
    if last is not None and dict(last.processors) == dict(locations.location_of):
        return False
    app, now = running_app(case), case.now
    if app is not None and len(locations.location_of) >= app.spec.runtime.executors.count:
        return True
    if last is not None and not last.processors.keys() <= locations.location_of.keys():
        since = missing_since(case.status)
        return since is not None and now - since >= case.limits.missing
    started = [pod.started or pod.created for pod in executors(case.snapshot, attempt) if pod.works]
    return now - max(started, default=now) >= case.limits.settle


def executors(snapshot: Snapshot, attempt: int | None) -> tuple[PodState, ...]:
    """Return the executors of an attempt."""
    every = snapshot.executors if isinstance(snapshot.executors, tuple) else ()
    return tuple(pod for pod in every if pod.attempt == attempt)


def missing_since(status: Status) -> int | None:
    """Return since when the condition `Assigned` says that executors are missing."""
    conditions = (one for one in status.conditions if one.type == "Assigned" and one.status == "False")
    return next(
        (moment(one.last_transition_time) for one in conditions if one.reason == Reason.EXECUTORS_MISSING), None
    )
