"""The next assignment of tasks to executors, due once when all executors are up or no more come up.

Tasks stay where they were as far as possible, by the last assignment handed over, else by the placement record. A new
assignment for each executor that comes up would move tasks again and again. Must not read anything.
"""

from collections.abc import Mapping

from holdfast.moments import moment
from holdfast.placement.assignment import assign
from holdfast.protocol.assignment import VersionedAssignment
from holdfast.protocol.pods import PodState
from holdfast.protocol.report import DriverReport
from holdfast.reasons import Reason
from holdfast.spec.app import Status
from holdfast.tasks.record import PlacementRecord
from holdfast_operator.decide.case import Case
from holdfast_operator.decide.decision import HandOver
from holdfast_operator.decide.facts import ExecutorLocations, Snapshot


def new_assignment(case: Case, driver: PodState, report: DriverReport | None) -> HandOver | None:
    """Return the assignment to hand to this driver now; None: nothing, or not yet. `report` is the driver's."""
    seats, plan, attempt = case.seen.seats, case.judged.plan, driver.attempt or 0
    if not isinstance(seats, ExecutorLocations) or not seats.places or plan is None or not plan.valid:
        return None
    last, record = _last(seats, attempt), case.seen.record
    if not _due(case, seats, last, attempt):
        return None
    tasks: list[str] = [task.name for task in plan.tasks]
    locations: Mapping[str, str] = {}
    before: Mapping[str, str] = {}
    if last is not None:
        before = last.assignment.processor_of()
        tasks = list(before)
        locations = {task: last.processors[name] for task, name in before.items()}
    elif isinstance(record, PlacementRecord):
        locations, before = record.task_location, record.task_processor
    # Also count the driver's version, in case the assignment was deleted: a driver applies only newer versions.
    version = max(0 if report is None else report.assignment, 0 if seats.handed is None else seats.handed.version)
    handed = VersionedAssignment(version + 1, attempt, seats.places, assign(tasks, seats.places, locations, before))
    now = handed.assignment.processor_of()
    moved = sum(task in locations and locations[task] != seats.places[now[task]] for task in tasks)
    return HandOver(handed, moved)


def _last(seats: ExecutorLocations, attempt: int) -> VersionedAssignment | None:
    """Return the last assignment handed to this attempt."""
    return seats.handed if seats.handed is not None and seats.handed.attempt == attempt else None


def _due(case: Case, seats: ExecutorLocations, last: VersionedAssignment | None, attempt: int) -> bool:
    if last is not None and dict(last.processors) == dict(seats.places):
        return False
    app, now = case.judged.app, case.now
    if app is not None and len(seats.places) >= app.spec.runtime.executors.count:
        return True
    if last is not None and not last.processors.keys() <= seats.places.keys():
        since = missing_since(case.status)
        return since is not None and now - since >= case.limits.missing
    started = [pod.started or pod.created for pod in executors(case.seen, attempt) if pod.works]
    return now - max(started, default=now) >= case.limits.settle


def executors(seen: Snapshot, attempt: int | None) -> tuple[PodState, ...]:
    """Return the executors of an attempt."""
    every = seen.executors if isinstance(seen.executors, tuple) else ()
    return tuple(pod for pod in every if pod.attempt == attempt)


def missing_since(status: Status) -> int | None:
    """Return since when the condition `Assigned` says that executors are missing."""
    said = (one for one in status.conditions if one.type == "Assigned" and one.status == "False")
    return next((moment(one.last_transition_time) for one in said if one.reason == Reason.EXECUTORS_MISSING), None)
