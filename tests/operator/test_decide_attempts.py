from dataclasses import replace
from typing import Any

import pytest

from holdfast.errors import WorldChangeError
from holdfast.protocol.names import app_id
from holdfast.protocol.pods import ContainerEnd, PodPhase, PodState
from holdfast.reasons import Reason
from holdfast.spec.app import BegunAttempt, Status
from holdfast_operator.decide.attempt_endings import AttemptOutcome
from holdfast_operator.decide.decision import (
    AddFinalizer,
    CollectAttempts,
    GiveUpRunClaims,
    LookAgain,
    RemoveFinalizer,
    StartDriver,
    WaitForChange,
)
from holdfast_operator.decide.facts import AppFinding, AppObject, Unknown
from holdfast_runtime.driver.pod import failure_message
from holdfast_runtime.slot.report import Failure
from holdfast_runtime.state.errors import StoreFullError
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
    message,
    report,
    seen,
    started,
    tree,
)

SUCCEEDED: Any = {"phase": PodPhase.SUCCEEDED}
FAILED: Any = {
    "phase": PodPhase.FAILED,
    "ended": ContainerEnd(1, "Error", '{"failed": "world", "message": "no broker"}'),
}


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


@pytest.mark.parametrize(("failures", "seconds"), [(0, 5), (1, 10), (5, 160), (6, 300), (5000, 300)])
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


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"runtime": {}}, Reason.CHECKPOINT_MISSING),
        (
            {"runtime": {**TREE["spec"]["runtime"], "driver": {"podTemplate": {"spec": {"hostname": "x"}}}}},
            Reason.POD_TEMPLATE_REFUSED,
        ),
    ],
)
def test_what_can_never_start_waits_for_its_user(spec: dict[str, Any], reason: Reason) -> None:
    decision = decided(seen(app(**spec)))
    assert condition(decision, "Stalled") == ("True", reason)
    assert decision.actions == ()


def test_a_missing_secret_is_waited_for() -> None:
    decision = decided(seen(app(), missing=("Secret kafka-auth",)))
    assert condition(decision, "Reconciling") == ("True", "ObjectMissing")
    assert isinstance(decision.wake, LookAgain)


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"missing": ("Secret kafka-auth",)}, Reason.OBJECT_MISSING),
        ({"counts": {"clicks": None, "out": 4}}, Reason.TOPIC_MISSING),
        ({"counts": Unknown("no broker answered")}, Reason.BROKER_UNREACHABLE),
        ({"storage_class": None}, Reason.STORAGE_CLASS_MISSING),
        ({"refused": AppFinding(Reason.CREATE_REFUSED, "exceeded quota")}, Reason.CREATE_REFUSED),
    ],
    ids=lambda part: str(part) if isinstance(part, Reason) else "",
)
def test_what_may_recover_stalls_only_after_too_long(facts: dict[str, Any], reason: Reason) -> None:
    status, last = Status(), NOW + LIMITS.start
    for now in (NOW, last):
        early = decided(seen(app(status), **facts), now)
        assert (condition(early, "Reconciling"), condition(early, "Stalled")[0]) == (("True", reason), "False")
        status = early.status
    late = decided(seen(app(status), **facts), last + 1)
    assert (condition(late, "Stalled"), condition(late, "Reconciling")[0]) == (("True", reason), "False")
    assert condition(decided(seen(app(late.status), **facts), last + LIMITS.look), "Stalled") == ("True", reason)
    changed = decided(seen(app(late.status, generation=2), **facts), last + LIMITS.look)
    assert condition(changed, "Reconciling") == ("True", reason)
    assert condition(decided(seen(app(late.status)), last + LIMITS.look), "Stalled")[0] == "False"


def test_time_in_suspension_does_not_count_as_start_time() -> None:
    status = decided(seen(app(suspend=True))).status
    later = decided(seen(app(status, generation=2), missing=("Secret kafka-auth",)), NOW + 10 * LIMITS.start)
    assert condition(later, "Reconciling") == ("True", "ObjectMissing")


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"waiting": ("ImagePullBackOff", "no such image")}, Reason.IMAGE_UNAVAILABLE),
        ({"waiting": ("CreateContainerConfigError", "secret x not found")}, Reason.CONTAINER_REFUSED),
        ({"phase": PodPhase.PENDING, "unschedulable": "0/3 nodes"}, Reason.UNSCHEDULABLE),
    ],
)
def test_a_start_only_people_can_help_stalls_after_its_time(facts: dict[str, Any], reason: Reason) -> None:
    for age, moving in ((LIMITS.start, True), (LIMITS.start + 1, False)):
        decision = decided(seen(app(started()), driver=driver(created=NOW - age, **facts)))
        assert condition(decision, "Ready") == ("False", reason)
        assert condition(decision, "Reconciling")[0] == str(moving)
        assert condition(decision, "Stalled")[0] == str(not moving)


@pytest.mark.parametrize(
    ("scheduler", "cure"),
    [
        ("0/3 nodes are available: 3 Insufficient cpu.", "lower spec.runtime.driver.cores"),
        ("0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims.", "kubectl describe pvc"),
        ('0/3 nodes are available: persistentvolumeclaim "models" not found.', "kubectl describe pvc"),
        ("0/3 nodes are available: 3 node(s) had untolerated taint {gpu: true}.", "toleration"),
        ("0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector.", "node selector"),
        ("preemption: no victims", "kubectl describe pod"),
    ],
)
def test_what_the_scheduler_says_decides_what_is_advised(scheduler: str, cure: str) -> None:
    pod = driver(phase=PodPhase.PENDING, unschedulable=scheduler)
    assert cure in message(decided(seen(app(started()), driver=pod)), "Ready")


def test_an_unready_app_says_what_an_executor_waits_for() -> None:
    waits = PodState("ads-exec-1", "e", PodPhase.PENDING, attempt=1, role="executor", unschedulable="unbound claims")
    for age in (0, LIMITS.start + 1):
        pod = driver(created=NOW - age)
        decision = decided(seen(app(started()), driver=pod, executors=(waits,)))
        assert "; ads-exec-1 waits: unbound claims" in message(decision, "Ready")


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


def test_claims_without_a_default_storage_class_wait() -> None:
    waits = decided(seen(app(), storage_class=None))
    assert waits.actions == ()
    assert waits.wake == LookAgain(LIMITS.look)
    assert condition(waits, "Ready") == ("False", "StorageClassMissing")
    (start,) = decided(seen(app(waits.status), storage_class="standard")).actions
    assert isinstance(start, StartDriver)
    assert start.storage_class == "standard"


def test_a_default_storage_class_that_goes_harms_no_running_attempt() -> None:
    decision = decided(seen(app(started()), driver=driver(), report=report(), storage_class=None))
    assert decision.actions == ()
    assert condition(decision, "Ready") == ("True", "Running")


def test_what_the_api_server_refuses_is_said_and_tried_again() -> None:
    status = decided(seen(app())).status
    decision = decided(seen(app(status), refused=AppFinding(Reason.CREATE_REFUSED, "exceeded quota: pods=10")))
    assert condition(decision, "Ready") == ("False", "CreateRefused")
    assert isinstance(decision.actions[0], StartDriver)
    assert decision.wake == LookAgain(LIMITS.look)


def test_in_a_deleted_namespace_apps_go_and_nothing_starts() -> None:
    refused = AppFinding(Reason.DELETING, "namespace apps is being terminated")
    decision = decided(seen(app(started()), driver=driver(), report=report(), refused=refused))
    assert decision.actions == (RemoveFinalizer(),)
    assert condition(decision, "Ready") == ("False", "Deleting")
    going = decided(seen(replace(app(started()), finalizer=False), refused=refused))
    assert going.actions == ()
    assert isinstance(going.wake, WaitForChange)


def test_a_refused_client_setting_is_reported_before_brokers_are_asked() -> None:
    kafka = {"bootstrapServers": "kafka:9092", "config": {"ssl.providers": "/mine"}}
    decision = decided(
        seen(app(systems=[{"name": "events", "kafka": kafka}]), counts=Unknown("being asked", asked=False))
    )
    assert decision.actions == ()
    assert condition(decision, "Stalled") == ("True", Reason.INVALID_SPEC)


def test_an_embedded_log_has_no_place_on_a_cluster() -> None:
    made = tree(systems=[{"name": "events", "log": {}}])
    decision = decided(seen(AppObject("ads", "apps", "u", 1, made, finalizer=True)))
    assert condition(decision, "Stalled") == ("True", "SystemNotReachable")
