"""Events for what conditions begin to say against an app: a rejected plan, a driver that can't work, a stall.

Told once for each change: what a condition said before is no news, nor is it when another one says it too, however the
numbers in its message change. Must not know why a condition says what it says.
"""

from collections.abc import Mapping

from holdfast.reasons import Reason
from holdfast.spec.app import Condition, Status
from holdfast_operator.decide.decision import Decision, OperatorEvent
from holdfast_operator.examine.start_checks import PENDING_REASONS

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
