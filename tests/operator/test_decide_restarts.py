from typing import Any

import pytest

from holdfast.errors import WorldChangeError
from holdfast.protocol.names import app_id
from holdfast.protocol.pods import ContainerEnd, PodPhase
from holdfast.reasons import Reason
from holdfast.spec.app import BegunAttempt
from holdfast_operator.decide.attempt_endings import AttemptOutcome
from holdfast_operator.decide.decision import GiveUpRunClaims, LookAgain, StartDriver, WaitForChange
from holdfast_runtime.driver.pod import failure_message
from holdfast_runtime.slot.report import Failure
from holdfast_runtime.state.errors import StoreFullError
from tests.operator.apps import NOW, after, app, condition, decided, driver, message, report, seen, started

SUCCEEDED: Any = {"phase": PodPhase.SUCCEEDED}
FAILED: Any = {
    "phase": PodPhase.FAILED,
    "ended": ContainerEnd(1, "Error", '{"failed": "world", "message": "no broker"}'),
}


def test_a_failed_driver_is_followed_by_another_after_a_wait() -> None:
    decision = decided(seen(app(started()), driver=driver(**FAILED)))
    assert decision.status.ended == AttemptOutcome.FAILED
    assert decision.status.failures == decision.status.restarts == 1
    assert decision.status.retry_at == "2027-01-15T08:00:05Z"
    assert "no broker" in decision.events[0].message
    waiting = decided(seen(app(decision.status), driver=driver(**FAILED)))
    assert waiting.wake == LookAgain(5000)
    assert waiting.actions == ()
    assert condition(waiting, "Ready") == ("False", "DriverFailed")
    assert condition(waiting, "Reconciling") == ("True", "WaitingToRestart")
    again = decided(seen(app(waiting.status), driver=driver(**FAILED)), now=NOW + 5000)
    assert [one.attempt for one in again.actions if isinstance(one, StartDriver)] == [2]


def test_a_full_disk_names_task_and_cure_and_is_retried() -> None:
    full = StoreFullError("the disk under /state has no space for the state of task partition-3: free or add space")
    with pytest.raises(WorldChangeError) as error:
        Failure.of(full, "slot 1").throw(())
    pod = driver(phase=PodPhase.FAILED, ended=ContainerEnd(1, "Error", failure_message(error.value)))
    decision = decided(seen(app(started()), driver=pod))
    assert (decision.status.ended, decision.status.failures) == (AttemptOutcome.FAILED, 1)
    assert "partition-3: free or add space" in decision.events[0].message
    waiting = decided(seen(app(decision.status), driver=pod))
    assert waiting.wake == LookAgain(5000)
    assert condition(waiting, "Stalled")[0] == "False"
    assert "partition-3: free or add space" in next(
        verdict.message for verdict in waiting.status.conditions if verdict.type == "Ready"
    )
    again = decided(seen(app(waiting.status), driver=pod), now=NOW + 5000)
    assert isinstance(again.actions[0], StartDriver)


def test_a_first_failure_of_what_had_begun_waits_for_nothing() -> None:
    decision = decided(seen(app(started()), driver=driver(**FAILED), report=report()))
    assert (decision.status.failures, decision.status.retry_at) == (1, None)
    again = decided(seen(app(decision.status), driver=driver(**FAILED), report=report()))
    assert [one.attempt for one in again.actions if isinstance(one, StartDriver)] == [2]
    second = decided(seen(app(again.status), driver=driver(2, **FAILED), report=report(2)))
    assert second.status.retry_at == "2027-01-15T08:00:05Z"


@pytest.mark.parametrize(("failures", "seconds"), [(0, 5), (1, 5), (2, 10), (6, 160), (7, 300), (5000, 300)])
def test_the_wait_doubles_up_to_the_longest(failures: int, seconds: int) -> None:
    decision = decided(seen(app(after(failures=failures)), driver=driver(**FAILED)))
    waiting = decided(seen(app(decision.status), driver=driver(**FAILED)))
    assert waiting.wake == LookAgain(seconds * 1000)


def test_healthy_for_long_enough_forgets_failures() -> None:
    status = after(failures=7)
    young = decided(seen(app(status), driver=driver(created=NOW - 599_000), report=report()))
    assert young.status.failures == 7
    old = decided(seen(app(status), driver=driver(created=NOW - 600_000), report=report()))
    assert old.status.failures == 0


def test_an_evicted_driver_without_container_status_is_replaced_at_once() -> None:
    decision = decided(seen(app(started()), driver=driver(phase=PodPhase.FAILED, reason="Evicted", message="disk")))
    assert decision.status.ended == AttemptOutcome.LOST
    assert decision.status.failures == 0
    again = decided(seen(app(decision.status), driver=driver(phase=PodPhase.FAILED, reason="Evicted")))
    assert [one.attempt for one in again.actions if isinstance(one, StartDriver)] == [2]


def test_a_driver_deleted_by_somebody_else_is_replaced_at_once() -> None:
    decision = decided(seen(app(started())))
    assert (decision.status.ended, decision.events[0].reason) == (AttemptOutcome.LOST, Reason.DRIVER_DELETED)
    assert isinstance(decided(seen(app(decision.status))).actions[0], StartDriver)


def test_a_status_without_driver_does_not_repeat_a_begun_attempt() -> None:
    """It got the number of one that may still live unseen, with the pods of a spec that nobody had tried."""
    begun_attempt = BegunAttempt(run_id="1", attempt=1, spec_hash="as it was")
    decision = decided(seen(app(after(driver_uid=None, begun=begun_attempt))))
    assert decision.status.ended == AttemptOutcome.LOST
    again = decided(seen(app(decision.status)))
    assert [one.attempt for one in again.actions if isinstance(one, StartDriver)] == [2]


def test_a_driver_needing_a_person_is_retried_after_an_edit() -> None:
    end = ContainerEnd(1, "Error", '{"failed": "user", "message": "offsets aged out: choose"}')
    pod = driver(phase=PodPhase.FAILED, ended=end)
    decision = decided(seen(app(started()), driver=pod))
    stays = decided(seen(app(decision.status), driver=pod))
    assert isinstance(stays.wake, WaitForChange)
    assert condition(stays, "Stalled") == ("True", "DriverRefused")
    assert "choose" in next(one.message for one in stays.status.conditions if one.type == "Ready")
    touched = decided(seen(app(stays.status, generation=2, onPartitionGrowth="Halt"), driver=pod))
    again = decided(seen(app(touched.status, generation=2, onPartitionGrowth="Halt"), driver=pod))
    assert isinstance(again.actions[0], StartDriver)


def test_an_app_without_end_that_ends_has_failed() -> None:
    decision = decided(seen(app(started()), driver=driver(**SUCCEEDED, ended=ContainerEnd(0))))
    assert (decision.status.ended, decision.status.failures) == (AttemptOutcome.STOPPED, 1)
    never = decided(seen(app(decision.status, restart={"policy": "OnFailure"}), driver=driver(**SUCCEEDED)))
    assert condition(never, "Stalled") == ("True", "RestartNever")
    assert isinstance(never.wake, WaitForChange)


def test_a_completed_app_is_ready_and_stays_so() -> None:
    pod = driver(**SUCCEEDED, ended=ContainerEnd(0, message='{"ended": "completed"}'))
    decision = decided(seen(app(started()), driver=pod))
    stays = decided(seen(app(decision.status), driver=pod))
    assert condition(stays, "Ready") == ("True", "Completed")
    assert isinstance(stays.wake, WaitForChange)
    assert stays.actions == (GiveUpRunClaims(app_id("ads", "1")),), "its durable copies stay"
    keeping = decided(seen(app(stays.status, generation=2, state={"onCompletion": "Keep"}), driver=pod))
    assert (keeping.actions, condition(keeping, "Ready")) == ((), ("True", "Completed"))
    changed = decided(seen(app(stays.status, generation=2, runId="2"), driver=pod))
    start = changed.actions[-1]
    assert isinstance(start, StartDriver)
    assert start.attempt == 1
    assert GiveUpRunClaims(app_id("ads", "1")) in changed.actions


def test_a_crash_loop_shows_its_failure_until_a_batch_commits() -> None:
    status = decided(seen(app(started()), driver=driver(**FAILED))).status
    failed = message(decided(seen(app(status))), "Ready")
    later = NOW + 60_000
    starts = decided(seen(app(status)), later)
    for decision in (starts, decided(seen(app(starts.status), driver=driver(2, created=later)), later)):
        assert condition(decision, "Ready") == ("False", "DriverFailed")
        assert message(decision, "Ready") == failed
        assert condition(decision, "Reconciling") == ("True", "Starting")
    runs = decided(seen(app(starts.status), driver=driver(2, created=later), report=report(2, at=later)), later)
    assert condition(runs, "Ready") == ("True", "Running")
