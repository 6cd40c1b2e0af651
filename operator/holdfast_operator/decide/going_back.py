"""Going back: when an attempt of a new spec never came up, the spec that ran before is run again, once.

A driver that has not said that it began has written nothing, or died within moments after: then the placement record
has what it did, and the spec that ran is planned against that. The next number fences what may be left of it. The
status names the last attempt that began, whose ConfigMap has its spec; `observe.spec_in_force` puts that in place of
the newest until the app is changed. "Once" follows: an attempt of the spec that ran has no other to go back to. Must
not read specs.
"""

from holdfast.one_line import one_line
from holdfast.protocol.pods import PodPhase, PodState
from holdfast.reasons import Reason
from holdfast.spec.app import Rollback
from holdfast.times import time_span
from holdfast_operator.decide.attempt_endings import FAILURES, AttemptEnding, AttemptOutcome
from holdfast_operator.decide.facts import AppFinding, Case, Unknown
from holdfast_operator.decide.running_checks import LivingDriver, obstacle

_LONGEST = 1000


def rollback_after(case: Case, ending: AttemptEnding) -> Rollback | None:
    """Return the rollback that follows from the end of an attempt; None: the newest spec goes on."""
    outcome, policy = ending.outcome, case.restart.policy
    own_fault = outcome in (*FAILURES, AttemptOutcome.REFUSED) or ending.reason is Reason.NO_REPORT
    forbidden = policy == "Never" or (policy == "OnFailure" and outcome is AttemptOutcome.STOPPED)
    stopping = case.status.draining not in (None, Reason.NO_REPORT.value)
    if not own_fault or forbidden or stopping or not _has_other(case):
        return None
    return _rollback(case, ending.message)


def stuck_before_start(case: Case, driver: PodState) -> AppFinding | None:
    """Return why to give up a driver that has not started; None: it may start, or there is nothing to go back to."""
    late = driver.phase is PodPhase.PENDING and case.now - driver.created > case.limits.start
    if not late or case.restart.policy == "Never" or not _has_other(case):
        return None
    finding = obstacle(LivingDriver(driver, None, 0, case.now, case.limits))
    why = "nobody says why" if finding is None else finding.message
    message = f"{driver.name} has not started for {time_span(case.limits.start)}: {why}"
    return AppFinding(Reason.ROLLED_BACK, message)


def rollback_from(case: Case, stuck: AppFinding) -> Rollback:
    """Return the rollback that follows from a driver which was given up before it started."""
    return _rollback(case, stuck.message)


def _has_other(case: Case) -> bool:
    """Return whether another spec ran before this attempt, which never began and is still what is wanted."""
    app, status, attempt = case.judged.app, case.status, case.status.begun
    if (
        attempt is None
        or attempt.spec_hash == status.spec_hash
        or case.begun
        or isinstance(case.snapshot.report, Unknown)
    ):
        return False
    return app is not None and not app.spec.suspend and not case.judged.differs(status)


def _rollback(case: Case, why: str) -> Rollback:
    explanation = one_line(f"attempt {case.status.attempt} never came up: {why}", _LONGEST)
    return Rollback(generation=case.snapshot.app.generation, why=explanation)
