"""Why: which executors get tasks, and when: once, when all are up or no more come, not each time one more is there.

Tasks stay where they were as far as `assign` can have it: what was handed over last counts, else the placement record.
Must not read anything.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.placement.assignment import assign
from holdfast.placement.handed import Handed
from holdfast.tasks.record import Record
from holdfast_operator.checks.start import Judged
from holdfast_operator.decision import HandOver, Limits
from holdfast_operator.facts import PodSeen, Seats, Snapshot


@dataclass(frozen=True, slots=True)
class Seating:
    """What is known of the executors of a running attempt."""

    seen: Snapshot
    judged: Judged
    attempt: int
    missing_since: int | None
    """Since when it has been said that executors are missing."""
    applied: int
    """The version the driver has applied last, as it says."""
    now: int
    limits: Limits


def new_assignment(seating: Seating) -> HandOver | None:
    """What to hand over now; None: nothing, or not yet."""
    seats, plan = seating.seen.seats, seating.judged.plan
    if not isinstance(seats, Seats) or not seats.places or plan is None or not plan.valid or not _due(seating, seats):
        return None
    last, record = _last(seating, seats), seating.seen.record
    tasks: list[str] = [task.name for task in plan.tasks]
    locations: Mapping[str, str] = {}
    before: Mapping[str, str] = {}
    if last is not None:
        before = last.assignment.processor_of()
        tasks = list(before)
        locations = {task: last.processors[name] for task, name in before.items()}
    elif isinstance(record, Record):
        locations, before = record.task_location, record.task_processor
    # Also after somebody took the assignment away: a driver heeds only what is newer than what it has.
    version = max(seating.applied, 0 if seats.handed is None else seats.handed.version)
    handed = Handed(version + 1, seating.attempt, seats.places, assign(tasks, seats.places, locations, before))
    now = handed.assignment.processor_of()
    moved = sum(task in locations and locations[task] != seats.places[now[task]] for task in tasks)
    return HandOver(handed, moved)


def _last(seating: Seating, seats: Seats) -> Handed | None:
    """What this attempt was handed last."""
    return seats.handed if seats.handed is not None and seats.handed.attempt == seating.attempt else None


def _due(seating: Seating, seats: Seats) -> bool:
    last = _last(seating, seats)
    if last is not None and dict(last.processors) == dict(seats.places):
        return False
    app, now = seating.judged.app, seating.now
    if app is not None and len(seats.places) >= app.spec.runtime.executors.count:
        return True
    if last is not None and not last.processors.keys() <= seats.places.keys():
        since = seating.missing_since
        return since is not None and now - since >= seating.limits.missing
    started = [pod.started or pod.created for pod in executors(seating.seen, seating.attempt) if pod.works]
    return now - max(started, default=now) >= seating.limits.settle


def executors(seen: Snapshot, attempt: int | None) -> tuple[PodSeen, ...]:
    """Those of an attempt."""
    every = seen.executors if isinstance(seen.executors, tuple) else ()
    return tuple(pod for pod in every if pod.attempt == attempt)
