from dataclasses import replace
from typing import Any

import pytest

from holdfast.protocol.names import app_id, executor_set
from holdfast.protocol.pods import ContainerEnd, PodController, PodPhase, PodState
from holdfast.reasons import Reason
from holdfast_operator.decide.decision import (
    EndExecutorSet,
    EndPod,
    ForceDeletePod,
    GiveUpRunClaims,
    LookAgain,
    RemoveFinalizer,
    StartDriver,
    WaitForChange,
)
from holdfast_operator.decide.facts import AppObject, Snapshot, Unknown
from tests.operator.apps import (
    LIMITS,
    NOW,
    TREE,
    UID,
    after,
    app,
    condition,
    decided,
    driver,
    report,
    seen,
    started,
    tree,
)


@pytest.mark.parametrize("what", ["driver", "other_drivers", "executors"])
def test_what_could_not_be_read_decides_nothing(what: str) -> None:
    for status in (started(), after(ended="Failed"), after(draining="Suspended"), None):
        decision = decided(seen(app(status), **{what: Unknown("timeout")}))
        assert decision.actions == ()
        assert decision.wake == LookAgain(LIMITS.soon)


def test_a_driver_of_another_attempt_ends_before_anything_else() -> None:
    decision = decided(seen(app(after(attempt=2, driver_uid=None)), other_drivers=(driver(1),)))
    assert decision.actions == (EndPod(driver(1).name, "uid-1"),)
    assert condition(decision, "Ready") == ("False", "PreviousAttemptAlive")


def test_the_driver_of_a_former_namesake_is_only_waited_for() -> None:
    decision = decided(seen(app(), strangers=(driver(),)))
    assert decision.actions == ()
    assert condition(decision, "Stalled") == ("True", "PreviousAttemptAlive")
    over = decided(seen(app(), strangers=(driver(phase=PodPhase.SUCCEEDED),)))
    assert isinstance(over.actions[0], StartDriver)


def test_executors_that_outlive_their_driver_end_before_the_next_attempt() -> None:
    left = driver(role="executor")
    decision = decided(seen(app(after(ended="Lost")), executors=(left,)))
    assert decision.actions == (EndPod(left.name, left.uid),)
    assert not any(isinstance(one, StartDriver) for one in decision.actions)


@pytest.mark.parametrize("ended", ["Stopped", "Lost", "Refused", "Drained", "Completed"])
@pytest.mark.parametrize("suspend", [False, True])
def test_a_dead_drivers_executor_set_ends_before_its_pods(ended: str, suspend: bool) -> None:
    maker = PodController(executor_set("ads", "1"), "uid-of-set")
    left = [replace(driver(role="executor", made_by=maker), name=f"{maker.name}-{n}") for n in (1, 2)]
    status = after(ended=ended, retry_at="2040-01-01T00:00:00Z")
    decision = decided(seen(app(status, suspend=suspend), executors=tuple(left)))
    assert decision.actions == (
        EndExecutorSet(maker.name, "uid-of-set"),
        *(EndPod(one.name, one.uid) for one in left),
    )
    assert condition(decision, "Ready") == ("False", "PreviousAttemptAlive")
    leaving = replace(left[0], deleting_since=NOW - 1000)
    assert decided(seen(app(status, suspend=suspend), executors=(leaving,))).actions == ()


def test_a_stuck_deletion_on_a_lost_node_is_given_up() -> None:
    pod = driver(deleting_since=NOW - 100_000, grace=30_000, node="n", node_lost=True)
    decision = decided(seen(app(started()), driver=pod))
    assert decision.actions == (ForceDeletePod(pod.name, pod.uid),)
    young = driver(deleting_since=NOW - 80_000, grace=30_000, node="n", node_lost=True)
    assert decided(seen(app(started()), driver=young)).actions == ()
    reachable_pod = driver(deleting_since=NOW - 100_000, grace=30_000, node="n")
    assert decided(seen(app(started()), driver=reachable_pod)).actions == ()


def test_a_driver_on_a_lost_node_is_replaced_at_once() -> None:
    lost: dict[str, Any] = {"node": "n", "silent_since": NOW - LIMITS.lost_after, "node_lost": True}
    first = decided(seen(app(started()), driver=driver(**lost), report=report()))
    assert first.actions == (EndPod(driver().name, driver().uid),)
    assert [told.reason for told in first.events] == [Reason.NODE_LOST]
    ending_pod = driver(**lost, deleting_since=NOW, grace=120_000)
    second = decided(seen(app(first.status), driver=ending_pod))
    assert second.actions == (ForceDeletePod(ending_pod.name, ending_pod.uid),)
    assert second.events == ()
    after_end = decided(seen(app(second.status)))
    assert (after_end.status.ended, after_end.status.failures, after_end.status.retry_at) == ("Lost", 0, None)
    assert condition(after_end, "DriverRunning") == ("False", "NodeLost")


def test_a_driver_whose_node_returns_in_time_goes_on() -> None:
    silent = driver(node="n", silent_since=NOW - LIMITS.lost_after + 3_000)
    waits = decided(seen(app(started()), driver=silent, report=report()))
    assert (waits.actions, waits.wake) == ((), LookAgain(3_000))
    assert condition(waits, "Ready") == ("False", "NodeLost")
    back = decided(seen(app(waits.status), driver=driver(node="n"), report=report()))
    assert (back.actions, condition(back, "Ready")) == ((), ("True", "Running"))


def test_a_driver_asked_to_end_may_once_its_node_returns() -> None:
    status = started().model_copy(update={"draining": "NodeLost"})
    ends = driver(node="n", deleting_since=NOW - 300_000, grace=120_000)
    assert decided(seen(app(status), driver=ends)).actions == ()


def test_deleting_drains_then_releases() -> None:
    of = AppObject("ads", "apps", "u", 2, TREE, started(), deleting_since=NOW, finalizer=True)
    decision = decided(seen(of, driver=driver()))
    assert decision.actions == (EndPod(driver().name, "uid-1"),)
    after_end = decided(seen(of, claimed=frozenset({"1"})))
    assert after_end.actions == (GiveUpRunClaims(app_id("ads", "1")),)
    assert decided(seen(of)).actions == (RemoveFinalizer(),)
    over = decided(seen(AppObject("ads", "apps", "u", 2, TREE, started(), deleting_since=NOW)))
    assert (over.actions, isinstance(over.wake, WaitForChange)) == ((), True)


def test_the_driver_of_a_deleted_app_drains_with_its_executors() -> None:
    of = AppObject("ads", "apps", "u", 2, TREE, started(), deleting_since=NOW, finalizer=True)
    executors = (PodState("exec-1", "uid-exec-1", attempt=1, role="executor", phase=PodPhase.RUNNING, created=NOW),)
    drains = seen(of, driver=driver(deleting_since=NOW, grace=120_000), executors=executors)
    assert decided(drains).actions == ()
    assert decided(seen(of, executors=executors)).actions == (EndPod("exec-1", "uid-exec-1"),)


def test_an_app_with_an_invalid_spec_can_be_deleted() -> None:
    of = AppObject("ads", "apps", "u", 2, {"spec": 7}, deleting_since=NOW, finalizer=True)
    assert RemoveFinalizer() in decided(Snapshot(of)).actions


def test_only_starts_and_releases_rest_on_absence() -> None:
    assert decided(seen(app())).rests_on_absence
    deleted_app = AppObject("ads", "apps", UID, 1, tree(), after(), deleting_since=NOW, finalizer=True)
    assert decided(seen(deleted_app)).rests_on_absence
    assert not decided(seen(app(started()), driver=driver(), report=report())).rests_on_absence
    assert not decided(seen(app(started(), suspend=True), driver=driver(), report=report())).rests_on_absence


def test_a_silent_driver_is_replaced_without_counting_a_failure() -> None:
    quiet = seen(app(started()), driver=driver(), report=report(at=NOW - 3_600_000), silence=LIMITS.hung - 1)
    assert decided(quiet).actions == ()
    hangs = decided(replace(quiet, silence=LIMITS.hung))
    assert hangs.actions == (EndPod(driver().name, driver().uid),)
    assert [event.reason for event in hangs.events] == [Reason.NO_REPORT]
    assert condition(hangs, "Reconciling") == ("True", "NoReport")
    ends = driver(deleting_since=NOW, grace=120_000)
    assert decided(seen(app(hangs.status), driver=ends, silence=LIMITS.hung)).events == ()
    killed = driver(phase=PodPhase.FAILED, ended=ContainerEnd(137), deleting_since=NOW)
    for over in (decided(seen(app(hangs.status))), decided(seen(app(hangs.status), driver=killed))):
        assert (over.status.ended, over.status.failures, over.status.retry_at) == ("Lost", 0, None)
        assert condition(over, "DriverRunning") == ("False", "NoReport")


def test_a_pending_driver_does_not_hang_however_long_it_waits() -> None:
    waits = seen(app(started()), driver=driver(phase=PodPhase.PENDING), silence=10 * LIMITS.hung)
    assert decided(waits).actions == ()


def test_a_driver_whose_orders_went_before_it_began_is_replaced() -> None:
    pending = seen(app(started()), driver=driver(phase=PodPhase.PENDING, node="n"), orders_gone=True)
    ends = decided(pending)
    assert ends.actions == (EndPod(driver().name, driver().uid),)
    after_end = decided(seen(app(ends.status)))
    assert (after_end.status.ended, after_end.status.failures) == ("Lost", 0)
    snapshot = seen(app(started()), driver=driver(), report=report(), orders_gone=True)
    assert decided(snapshot).actions == ()
