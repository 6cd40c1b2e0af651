"""What becomes of the state of a run when an app goes on with it: a rename is refused until it is said to be one.

Compares an app with the placement record of its run. Must not know how state is stored.
"""

from collections.abc import Iterator

from holdfast.planning.problems_part import Problem
from holdfast.reasons import Reason
from holdfast.spec.app_part import AppSpec
from holdfast.spec.kept_state import KeptState, state_change, state_name
from holdfast.spec.steps import KEYED_VERBS


def state_problems(spec: AppSpec, kept: KeptState) -> Iterator[Problem]:
    """State of the run that would be left behind without a word, or read as what it is not."""
    change, step_of = state_change(kept, spec), {state_name(step): step.name for step in spec.steps}
    for name, found in change.renamed.items():
        new = tuple(step_of[one] for one in found)
        yield Problem(Reason.STEP_RENAMED, _rename(name, kept.now[name], new), step=new[0])
    for name, (before, now) in change.misfits.items():
        message = (
            f"this run keeps the state of {before} under the name {name}, and this step would keep that of {now}: "
            f"give it another name, or set a new spec.runId to start with empty state"
        )
        yield Problem(Reason.STATE_MISFIT, message, step=step_of[name])
    for name in change.taken_up:
        message = (
            f"{name} was removed in this run and is back; what is left of its state lacks all that has come since: say "
            f"`was: {name}` in it to take that up, or give it another name to start from nothing"
        )
        yield Problem(Reason.STATE_TAKEN_UP, message, step=step_of[name])


def given_up(spec: AppSpec, kept: KeptState) -> Iterator[Problem]:
    """State of the run that no step keeps any more."""
    for name in state_change(kept, spec).given_up:
        on_the_way = f"rows not yet read from the intermediate stream of {name} are given up"
        lost = f"the state of {name} is given up" if _is_state(kept.now[name]) else on_the_way
        yield Problem(Reason.STATE_GIVEN_UP, f"there is no step {name} any more: {lost}", step=name)


def _rename(name: str, kept: str, found: tuple[str, ...]) -> str:
    """What to do about a step that is gone and others that could be it."""
    new = " or ".join(found)
    if not _is_state(kept):
        return (
            f"{name} is gone and {new} is new, both {kept}: rows on their way would stay behind in the intermediate "
            f"stream of {name}. Keep the name, or set a new spec.runId"
        )
    return (
        f"{name} is gone and {new} is new, both {kept}: under another name it would start from nothing. If {new} is "
        f"{name} renamed, say `was: {name}` in it, and its state follows; if not, remove {name} first and add {new} in "
        f"a later change, or set a new spec.runId"
    )


def _is_state(kept: str) -> bool:
    return kept.split(maxsplit=1)[0] in KEYED_VERBS
