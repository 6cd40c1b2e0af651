"""The trial before a drain: pods like those of the next attempt are tried while the running attempt goes on.

    spec changed, or an input grew
      made from what runs already?                   -> drain
      a trial pod ended well                         -> drain
      it failed, was refused, or takes too long      -> the attempt goes on, and the status says why
      else                                           -> wait for it

An attempt that has not begun is drained without a trial: it has nothing to lose. What failed is in the status with its
digests, so that no restarted operator tries it again and again; each new generation is tried, and the same one slowly.
Must not decide whether the attempt has to end.
"""

from dataclasses import dataclass, replace

from holdfast.one_line import one_line
from holdfast.protocol.names import trial_in
from holdfast.protocol.pods import PodPhase, PodState
from holdfast.reasons import Reason
from holdfast.spec.app import PodTrial
from holdfast.times import moment, stamp, time_span
from holdfast_operator.decide.attempt_endings import AttemptOutcome, ending_of
from holdfast_operator.decide.conditions import not_ready
from holdfast_operator.decide.decision import Action, ConditionUpdates, Decision, EndPod, LookAgain, TryPods
from holdfast_operator.decide.facts import PENDING_REASONS, AppFinding, Case
from holdfast_operator.decide.running_checks import LivingDriver, obstacle

_FOR_ANOTHER_ATTEMPT = frozenset({Reason.SPEC_CHANGED, Reason.PARTITIONS_GREW})
"""Reasons to end an attempt after which another one starts at once."""
_LONGEST = 1000
_LOST = AttemptOutcome.LOST
"""Its node, or somebody else, ended it."""


@dataclass(frozen=True, slots=True)
class TrialEffects:
    """What follows from a trial that keeps the attempt from being drained."""

    trial: PodTrial
    conditions: ConditionUpdates
    wake: LookAgain
    actions: tuple[Action, ...] = ()

    def beside(self, living: Decision) -> Decision:
        """Return the decision about the living attempt, and about the trial beside it."""
        wake = LookAgain(min(living.wake.after, self.wake.after)) if isinstance(living.wake, LookAgain) else self.wake
        status = living.status.model_copy(update={"trial": self.trial})
        return replace(living, status=status, wake=wake, actions=(*living.actions, *self.actions))


def trial_before(case: Case, wish: AppFinding) -> TrialEffects | None:
    """Return what is done about a trial before the attempt is drained for this reason; None: drain it."""
    digests = tuple(digest for digest in case.judged.pods if digest not in case.status.pods)
    if wish.reason not in _FOR_ANOTHER_ATTEMPT or not digests or not case.begun:
        return None
    trial, pods = _trial(case, digests), _pods(case)
    if all(_passed(pods.get(digest)) for digest in digests):
        return None
    why = (trial.failed or _failure(case, trial, pods)) if trial == case.status.trial else None
    return _going_on(case, trial, pods) if why is None else _failed(case, trial, why)


def kept_trial(case: Case) -> PodTrial | None:
    """Return the trial that is remembered while nothing has to be drained: brokers may have to be asked first."""
    trial, against = case.status.trial, case.judged.against
    unanswered = against is not None and against.reason in PENDING_REASONS
    return trial if unanswered and trial is not None and trial.generation == case.snapshot.app.generation else None


def stale_trials(case: Case, decided: Decision) -> tuple[EndPod, ...]:
    """Return actions that end the trial pods which nobody waits for any more."""
    trial = None if case.snapshot.app.deleting_since is not None else decided.status.trial
    digests = () if trial is None or trial.failed else trial.pods
    pods = _pods(case).items()
    return tuple(
        EndPod(pod.name, pod.uid) for digest, pod in pods if digest not in digests and pod.deleting_since is None
    )


def _trial(case: Case, digests: tuple[str, ...]) -> PodTrial:
    """Return the trial in the status, or a new one if that is of something else, or long ago."""
    last, generation = case.status.trial, case.snapshot.app.generation
    same = last is not None and (last.pods, last.generation) == (digests, generation)
    if last is not None and same and _left(case, last) > 0:
        return last
    before = last.failed if last is not None and same else ""
    return PodTrial(pods=digests, generation=generation, since=stamp(case.now), failed_before=before)


def _left(case: Case, trial: PodTrial) -> int:
    """Return for how many milliseconds it is not begun anew."""
    return (moment(trial.since) or 0) + case.limits.trial_again - case.now


def _pods(case: Case) -> dict[str, PodState]:
    """Return digest -> the pod that tries it."""
    named = ((trial_in(case.snapshot.app.name, pod.name), pod) for pod in case.snapshot.trials)
    return {digest: pod for digest, pod in named if digest is not None}


def _passed(pod: PodState | None) -> bool:
    return pod is not None and pod.phase is PodPhase.SUCCEEDED


def _failure(case: Case, trial: PodTrial, pods: dict[str, PodState]) -> str | None:
    """Return why the trial has failed; None: it has not."""
    refused = case.snapshot.refused
    if refused is not None and refused.reason is Reason.TRIAL_FAILED:
        return refused.message
    tried = [pods[digest] for digest in trial.pods if digest in pods]
    for pod in tried:
        if _fell(pod) and pod.deleting_since is None and ending_of(pod, draining=False).outcome is not _LOST:
            return _end_of(pod)
    if case.now - (moment(trial.since) or 0) < case.limits.trial:
        return None
    waiting = "; ".join(_state_of(case, pod) for pod in tried if not _passed(pod)) or "its pod vanishes again and again"
    return f"it has not ended within {time_span(case.limits.trial)}: {waiting}"


def _fell(pod: PodState) -> bool:
    return pod.over and not _passed(pod)


def _end_of(pod: PodState) -> str:
    end = pod.ended
    how = "failed" if end is None else f"ended with exit code {end.exit_code}"
    message = (end.message or end.reason) if end is not None else (pod.message or pod.reason)
    return f"pod {pod.name} {how}: {message}"


def _state_of(case: Case, pod: PodState) -> str:
    finding = obstacle(LivingDriver(pod, None, 0, case.now, case.limits))
    if finding is not None:
        return finding.message
    waits = ": ".join(filter(None, pod.waiting or ()))
    return f"pod {pod.name} is {pod.phase.value}" + (f" ({waits})" if waits else "")


def _going_on(case: Case, trial: PodTrial, pods: dict[str, PodState]) -> TrialEffects:
    fell = tuple(EndPod(pod.name, pod.uid) for pod in pods.values() if _fell(pod) and pod.deleting_since is None)
    missing, app = tuple(digest for digest in trial.pods if digest not in pods), case.judged.app
    tries = (TryPods(app, missing),) if app is not None and missing else ()
    # While it is repeated, what is known is that it failed.
    conditions = _trying(case, trial, pods) if not trial.failed_before else _not_passed(case, trial.failed_before)
    return TrialEffects(trial, conditions, LookAgain(case.limits.soon), (*fell, *tries))


def _trying(case: Case, trial: PodTrial, pods: dict[str, PodState]) -> ConditionUpdates:
    states = "; ".join(_state_of(case, pods[digest]) for digest in trial.pods if digest in pods)
    message = f"attempt {case.status.attempt} goes on until a pod of what was applied has been tried"
    return not_ready(Reason.TRYING, f"{message}{states and f': {states}'}", moving=True)


def _failed(case: Case, trial: PodTrial, why: str) -> TrialEffects:
    failed = trial.model_copy(update={"failed": one_line(why, _LONGEST), "failed_before": ""})
    wake = LookAgain(max(1, min(case.limits.look, _left(case, failed))))
    return TrialEffects(failed, _not_passed(case, failed.failed), wake)


def _not_passed(case: Case, why: str) -> ConditionUpdates:
    message = (
        f"attempt {case.status.attempt} goes on as it was; a pod of what was applied can't run: {why}. "
        "Correct the spec, or what the pod lacks; or suspend the app and resume it, which tries nothing. "
        f"It is tried again after each change, and every {time_span(case.limits.trial_again)}"
    )
    return not_ready(Reason.TRIAL_FAILED, message, moving=False, stalled=True)
