"""Volume claims of runs that the app has left: they are deleted again and again until none is there.

The run is in the status before anything is deleted, and stays there until a look finds no claim of it: a call that was
lost, or an operator that died before it, leaves no disk behind. Must not decide when a run is left.
"""

from dataclasses import replace

from holdfast.reasons import Reason
from holdfast.spec.app import MOST_LEFT_RUNS
from holdfast_operator.decide.decision import Decision, LookAgain, actions_to_release
from holdfast_operator.decide.facts import Case


def with_left_runs(case: Case, decided: Decision) -> Decision:
    """Return the decision, with what is done about the claims of runs that were left, now or before."""
    refused, before, status = case.snapshot.refused, case.status, decided.status
    runs = [run for run in before.left_runs if run in case.snapshot.claimed]
    if before.run_id is not None and before.run_id != status.run_id:
        runs.append(before.run_id)
    left = tuple(run for run in dict.fromkeys(runs) if run != status.run_id)[-MOST_LEFT_RUNS:]
    if not left or (refused is not None and refused.reason is Reason.DELETING):
        return replace(decided, status=status.model_copy(update={"left_runs": left}))
    return replace(
        decided,
        status=status.model_copy(update={"left_runs": left}),
        actions=(*(action for run in left for action in actions_to_release(case, run)), *decided.actions),
        wake=decided.wake if isinstance(decided.wake, LookAgain) else LookAgain(case.limits.look),
    )
