"""The decision about an app: the rules in order, and those for an app without a driver.

    namespace deleted? -> deleted? -> finalizer? -> rollback over? -> pods unreadable? -> others' leftovers?
             -> driver there? (ending, over, running) -> driver gone? -> may another attempt start?

`RULES` is the operator's behaviour. Pure: the time comes in as an argument, nothing is read or done. Every action is
written into the status first, so that a restarted operator continues where the last one died. Must not know the API.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from holdfast.attempt_number import LAST_ATTEMPT
from holdfast.reasons import Reason
from holdfast.spec.runtime import AppDefaults
from holdfast.tasks.record import PlacementRecord
from holdfast.times import moment
from holdfast_operator.decide import with_driver
from holdfast_operator.decide.attempt_endings import FAILURES, AttemptOutcome
from holdfast_operator.decide.conditions import (
    condition_events,
    decision,
    growth_conditions,
    last_words,
    no_driver,
    not_ready,
    plan_conditions,
    settled,
    under_way,
    unreadable,
    waiting,
)
from holdfast_operator.decide.decision import (
    Action,
    AddFinalizer,
    Decision,
    LookAgain,
    NextLook,
    OperatorEvent,
    RemoveFinalizer,
    StartDriver,
    WaitForChange,
    actions_to_end,
    actions_to_release,
)
from holdfast_operator.decide.facts import (
    PENDING_REASONS,
    AppFinding,
    Case,
    DecisionLimits,
    Snapshot,
    StartVerdict,
    Unknown,
)
from holdfast_operator.decide.left_runs import with_left_runs
from holdfast_operator.decide.running_checks import growth_halts
from holdfast_operator.decide.trials import stale_trials


def decide(snapshot: Snapshot, judged: StartVerdict, now: int, limits: DecisionLimits) -> Decision:
    """Return the decision of the first rule that applies."""
    case = Case(snapshot, judged, now, limits)
    decided = next(decision for rule in RULES if (decision := rule(case)) is not None)
    actions = (*decided.actions, *stale_trials(case, decided))
    events = (*decided.events, *condition_events(case.status, decided))
    return with_left_runs(case, replace(decided, actions=actions, events=events))


def _goes_with_its_namespace(case: Case) -> Decision | None:
    """The namespace is being deleted: hold nothing up, as the right to remove the finalizer may go before the app."""
    refused, app = case.snapshot.refused, case.snapshot.app
    if refused is None or refused.reason is not Reason.DELETING:
        return None
    # No app of this name can be made there before all pods are gone.
    conditions = not_ready(refused.reason, refused.message, moving=True)
    return decision(case, conditions, WaitForChange("the object goes"), (RemoveFinalizer(),) if app.finalizer else ())


def _deleted(case: Case) -> Decision | None:
    """The app is deleted: drain it, delete its claims until none is there, remove the finalizer."""
    app = case.snapshot.app
    if app.deleting_since is None:
        return None
    if not app.finalizer:
        return decision(case, {}, WaitForChange("the object goes"))
    if (blind := _blind(case)) is not None:
        return blind
    alive = [pod for pod in case.snapshot.pods if not pod.over]
    # A driver that drains needs its executors for the batch at hand.
    alive = [pod for pod in alive if pod.role == "driver"] or alive
    conditions = not_ready(Reason.DELETING, Reason.DELETING.sentence, moving=True)
    if alive:
        end_actions = actions_to_end(case, alive)
        return decision(case, conditions, LookAgain(case.limits.soon), end_actions, draining=Reason.DELETING.value)
    if case.snapshot.claimed:
        # A StatefulSet outlives its driver for a moment, and may have made them again.
        run = case.status.run_id
        claims = actions_to_release(case, run) if run is not None and run in case.snapshot.claimed else ()
        return decision(case, conditions, LookAgain(case.limits.soon), claims)
    return decision(case, conditions, WaitForChange("the object goes"), (RemoveFinalizer(),))


def _unguarded(case: Case) -> Decision | None:
    """Add the finalizer first: without it the object could disappear unnoticed."""
    if case.snapshot.app.finalizer:
        return None
    # A running app can lose it too: `kubectl replace` removes it.
    return Decision(case.status, LookAgain(0), (AddFinalizer(),))


def _goes_forward(case: Case) -> Decision | None:
    """The app was changed after a rollback, or the spec that ran is gone: the newest spec is what counts."""
    rollback = case.status.rollback
    if rollback is None or case.rolled_back is not None:
        return None
    changed = rollback.generation != case.snapshot.app.generation
    fields = {"rollback": None} if changed else {"rollback": None, "begun": None}
    return Decision(case.status.model_copy(update=fields), LookAgain(0))


def _blind(case: Case) -> Decision | None:
    """Start or end nothing while pods can't be read: a pod that can't be seen may exist."""
    observations = (case.snapshot.driver, case.snapshot.other_drivers, case.snapshot.executors)
    why = next((what.why for what in observations if isinstance(what, Unknown)), None)
    if why is None:
        return None
    return decision(case, unreadable("DriverRunning", why), LookAgain(case.limits.soon))


def _leftovers(case: Case) -> Decision | None:
    """End the drivers of other attempts first: an app must never have two drivers."""
    assert not isinstance(case.snapshot.other_drivers, Unknown)  # noqa: S101 - checked by the rule before
    alive = [pod for pod in case.snapshot.other_drivers if not pod.over]
    if not alive:
        return None
    names = ", ".join(pod.name for pod in alive[:3])
    conditions = not_ready(Reason.PREVIOUS_ATTEMPT_ALIVE, f"waiting for {names} to end", moving=True)
    return decision(case, conditions, LookAgain(case.limits.soon), actions_to_end(case, alive))


def forgives(case: Case) -> Decision | None:
    """The app was changed after a failure: forget the failure, as the change may be the fix."""
    status = case.status
    failed = status.ended in (*FAILURES, AttemptOutcome.REFUSED)
    if not failed or status.observed_generation == case.snapshot.app.generation:
        return None
    return decision(case, {}, LookAgain(0), ended=AttemptOutcome.DRAINED.value, failures=0, retry_at=None)


def executors_left(case: Case) -> Decision | None:
    """End the executors of an ended driver first: two sets of executors would write the same state."""
    executors, status = case.snapshot.executors, case.status
    assert not isinstance(executors, Unknown)  # noqa: S101 - checked by an earlier rule
    alive = [pod for pod in executors if not pod.over]
    if not alive or (status.ended is None and status.attempt is not None):
        return None
    conditions = not_ready(Reason.PREVIOUS_ATTEMPT_ALIVE, f"waiting for {len(alive)} executors to end", moving=True)
    return decision(case, conditions, LookAgain(case.limits.soon), actions_to_end(case, alive))


def suspended(case: Case) -> Decision | None:
    """The app is suspended."""
    if case.judged.app is None or not case.judged.app.spec.suspend:
        return None
    conditions = not_ready(Reason.SUSPENDED, Reason.SUSPENDED.sentence, moving=False)
    return decision(case, conditions | no_driver(Reason.SUSPENDED), WaitForChange("spec.suspend is false"))


def completed(case: Case) -> Decision | None:
    """The app is completed: nothing is left to do, and its claims are needed no more."""
    app, run = case.judged.app, case.status.run_id
    if case.status.ended != AttemptOutcome.COMPLETED or case.judged.differs(case.status):
        return None
    conditions = settled(Reason.COMPLETED, Reason.COMPLETED.sentence)
    claims: tuple[Action, ...] = ()
    if app is not None and run is not None and app.spec.state.on_completion == "Release":
        claims = actions_to_release(case, run)
    return decision(case, conditions | no_driver(Reason.COMPLETED), WaitForChange("the spec changes"), claims)


def stays_refused(case: Case) -> Decision | None:
    """The driver reported that the user has to act; the same spec would end the same way."""
    if case.status.ended != AttemptOutcome.REFUSED or case.judged.differs(case.status):
        return None
    message = last_words(case.status) or Reason.DRIVER_REFUSED.sentence
    conditions = not_ready(Reason.DRIVER_REFUSED, message, moving=False, stalled=True)
    return decision(case, conditions, WaitForChange("the spec changes"))


def stays_halted(case: Case) -> Decision | None:
    """An input has grown, and the spec says to halt on growth."""
    finding = growth_halts(case)
    if finding is None:
        return None
    conditions = not_ready(finding.reason, finding.message, moving=False, stalled=True)
    return decision(case, conditions | no_driver(finding.reason), LookAgain(case.limits.look))


def may_not_restart(case: Case) -> Decision | None:
    """The restart policy allows no further attempt."""
    ended, policy = case.status.ended, case.restart.policy
    if ended not in (*FAILURES, AttemptOutcome.LOST) or policy == "Always" or case.judged.differs(case.status):
        return None
    if policy == "OnFailure" and ended != AttemptOutcome.STOPPED:
        return None
    message = f"{last_words(case.status)}; spec.restart.policy is {policy}"
    conditions = not_ready(Reason.RESTART_NEVER, message, moving=False, stalled=True)
    return decision(case, conditions, WaitForChange("the spec changes"))


def cannot_start(case: Case) -> Decision | None:
    """Something prevents the start: report it, and look again if it can go away by itself."""
    against = case.judged.against
    if against is None:
        return None
    soon = against.reason in PENDING_REASONS
    conditions = plan_conditions(case.judged) | growth_conditions(case.judged)
    if case.judged.may_change:
        conditions |= waiting(case, against.reason, against.message)
    else:
        conditions |= not_ready(against.reason, against.message, moving=False, stalled=True)
    wake: NextLook = LookAgain(case.limits.soon if soon else case.limits.look)
    if case.judged.refused is not None and not _needs_topics(case):
        wake = WaitForChange("the spec changes")
    return decision(case, conditions | no_driver(against.reason), wake)


def waits(case: Case) -> Decision | None:
    """The last attempt failed, and the wait is not over."""
    until = moment(case.status.retry_at)
    if until is None or until <= case.now:
        return None
    message = f"{last_words(case.status)}; the next attempt starts at {case.status.retry_at}"
    conditions = under_way(case, Reason.WAITING_TO_RESTART, message)
    return decision(case, conditions, LookAgain(until - case.now))


def strangers_there(case: Case) -> Decision | None:
    """A foreign driver of an app of this name exists: it would write the same streams."""
    names = [pod.name for pod in case.snapshot.strangers if not pod.over]
    if not names:
        return None
    message = f"{names[0]} drives an app of this name and is not this one's; delete it if nobody else does"
    conditions = not_ready(Reason.PREVIOUS_ATTEMPT_ALIVE, message, moving=False, stalled=True)
    return decision(case, conditions, LookAgain(case.limits.look))


def numbers_used_up(case: Case) -> Decision | None:
    """The run has used the last number of an attempt: somebody wrote one, and a smaller one would be fenced."""
    if _next_number(case) <= LAST_ATTEMPT:
        return None
    message = f"attempt {LAST_ATTEMPT} of run {case.status.run_id} was the last; set another spec.runId"
    conditions = not_ready(Reason.ATTEMPTS_USED_UP, message, moving=False, stalled=True)
    return decision(case, conditions | no_driver(Reason.ATTEMPTS_USED_UP), LookAgain(case.limits.look))


def _intended(case: Case) -> bool:
    """Return whether the attempt in the status is still to be started."""
    status, app = case.status, case.judged.app
    return app is not None and status.run_id == app.spec.run_id and status.attempt is not None and status.ended is None


def _next_number(case: Case) -> int:
    """Return the number of the attempt to start: larger than those of all attempts of the run that left a trace."""
    status, app = case.status, case.judged.app
    if _intended(case) and status.attempt is not None:
        return status.attempt
    run = None if app is None else app.spec.run_id
    begun_number = status.begun.attempt if status.begun is not None and status.begun.run_id == run else 0
    return max(status.attempt or 0 if status.run_id == run else 0, begun_number, case.snapshot.highest) + 1


def starts(case: Case) -> Decision:
    """Start an attempt, with its number in the status first: after a crash, the next look starts the same one."""
    app, status = case.judged.app, case.status
    assert app is not None  # noqa: S101 - checked by an earlier rule
    new_run = status.run_id != app.spec.run_id
    intended, number = _intended(case), _next_number(case)
    message = f"attempt {number} starts"
    starting = (
        not_ready(Reason.STARTING, message, moving=True) if new_run else under_way(case, Reason.STARTING, message)
    )
    conditions = plan_conditions(case.judged) | starting
    conditions |= {"DriverRunning": (False, Reason.STARTING, message)}
    if (why := _refused(case)) is not None:
        conditions |= waiting(case, why.reason, why.message)
    counts = {} if isinstance(case.snapshot.counts, Unknown) else case.snapshot.counts
    storage = case.snapshot.storage_class if isinstance(case.snapshot.storage_class, str) else ""
    defaults = case.judged.defaults
    start = StartDriver(app, number, counts, _holding_state(case), storage, case.judged.fingerprint or "", defaults)
    events: list[OperatorEvent] = []
    if not intended:
        events.append(OperatorEvent(Reason.STARTING, f"attempt {number} of run {app.spec.run_id} starts"))
    if new_run and status.run_id is not None:
        message = f"run {status.run_id} is over, its local state is given up"
        events.append(OperatorEvent(Reason.SPEC_CHANGED, message))
    if not intended:
        events += _left_behind(case)
    return decision(
        case,
        conditions,
        LookAgain(case.limits.soon if why is None else case.limits.look),
        (start,),
        tuple(events),
        run_id=app.spec.run_id,
        attempt=number,
        spec_hash=case.judged.fingerprint,
        defaults=defaults if defaults != AppDefaults() else None,
        pods=case.judged.pods,
        trial=None,
        driver_uid=None,
        draining=None,
        ended=None,
        retry_at=None,
        restarts=0 if new_run else status.restarts or 0,
        failures=0 if new_run else status.failures or 0,
    )


def _refused(case: Case) -> AppFinding | None:
    """Return why the attempt could not be created at the last try."""
    refused = case.snapshot.refused
    return None if refused is None or refused.reason is Reason.TRIAL_FAILED else refused


def _left_behind(case: Case) -> tuple[OperatorEvent, ...]:
    """Return events for state that is given up because its steps were removed."""
    warnings = () if case.judged.plan is None else case.judged.plan.warnings
    return tuple(
        OperatorEvent(warning.reason, warning.message, warning=True)
        for warning in warnings
        if warning.reason is Reason.STATE_GIVEN_UP
    )


def _holding_state(case: Case) -> dict[str, int]:
    """Return node -> number of tasks with state there, if state is bound to nodes."""
    record, app = case.snapshot.record, case.judged.app
    if not isinstance(record, PlacementRecord) or app is None or app.spec.state.location != "Node":
        return {}
    return dict(Counter(record.task_location.values()))


def _needs_topics(case: Case) -> bool:
    """Return whether a broker's answer could change the verdict."""
    return case.judged.app is not None and any(one.kafka is not None for one in case.judged.app.spec.systems)


RULES: tuple[Callable[[Case], Decision | None], ...] = (
    _goes_with_its_namespace,
    _deleted,
    _unguarded,
    _goes_forward,
    _blind,
    _leftovers,
    with_driver.driver_of_another_spec,
    with_driver.driver_ends,
    with_driver.driver_over,
    with_driver.driver_gone,
    with_driver.driver_runs,
    forgives,
    executors_left,
    suspended,
    completed,
    stays_refused,
    stays_halted,
    may_not_restart,
    cannot_start,
    waits,
    strangers_there,
    numbers_used_up,
    starts,
)
"""The first rule that applies decides; the last one always applies."""
