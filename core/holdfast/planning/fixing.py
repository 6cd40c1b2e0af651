"""Why: a spec with all repairs applied, one at a time, because each may settle problems behind it.

Must end: each step is repaired a few times at most, and what is left then is reported.
"""

from dataclasses import dataclass

from holdfast.planning.plan import Plan, PlanningFacts, plan
from holdfast.planning.problems import Repair, apply_repair
from holdfast.spec.app_part import StreamApp

_TRIES_PER_STEP = 3


@dataclass(frozen=True, slots=True)
class RepairedApp:
    """How far repairs went."""

    app: StreamApp
    repairs: tuple[Repair, ...]
    """In the order they were applied."""
    plan: Plan
    """The plan of the repaired app."""


def apply_all_repairs(app: StreamApp, known: PlanningFacts) -> RepairedApp:
    """Apply repairs along the flow until none is left: what one settles behind it needs none of its own."""
    repairs: list[Repair] = []
    tries: dict[str, int] = {}

    def untired(step: str) -> bool:
        return tries.get(step, 0) < _TRIES_PER_STEP

    result = plan(app, known, mend_only=untired)
    while (found := next(((p.step, p.repair) for p in result.problems if p.step and p.repair), None)) is not None:
        step, repair = found
        inserted = {new.name for one in repairs for new in one.new_steps}
        if inserted & set(repair.removed):
            # Two steps that want the same stream in two ways would undo each other's repair for ever.
            tries[step] = _TRIES_PER_STEP
        else:
            tries[step] = tries.get(step, 0) + 1
            repairs.append(repair)
            app = app.model_copy(update={"spec": apply_repair(app.spec, repair)})
        result = plan(app, known, mend_only=untired)
    return RepairedApp(app, tuple(repairs), plan(app, known))
