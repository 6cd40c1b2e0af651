"""Why: the one decision about an app: what is done next, from what is seen now. `RULES` is the operator's behaviour.

    deleted? -> finalizer? -> blind? -> leftovers of other attempts? -> driver there? (ending, over, running)
             -> driver gone? -> may another attempt start?

Pure: the clock comes in, nothing is read, nothing is done. Whatever is done is written into the status first, so that
an operator that dies in between goes on where it was. Must not know the API.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from holdfast.reasons import Reason
from holdfast.spec.fingerprint import fingerprint
from holdfast.spec.runtime import Restart
from holdfast.spec.status import Status
from holdfast.spec.values import millis
from holdfast_operator.checks.change import growth_halts, reason_to_end
from holdfast_operator.checks.endings import FAILURES, Ending, Outcome, ending_of
from holdfast_operator.checks.health import Living, unhealthy
from holdfast_operator.checks.start import SOON, Judged
from holdfast_operator.conditions import conditions, moment, stamp
from holdfast_operator.decision import (
    Action,
    Again,
    CollectAttempts,
    Decision,
    EndPod,
    Final,
    ForgetPod,
    GiveUpClaims,
    KeepFinalizer,
    Limits,
    Release,
    Said,
    StartDriver,
    Told,
    Wake,
)
from holdfast_operator.facts import Phase, PodSeen, Report, Snapshot, Unknown
from holdfast_operator.names import app_id
from holdfast_operator.words import (
    Words,
    does_well,
    is_ready,
    last_words,
    no_driver,
    not_ready,
    of_growth,
    of_places,
    of_plan,
    settled,
)

_DOUBLINGS = 20
_JITTER = 0.2


@dataclass(frozen=True, slots=True)
class _Case:
    """What a rule looks at."""

    seen: Snapshot
    judged: Judged
    now: int
    limits: Limits

    @property
    def status(self) -> Status:
        """What the operator has written down."""
        return self.seen.app.status

    @property
    def restart(self) -> Restart:
        """How failures are answered; the defaults where the spec can't be read."""
        return self.judged.app.spec.restart if self.judged.app is not None else Restart()


def decide(seen: Snapshot, judged: Judged, now: int, limits: Limits) -> Decision:
    """What happens now: the first rule that applies."""
    case = _Case(seen, judged, now, limits)
    return next(decision for rule in RULES if (decision := rule(case)) is not None)


def _deleted(case: _Case) -> Decision | None:
    """Drain, prove that nothing runs any more, give everything back, let go."""
    app = case.seen.app
    if app.deleting_since is None:
        return None
    if not app.finalizer:
        return _decision(case, {}, Final("the object goes"))
    pods = _all_pods(case.seen)
    if isinstance(pods, Unknown):
        return _blind(case)
    alive = [pod for pod in pods if not pod.over]
    said = not_ready(Reason.DELETING, Reason.DELETING.sentence, moving=True)
    if alive:
        return _decision(case, said, Again(case.limits.soon), _ending(case, alive), draining=Reason.DELETING.value)
    run = case.status.run_id
    claims = () if run is None else (GiveUpClaims(app_id(app.name, run)),)
    return _decision(case, said, Final("the object goes"), (*claims, Release()))


def _unguarded(case: _Case) -> Decision | None:
    """Nothing is made for an object that could go without our being told."""
    if case.seen.app.finalizer:
        return None
    said = not_ready(Reason.STARTING, "the app has just been seen", moving=True)
    # Also an app that runs may lose it: `kubectl replace` takes it off.
    return _decision(case, said if case.status.attempt is None else {}, Again(0), (KeepFinalizer(),))


def _blind_rule(case: _Case) -> Decision | None:
    """Absence of evidence is no evidence: without seeing pods, nothing is started or ended."""
    unknown = [what for what in (case.seen.driver, case.seen.others, case.seen.executors) if isinstance(what, Unknown)]
    return _blind(case) if unknown else None


def _blind(case: _Case) -> Decision:
    why = next(
        what.why for what in (case.seen.driver, case.seen.others, case.seen.executors) if isinstance(what, Unknown)
    )
    return _decision(case, {"DriverRunning": (None, Reason.CLUSTER_UNREADABLE, why)}, Again(case.limits.soon))


def _leftovers(case: _Case) -> Decision | None:
    """Two drivers of one app are never wanted: all that is not the current attempt's ends before anything else."""
    assert not isinstance(case.seen.others, Unknown)  # noqa: S101 - the rule before
    alive = [pod for pod in case.seen.others if not pod.over]
    if not alive:
        return None
    names = ", ".join(pod.name for pod in alive[:3])
    said = not_ready(Reason.PREVIOUS_ATTEMPT_ALIVE, f"waiting for {names} to end", moving=True)
    return _decision(case, said, Again(case.limits.soon), _ending(case, alive))


def _driver_ends(case: _Case) -> Decision | None:
    """It is being ended, by us or by others: wait for it, and give it up only with its node."""
    driver = case.seen.driver
    if not isinstance(driver, PodSeen) or driver.over or driver.deleting_since is None:
        return None
    why = case.status.draining or Reason.DRIVER_DELETED.value
    said = not_ready(Reason.DRAINING, f"{driver.name} finishes its batch and ends ({why})", moving=True)
    said = {**said, "DriverRunning": (True, Reason.DRAINING, Reason.DRAINING.sentence)}
    return _decision(case, said, Again(case.limits.soon), _ending(case, [driver]), uid=driver.uid)


def _driver_over(case: _Case) -> Decision | None:
    """It ended: say how, and when there may be another."""
    driver = case.seen.driver
    if not isinstance(driver, PodSeen) or not driver.over or case.status.ended is not None:
        return None
    return _ended(case, ending_of(driver, draining=case.status.draining is not None), driver.uid)


def _driver_gone(case: _Case) -> Decision | None:
    """It was there and is not: drained if we asked for it, otherwise taken away."""
    if case.seen.driver is not None or case.status.driver_uid is None or case.status.ended is not None:
        return None
    if case.status.draining is not None:
        return _ended(case, Ending(Outcome.DRAINED, Reason.DRAINING, "the attempt was drained"))
    message = "the driver's pod was deleted by somebody else; the next attempt starts at once"
    return _ended(case, Ending(Outcome.LOST, Reason.DRIVER_DELETED, message))


def _driver_runs(case: _Case) -> Decision | None:
    """It has to end, or goes on and is asked how it does."""
    driver = case.seen.driver
    if not isinstance(driver, PodSeen) or driver.over:
        return None
    wish = reason_to_end(case.seen, case.judged)
    if case.status.draining is not None or wish is not None:
        # What was begun is carried through, also when its reason is gone: the spec may have come back to what it was.
        why = case.status.draining if case.status.draining is not None else str(wish.reason if wish else "")
        told = (Told(wish.reason, wish.message),) if wish is not None and case.status.draining is None else ()
        said = not_ready(Reason.DRAINING, f"the attempt ends: {wish.message if wish else why}", moving=True)
        said |= {"DriverRunning": (True, Reason.DRAINING, Reason.DRAINING.sentence)}
        return replace(
            _decision(
                case, said, Again(case.limits.soon), (EndPod(driver.name, driver.uid),), uid=driver.uid, draining=why
            ),
            events=told,
        )
    return _living(case, driver)


def _living(case: _Case, driver: PodSeen) -> Decision:
    report = case.seen.report
    mine = report if isinstance(report, Report) and report.attempt == driver.attempt else None
    interval = millis(case.judged.app.spec.runtime.trigger.interval) if case.judged.app is not None else 0
    found = unhealthy(Living(driver, mine, interval, case.now, case.limits))
    running = driver.phase is Phase.RUNNING
    said: Words = {
        "DriverRunning": (running, Reason.RUNNING if running else Reason.STARTING, f"pod {driver.name}")
        if found is None
        else (running, found.reason, found.message)
    }
    said |= of_plan(case.judged) | of_growth(case.judged)
    if found is not None:
        said |= not_ready(
            found.reason, found.message, moving=mine is None, stalled=found.reason is Reason.START_TIMEOUT
        )
    elif mine is None or mine.progressed is None:
        said |= not_ready(Reason.STARTING, f"waiting for the first batch of {driver.name}", moving=True)
    else:
        said |= of_places(mine) | does_well(case.judged, mine)
    healthy = mine is not None and mine.progressed is not None and found is None
    proven = healthy and case.now - driver.created >= millis(case.restart.reset_after)
    wake = Again(case.limits.look if healthy else min(case.limits.look, 5 * case.limits.soon))
    status = _status(case, said, uid=driver.uid)
    if mine is not None:
        status = status.model_copy(
            update={"tasks": mine.tasks, "partitions": mine.partitions, "placed": f"{mine.placed}/{mine.tasks}"}
        )
    if proven and status.failures:
        status = status.model_copy(update={"failures": 0})
    fresh = is_ready(status) and not is_ready(case.status)
    return Decision(status, wake, (CollectAttempts(case.status.attempt or 0),) if fresh else ())


def _forgives(case: _Case) -> Decision | None:
    """Somebody changed the app after it failed, maybe just what it takes: nothing is held against it any more."""
    status = case.status
    held = status.ended in (*FAILURES, Outcome.REFUSED)
    if not held or status.observed_generation == case.seen.app.generation:
        return None
    update = {"ended": Outcome.DRAINED.value, "failures": 0, "retry_at": None}
    return Decision(_status(case, {}).model_copy(update=update), Again(0))


def _suspended(case: _Case) -> Decision | None:
    if case.judged.app is None or not case.judged.app.spec.suspend:
        return None
    said = not_ready(Reason.SUSPENDED, Reason.SUSPENDED.sentence, moving=False)
    return _decision(case, said | no_driver(Reason.SUSPENDED), Final("spec.suspend is false"))


def _completed(case: _Case) -> Decision | None:
    if case.status.ended != Outcome.COMPLETED or _changed(case):
        return None
    said = settled(Reason.COMPLETED, Reason.COMPLETED.sentence)
    return _decision(case, said | no_driver(Reason.COMPLETED), Final("the spec changes"))


def _stays_refused(case: _Case) -> Decision | None:
    """The driver said that somebody has to act; the same spec would end the same way."""
    if case.status.ended != Outcome.REFUSED or _changed(case):
        return None
    message = last_words(case.status) or Reason.DRIVER_REFUSED.sentence
    said = not_ready(Reason.DRIVER_REFUSED, message, moving=False, stalled=True)
    return _decision(case, said, Final("the spec changes"))


def _stays_halted(case: _Case) -> Decision | None:
    """An input has grown, and the spec says to stop then."""
    found = growth_halts(case.seen, case.judged)
    if found is None:
        return None
    said = not_ready(found.reason, found.message, moving=False, stalled=True)
    return _decision(case, said | no_driver(found.reason), Again(case.limits.look))


def _may_not_restart(case: _Case) -> Decision | None:
    """The restart policy allows no other attempt."""
    ended, policy = case.status.ended, case.restart.policy
    if ended not in (*FAILURES, Outcome.LOST) or policy == "Always" or _changed(case):
        return None
    if policy == "OnFailure" and ended != Outcome.STOPPED:
        return None
    message = f"{last_words(case.status)}; spec.restart.policy is {policy}"
    said = not_ready(Reason.RESTART_NEVER, message, moving=False, stalled=True)
    return _decision(case, said, Final("the spec changes"))


def _changed(case: _Case) -> bool:
    """Whether the app is another one than its last attempt ran; a spec that can't be read is not."""
    app, status = case.judged.app, case.status
    return app is not None and (status.run_id, status.spec_hash) != (app.spec.run_id, fingerprint(app.spec))


def _cannot_start(case: _Case) -> Decision | None:
    """Something stands against it: say it, and look again where it can go away by itself."""
    against = case.judged.against
    if against is None:
        return None
    soon = against.reason in SOON
    said = of_plan(case.judged) | not_ready(against.reason, against.message, moving=soon, stalled=not soon)
    wake: Wake = Again(case.limits.soon if soon else case.limits.look)
    if not case.judged.may_change and not _needs_topics(case):
        wake = Final("the spec changes")
    return _decision(case, said | no_driver(against.reason), wake)


def _waits(case: _Case) -> Decision | None:
    """The last attempt failed: not before the wait is over."""
    until = moment(case.status.retry_at)
    if until is None or until <= case.now:
        return None
    message = f"{last_words(case.status)}; the next attempt starts at {case.status.retry_at}"
    said = not_ready(Reason.WAITING_TO_RESTART, message, moving=True)
    return _decision(case, said, Again(until - case.now))


def _starts(case: _Case) -> Decision:
    """Number the attempt, write it down, make it. Made or not, the next look makes the same one."""
    app, status = case.judged.app, case.status
    assert app is not None  # noqa: S101 - what stands against starting was asked before
    strangers = [pod.name for pod in case.seen.strangers if not pod.over]
    if strangers:
        message = f"{strangers[0]} drives an app of this name and is not this one's; delete it if nobody else does"
        said = not_ready(Reason.PREVIOUS_ATTEMPT_ALIVE, message, moving=False, stalled=True)
        return _decision(case, said, Again(case.limits.look))
    executors = case.seen.executors
    assert not isinstance(executors, Unknown)  # noqa: S101 - the rule about being blind was asked before
    alive = [pod for pod in executors if not pod.over]
    if alive and (status.ended is not None or status.attempt is None):
        # A driver's executors go with it; two sets of them would write the same state.
        said = not_ready(Reason.PREVIOUS_ATTEMPT_ALIVE, f"waiting for {len(alive)} executors to end", moving=True)
        return _decision(case, said, Again(case.limits.soon), _ending(case, alive))
    new_run = status.run_id != app.spec.run_id
    under_way = status.attempt is not None and status.ended is None and not new_run
    last = max(0 if new_run else status.attempt or 0, case.seen.highest)
    number = status.attempt if under_way and status.attempt is not None else last + 1
    said = of_plan(case.judged) | not_ready(Reason.STARTING, f"attempt {number} starts", moving=True)
    said |= {"DriverRunning": (False, Reason.STARTING, f"attempt {number} starts")}
    if case.seen.refused is not None:
        why = case.seen.refused
        said |= not_ready(why.reason, why.message, moving=False, stalled=True)
    after = _status(case, said).model_copy(
        update={
            "run_id": app.spec.run_id,
            "attempt": number,
            "spec_hash": fingerprint(app.spec),
            "driver_uid": None,
            "draining": None,
            "ended": None,
            "retry_at": None,
            "restarts": 0 if new_run else status.restarts or 0,
            "failures": 0 if new_run else status.failures or 0,
        }
    )
    actions: tuple[Action, ...] = (StartDriver(app, number),)
    events = () if under_way else (Told(Reason.STARTING, f"attempt {number} of run {app.spec.run_id} starts"),)
    if new_run and status.run_id is not None:
        actions = (GiveUpClaims(app_id(app.name, status.run_id)), *actions)
        events = (*events, Told(Reason.SPEC_CHANGED, f"run {status.run_id} is over, its local state is given up"))
    return Decision(after, Again(case.limits.soon if case.seen.refused is None else case.limits.look), actions, events)


RULES: tuple[Callable[[_Case], Decision | None], ...] = (
    _deleted,
    _unguarded,
    _blind_rule,
    _leftovers,
    _driver_ends,
    _driver_over,
    _driver_gone,
    _driver_runs,
    _forgives,
    _suspended,
    _completed,
    _stays_refused,
    _stays_halted,
    _may_not_restart,
    _cannot_start,
    _waits,
    _starts,
)
"""The first that applies decides; the last always does."""


def _ended(case: _Case, ending: Ending, uid: str | None = None) -> Decision:
    """Write down how the attempt ended. What follows from it is the next look's business."""
    failed = ending.outcome in FAILURES
    again = failed or ending.outcome is Outcome.LOST
    failures = (case.status.failures or 0) + (1 if failed else 0)
    said = {"DriverRunning": (False, ending.reason, ending.message)} | not_ready(
        ending.reason, ending.message, moving=True
    )
    status = _status(case, said, uid=uid).model_copy(
        update={
            "ended": ending.outcome.value,
            "draining": None,
            "failures": failures,
            "restarts": (case.status.restarts or 0) + (1 if again else 0),
            "retry_at": stamp(case.now + _wait(case, failures)) if failed else None,
        }
    )
    warning = ending.outcome not in (Outcome.COMPLETED, Outcome.DRAINED)
    return Decision(status, Again(0), (), (Told(ending.reason, ending.message, warning),))


def _wait(case: _Case, failures: int) -> int:
    """Doubled with each failure in a row up to the longest; longer by chance, so that not all start at once."""
    backoff = case.restart.backoff
    wait = min(millis(backoff.max), millis(backoff.initial) * 2 ** min(failures - 1, _DOUBLINGS))
    return int(wait * (1 + _JITTER * case.limits.jitter))


def _ending(case: _Case, pods: list[PodSeen]) -> tuple[Action, ...]:
    """Ask each pod once; one whose node is lost is given up after a grace, as nobody else will."""
    actions: list[Action] = []
    for pod in pods:
        if pod.deleting_since is None:
            actions.append(EndPod(pod.name, pod.uid))
        elif pod.node_lost and case.now - pod.deleting_since > pod.grace + case.limits.lost_grace:
            actions.append(ForgetPod(pod.name, pod.uid))
    return tuple(actions)


def _all_pods(seen: Snapshot) -> list[PodSeen] | Unknown:
    for what in (seen.driver, seen.others, seen.executors):
        if isinstance(what, Unknown):
            return what
    assert not isinstance(seen.driver, Unknown)  # noqa: S101 - just looked
    assert not isinstance(seen.others, Unknown)  # noqa: S101
    assert not isinstance(seen.executors, Unknown)  # noqa: S101
    return [*([seen.driver] if seen.driver is not None else []), *seen.others, *seen.executors]


def _decision(
    case: _Case,
    said: Said,
    wake: Wake,
    actions: tuple[Action, ...] = (),
    *,
    uid: str | None = None,
    draining: str | None = None,
) -> Decision:
    return Decision(_status(case, said, uid=uid, draining=draining), wake, actions)


def _status(case: _Case, said: Said, *, uid: str | None = None, draining: str | None = None) -> Status:
    generation = case.seen.app.generation
    update: dict[str, object] = {
        "observed_generation": generation,
        "conditions": conditions(case.status.conditions, said, generation, case.now),
    }
    if uid is not None:
        update["driver_uid"] = uid
    if draining is not None:
        update["draining"] = draining
    return case.status.model_copy(update=update)


def _needs_topics(case: _Case) -> bool:
    """Whether a broker's answer could change the verdict."""
    return case.judged.app is not None and any(one.kafka is not None for one in case.judged.app.spec.systems)
