"""Why: a spec with all repairs applied, one at a time, because each may settle problems behind it.

Must end: each step is repaired a few times at most, and what is left then is reported.
"""

from dataclasses import dataclass

from holdfast.planning.plan import Known, Plan, plan
from holdfast.planning.repairs import Repair, apply_repair
from holdfast.spec.app import StreamApp

_TRIES_PER_STEP = 3


@dataclass(frozen=True, slots=True)
class Fixed:
    """How far repairs went."""

    app: StreamApp
    repairs: tuple[Repair, ...]
    """In the order they were applied."""
    plan: Plan
    """The plan of the repaired app."""


def fixed(app: StreamApp, known: Known) -> Fixed:
    """Apply repairs along the flow until none is left."""
    repairs: list[Repair] = []
    tries: dict[str, int] = {}
    result = plan(app, known)
    while not result.valid:
        repair = _next(result, tries)
        if repair is None:
            break
        repairs.append(repair)
        app = app.model_copy(update={"spec": apply_repair(app.spec, repair)})
        result = plan(app, known)
    return Fixed(app, tuple(repairs), result)


def _next(result: Plan, tries: dict[str, int]) -> Repair | None:
    """The repair that stands first along the flow: what it settles behind it needs none of its own."""
    repairs = {problem.step: problem.repair for problem in result.problems if problem.repair is not None}
    for step in result.steps:
        repair = repairs.get(step.name)
        if repair is not None and tries.get(step.name, 0) < _TRIES_PER_STEP:
            tries[step.name] = tries.get(step.name, 0) + 1
            return repair
    return None
