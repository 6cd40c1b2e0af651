from dataclasses import replace
from typing import Any

import pytest

from holdfast.protocol.pods import PodPhase, PodState
from holdfast.reasons import Reason
from holdfast.spec.app import Status
from holdfast_operator.decide.decision import LookAgain, RemoveFinalizer, StartDriver, WaitForChange
from holdfast_operator.decide.facts import AppFinding, AppObject, Unknown
from tests.operator.apps import LIMITS, NOW, TREE, app, condition, decided, driver, message, report, seen, started, tree


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"runtime": {}}, Reason.CHECKPOINT_MISSING),
        ({"runtime": {"checkpoint": {"claim": "a", "location": "s3a://bucket/b"}}}, Reason.INVALID_SPEC),
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


@pytest.mark.parametrize(
    "facts",
    [
        {"missing": Unknown("secrets is forbidden")},
        {"missing": ("Secret kafka-auth",)},
        {"counts": Unknown("no broker answered")},
        {"counts": Unknown("the brokers are being asked", asked=False)},
        {"counts": {"clicks": None, "out": 4}},
        {"record": Unknown("configmaps is forbidden")},
        {"storage_class": Unknown("storageclasses is forbidden")},
        {"storage_class": None},
    ],
    ids=repr,
)
def test_reports_put_off_no_look_while_a_verdict_waits(facts: dict[str, Any]) -> None:
    healthy = decided(seen(app(started()), driver=driver(), report=report()))
    assert healthy.wake == LookAgain(LIMITS.look, well=True, postponable=True)
    waits = decided(seen(app(started()), driver=driver(), report=report(), **facts))
    assert waits.wake == LookAgain(LIMITS.look, well=True)


@pytest.mark.parametrize("partitions", [None, 4])
def test_an_input_that_comes_later_starts_its_app(partitions: int | None) -> None:
    clicks = {key: value for key, value in TREE["spec"]["streams"][0].items() if key != "partitions"}
    clicks |= {} if partitions is None else {"partitions": partitions}
    streams = [clicks, *TREE["spec"]["streams"][1:]]
    waiting = decided(seen(app(streams=streams), counts={"clicks": None, "out": 4}))
    assert condition(waiting, "PlanValid") == ("False", Reason.TOPIC_MISSING)
    assert waiting.actions == ()
    starting = decided(seen(app(waiting.status, streams=streams), counts={"clicks": 4, "out": 4}), NOW + 60)
    assert [type(action) for action in starting.actions] == [StartDriver]


def test_an_input_to_create_is_no_reason_to_wait() -> None:
    clicks = {**TREE["spec"]["streams"][0], "partitions": 4, "create": True}
    counts = {"clicks": None, "out": 4}
    (start,) = decided(seen(app(streams=[clicks, *TREE["spec"]["streams"][1:]]), counts=counts)).actions
    assert isinstance(start, StartDriver)
    assert start.topics == counts


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
