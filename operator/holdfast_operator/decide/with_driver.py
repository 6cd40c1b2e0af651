"""The rules for an app that has a driver, or had one at the last look.

Must not start a driver: `rules.starts` does.
"""

from collections.abc import Mapping
from dataclasses import replace

from holdfast.attempt_number import LAST_ATTEMPT
from holdfast.protocol.names import app_id
from holdfast.protocol.pods import PodPhase, PodState
from holdfast.protocol.report import DriverReport
from holdfast.reasons import Reason
from holdfast.spec.app import BegunAttempt
from holdfast.spec.values import millis
from holdfast.times import stamp, time_span
from holdfast_operator.decide.attempt_endings import FAILURES, AttemptEnding, AttemptOutcome, ending_of
from holdfast_operator.decide.conditions import (
    decision,
    growth_conditions,
    is_ready,
    locality_conditions,
    newest_beside,
    not_ready,
    plan_conditions,
    running_conditions,
    status_with,
    table_conditions,
    under_way,
)
from holdfast_operator.decide.decision import (
    CollectAttempts,
    ConditionUpdates,
    Decision,
    EndPod,
    LookAgain,
    OperatorEvent,
    actions_to_end,
    given_up,
)
from holdfast_operator.decide.executor_deaths import death_events, until_next_death
from holdfast_operator.decide.executors import executor_effects, executors, waiting_executor
from holdfast_operator.decide.facts import PENDING_REASONS, AppFinding, Case
from holdfast_operator.decide.going_back import rollback_after, rollback_from, stuck_before_start
from holdfast_operator.decide.running_checks import STUCK_REASONS, LivingDriver, reason_to_end, unhealthy
from holdfast_operator.decide.trials import kept_trial, trial_before

_REPLACED: Mapping[str, AttemptEnding] = {
    reason.value: AttemptEnding(
        AttemptOutcome.LOST, reason, f"the driver {why} and was ended; the next attempt starts at once"
    )
    for reason, why in ((Reason.NO_REPORT, "ran without a word"), (Reason.OBJECT_MISSING, "lacked its ConfigMap"))
}
"""Why a driver was replaced, as `draining` has it -> how its attempt ended."""
_DOUBLINGS = 20
_JITTER = 0.2


def driver_of_another_spec(case: Case) -> Decision | None:
    """The driver was made of another spec than the status says, as the app was changed meanwhile: write down what runs.

    Nobody knows which pods were tried for it.
    """
    driver = case.snapshot.driver
    if not isinstance(driver, PodState) or driver.spec_hash in (None, case.status.spec_hash):
        return None
    return Decision(case.status.model_copy(update={"spec_hash": driver.spec_hash, "pods": ()}), LookAgain(0))


def driver_ends(case: Case) -> Decision | None:
    """The driver is being ended, by us or by others: wait for it; give it up only if its node is lost."""
    driver = case.snapshot.driver
    if not isinstance(driver, PodState) or driver.over or driver.deleting_since is None:
        return None
    if given_up(case, driver, driver.deleting_since + driver.grace):
        return _lost(case, driver)
    why = case.status.draining or Reason.DRIVER_DELETED.value
    conditions = not_ready(Reason.DRAINING, f"{driver.name} finishes its batch and ends ({why})", moving=True)
    conditions = {**conditions, "DriverRunning": (True, Reason.DRAINING, Reason.DRAINING.sentence)}
    return decision(
        case, conditions, LookAgain(case.limits.soon), actions_to_end(case, [driver]), driver_uid=driver.uid
    )


def driver_over(case: Case) -> Decision | None:
    """The driver has ended: record how, and when the next attempt may start."""
    driver = case.snapshot.driver
    if not isinstance(driver, PodState) or not driver.over or case.status.ended is not None:
        return None
    if (replaced := _REPLACED.get(case.status.draining or "")) is not None:
        return _ended(case, replaced, driver.uid)
    return _ended(case, ending_of(driver, draining=case.status.draining is not None), driver.uid)


def driver_gone(case: Case) -> Decision | None:
    """The driver's pod has disappeared: it was drained if we asked for that, otherwise deleted by others."""
    if case.snapshot.driver is not None or not case.status.had_driver or case.status.ended is not None:
        return None
    if case.status.draining == Reason.NODE_LOST:
        message = "the driver was given up with its node; the next attempt starts at once"
        return _ended(case, AttemptEnding(AttemptOutcome.LOST, Reason.NODE_LOST, message))
    if (replaced := _REPLACED.get(case.status.draining or "")) is not None:
        return _ended(case, replaced)
    if case.status.draining is not None:
        return _ended(case, AttemptEnding(AttemptOutcome.DRAINED, Reason.DRAINING, "the attempt was drained"))
    message = "the driver's pod was deleted by somebody else; the next attempt starts at once"
    return _ended(case, AttemptEnding(AttemptOutcome.LOST, Reason.DRIVER_DELETED, message))


def driver_runs(case: Case) -> Decision | None:
    """The driver is running: end it if there is a reason, else check its health."""
    driver = case.snapshot.driver
    if not isinstance(driver, PodState) or driver.over:
        return None
    if given_up(case, driver, None):
        return _lost(case, driver)
    wish = reason_to_end(case)
    if case.status.draining is not None:
        return _drains(case, driver, wish)
    return _unfit(case, driver) or _wished(case, driver, wish)


def _unfit(case: Case, driver: PodState) -> Decision | None:
    """End a driver that will not go on, or has not started where another spec would."""
    if (unable := _unable(case, driver)) is not None:
        return _replaced(case, driver, unable)
    if (stuck := stuck_before_start(case, driver)) is None:
        return None
    replacement = _replaced(case, driver, stuck)
    status = replacement.status.model_copy(update={"rollback": rollback_from(case, stuck)})
    return replace(replacement, status=status, goes_back=True)


def _wished(case: Case, driver: PodState, wish: AppFinding | None) -> Decision:
    """Drain an attempt that has to end, but not before what the next one needs has been tried."""
    if wish is None:
        return _living(case, driver)
    trial = trial_before(case, wish)
    return _drains(case, driver, wish) if trial is None else trial.beside(_living(case, driver, trial.conditions))


def _drains(case: Case, driver: PodState, wish: AppFinding | None) -> Decision:
    # A drain that has begun is completed, even if its reason is gone: the spec may have been changed back.
    draining = case.status.draining
    why = draining if draining is not None else str(wish.reason if wish else "")
    conditions = not_ready(Reason.DRAINING, f"the attempt ends: {wish.message if wish else why}", moving=True)
    conditions |= {"DriverRunning": (True, Reason.DRAINING, Reason.DRAINING.sentence)}
    events = () if wish is None or draining is not None else (OperatorEvent(wish.reason, wish.message),)
    fields: dict[str, object] = {"driver_uid": driver.uid, "draining": why, "trial": None}
    return decision(case, conditions, LookAgain(case.limits.soon), (EndPod(driver.name, driver.uid),), events, **fields)


def _lost(case: Case, driver: PodState) -> Decision:
    """Give up a driver on a lost node: no kubelet reports its end, so it is asked to end and then force-deleted."""
    first = case.status.draining is None
    message = f"node {driver.node} has not answered for {time_span(case.limits.lost_after)}: {driver.name} is given up"
    conditions = not_ready(Reason.NODE_LOST, message, moving=True)
    conditions |= {"DriverRunning": (False, Reason.NODE_LOST, message)}
    events = (OperatorEvent(Reason.NODE_LOST, message, warning=True),) if first else ()
    why = case.status.draining or Reason.NODE_LOST.value
    end_actions = actions_to_end(case, [driver])
    return decision(
        case, conditions, LookAgain(case.limits.soon), end_actions, events, driver_uid=driver.uid, draining=why
    )


def _unable(case: Case, driver: PodState) -> AppFinding | None:
    """Return why this driver will never go on by itself; None: it may."""
    if driver.phase is PodPhase.RUNNING and case.snapshot.silence >= case.limits.hung:
        message = f"{driver.name} runs but has said nothing for {time_span(case.snapshot.silence)}: it is replaced"
        return AppFinding(Reason.NO_REPORT, message)
    if driver.phase is PodPhase.PENDING and case.snapshot.orders_gone:
        message = f"ConfigMap {driver.name} was deleted before its driver began: it is replaced"
        return AppFinding(Reason.OBJECT_MISSING, message)
    return None


def _replaced(case: Case, driver: PodState, unable: AppFinding) -> Decision:
    """End a driver; if it does not end by itself, the kubelet kills it, and its attempt is fenced."""
    conditions = not_ready(unable.reason, unable.message, moving=True)
    conditions |= {"DriverRunning": (driver.phase is PodPhase.RUNNING, unable.reason, unable.message)}
    events = (OperatorEvent(unable.reason, unable.message, warning=True),)
    end_actions, why = (EndPod(driver.name, driver.uid),), unable.reason.value
    return decision(
        case, conditions, LookAgain(case.limits.soon), end_actions, events, driver_uid=driver.uid, draining=why
    )


def _living(case: Case, driver: PodState, of_trial: ConditionUpdates | None = None) -> Decision:
    """Return what is done about a driver that goes on. `of_trial`: what a trial beside it says."""
    report = case.snapshot.report
    driver_report = report if isinstance(report, DriverReport) and report.attempt == driver.attempt else None
    interval = millis(case.judged.app.spec.runtime.trigger.interval) if case.judged.app is not None else 0
    pods = executors(case.snapshot, driver.attempt)
    waits = waiting_executor(pods)
    finding = unhealthy(LivingDriver(driver, driver_report, interval, case.now, case.limits, waits))
    running = driver.phase is PodPhase.RUNNING
    shown = (
        AppFinding(Reason.RUNNING if running else Reason.STARTING, f"pod {driver.name}") if finding is None else finding
    )
    conditions: ConditionUpdates = {"DriverRunning": (running, shown.reason, shown.message)}
    conditions |= plan_conditions(case.judged) | growth_conditions(case.judged)
    if finding is not None:
        stalled = finding.reason in STUCK_REASONS and case.now - driver.created > case.limits.start
        conditions |= not_ready(
            finding.reason, finding.message, moving=driver_report is None and not stalled, stalled=stalled
        )
        # Of brokers that are still being asked there is nothing to say.
        if case.judged.against is not None and case.judged.against.reason not in PENDING_REASONS:
            conditions |= newest_beside(case, f"attempt {driver.attempt} is not well: {finding.message}")
    elif driver_report is None or driver_report.progressed is None:
        conditions |= under_way(case, Reason.STARTING, f"waiting for the first batch of {driver.name}{waits}")
    else:
        conditions |= locality_conditions(driver_report) | table_conditions(driver_report)
        conditions |= running_conditions(case, driver_report)
    healthy = driver_report is not None and driver_report.progressed is not None and finding is None
    proven = healthy and case.now - driver.created >= millis(case.restart.reset_after)
    applied = case.judged.against is None or not case.judged.differs(case.status)
    soon = min(case.limits.look, 5 * case.limits.soon)
    heard = driver_report is not None and case.now - driver_report.at <= case.limits.quiet
    # Nobody tells of what a verdict waits for, and an input may have grown meanwhile: look regularly.
    postponable = applied and heard and not case.judged.may_change
    wake = LookAgain(case.limits.look, applied and heard, postponable) if healthy else LookAgain(soon)
    effects = executor_effects(case, driver, driver_report)
    conditions |= of_trial or {}
    fields: dict[str, object] = {"driver_uid": driver.uid, "trial": kept_trial(case)}
    if case.begun:
        fields["begun"] = _begun(case)
    if driver_report is not None:
        fields |= {
            "tasks": driver_report.tasks,
            "partitions": driver_report.partitions,
            "placed": f"{driver_report.placed}/{driver_report.tasks}",
        }
    if proven and case.status.failures:
        fields["failures"] = 0
    status = status_with(case, conditions | effects.conditions, **fields)
    fresh = is_ready(status) and not is_ready(case.status)
    attempt, run = case.status.attempt or 0, app_id(case.snapshot.app.name, case.status.run_id or "1")
    # Each run numbers its attempts from one, so its first one may find those of the run before.
    collects = (CollectAttempts(attempt, run),) if fresh and (attempt > 1 or _of_other_runs(case, run)) else ()
    wake, deaths = _before_lost(case, effects.wake or wake), death_events(pods, case.now, case.limits)
    if (left := until_next_death(pods, case.now, case.limits)) is not None:
        wake = LookAgain(min(wake.after, left))
    return Decision(status, wake, (*effects.actions, *collects), (*effects.events, *deaths))


def _begun(case: Case) -> BegunAttempt:
    """Return the attempt in the status as one that began, so that a later one can go back to its spec."""
    status = case.status
    return BegunAttempt(
        run_id=status.run_id or "1",
        attempt=status.attempt or 0,
        spec_hash=status.spec_hash or "",
        defaults=status.defaults,
    )


def _of_other_runs(case: Case, run: str) -> bool:
    return any(pod.role == "driver" and pod.over and not pod.name.startswith(f"{run}-") for pod in case.snapshot.pods)


def _before_lost(case: Case, wake: LookAgain) -> LookAgain:
    """Return a next look that is no later than the moment when the first silent node counts as lost."""
    silent = [pod.silent_since for pod in case.snapshot.pods if pod.silent_since is not None and not pod.node_lost]
    if not silent:
        return wake
    left = min(silent) + case.limits.lost_after - case.now
    return LookAgain(min(wake.after, max(1, left)))


def _ended(case: Case, ending: AttemptEnding, uid: str | None = None) -> Decision:
    """Return a decision that records how the attempt ended. The next look decides what follows."""
    failed = ending.outcome in FAILURES
    again = failed or ending.outcome is AttemptOutcome.LOST
    rollback = rollback_after(case, ending)
    goes_back = rollback is not None
    failures = 0 if goes_back else min(LAST_ATTEMPT, (case.status.failures or 0) + (1 if failed else 0))
    wait = _wait(case, failures) if failed and not goes_back else 0
    conditions = not_ready(ending.reason, ending.message, moving=True)
    warning = ending.outcome not in (AttemptOutcome.COMPLETED, AttemptOutcome.DRAINED)
    ended = decision(
        case,
        {**conditions, "DriverRunning": (False, ending.reason, ending.message)},
        LookAgain(0),
        events=(OperatorEvent(ending.reason, ending.message, warning),),
        driver_uid=uid or case.status.driver_uid,
        ended=ending.outcome.value,
        draining=None,
        trial=None,
        begun=_begun(case) if case.begun else case.status.begun,
        rollback=rollback or case.status.rollback,
        failures=failures,
        restarts=min(LAST_ATTEMPT, (case.status.restarts or 0) + (1 if again or goes_back else 0)),
        retry_at=stamp(case.now + wait) if wait else None,
    )
    return replace(ended, goes_back=goes_back)


def _wait(case: Case, failures: int) -> int:
    """Return the wait: doubled with each consecutive failure up to the maximum, plus jitter to spread restarts.

    What had begun well and fails for the first time is killed rather than broken, so nothing is waited for.
    """
    if failures == 1 and case.begun:
        return 0
    backoff = case.restart.backoff
    wait = min(millis(backoff.max), millis(backoff.initial) * 2 ** min(max(0, failures - 2), _DOUBLINGS))
    return int(wait * (1 + _JITTER * case.limits.jitter))
