from typing import Any

import pytest

from holdfast.protocol.names import app_id
from holdfast.protocol.pods import PodPhase
from holdfast.reasons import Reason
from holdfast_operator.decide.decision import AddFinalizer, CollectAttempts, LookAgain, StartDriver
from holdfast_operator.decide.facts import AppObject
from tests.operator.apps import LIMITS, NOW, TREE, UID, after, app, condition, decided, driver, report, seen, started


def test_a_new_app_is_guarded_before_anything_is_made() -> None:
    decision = decided(seen(AppObject("ads", "apps", "u", 1, TREE)))
    assert decision.actions == (AddFinalizer(),)
    assert decision.wake == LookAgain(0)


def test_the_first_attempt_is_written_down_with_the_act() -> None:
    decision = decided(seen(app()))
    (start,) = decision.actions
    assert isinstance(start, StartDriver)
    assert start.attempt == decision.status.attempt == 1
    assert decision.status.run_id == "1"
    assert decision.status.spec_hash
    assert condition(decision, "Reconciling") == ("True", "Starting")


def test_death_between_intent_and_act_gives_the_same_attempt() -> None:
    status = decided(seen(app())).status
    decision = decided(seen(app(status)))
    assert [one.attempt for one in decision.actions if isinstance(one, StartDriver)] == [1]
    assert decision.status.attempt == 1
    assert decision.events == ()


def test_neither_lost_status_nor_old_run_repeats_a_number() -> None:
    for status in (None, after(run_id="2", ended="Drained")):
        decision = decided(seen(app(status), highest=7))
        assert decision.status.attempt == 8
    assert decided(seen(app(after(driver_uid=None)), highest=1)).status.attempt == 1


def test_a_driver_that_commits_batches_makes_the_app_ready() -> None:
    decision = decided(seen(app(started()), driver=driver(), report=report()))
    assert condition(decision, "Ready") == ("True", "Running")
    assert condition(decision, "LocalityHonoured") == ("True", "AllPlaced")
    assert (decision.status.tasks, decision.status.placed) == (4, "4/4")
    assert decided(seen(app(decision.status), driver=driver(), report=report())).actions == ()


def test_a_healthy_attempt_collects_what_earlier_ones_left() -> None:
    decision = decided(seen(app(after(attempt=2)), driver=driver(2), report=report(2)))
    assert decision.actions == (CollectAttempts(2, app_id("ads", "1")),)
    assert decided(seen(app(decision.status), driver=driver(2), report=report(2))).actions == ()


def test_a_new_run_collects_old_attempts_of_higher_numbers() -> None:
    old = driver(7, "0", phase=PodPhase.SUCCEEDED)
    for older, actions in (((), ()), ((old,), (CollectAttempts(1, app_id("ads", "1")),))):
        assert decided(seen(app(started()), driver=driver(), report=report(), other_drivers=older)).actions == actions


@pytest.mark.parametrize(
    ("run", "attempt", "goes"),
    [("1", "1", True), ("1", "2", False), ("1", "3", False), ("0", "1", True), ("0", "7", True), ("0", "", False)],
)
def test_attempts_of_other_runs_are_collected_whatever_their_number(run: str, attempt: str, goes: bool) -> None:
    metadata = {"name": f"{app_id('ads', run)}-{attempt}", "ownerReferences": [{"uid": UID}]}
    assert CollectAttempts(2, app_id("ads", "1")).covers(app(), metadata) is goes


def test_a_driver_without_a_report_is_starting() -> None:
    decision = decided(seen(app(started()), driver=driver()))
    assert condition(decision, "Ready") == ("False", "Starting")


def test_the_report_of_an_earlier_attempt_is_ignored() -> None:
    decision = decided(seen(app(started()), driver=driver(), report=report(attempt=0)))
    assert condition(decision, "Ready") == ("False", "Starting")


@pytest.mark.parametrize(
    ("facts", "report_fields", "reason"),
    [
        ({"waiting": ("ImagePullBackOff", "no such image")}, None, Reason.IMAGE_UNAVAILABLE),
        ({"waiting": ("CreateContainerConfigError", "secret x not found")}, None, Reason.CONTAINER_REFUSED),
        ({"phase": PodPhase.PENDING, "unschedulable": "0/3 nodes"}, None, Reason.UNSCHEDULABLE),
        ({"created": NOW - LIMITS.start - 1}, None, Reason.START_TIMEOUT),
        ({"node": "n", "node_lost": True}, {}, Reason.NODE_LOST),
        ({}, {"at": NOW - LIMITS.silence - 1}, Reason.NO_REPORT),
        ({}, {"lag": 10, "progressed": NOW - LIMITS.silence - 1}, Reason.NO_PROGRESS),
    ],
)
def test_a_driver_not_working_is_reported_and_left_alone(
    facts: dict[str, Any], report_fields: dict[str, Any] | None, reason: Reason
) -> None:
    driver_report = None if report_fields is None else report(**report_fields)
    decision = decided(seen(app(started()), driver=driver(**facts), report=driver_report))
    assert condition(decision, "Ready") == ("False", reason)
    assert decision.actions == ()
    assert isinstance(decision.wake, LookAgain)


def test_an_idle_app_without_lag_is_ready() -> None:
    decision = decided(seen(app(started()), driver=driver(), report=report(progressed=NOW - 3_600_000)))
    assert condition(decision, "Ready") == ("True", "Running")
