"""The conditions of an app's status: their reasons and messages, how the list is updated, and events for new problems.

Conditions tell people and tools how an app is: one list, one writer, no flicker. `Ready`, `Reconciling` and `Stalled`
follow kstatus, so that `kubectl wait`, Helm and Argo understand them. A condition without an update stays as it is;
one whose status stays the same keeps the time of its last change. Each change gives one event: a problem that the
conditions already showed gives none, even if numbers in its message change. Must not decide when a condition applies.
"""

from collections.abc import Mapping

from holdfast.protocol.report import DriverReport
from holdfast.reasons import Reason
from holdfast.spec.app import Condition, Rollback, Status
from holdfast.times import moment, stamp
from holdfast_operator.decide.decision import (
    Action,
    ConditionUpdates,
    Decision,
    NextLook,
    OperatorEvent,
)
from holdfast_operator.decide.facts import PENDING_REASONS, Case, StartVerdict
from holdfast_operator.decide.growth import growth_to_read

CONDITION_TYPES = (
    "Ready",
    "Reconciling",
    "Stalled",
    "PlanValid",
    "Assigned",
    "LocalityHonoured",
    "DriverRunning",
    "StateCompatible",
    "TablesLoaded",
)
_LONGEST = 4000
_TRUTH: Mapping[bool | None, str] = {True: "True", False: "False", None: "Unknown"}


def updated_conditions(
    before: tuple[Condition, ...], updates: ConditionUpdates, generation: int, now: int
) -> tuple[Condition, ...]:
    """Return all conditions after these updates for this generation."""
    condition_by_type = {one.type: one for one in before}
    return tuple(
        _said(condition_by_type.get(kind), kind, updates[kind], generation, now)
        if kind in updates
        else condition_by_type.get(kind)
        or _said(None, kind, (None, Reason.NOT_YET_KNOWN, Reason.NOT_YET_KNOWN.sentence), generation, now)
        for kind in CONDITION_TYPES
    )


def _said(
    before: Condition | None, kind: str, what: tuple[bool | None, Reason, str], generation: int, now: int
) -> Condition:
    holds, reason, message = what
    status = _TRUTH[holds]
    same = before is not None and before.status == status
    return Condition.model_validate(
        {
            "type": kind,
            "status": status,
            "reason": reason.value,
            "message": message if len(message) <= _LONGEST else f"{message[: _LONGEST - 4]} ...",
            "lastTransitionTime": before.last_transition_time if before is not None and same else stamp(now),
            "observedGeneration": generation,
        }
    )


def settled(reason: Reason, message: str) -> ConditionUpdates:
    """Return the updates for an app that is ready."""
    return {
        "Ready": (True, reason, message),
        "Reconciling": (False, Reason.SETTLED, Reason.SETTLED.sentence),
        "Stalled": (False, Reason.NOT_STALLED, Reason.NOT_STALLED.sentence),
    }


def not_ready(reason: Reason, message: str, *, moving: bool, stalled: bool = False) -> ConditionUpdates:
    """Return the updates for an app that is not ready. `moving`: work is under way; `stalled`: the user must act."""
    return {
        "Ready": (False, reason, message),
        "Reconciling": (True, reason, message) if moving else (False, Reason.SETTLED, Reason.SETTLED.sentence),
        "Stalled": (True, reason, message) if stalled else (False, Reason.NOT_STALLED, Reason.NOT_STALLED.sentence),
    }


def waiting(case: Case, reason: Reason, message: str) -> ConditionUpdates:
    """Return the updates for what may come right by itself: work is under way, until that has taken too long."""
    shown = {one.type: one for one in case.status.conditions}
    moves, stalls = shown.get("Reconciling"), shown.get("Stalled")
    stalled = (
        stalls is not None and stalls.status == "True" and stalls.observed_generation == case.snapshot.app.generation
    )
    since = moment(moves.last_transition_time) if moves is not None and moves.status == "True" else None
    late = stalled or (since is not None and case.now - since > case.limits.start)
    return not_ready(reason, message, moving=not late, stalled=late)


def under_way(case: Case, reason: Reason, message: str) -> ConditionUpdates:
    """Return the updates for work under way. After a failure `Ready` says what failed, until a batch is committed."""
    updates = not_ready(reason, message, moving=True)
    if case.status.failures and any(one.type == "Ready" and one.status == "False" for one in case.status.conditions):
        del updates["Ready"]
    return updates


def running_conditions(case: Case, report: DriverReport) -> ConditionUpdates:
    """Return the updates for a healthy attempt; the newest spec may still wait or be invalid."""
    if (rollback := case.rolled_back) is not None:
        return not_ready(Reason.ROLLED_BACK, rollback_message(rollback), moving=False, stalled=True)
    settles = settled(Reason.RUNNING, f"attempt {report.attempt} commits batches")
    return newest_beside(case, f"attempt {report.attempt} goes on as it was") or settles


def newest_beside(case: Case, attempt: str) -> ConditionUpdates:
    """Return the updates for a newest spec, or new partitions, that can't run, or not yet; empty: they could.

    `attempt`: how the living one is, whatever its trouble.
    """
    judged, against = case.judged, case.judged.against
    if against is None:
        return {}
    if judged.may_change:
        growth = growth_to_read(case)
        what = (
            "what was applied" if judged.differs(case.status) else growth and f"a restart to read {growth} partitions"
        )
        return waiting(case, against.reason, f"{attempt}; {what} has to wait: {against.message}") if what else {}
    message = f"{attempt}; what was applied can't run: {against.message}"
    return not_ready(against.reason, message, moving=False, stalled=True)


def rollback_message(rollback: Rollback) -> str:
    """Return what happened to the newest spec, and what to do."""
    return (
        f"{rollback.why}; the app went back to the spec that ran before. Correct the spec: each change of it is tried "
        "anew, once; that spec is in the ConfigMap of its attempt"
    )


def plan_conditions(judged: StartVerdict) -> ConditionUpdates:
    """Return the outcome of planning; empty if the app could not be planned."""
    if judged.app is None and judged.against is not None:
        return {"PlanValid": (False, judged.against.reason, judged.against.message)}
    if judged.plan is None:
        return {}
    if judged.plan.valid:
        warnings = len(judged.plan.warnings)
        summary = f"{len(judged.plan.tasks)} tasks; {warnings} warning{'' if warnings == 1 else 's'}"
        return {"PlanValid": (True, Reason.PLAN_ACCEPTED, summary)}
    first, against = judged.plan.problems[0], judged.against
    message = against.message if against is not None and against.reason is first.reason else first.message
    return {"PlanValid": (False, first.reason, message)}


def growth_conditions(judged: StartVerdict) -> ConditionUpdates:
    """Return whether the run's state fits the current app."""
    refused = {
        Reason.NOT_A_MULTIPLE,
        Reason.PARTITIONS_SHRANK,
        Reason.TASK_VANISHED,
        Reason.EXPANSION_OFF,
        Reason.STEP_RENAMED,
        Reason.STREAM_RENAMED,
        Reason.STATE_MISFIT,
        Reason.STATE_TAKEN_UP,
    }
    against = judged.against
    if against is not None and against.reason in refused:
        return {"StateCompatible": (False, against.reason, against.message)}
    if judged.plan is not None and judged.plan.valid:
        return {"StateCompatible": (True, Reason.STATE_FITS, Reason.STATE_FITS.sentence)}
    return {}


def locality_conditions(report: DriverReport) -> ConditionUpdates:
    """Return whether tasks run where their state is."""
    away = report.tasks - report.placed
    return {
        "Assigned": (True, Reason.ASSIGNED, f"{report.tasks} tasks"),
        "LocalityHonoured": (True, Reason.ALL_PLACED, f"{report.placed} of {report.tasks} tasks")
        if away <= 0
        else (False, Reason.TASKS_AWAY, f"{away} of {report.tasks} tasks run away from their state"),
    }


def table_conditions(report: DriverReport) -> ConditionUpdates:
    """Return whether the app's tables are as its inputs want them."""
    if report.incomplete is not None:
        return {"TablesLoaded": (False, Reason.TABLE_INCOMPLETE, f"these tables lack rows: {report.incomplete}")}
    if report.loading is not None:
        return {"TablesLoaded": (False, Reason.TABLES_LOADING, report.loading)}
    if report.progressed is None:
        return {"TablesLoaded": (None, Reason.NOT_YET_KNOWN, "no batch of this attempt is done")}
    return {"TablesLoaded": (True, Reason.TABLES_LOADED, Reason.TABLES_LOADED.sentence)}


def unreadable(condition: str, why: str) -> ConditionUpdates:
    """Return that the facts behind this condition could not be read."""
    return {condition: (None, Reason.CLUSTER_UNREADABLE, why)}


def no_driver(reason: Reason) -> ConditionUpdates:
    """Return that there is no driver, and why. `Assigned` is unknown then: no executor has or lacks tasks."""
    message = "there is no driver"
    return {"DriverRunning": (False, reason, message), "Assigned": (None, reason, message)}


def is_ready(status: Status) -> bool:
    """Return whether the condition `Ready` is true."""
    return any(one.type == "Ready" and one.status == "True" for one in status.conditions)


def last_words(status: Status) -> str:
    """Return the last message about the driver."""
    return next((one.message for one in status.conditions if one.type == "DriverRunning"), "")


def decision(
    case: Case,
    conditions: ConditionUpdates,
    wake: NextLook,
    actions: tuple[Action, ...] = (),
    events: tuple[OperatorEvent, ...] = (),
    **fields: object,
) -> Decision:
    """Return a decision with these conditions, effects, and fields of the status."""
    return Decision(status_with(case, conditions, **fields), wake, actions, events)


def status_with(case: Case, updates: ConditionUpdates, **fields: object) -> Status:
    """Return the status with these fields, and these conditions of the current generation."""
    generation = case.snapshot.app.generation
    rollback = case.rolled_back
    if rollback is not None:
        # Whatever becomes of the spec that ran, also when it completes: the newest waits for somebody to act.
        waits = Reason.ROLLED_BACK, rollback_message(rollback)
        if "Stalled" in updates and not updates["Stalled"][0]:
            updates = updates | {"Stalled": (True, *waits)}
        if "Ready" in updates and updates["Ready"][0]:
            updates = updates | {"Ready": (False, *waits)}
    conditions = updated_conditions(case.status.conditions, updates, generation, case.now)
    return case.status.model_copy(update={"observed_generation": generation, "conditions": conditions, **fields})


_BAD: Mapping[str, str] = {
    "PlanValid": "False",
    "StateCompatible": "False",
    "Stalled": "True",
    "DriverRunning": "False",
    "Ready": "False",
    "TablesLoaded": "False",
}
"""Condition -> its status when something is wrong. The first of these gives the event's message. `Assigned` gives no
events, as executors come and go."""
_NO_FAULT = PENDING_REASONS | {
    Reason.NOT_YET_KNOWN,
    Reason.STARTING,
    Reason.SUSPENDED,
    Reason.COMPLETED,
    Reason.DRAINING,
    Reason.TRYING,
    Reason.DELETING,
    Reason.WAITING_TO_RESTART,
    Reason.PREVIOUS_ATTEMPT_ALIVE,
    Reason.TABLES_LOADING,
}
"""Reasons for not being ready that are no problem, unless the app is stalled."""


_REASONS = {reason.value: reason for reason in Reason}


def condition_events(before: Status, decided: Decision) -> tuple[OperatorEvent, ...]:
    """Return events for problems that are new in a decision's conditions and not in its own events."""
    shown_problems = {_problem(condition) for condition in before.conditions if _bad(condition)} | {
        (event.reason, None) for event in decided.events
    }
    now = {condition.type: condition for condition in decided.status.conditions if _bad(condition)}
    fresh: dict[tuple[str, int | None], Condition] = {}
    for condition in (now[kind] for kind in _BAD if kind in now):
        if _problem(condition) not in shown_problems:
            fresh.setdefault(_problem(condition), condition)
    if any(generation is not None for _, generation in fresh):
        # The plan is rejected: the other conditions only repeat that.
        fresh = {problem: condition for problem, condition in fresh.items() if problem[1] is not None}
    # A reason unknown to this release comes from a condition that another release wrote, not from this decision.
    return tuple(
        OperatorEvent(_REASONS[condition.reason], condition.message, warning=True)
        for condition in fresh.values()
        if condition.reason in _REASONS
    )


def _bad(condition: Condition) -> bool:
    return condition.status == _BAD.get(condition.type) and (
        condition.type == "Stalled" or condition.reason not in _NO_FAULT
    )


def _problem(condition: Condition) -> tuple[str, int | None]:
    # Each generation's rejected plan is news; a driver's problem is not tied to a generation.
    return condition.reason, condition.observed_generation if condition.type == "PlanValid" else None
