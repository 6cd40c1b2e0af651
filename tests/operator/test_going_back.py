"""Going back: when an attempt of a new spec never came up, what ran before runs again, once, and says so."""

from typing import Any

import pytest

from holdfast.protocol.pods import ContainerEnd, PodPhase
from holdfast.spec.app import Status
from holdfast_operator.decide.decision import Decision, EndPod, GiveUpRunClaims, StartDriver
from holdfast_operator.decide.facts import Unknown
from tests.operator.apps import LIMITS, NOW, TREE, app, condition, decided, driver, message, report, seen, started

NEW: dict[str, Any] = {"runtime": {**TREE["spec"]["runtime"], "driver": {"memory": "2g"}}}
CRASHED: Any = {
    "phase": PodPhase.FAILED,
    "ended": ContainerEnd(1, "Error", '{"failed": "bug", "message": "no module"}'),
}
REFUSED: Any = {"phase": PodPhase.FAILED, "ended": ContainerEnd(1, "Error", '{"failed": "user", "message": "choose"}')}
EVICTED: Any = {"phase": PodPhase.FAILED, "reason": "Evicted"}


def replaced(**spec: Any) -> Status:
    """Attempt 1 ran and was drained; attempt 2 of another spec was started and seen."""
    running = decided(seen(app(started()), driver=driver(), report=report())).status
    drained = running.model_copy(update={"ended": "Drained"})
    status = decided(seen(app(drained, generation=2, **spec or NEW))).status
    return status.model_copy(update={"driver_uid": f"uid-{status.attempt}"})


def ended(status: Status, driver_report: Any = None, spec: dict[str, Any] = NEW, **facts: Any) -> Decision:
    """Attempt 2 has ended."""
    return decided(seen(app(status, generation=2, **spec), driver=driver(2, **facts), report=driver_report or report()))


def gone_back() -> Status:
    return ended(replaced(), **CRASHED).status


@pytest.mark.parametrize("how", [CRASHED, REFUSED, {"phase": PodPhase.SUCCEEDED}])
def test_an_attempt_that_never_came_up_goes_back_at_once(how: Any) -> None:
    decision = ended(replaced(), **how)
    assert decision.status.rollback is not None
    assert decision.status.rollback.generation == 2
    assert "attempt 2 never came up" in decision.status.rollback.why
    assert decision.status.retry_at is None
    assert decision.rests_on_absence, "that it has not begun is read from the API server"


def test_the_spec_that_ran_starts_under_the_next_number() -> None:
    decision = decided(seen(app(gone_back(), generation=2), report=report()))
    start = next(action for action in decision.actions if isinstance(action, StartDriver))
    assert start.attempt == 3
    assert start.app.spec.runtime.driver.memory == "1g"
    assert condition(decision, "Stalled") == ("True", "RolledBack")
    assert "no module" in message(decision, "Stalled")
    assert "Correct the spec" in message(decision, "Stalled")


def back_and_running() -> Decision:
    status = decided(seen(app(gone_back(), generation=2), report=report())).status
    return decided(seen(app(status, generation=2), driver=driver(3), report=report(3)))


def test_an_app_that_went_back_and_runs_is_not_ready() -> None:
    decision = back_and_running()
    assert condition(decision, "Ready") == ("False", "RolledBack")
    assert condition(decision, "Reconciling")[0] == "False"
    assert condition(decision, "DriverRunning") == ("True", "Running")
    assert decision.status.begun is not None
    assert decision.status.begun.attempt == 3


def test_an_app_that_went_back_and_completed_is_not_ready() -> None:
    """Whoever waits for the newest spec was told that it had completed."""
    facts: Any = {"phase": PodPhase.SUCCEEDED, "ended": ContainerEnd(0, "Completed", '{"ended": "completed"}')}
    over = decided(seen(app(back_and_running().status, generation=2), driver=driver(3, **facts), report=report(3)))
    completed = decided(seen(app(over.status, generation=2), report=report(3)))
    assert completed.status.ended == "Completed"
    assert condition(completed, "DriverRunning") == ("False", "Completed")
    assert condition(completed, "Ready") == ("False", "RolledBack")
    assert condition(completed, "Stalled") == ("True", "RolledBack")
    reverted = decided(seen(app(completed.status, generation=3), report=report(3)))
    rests = decided(seen(app(reverted.status, generation=3), report=report(3)))
    assert condition(rests, "Ready") == ("True", "Completed")
    assert condition(rests, "Stalled")[0] == "False"


def test_it_goes_back_only_once() -> None:
    status = decided(seen(app(gone_back(), generation=2), report=report())).status
    failing = decided(seen(app(status, generation=2), driver=driver(3, **CRASHED), report=report()))
    assert failing.status.ended == "Failed"
    assert failing.status.rollback == status.rollback
    assert failing.status.retry_at is not None
    assert not failing.goes_back


def test_a_newer_generation_is_tried_anew() -> None:
    running = back_and_running().status
    edited: dict[str, Any] = {"runtime": {**TREE["spec"]["runtime"], "driver": {"memory": "3g"}}}
    forgets = decided(seen(app(running, generation=3, **edited), driver=driver(3), report=report(3)))
    assert forgets.status.rollback is None
    drains = decided(seen(app(forgets.status, generation=3, **edited), driver=driver(3), report=report(3)))
    assert drains.status.draining == "SpecChanged"


def test_a_reverted_spec_is_ready_without_a_restart() -> None:
    forgets = decided(seen(app(back_and_running().status, generation=3), driver=driver(3), report=report(3)))
    ready = decided(seen(app(forgets.status, generation=3), driver=driver(3), report=report(3)))
    assert condition(ready, "Ready") == ("True", "Running")
    assert condition(ready, "Stalled")[0] == "False"
    assert not any(isinstance(action, EndPod) for action in ready.actions)


def test_without_the_spec_that_ran_the_newest_goes_on() -> None:
    """Its ConfigMap was deleted: the object's own spec is what is judged."""
    status = gone_back()
    forgets = decided(seen(app(status, generation=2, **NEW)))
    assert (forgets.status.rollback, forgets.status.begun) == (None, None)
    start = decided(seen(app(forgets.status, generation=2, **NEW)))
    assert any(isinstance(action, StartDriver) for action in start.actions)


@pytest.mark.parametrize(
    ("driver_report", "how"),
    [
        (report(2), CRASHED),
        (report(2), REFUSED),
        (Unknown("timeout"), CRASHED),
        (report(), EVICTED),
    ],
)
def test_an_attempt_that_may_have_begun_does_not_go_back(driver_report: Any, how: Any) -> None:
    assert ended(replaced(), driver_report, **how).status.rollback is None


def test_the_first_attempt_has_nothing_to_go_back_to() -> None:
    decision = decided(seen(app(started()), driver=driver(**CRASHED)))
    assert decision.status.rollback is None
    assert decision.status.retry_at is not None


def test_an_attempt_of_the_same_spec_does_not_go_back() -> None:
    running = decided(seen(app(started()), driver=driver(), report=report())).status
    again = running.model_copy(update={"attempt": 2, "driver_uid": "uid-2"})
    assert decided(seen(app(again), driver=driver(2, **CRASHED), report=report())).status.rollback is None


def test_a_spec_that_was_changed_meanwhile_is_tried_instead() -> None:
    other = {"runtime": {**TREE["spec"]["runtime"], "driver": {"memory": "3g"}}}
    assert ended(replaced(), spec=other, **CRASHED).status.rollback is None


@pytest.mark.parametrize("spec", [{**NEW, "restart": {"policy": "Never"}}, {**NEW, "suspend": True}])
def test_an_app_that_may_not_restart_does_not_go_back(spec: dict[str, Any]) -> None:
    assert ended(replaced(), spec=spec, **CRASHED).status.rollback is None


@pytest.mark.parametrize("draining", ["Suspended", "SpecChanged"])
def test_an_attempt_asked_to_end_does_not_go_back(draining: str) -> None:
    status = replaced().model_copy(update={"draining": draining})
    assert ended(status, **REFUSED).status.rollback is None


def test_a_driver_that_hung_before_it_began_goes_back() -> None:
    status = replaced().model_copy(update={"draining": "NoReport"})
    decision = decided(seen(app(status, generation=2, **NEW), report=report()))
    assert decision.status.ended == "Lost"
    assert decision.status.rollback is not None


def test_a_driver_that_cannot_start_yields_to_what_ran() -> None:
    waits: Any = {"phase": PodPhase.PENDING, "unschedulable": "0/3 nodes: Insufficient memory"}
    status, late = replaced(), NOW - LIMITS.start - 1000
    young = decided(seen(app(status, generation=2, **NEW), driver=driver(2, **waits), report=report()))
    assert not any(isinstance(action, EndPod) for action in young.actions)
    old = driver(2, **{**waits, "created": late})
    decision = decided(seen(app(status, generation=2, **NEW), driver=old, report=report()))
    assert decision.actions == (EndPod(old.name, old.uid),)
    assert decision.status.draining == "RolledBack"
    assert decision.rests_on_absence
    after_end = decided(seen(app(decision.status, generation=2), report=report()))
    assert after_end.status.ended == "Drained"
    assert after_end.status.rollback is not None
    assert "Insufficient memory" in after_end.status.rollback.why


def test_it_goes_back_to_the_run_that_ran() -> None:
    failing = decided(seen(app(replaced(runId="2"), generation=2, runId="2"), driver=driver(1, "2", **CRASHED)))
    assert failing.status.rollback is not None
    decision = decided(seen(app(failing.status, generation=2)))
    start = next(action for action in decision.actions if isinstance(action, StartDriver))
    assert (start.app.spec.run_id, start.attempt) == ("1", 2)
    assert any(isinstance(action, GiveUpRunClaims) for action in decision.actions)
