"""The one decision about an app: its rules in order, and the events for what they newly say against it.

    deleted? -> finalizer? -> pods unreadable? -> leftovers of other attempts?
             -> driver there? (ending, over, running) -> driver gone? -> may another attempt start?

`RULES` is the operator's behaviour. Pure: the clock comes in, nothing is read, nothing is done. Whatever is done is
written into the status first, so that an operator that dies in between goes on where it was. An event is written
once for each change: what a condition said before is no news, however the numbers in its message change. Must not
know the API.
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
    """What happens now: the first rule that applies."""
    case = Case(seen, judged, now, limits)
    decided = next(decision for rule in RULES if (decision := rule(case)) is not None)
    return replace(decided, events=(*decided.events, *condition_events(case.status, decided)))


def _deleted(case: Case) -> Decision | None:
    """Drain, prove that nothing runs any more, give everything back, let go."""
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
    """Nothing is made for an object that could go without our being told."""
    if case.seen.app.finalizer:
        return None
    # Also an app that runs may lose it: `kubectl replace` takes it off.
    return Decision(case.status, LookAgain(0), (AddFinalizer(),))


def _blind(case: Case) -> Decision | None:
    """Absence of evidence is no evidence: without seeing pods, nothing is started or ended."""
    places = (case.seen.driver, case.seen.others, case.seen.executors)
    why = next((what.why for what in places if isinstance(what, Unknown)), None)
    if why is None:
        return None
    return decision(case, unreadable("DriverRunning", why), LookAgain(case.limits.soon))


def _leftovers(case: Case) -> Decision | None:
    """Two drivers of one app are never wanted: all that is not the current attempt's ends before anything else."""
    assert not isinstance(case.seen.others, Unknown)  # noqa: S101 - the rule before
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
"""The first that applies decides; the last always does."""

_BAD: Mapping[str, str] = {
    "PlanValid": "False",
    "StateCompatible": "False",
    "Stalled": "True",
    "DriverRunning": "False",
    "Ready": "False",
}
"""Condition -> what it says when something is wrong. The first that says it gives the words. Executors come and go, and
what they lack is theirs to tell: `Assigned` is no news."""
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
"""What an app that is not ready may wait for, with nothing new being wrong, as long as nobody has to act."""


_REASONS = {reason.value: reason for reason in Reason}


def condition_events(before: Status, decided: Decision) -> tuple[OperatorEvent, ...]:
    """What the conditions of a decision say anew; what the decision tells itself is left out."""
    known = {_said(one) for one in before.conditions if _bad(one)} | {(told.reason, None) for told in decided.events}
    now = {one.type: one for one in decided.status.conditions if _bad(one)}
    fresh: dict[tuple[str, int | None], Condition] = {}
    for one in (now[kind] for kind in _BAD if kind in now):
        if _said(one) not in known:
            fresh.setdefault(_said(one), one)
    if any(generation is not None for _, generation in fresh):
        # A plan is rejected: all else only says so too.
        fresh = {said: one for said, one in fresh.items() if said[1] is not None}
    # A condition of another release may have a reason that this one does not know; it is none of this decision.
    return tuple(
        OperatorEvent(_REASONS[one.reason], one.message, warning=True)
        for one in fresh.values()
        if one.reason in _REASONS
    )


def _bad(one: Condition) -> bool:
    return one.status == _BAD.get(one.type) and (one.type == "Stalled" or one.reason not in _NO_FAULT)


def _said(one: Condition) -> tuple[str, int | None]:
    # A plan is rejected anew with each change of the app; how a driver does has nothing to do with that.
    return one.reason, one.observed_generation if one.type == "PlanValid" else None
