import copy
from typing import Any

import pytest

from holdfast.errors import WorldChangeError
from holdfast.reasons import Reason
from holdfast.tasks.partitions import StreamPartition
from holdfast.tasks.record import Record
from holdfast_operator.checks.endings import Outcome
from holdfast_operator.decision import (
    Again,
    CollectAttempts,
    EndPod,
    Final,
    ForgetPod,
    GiveUpClaims,
    KeepFinalizer,
    Release,
    StartDriver,
)
from holdfast_operator.facts import AppSeen, ContainerEnd, Finding, Phase, PodSeen, Snapshot, Unknown
from holdfast_operator.names import app_id
from holdfast_runtime.report import Failure
from holdfast_runtime.state.errors import StoreFullError
from holdfast_runtime.termination import failed
from tests.operator.apps import LIMITS, NOW, TREE, UID, app, condition, decided, driver, report, seen, started, tree

SUCCEEDED: Any = {"phase": Phase.SUCCEEDED}
FAILED: Any = {"phase": Phase.FAILED, "ended": ContainerEnd(1, "Error", '{"failed": "world", "message": "no broker"}')}


def recorded(**counts: int) -> Record:
    tasks = max(counts.values())
    grouping = {
        f"partition-{at}": tuple(StreamPartition(name, at) for name, count in counts.items() if at < count)
        for at in range(tasks)
    }
    return Record("1", grouping, {}, {})


def after(**status: Any) -> Any:
    return started().model_copy(update=status)


def test_a_new_app_is_guarded_before_anything_is_made() -> None:
    decision = decided(seen(AppSeen("ads", "apps", "u", 1, TREE)))
    assert decision.actions == (KeepFinalizer(),)
    assert decision.wake == Again(0)


def test_the_first_attempt_is_written_down_with_the_act() -> None:
    decision = decided(seen(app()))
    (start,) = decision.actions
    assert isinstance(start, StartDriver)
    assert start.attempt == decision.status.attempt == 1
    assert decision.status.run_id == "1"
    assert decision.status.spec_hash
    assert condition(decision, "Reconciling") == ("True", "Starting")


def test_an_operator_that_died_between_intent_and_act_makes_the_same_attempt() -> None:
    status = decided(seen(app())).status
    decision = decided(seen(app(status)))
    assert [one.attempt for one in decision.actions if isinstance(one, StartDriver)] == [1]
    assert decision.status.attempt == 1
    assert decision.events == ()


def test_a_number_is_never_used_twice_though_the_status_is_lost_or_an_old_run_is_taken_up_again() -> None:
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


def test_what_earlier_attempts_left_is_collected_once_the_next_one_does_well() -> None:
    decision = decided(seen(app(after(attempt=2)), driver=driver(2), report=report(2)))
    assert decision.actions == (CollectAttempts(2),)
    assert decided(seen(app(decision.status), driver=driver(2), report=report(2))).actions == ()


def test_a_driver_without_a_report_is_starting() -> None:
    decision = decided(seen(app(started()), driver=driver()))
    assert condition(decision, "Ready") == ("False", "Starting")


def test_the_report_of_an_earlier_attempt_says_nothing_of_this_one() -> None:
    decision = decided(seen(app(started()), driver=driver(), report=report(attempt=0)))
    assert condition(decision, "Ready") == ("False", "Starting")


@pytest.mark.parametrize(
    ("facts", "said", "reason"),
    [
        ({"waiting": ("ImagePullBackOff", "no such image")}, None, Reason.IMAGE_UNAVAILABLE),
        ({"waiting": ("CreateContainerConfigError", "secret x not found")}, None, Reason.CONTAINER_REFUSED),
        ({"phase": Phase.PENDING, "unschedulable": "0/3 nodes"}, None, Reason.UNSCHEDULABLE),
        ({"created": NOW - LIMITS.start - 1}, None, Reason.START_TIMEOUT),
        ({"node": "n", "node_lost": True}, {}, Reason.NODE_LOST),
        ({}, {"at": NOW - LIMITS.silence - 1}, Reason.NO_REPORT),
        ({}, {"lag": 10, "progressed": NOW - LIMITS.silence - 1}, Reason.NO_PROGRESS),
    ],
)
def test_a_driver_that_does_not_work_is_left_alone_and_said(
    facts: dict[str, Any], said: dict[str, Any] | None, reason: Reason
) -> None:
    told = None if said is None else report(**said)
    decision = decided(seen(app(started()), driver=driver(**facts), report=told))
    assert condition(decision, "Ready") == ("False", reason)
    assert decision.actions == ()
    assert isinstance(decision.wake, Again)


def test_an_idle_app_without_lag_is_ready_though_its_last_batch_is_old() -> None:
    decision = decided(seen(app(started()), driver=driver(), report=report(progressed=NOW - 3_600_000)))
    assert condition(decision, "Ready") == ("True", "Running")


def test_a_failed_driver_is_followed_by_another_after_a_wait() -> None:
    decision = decided(seen(app(started()), driver=driver(**FAILED)))
    assert decision.status.ended == Outcome.FAILED
    assert decision.status.failures == decision.status.restarts == 1
    assert decision.status.retry_at == "2027-01-15T08:00:05Z"
    assert "no broker" in decision.events[0].message
    waiting = decided(seen(app(decision.status), driver=driver(**FAILED)))
    assert waiting.wake == Again(5000)
    assert waiting.actions == ()
    assert condition(waiting, "Ready") == ("False", "WaitingToRestart")
    again = decided(seen(app(waiting.status), driver=driver(**FAILED)), now=NOW + 5000)
    assert [one.attempt for one in again.actions if isinstance(one, StartDriver)] == [2]


def test_a_full_disk_is_said_with_task_and_cure_and_attempt_follows_attempt_until_there_is_space() -> None:
    full = StoreFullError("the disk under /state has no space for the state of task partition-3: free or add space")
    with pytest.raises(WorldChangeError) as error:
        Failure.of(full, "slot 1").throw()
    pod = driver(phase=Phase.FAILED, ended=ContainerEnd(1, "Error", failed(error.value)))
    decision = decided(seen(app(started()), driver=pod))
    assert (decision.status.ended, decision.status.failures) == (Outcome.FAILED, 1)
    assert "partition-3: free or add space" in decision.events[0].message
    waiting = decided(seen(app(decision.status), driver=pod))
    assert waiting.wake == Again(5000)
    assert condition(waiting, "Stalled")[0] == "False"
    assert "partition-3: free or add space" in next(
        one.message for one in waiting.status.conditions if one.type == "Ready"
    )
    again = decided(seen(app(waiting.status), driver=pod), now=NOW + 5000)
    assert isinstance(again.actions[0], StartDriver)


@pytest.mark.parametrize(("failures", "seconds"), [(0, 5), (1, 10), (5, 160), (6, 300), (5000, 300)])
def test_the_wait_doubles_up_to_the_longest(failures: int, seconds: int) -> None:
    decision = decided(seen(app(after(failures=failures)), driver=driver(**FAILED)))
    waiting = decided(seen(app(decision.status), driver=driver(**FAILED)))
    assert waiting.wake == Again(seconds * 1000)


def test_healthy_for_long_enough_forgets_failures() -> None:
    status = after(failures=7)
    young = decided(seen(app(status), driver=driver(created=NOW - 599_000), report=report()))
    assert young.status.failures == 7
    old = decided(seen(app(status), driver=driver(created=NOW - 600_000), report=report()))
    assert old.status.failures == 0


def test_an_evicted_driver_without_container_status_is_replaced_at_once() -> None:
    decision = decided(seen(app(started()), driver=driver(phase=Phase.FAILED, reason="Evicted", message="disk")))
    assert decision.status.ended == Outcome.LOST
    assert decision.status.failures == 0
    again = decided(seen(app(decision.status), driver=driver(phase=Phase.FAILED, reason="Evicted")))
    assert [one.attempt for one in again.actions if isinstance(one, StartDriver)] == [2]


def test_a_driver_deleted_by_somebody_else_is_replaced_at_once() -> None:
    decision = decided(seen(app(started())))
    assert (decision.status.ended, decision.events[0].reason) == (Outcome.LOST, Reason.DRIVER_DELETED)
    assert isinstance(decided(seen(app(decision.status))).actions[0], StartDriver)


def test_a_driver_that_says_somebody_must_act_is_not_repeated_until_somebody_does() -> None:
    end = ContainerEnd(1, "Error", '{"failed": "user", "message": "offsets aged out: choose"}')
    pod = driver(phase=Phase.FAILED, ended=end)
    decision = decided(seen(app(started()), driver=pod))
    stays = decided(seen(app(decision.status), driver=pod))
    assert isinstance(stays.wake, Final)
    assert condition(stays, "Stalled") == ("True", "DriverRefused")
    assert "choose" in next(one.message for one in stays.status.conditions if one.type == "Ready")
    touched = decided(seen(app(stays.status, generation=2, onPartitionGrowth="Halt"), driver=pod))
    again = decided(seen(app(touched.status, generation=2, onPartitionGrowth="Halt"), driver=pod))
    assert isinstance(again.actions[0], StartDriver)


def test_an_app_without_end_that_ends_has_failed() -> None:
    decision = decided(seen(app(started()), driver=driver(**SUCCEEDED, ended=ContainerEnd(0))))
    assert (decision.status.ended, decision.status.failures) == (Outcome.STOPPED, 1)
    never = decided(seen(app(decision.status, restart={"policy": "OnFailure"}), driver=driver(**SUCCEEDED)))
    assert condition(never, "Stalled") == ("True", "RestartNever")
    assert isinstance(never.wake, Final)


def test_a_completed_app_is_ready_and_stays_so() -> None:
    pod = driver(**SUCCEEDED, ended=ContainerEnd(0, message='{"ended": "completed"}'))
    decision = decided(seen(app(started()), driver=pod))
    stays = decided(seen(app(decision.status), driver=pod))
    assert condition(stays, "Ready") == ("True", "Completed")
    assert isinstance(stays.wake, Final)
    changed = decided(seen(app(stays.status, generation=2, runId="2"), driver=pod))
    start = changed.actions[-1]
    assert isinstance(start, StartDriver)
    assert start.attempt == 1
    assert GiveUpClaims(app_id("ads", "1")) in changed.actions


def test_a_rejected_plan_makes_no_pod_and_says_the_repair() -> None:
    joined = {"name": "j", "from": ["clicks", "views"], "join": {"on": ["k"], "within": "1m", "select": ["k"]}}
    timed = {"key": ["k"], "system": "events", "schema": "k STRING, t TIMESTAMP", "eventTime": {"column": "t"}}
    streams = [{"name": "clicks", **timed}, {"name": "views", **timed}, {"name": "out", "system": "events"}]
    steps = [joined, {"name": "written", "from": ["j"], "to": "out"}]
    decision = decided(seen(app(streams=streams, steps=steps), counts={"clicks": 4, "views": 6, "out": 4}))
    assert decision.actions == ()
    assert condition(decision, "PlanValid") == ("False", "PartitionCountMismatch")
    assert condition(decision, "Stalled")[0] == "True"
    assert "repair" in next(one.message for one in decision.status.conditions if one.type == "PlanValid")
    assert decision.status.attempt is None


def test_an_invalid_new_spec_does_not_harm_the_running_attempt() -> None:
    broken = copy.deepcopy(TREE)
    broken["spec"]["steps"][0]["from"] = ["nobody"]
    of = AppSeen("ads", "apps", "u", 2, broken, started(), finalizer=True)
    decision = decided(Snapshot(of, driver=driver(), report=report()))
    assert decision.actions == ()
    assert condition(decision, "DriverRunning") == ("True", "Running")
    assert condition(decision, "PlanValid")[0] == "False"
    assert condition(decision, "Stalled")[0] == "True"
    assert condition(decision, "Ready")[0] == "False"


def test_a_changed_spec_drains_and_says_what_it_costs_before() -> None:
    changed: Any = {"runtime": {**TREE["spec"]["runtime"], "driver": {"memory": "2g"}}}
    decision = decided(seen(app(started(), generation=2, **changed), driver=driver(), report=report()))
    assert decision.actions == (EndPod(driver().name, "uid-1"),)
    assert decision.status.draining == "SpecChanged"
    assert decision.events[0].reason is Reason.SPEC_CHANGED
    ending = decided(
        seen(app(decision.status, generation=2, **changed), driver=driver(deleting_since=NOW, grace=60_000))
    )
    assert ending.actions == ()
    gone = decided(seen(app(ending.status, generation=2, **changed)))
    assert gone.status.ended == Outcome.DRAINED
    start = decided(seen(app(gone.status, generation=2, **changed))).actions[0]
    assert isinstance(start, StartDriver)
    assert start.attempt == 2


@pytest.mark.parametrize(
    "spec",
    [
        {"restart": {"policy": "Never"}},
        {"onPartitionGrowth": "Halt"},
        {"runtime": {**TREE["spec"]["runtime"], "driver": {"memory": "1g"}}},
    ],
)
def test_a_live_change_or_a_default_written_down_restarts_nothing(spec: dict[str, Any]) -> None:
    decision = decided(seen(app(started(), generation=2, **spec), driver=driver(), report=report()))
    assert not any(isinstance(one, EndPod) for one in decision.actions)
    assert decision.status.observed_generation == 2


def test_suspending_drains_and_keeps_and_resuming_starts_the_next_attempt() -> None:
    decision = decided(seen(app(started(), suspend=True), driver=driver(), report=report()))
    assert decision.status.draining == "Suspended"
    gone = decided(seen(app(decision.status, suspend=True)))
    rests = decided(seen(app(gone.status, suspend=True)))
    assert isinstance(rests.wake, Final)
    assert condition(rests, "Ready") == ("False", "Suspended")
    assert condition(rests, "Stalled")[0] == "False"
    start = decided(seen(app(rests.status))).actions[0]
    assert isinstance(start, StartDriver)
    assert start.attempt == 2


def test_grown_inputs_drain_and_start_the_next_attempt() -> None:
    facts: Any = {"counts": {"clicks": 8, "out": 4}, "record": recorded(clicks=4)}
    decision = decided(seen(app(started()), driver=driver(), report=report(), **facts))
    assert decision.status.draining == "PartitionsGrew"
    assert "clicks from 4 to 8" in decision.events[0].message


def test_an_attempt_started_for_a_growth_is_not_ended_by_it_though_the_record_is_still_the_last_one() -> None:
    facts: Any = {"counts": {"clicks": 8, "out": 4}, "record": recorded(clicks=4)}
    for said in (None, report(1), report(2, tasks=0, progressed=None)):
        decision = decided(seen(app(after(attempt=2)), driver=driver(2), report=said, **facts))
        assert decision.status.draining is None
        assert not any(isinstance(one, EndPod) for one in decision.actions)
    begun = decided(seen(app(after(attempt=2)), driver=driver(2), report=report(2), **facts))
    assert begun.status.draining == "PartitionsGrew"


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"counts": Unknown("the brokers are being asked", asked=False)}, Reason.ASKING_BROKERS),
        ({"counts": Unknown("no broker answers")}, Reason.BROKER_UNREACHABLE),
        ({"missing": ("Secret kafka-auth",)}, Reason.OBJECT_MISSING),
    ],
)
def test_a_change_that_has_to_wait_is_not_said_to_be_ready_though_the_attempt_does_well(
    facts: dict[str, Any], reason: Reason
) -> None:
    changed: Any = {"runtime": {**TREE["spec"]["runtime"], "image": "other"}}
    ready = decided(seen(app(started()), driver=driver(), report=report())).status
    waits = decided(seen(app(ready, generation=2, **changed), driver=driver(), report=report(), **facts))
    assert waits.actions == ()
    assert condition(waits, "Ready") == ("False", reason.value)
    assert condition(waits, "Reconciling") == ("True", reason.value)
    assert condition(waits, "Stalled")[0] == "False"
    assert waits.wake == Again(LIMITS.look)
    same = decided(seen(app(ready, generation=2), driver=driver(), report=report(), **facts))
    assert condition(same, "Ready") == ("True", "Running")
    drains = decided(seen(app(waits.status, generation=2, **changed), driver=driver(), report=report()))
    assert drains.actions == (EndPod(driver().name, driver().uid),)


def test_growth_that_does_not_fit_leaves_the_attempt_alone() -> None:
    keyed = {"name": "n", "from": ["clicks"], "process": {"function": "m:f", "by": ["k"], "schema": "k STRING"}}
    steps = [keyed, {"name": "written", "from": ["n"], "to": "out"}]
    runtime = {**TREE["spec"]["runtime"], "code": {"m": "def f(key, rows, state): ..."}}
    spec: Any = {"steps": steps, "runtime": runtime}
    facts: Any = {"counts": {"clicks": 6, "out": 4}, "record": recorded(clicks=4)}
    decision = decided(seen(app(started(**spec), **spec), driver=driver(), report=report(), **facts))
    assert decision.actions == (CollectAttempts(1),) or decision.actions == ()
    assert condition(decision, "StateCompatible") == ("False", "NotAMultiple")
    assert condition(decision, "DriverRunning") == ("True", "Running")


def test_growth_halts_where_the_spec_says_so() -> None:
    facts: Any = {"counts": {"clicks": 8, "out": 4}, "record": recorded(clicks=4)}
    spec: Any = {"onPartitionGrowth": "Halt"}
    decision = decided(seen(app(started(), **spec), driver=driver(), report=report(), **facts))
    assert decision.status.draining == "GrowthHalted"
    gone = decided(seen(app(decision.status, **spec), **facts))
    halted = decided(seen(app(gone.status, **spec), **facts))
    assert condition(halted, "Stalled") == ("True", "GrowthHalted")
    assert halted.actions == ()
    assert isinstance(decided(seen(app(halted.status), **facts)).actions[0], StartDriver)


def test_a_broker_that_cannot_be_reached_is_a_condition_and_harms_nobody() -> None:
    unknown = Unknown("no broker of events answered at kafka:9092")
    waiting = decided(seen(app(), counts=unknown))
    assert condition(waiting, "Stalled") == ("True", "BrokerUnreachable")
    assert waiting.wake == Again(LIMITS.look)
    running = decided(seen(app(started()), driver=driver(), report=report(), counts=unknown))
    assert condition(running, "Ready") == ("True", "Running")
    assert not any(isinstance(one, EndPod) for one in running.actions)


@pytest.mark.parametrize("what", ["driver", "others", "executors"])
def test_what_could_not_be_read_decides_nothing(what: str) -> None:
    for status in (started(), after(ended="Failed"), after(draining="Suspended"), None):
        decision = decided(seen(app(status), **{what: Unknown("timeout")}))
        assert decision.actions == ()
        assert decision.wake == Again(LIMITS.soon)


def test_a_driver_of_another_attempt_ends_before_anything_else() -> None:
    decision = decided(seen(app(after(attempt=2, driver_uid=None)), others=(driver(1),)))
    assert decision.actions == (EndPod(driver(1).name, "uid-1"),)
    assert condition(decision, "Ready") == ("False", "PreviousAttemptAlive")


def test_the_driver_of_an_app_that_had_the_name_is_waited_for_and_not_ended() -> None:
    decision = decided(seen(app(), strangers=(driver(),)))
    assert decision.actions == ()
    assert condition(decision, "Stalled") == ("True", "PreviousAttemptAlive")
    over = decided(seen(app(), strangers=(driver(phase=Phase.SUCCEEDED),)))
    assert isinstance(over.actions[0], StartDriver)


def test_executors_that_outlive_their_driver_end_before_the_next_attempt() -> None:
    left = driver(role="executor")
    decision = decided(seen(app(after(ended="Lost")), executors=(left,)))
    assert decision.actions == (EndPod(left.name, left.uid),)
    assert not any(isinstance(one, StartDriver) for one in decision.actions)


def test_a_driver_that_hangs_in_its_deletion_on_a_lost_node_is_given_up() -> None:
    pod = driver(deleting_since=NOW - 100_000, grace=30_000, node="n", node_lost=True)
    decision = decided(seen(app(started()), driver=pod))
    assert decision.actions == (ForgetPod(pod.name, pod.uid),)
    young = driver(deleting_since=NOW - 80_000, grace=30_000, node="n", node_lost=True)
    assert decided(seen(app(started()), driver=young)).actions == ()
    there = driver(deleting_since=NOW - 100_000, grace=30_000, node="n")
    assert decided(seen(app(started()), driver=there)).actions == ()


def test_a_driver_on_a_lost_node_is_ended_taken_away_and_followed_at_once() -> None:
    lost: dict[str, Any] = {"node": "n", "silent_since": NOW - LIMITS.lost_after, "node_lost": True}
    first = decided(seen(app(started()), driver=driver(**lost), report=report()))
    assert first.actions == (EndPod(driver().name, driver().uid),)
    assert [told.reason for told in first.events] == [Reason.NODE_LOST]
    asked = driver(**lost, deleting_since=NOW, grace=120_000)
    second = decided(seen(app(first.status), driver=asked))
    assert second.actions == (ForgetPod(asked.name, asked.uid),)
    assert second.events == ()
    gone = decided(seen(app(second.status)))
    assert (gone.status.ended, gone.status.failures, gone.status.retry_at) == ("Lost", 0, None)
    assert condition(gone, "DriverRunning") == ("False", "NodeLost")


def test_a_driver_whose_node_is_back_in_time_goes_on_as_if_nothing_had_been() -> None:
    silent = driver(node="n", silent_since=NOW - LIMITS.lost_after + 3_000)
    waits = decided(seen(app(started()), driver=silent, report=report()))
    assert (waits.actions, waits.wake) == ((), Again(3_000))
    assert condition(waits, "Ready") == ("False", "NodeLost")
    back = decided(seen(app(waits.status), driver=driver(node="n"), report=report()))
    assert (back.actions, condition(back, "Ready")) == ((), ("True", "Running"))


def test_a_driver_whose_node_is_back_after_it_was_asked_to_end_may_end_by_itself() -> None:
    status = started().model_copy(update={"draining": "NodeLost"})
    ends = driver(node="n", deleting_since=NOW - 300_000, grace=120_000)
    assert decided(seen(app(status), driver=ends)).actions == ()


def test_deleting_drains_then_releases() -> None:
    of = AppSeen("ads", "apps", "u", 2, TREE, started(), deleting_since=NOW, finalizer=True)
    decision = decided(seen(of, driver=driver()))
    assert decision.actions == (EndPod(driver().name, "uid-1"),)
    gone = decided(seen(of))
    assert gone.actions == (GiveUpClaims(app_id("ads", "1")), Release())
    over = decided(seen(AppSeen("ads", "apps", "u", 2, TREE, started(), deleting_since=NOW)))
    assert (over.actions, isinstance(over.wake, Final)) == ((), True)


def test_a_driver_of_a_deleted_app_keeps_its_executors_until_it_has_drained() -> None:
    of = AppSeen("ads", "apps", "u", 2, TREE, started(), deleting_since=NOW, finalizer=True)
    executors = (PodSeen("exec-1", "uid-exec-1", attempt=1, role="executor", phase=Phase.RUNNING, created=NOW),)
    drains = seen(of, driver=driver(deleting_since=NOW, grace=120_000), executors=executors)
    assert decided(drains).actions == ()
    assert decided(seen(of, executors=executors)).actions == (EndPod("exec-1", "uid-exec-1"),)


def test_an_app_deleted_while_its_spec_is_invalid_goes_all_the_same() -> None:
    of = AppSeen("ads", "apps", "u", 2, {"spec": 7}, deleting_since=NOW, finalizer=True)
    assert Release() in decided(Snapshot(of)).actions


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
    assert condition(decision, "Stalled") == ("True", "ObjectMissing")
    assert isinstance(decision.wake, Again)


def test_without_a_default_storage_class_an_app_with_claims_waits_and_says_so() -> None:
    waits = decided(seen(app(), storage_class=None))
    assert waits.actions == ()
    assert waits.wake == Again(LIMITS.look)
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
    decision = decided(seen(app(status), refused=Finding(Reason.CREATE_REFUSED, "exceeded quota: pods=10")))
    assert condition(decision, "Stalled") == ("True", "CreateRefused")
    assert isinstance(decision.actions[0], StartDriver)
    assert decision.wake == Again(LIMITS.look)


def test_an_embedded_log_has_no_place_on_a_cluster() -> None:
    made = tree(systems=[{"name": "events", "log": {}}])
    decision = decided(seen(AppSeen("ads", "apps", "u", 1, made, finalizer=True)))
    assert condition(decision, "Stalled") == ("True", "SystemNotReachable")


def test_what_starts_or_lets_go_rests_on_absence_and_is_decided_over_what_the_api_server_says() -> None:
    assert decided(seen(app())).rests_on_absence
    gone = AppSeen("ads", "apps", UID, 1, tree(), after(), deleting_since=NOW, finalizer=True)
    assert decided(seen(gone)).rests_on_absence
    assert not decided(seen(app(started()), driver=driver(), report=report())).rests_on_absence
    assert not decided(seen(app(started(), suspend=True), driver=driver(), report=report())).rests_on_absence
