"""The decision about an app: the rules in order, and events for new problems.

    deleted? -> finalizer? -> pods unreadable? -> leftovers of other attempts?
             -> driver there? (ending, over, running) -> driver gone? -> may another attempt start?

`RULES` is the operator's behaviour. Pure: the time comes in as an argument, nothing is read or done. Every action is
written into the status first, so that a restarted operator continues where the last one died. Each change gives one
event: a problem that the conditions already showed gives none, even if numbers in its message change. Must not know
the API.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from holdfast.protocol.names import app_id
from holdfast.reasons import Reason
from holdfast.spec.app import Condition, Status
from holdfast_operator.decide import with_driver, without_driver
from holdfast_operator.decide.case import Case, actions_to_end, decision
from holdfast_operator.decide.conditions import not_ready, unreadable
from holdfast_operator.decide.decision import (
    AddFinalizer,
    Decision,
    DecisionLimits,
    GiveUpRunClaims,
    LookAgain,
    OperatorEvent,
    RemoveFinalizer,
    WaitForChange,
)
from holdfast_operator.decide.facts import PENDING_REASONS, Snapshot, StartVerdict, Unknown


def decide(seen: Snapshot, judged: StartVerdict, now: int, limits: DecisionLimits) -> Decision:
    """Return the decision of the first rule that applies."""
    case = Case(seen, judged, now, limits)
    decided = next(decision for rule in RULES if (decision := rule(case)) is not None)
    return replace(decided, events=(*decided.events, *condition_events(case.status, decided)))


def _deleted(case: Case) -> Decision | None:
    """The app is deleted: drain it, prove that nothing runs any more, delete its claims, remove the finalizer."""
    app = case.seen.app
    if app.deleting_since is None:
        return None
    if not app.finalizer:
        return decision(case, {}, WaitForChange("the object goes"))
    if (blind := _blind(case)) is not None:
        return blind
    alive = [pod for pod in case.seen.pods if not pod.over]
    # A driver that drains needs its executors for the batch at hand.
    alive = [pod for pod in alive if pod.role == "driver"] or alive
    said = not_ready(Reason.DELETING, Reason.DELETING.sentence, moving=True)
    if alive:
        return decision(
            case, said, LookAgain(case.limits.soon), actions_to_end(case, alive), draining=Reason.DELETING.value
        )
    run = case.status.run_id
    claims = () if run is None else (GiveUpRunClaims(app_id(app.name, run)),)
    return decision(case, said, WaitForChange("the object goes"), (*claims, RemoveFinalizer()))


def _unguarded(case: Case) -> Decision | None:
    """Add the finalizer first: without it the object could disappear unnoticed."""
    if case.seen.app.finalizer:
        return None
    # A running app can lose it too: `kubectl replace` removes it.
    return Decision(case.status, LookAgain(0), (AddFinalizer(),))


def _blind(case: Case) -> Decision | None:
    """Start or end nothing while pods can't be read: a pod that can't be seen may exist."""
    places = (case.seen.driver, case.seen.others, case.seen.executors)
    why = next((what.why for what in places if isinstance(what, Unknown)), None)
    if why is None:
        return None
    return decision(case, unreadable("DriverRunning", why), LookAgain(case.limits.soon))


def _leftovers(case: Case) -> Decision | None:
    """End the drivers of other attempts first: an app must never have two drivers."""
    assert not isinstance(case.seen.others, Unknown)  # noqa: S101 - checked by the rule before
    alive = [pod for pod in case.seen.others if not pod.over]
    if not alive:
        return None
    names = ", ".join(pod.name for pod in alive[:3])
    said = not_ready(Reason.PREVIOUS_ATTEMPT_ALIVE, f"waiting for {names} to end", moving=True)
    return decision(case, said, LookAgain(case.limits.soon), actions_to_end(case, alive))


RULES: tuple[Callable[[Case], Decision | None], ...] = (
    _deleted,
    _unguarded,
    _blind,
    _leftovers,
    with_driver.driver_ends,
    with_driver.driver_over,
    with_driver.driver_gone,
    with_driver.driver_runs,
    without_driver.forgives,
    without_driver.executors_left,
    without_driver.suspended,
    without_driver.completed,
    without_driver.stays_refused,
    without_driver.stays_halted,
    without_driver.may_not_restart,
    without_driver.cannot_start,
    without_driver.waits,
    without_driver.strangers_there,
    without_driver.starts,
)
"""The first rule that applies decides; the last one always applies."""

_BAD: Mapping[str, str] = {
    "PlanValid": "False",
    "StateCompatible": "False",
    "Stalled": "True",
    "DriverRunning": "False",
    "Ready": "False",
}
"""Condition -> its status when something is wrong. The first of these gives the event's message. `Assigned` gives no
events, as executors come and go."""
_NO_FAULT = PENDING_REASONS | {
    Reason.NOT_YET_KNOWN,
    Reason.STARTING,
    Reason.SUSPENDED,
    Reason.COMPLETED,
    Reason.DRAINING,
    Reason.DELETING,
    Reason.WAITING_TO_RESTART,
    Reason.PREVIOUS_ATTEMPT_ALIVE,
}
"""Reasons for not being ready that are no problem, unless the app is stalled."""


_REASONS = {reason.value: reason for reason in Reason}


def condition_events(before: Status, decided: Decision) -> tuple[OperatorEvent, ...]:
    """Return events for problems that are new in a decision's conditions and not in its own events."""
    known = {_said(one) for one in before.conditions if _bad(one)} | {(told.reason, None) for told in decided.events}
    now = {one.type: one for one in decided.status.conditions if _bad(one)}
    fresh: dict[tuple[str, int | None], Condition] = {}
    for one in (now[kind] for kind in _BAD if kind in now):
        if _said(one) not in known:
            fresh.setdefault(_said(one), one)
    if any(generation is not None for _, generation in fresh):
        # The plan is rejected: the other conditions only repeat that.
        fresh = {said: one for said, one in fresh.items() if said[1] is not None}
    # A reason unknown to this release comes from a condition that another release wrote, not from this decision.
    return tuple(
        OperatorEvent(_REASONS[one.reason], one.message, warning=True)
        for one in fresh.values()
        if one.reason in _REASONS
    )


def _bad(one: Condition) -> bool:
    return one.status == _BAD.get(one.type) and (one.type == "Stalled" or one.reason not in _NO_FAULT)


def _said(one: Condition) -> tuple[str, int | None]:
    # Each generation's rejected plan is news; a driver's problem is not tied to a generation.
    return one.reason, one.observed_generation if one.type == "PlanValid" else None
