"""Why: conditions are how an app speaks to people and tools; they are kept here: one list, one writer, no flicker.

`Ready`, `Reconciling` and `Stalled` follow kstatus, so that `kubectl wait`, Helm and Argo understand them. A condition
that nothing new is said of stays as it is; one that says the same again keeps the time of its last change. Must not
decide what is said.
"""

from collections.abc import Mapping
from datetime import UTC, datetime

from holdfast.reasons import Reason
from holdfast.spec.app import Condition
from holdfast_operator.decide.decision import ConditionUpdates

CONDITION_TYPES = (
    "Ready",
    "Reconciling",
    "Stalled",
    "PlanValid",
    "Assigned",
    "LocalityHonoured",
    "DriverRunning",
    "StateCompatible",
)
_LONGEST = 4000
_TRUTH: Mapping[bool | None, str] = {True: "True", False: "False", None: "Unknown"}


def updated_conditions(
    before: tuple[Condition, ...], said: ConditionUpdates, generation: int, now: int
) -> tuple[Condition, ...]:
    """All conditions after this was said of the app in this generation."""
    known = {one.type: one for one in before}
    return tuple(
        _said(known.get(kind), kind, said[kind], generation, now)
        if kind in said
        else known.get(kind)
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


def stamp(millis: int) -> str:
    """A moment as Kubernetes writes it; a rest of a second counts as a whole one, so that nothing is early."""
    return datetime.fromtimestamp(-(-millis // 1000), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def moment(text: str | None) -> int | None:
    """The moment in this text; None where there is none, also where somebody else wrote it."""
    try:
        return None if text is None else int(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None
