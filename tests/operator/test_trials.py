"""The trial before a drain: when one is needed, what becomes of it, and that the running attempt goes on meanwhile."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from holdfast.protocol.names import trial_name
from holdfast.protocol.pods import ContainerEnd, PodPhase, PodState
from holdfast.reasons import Reason
from holdfast.spec.app import Status
from holdfast_operator.decide.decision import Decision, EndPod, LookAgain, TryPods
from holdfast_operator.decide.facts import AppFinding, Unknown
from tests.operator.apps import LIMITS, NOW, TREE, UID, app, condition, decided, driver, message, report, seen, started

MINUTE = 60_000
RUNTIME = TREE["spec"]["runtime"]
CHANGED: Mapping[str, Any] = {"runtime": {**RUNTIME, "image": "registry/new:2"}}
WAITS: Any = {"phase": PodPhase.PENDING, "waiting": ("ImagePullBackOff", "Back-off pulling image")}


def running() -> Status:
    """An attempt that has begun."""
    return decided(seen(app(started()), driver=driver(), report=report())).status


def look(status: Status, *trials: PodState, now: int = NOW, generation: int = 2, **facts: Any) -> Decision:
    """A look after the image was changed."""
    spec = facts.pop("spec", CHANGED)
    living = {"driver": driver(), "report": report(at=now - 1000, progressed=now - 2000), **facts}
    return decided(seen(app(status, generation=generation, **spec), trials=trials, **living), now)


def tried(status: Status, at: int = 0, **facts: Any) -> PodState:
    """The pod of the trial in the status."""
    assert status.trial is not None
    name = trial_name("ads", "1", status.trial.pods[at])
    return PodState(name, f"uid-of-trial-{at}", **{"phase": PodPhase.RUNNING, "created": NOW, "owner": UID, **facts})


def failed(status: Status) -> Status:
    """After a trial that failed."""
    ended = ContainerEnd(1, "Error", "ModuleNotFoundError: no module named holdfast_runtime")
    return look(status, tried(status, phase=PodPhase.FAILED, ended=ended)).status


def test_other_pods_are_tried_while_the_attempt_goes_on() -> None:
    decision = look(running())
    (action,) = decision.actions
    assert isinstance(action, TryPods)
    assert decision.status.trial is not None
    assert action.digests == decision.status.trial.pods
    assert decision.status.draining is None
    assert condition(decision, "Ready") == ("False", "Trying")
    assert condition(decision, "Reconciling") == ("True", "Trying")
    assert condition(decision, "DriverRunning") == ("True", "Running")
    assert decision.wake == LookAgain(LIMITS.soon)
    assert decision.events == ()


def test_a_pod_that_ends_well_goes_and_the_drain_begins() -> None:
    status = look(running()).status
    pod = tried(status, phase=PodPhase.SUCCEEDED)
    decision = look(status, pod)
    assert decision.actions == (EndPod(driver().name, "uid-1"), EndPod(pod.name, pod.uid))
    assert decision.status.draining == "SpecChanged"
    assert decision.status.trial is None


@pytest.mark.parametrize("spec", [{"runtime": {**RUNTIME, "driver": {"memory": "2g"}}}, {"runId": "2"}])
def test_a_change_that_no_trial_could_judge_drains_at_once(spec: dict[str, Any]) -> None:
    assert look(running(), spec=spec).status.draining == "SpecChanged"


def test_an_attempt_that_has_not_begun_has_nothing_to_lose() -> None:
    decision = look(started(), report=None)
    assert decision.status.draining == "SpecChanged"
    assert decision.actions == (EndPod(driver().name, "uid-1"),)


def test_an_app_that_is_suspended_is_drained_without_a_trial() -> None:
    assert look(running(), spec={**CHANGED, "suspend": True}).status.draining == "Suspended"


def test_a_silent_attempt_is_kept_while_pods_cannot_start() -> None:
    silent = report(at=NOW - 10 * MINUTE, progressed=NOW - 10 * MINUTE)
    decision = look(running(), report=silent)
    assert decision.status.draining is None
    assert condition(decision, "DriverRunning")[1] == "NoReport"


def test_what_the_pod_waits_for_is_reported() -> None:
    status = look(running()).status
    decision = look(status, tried(status, **WAITS))
    assert decision.actions == ()
    assert condition(decision, "Ready") == ("False", "Trying")
    assert "ImagePullBackOff: Back-off pulling image; correct spec.runtime.image" in message(decision, "Ready")


def test_a_failed_pod_keeps_the_attempt_and_shows_its_message() -> None:
    status = look(running()).status
    ended = ContainerEnd(1, "Error", "ModuleNotFoundError: no module named holdfast_runtime")
    pod = tried(status, phase=PodPhase.FAILED, ended=ended)
    decision = look(status, pod)
    assert decision.actions == (EndPod(pod.name, pod.uid),)
    assert decision.status.draining is None
    for kind in ("Ready", "Stalled"):
        assert condition(decision, kind)[1] == "TrialFailed"
    assert "attempt 1 goes on as it was" in message(decision, "Ready")
    assert "ended with exit code 1: ModuleNotFoundError" in message(decision, "Ready")
    assert [told.reason for told in decision.events] == [Reason.TRIAL_FAILED]


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (WAITS, "ImagePullBackOff"),
        ({"phase": PodPhase.PENDING, "unschedulable": "0/3 nodes match the node selector"}, "change the node selector"),
        ({}, "is Running"),
    ],
)
def test_a_pod_that_has_not_ended_in_time_has_failed(facts: dict[str, Any], reason: str) -> None:
    status = look(running()).status
    before = look(status, tried(status, **facts), now=NOW + LIMITS.trial - MINUTE)
    assert condition(before, "Ready")[1] == "Trying"
    decision = look(status, tried(status, **facts), now=NOW + LIMITS.trial + 1000)
    assert condition(decision, "Ready")[1] == "TrialFailed"
    assert "within 3 min" in message(decision, "Ready")
    assert reason in message(decision, "Ready")


def test_a_pod_that_the_api_server_refuses_has_failed() -> None:
    status = look(running()).status
    refused = AppFinding(Reason.TRIAL_FAILED, "create Pod: exceeded quota: pods")
    decision = look(status, refused=refused)
    assert decision.actions == ()
    assert "exceeded quota" in message(decision, "Ready")


def test_a_refused_attempt_is_no_refused_trial() -> None:
    status = look(running()).status
    decision = look(status, refused=AppFinding(Reason.CREATE_REFUSED, "quota"))
    assert condition(decision, "Ready")[1] == "Trying"


def test_a_restarted_operator_does_not_repeat_what_failed() -> None:
    status = failed(look(running()).status)
    decision = look(status, now=NOW + MINUTE)
    assert decision.actions == ()
    assert decision.status.trial == status.trial
    assert condition(decision, "Ready")[1] == "TrialFailed"
    assert decision.events == ()


def test_a_failure_is_remembered_while_brokers_are_asked() -> None:
    status = failed(look(running()).status)
    asks = look(status, counts=Unknown("the brokers are being asked", asked=False))
    assert asks.status.trial == status.trial
    assert look(asks.status).actions == ()
    assert look(status, generation=3, counts=Unknown("no broker answers")).status.trial is None


def test_no_pod_is_kept_while_a_secret_is_missing() -> None:
    status = look(running()).status
    pod = tried(status, phase=PodPhase.SUCCEEDED)
    decision = look(status, pod, missing=("Secret kafka-auth",))
    assert condition(decision, "Ready")[1] == "ObjectMissing"
    assert decision.actions == (EndPod(pod.name, pod.uid),)
    assert decision.status.trial is None


def test_what_failed_is_tried_again_after_each_change_and_slowly() -> None:
    status = failed(look(running()).status)
    later, edited = look(status, now=NOW + LIMITS.trial_again + 1000), look(status, generation=3)
    for decision, why in ((later, "TrialFailed"), (edited, "Trying")):
        assert isinstance(decision.actions[0], TryPods)
        assert condition(decision, "Ready")[1] == why
    assert later.events == (), "what is repeated is no news"
    passed = look(later.status, tried(later.status, phase=PodPhase.SUCCEEDED), now=NOW + LIMITS.trial_again + 5000)
    assert passed.status.draining == "SpecChanged"


def test_a_new_trial_waits_for_the_failed_pod_to_go() -> None:
    status = look(running()).status
    pod = tried(status, phase=PodPhase.FAILED, ended=ContainerEnd(1))
    edited = look(failed(status), pod, generation=3)
    assert edited.actions == (EndPod(pod.name, pod.uid),)
    going = look(edited.status, replace(pod, deleting_since=NOW), generation=3)
    assert going.actions == ()
    assert condition(going, "Ready")[1] == "Trying"


def test_a_pod_that_its_node_took_away_is_made_again() -> None:
    status = look(running()).status
    pod = tried(status, phase=PodPhase.FAILED, reason="Evicted")
    decision = look(status, pod)
    assert decision.actions == (EndPod(pod.name, pod.uid),)
    assert condition(decision, "Ready")[1] == "Trying"
    assert isinstance(look(decision.status).actions[0], TryPods)


def test_another_change_ends_the_first_pod_and_is_tried() -> None:
    status = look(running()).status
    pod = tried(status)
    decision = look(status, pod, generation=3, spec={"runtime": {**RUNTIME, "image": "registry/new:3"}})
    assert isinstance(decision.actions[0], TryPods)
    assert decision.actions[1:] == (EndPod(pod.name, pod.uid),)


def test_a_change_taken_back_ends_the_pod_and_is_ready() -> None:
    status = failed(look(running()).status)
    pod = tried(status)
    decision = look(status, pod, generation=3, spec={})
    assert EndPod(pod.name, pod.uid) in decision.actions
    assert decision.status.trial is None
    assert condition(decision, "Ready") == ("True", "Running")
    assert condition(decision, "Stalled")[0] == "False"


def test_the_pod_goes_with_app_attempt_or_suspension() -> None:
    status = look(running()).status
    pod = tried(status)
    end_pod = EndPod(pod.name, pod.uid)
    deleted = replace(app(status, generation=2, **CHANGED), deleting_since=NOW)
    assert end_pod in decided(seen(deleted, driver=driver(), trials=(pod,))).actions
    assert end_pod in look(status, pod, spec={**CHANGED, "suspend": True}).actions
    ended = look(status, pod, driver=driver(phase=PodPhase.FAILED, ended=ContainerEnd(1)))
    assert ended.status.trial is None
    assert end_pod in ended.actions


def test_grown_inputs_do_not_drain_for_unstartable_pods() -> None:
    status = failed(look(running()).status)
    decision = look(status, counts={"clicks": 8, "out": 4}, now=NOW + MINUTE)
    assert decision.status.draining is None
    assert condition(decision, "Ready")[1] == "TrialFailed"


def test_two_templates_are_tried_where_they_differ_and_changed() -> None:
    chosen = {"podTemplate": {"spec": {"nodeSelector": {"disk": "ssd"}}}}
    whole = look(running(), spec={"runtime": {**CHANGED["runtime"], "executors": chosen}})
    assert whole.status.trial is not None
    assert len(whole.status.trial.pods) == 2
    (passed, missing) = whole.status.trial.pods
    half = look(
        whole.status,
        tried(whole.status, phase=PodPhase.SUCCEEDED),
        spec={"runtime": {**CHANGED["runtime"], "executors": chosen}},
    )
    assert half.status.draining is None
    assert [action.digests for action in half.actions if isinstance(action, TryPods)] == [(missing,)]
    assert passed != missing
    executors = look(running(), spec={"runtime": {**RUNTIME, "executors": chosen}})
    assert executors.status.trial is not None
    assert len(executors.status.trial.pods) == 1


def test_the_next_attempt_remembers_what_its_pods_are_made_from() -> None:
    assert running().pods
    assert look(running(), spec={}).status.draining is None
