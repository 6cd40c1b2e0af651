"""Pods as clusters bend them: whatever comes, facts come out, and a decision with a wake-up."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.protocol.names import APP_LABEL, ATTEMPT_LABEL
from holdfast.protocol.pods import ContainerEnd, PodController, PodPhase, pod_state
from holdfast_operator.decide.attempt_endings import AttemptOutcome, ending_of
from holdfast_operator.decide.decision import LookAgain, StartDriver, WaitForChange
from holdfast_operator.decide.facts import AppKey
from holdfast_operator.observe.cache import WatchCache
from holdfast_operator.observe.nodes import Nodes
from tests.operator.apps import app, decided, driver, report, seen, started

NAME = driver().name


def pod(status: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    labels = {ATTEMPT_LABEL: "1", "spark-role": "driver"}
    full_metadata = {
        "name": NAME,
        "uid": "uid-1",
        "labels": labels,
        "creationTimestamp": "2027-01-15T08:00:00Z",
        **metadata,
    }
    return {"metadata": full_metadata, "spec": {"nodeName": "node-a"}, "status": status}


def container(**state: Any) -> dict[str, Any]:
    return {"name": "driver", "state": state}


EVICTED = pod({"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."})
NODE_LOST = pod(
    {"phase": "Running", "reason": "NodeLost", "containerStatuses": [container(running={})]},
    deletionTimestamp="2027-01-15T08:01:00Z",
    deletionGracePeriodSeconds=30,
)
NEVER_SCHEDULED = pod(
    {
        "phase": "Pending",
        "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available"}
        ],
    }
)
NO_STATUS = pod({"phase": "Failed"})
DELETED_WHILE_PENDING = pod(
    {"phase": "Pending"}, deletionTimestamp="2027-01-15T08:00:30Z", deletionGracePeriodSeconds=0
)
IMAGE = pod(
    {"phase": "Pending", "containerStatuses": [container(waiting={"reason": "ErrImagePull", "message": "not found"})]}
)
OOM = pod({"phase": "Failed", "containerStatuses": [container(terminated={"exitCode": 137, "reason": "OOMKilled"})]})
SHUTDOWN = pod(
    {"phase": "Failed", "reason": "Terminated", "message": "Pod was terminated in response to node shutdown"}
)
ERROR = pod({"phase": "Failed", "containerStatuses": [container(terminated={"exitCode": 1, "reason": "Error"})]})
TARGET: Any = {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}]}
DELETED: Any = {"deletionTimestamp": "2027-01-15T08:01:00Z", "deletionGracePeriodSeconds": 30}
SAYS_DRAINED: Any = {"containerStatuses": [container(terminated={"exitCode": 0, "message": '{"ended": "drained"}'})]}
SAYS_COMPLETED: Any = {
    "containerStatuses": [container(terminated={"exitCode": 0, "message": '{"ended": "completed"}'})]
}
SAYS_USER: Any = {"containerStatuses": [container(terminated={"exitCode": 1, "message": '{"failed": "user"}'})]}
KILLED: Any = {"containerStatuses": [container(terminated={"exitCode": 137, "reason": "Error"})]}
NODE_DRAINED = pod({"phase": "Succeeded", **TARGET, **SAYS_DRAINED}, **DELETED)
NODE_DRAINED_TOO_SLOWLY = pod({"phase": "Failed", **TARGET, **KILLED}, **DELETED)
PREEMPTED = pod({"phase": "Failed", **TARGET})
COMPLETED_IN_A_DRAIN = pod({"phase": "Succeeded", **TARGET, **SAYS_COMPLETED}, **DELETED)
REFUSED_IN_A_DRAIN = pod({"phase": "Failed", **TARGET, **SAYS_USER}, **DELETED)
ENDED_BY_KUBECTL_DELETE = pod({"phase": "Succeeded", **SAYS_DRAINED}, **DELETED)
ENDED_BY_A_SIGNAL = pod({"phase": "Succeeded", **SAYS_DRAINED})
KILLED_BY_KUBECTL_DELETE = pod({"phase": "Failed", **KILLED}, **DELETED)
DRAINED = pod({"phase": "Succeeded", "containerStatuses": [container(terminated={"exitCode": 0})]})


def test_the_facts_of_ordinary_and_odd_pods() -> None:
    assert pod_state(EVICTED).reason == "Evicted"
    assert pod_state(EVICTED).over
    assert pod_state(NODE_LOST).node_lost
    assert pod_state(NODE_LOST).deleting_since == 1_800_000_030_000
    assert pod_state(NEVER_SCHEDULED).unschedulable == "0/3 nodes are available"
    assert pod_state(IMAGE).waiting == ("ErrImagePull", "not found")
    assert pod_state(OOM).ended == ContainerEnd(137, "OOMKilled")
    assert pod_state(DELETED_WHILE_PENDING).deleting_since == 1_800_000_030_000
    assert pod_state(NO_STATUS).phase is PodPhase.FAILED
    assert pod_state(OOM).attempt == 1


def test_a_deleted_pod_does_not_take_its_namesake_along() -> None:
    cache = WatchCache()
    of: dict[str, Any] = {"namespace": "apps", "labels": {APP_LABEL: "ads"}}
    first = pod({"phase": "Failed"}, **of, resourceVersion="5")
    second = pod({"phase": "Pending"}, **of, resourceVersion="7", uid="uid-2")
    cache.saw_pod(first, deleted=False)
    cache.saw_pod(second, deleted=False)
    cache.saw_pod(first, deleted=True)
    assert [one.uid for one in cache.pods(AppKey("apps", "ads")).values()] == ["uid-2"]
    cache.saw_pod(second, deleted=True)
    assert cache.pods(AppKey("apps", "ads")) == {}


def test_a_pod_is_lost_and_back_with_its_node() -> None:
    now = 1_800_000_000_000
    cache = WatchCache(nodes=Nodes(60_000, lambda: now))
    running = pod({"phase": "Running"}, namespace="apps", labels={APP_LABEL: "ads"})
    key = cache.saw_pod(running, deleted=False)
    assert key == AppKey("apps", "ads")
    assert not cache.with_node_state(pod_state(running)).node_lost
    ready = {"metadata": {"name": "node-a"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    assert cache.saw_node(ready, deleted=False)
    assert not cache.saw_node(ready, deleted=False)
    assert not cache.with_node_state(pod_state(running)).node_lost
    silent = {"metadata": {"name": "node-a"}, "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
    assert cache.saw_node(silent, deleted=False)
    assert cache.on_node("node-a") == [key]
    now += 59_999
    assert cache.with_node_state(pod_state(running)).silent_since == 1_800_000_000_000
    assert not cache.with_node_state(pod_state(running)).node_lost
    now += 1
    assert cache.with_node_state(pod_state(running)).node_lost
    assert cache.saw_node(ready, deleted=False)
    assert cache.with_node_state(pod_state(running)).silent_since is None
    assert not cache.with_node_state(pod_state(running)).node_lost
    cache.saw_node(ready, deleted=True)
    assert not cache.with_node_state(pod_state(running)).node_lost
    now += 60_000
    assert cache.with_node_state(pod_state(running)).node_lost


@pytest.mark.parametrize(
    ("tree", "draining", "outcome", "reason"),
    [
        (EVICTED, False, AttemptOutcome.LOST, "Evicted"),
        (SHUTDOWN, False, AttemptOutcome.LOST, "NodeLost"),
        (NO_STATUS, False, AttemptOutcome.FAILED, "DriverFailed"),
        (OOM, False, AttemptOutcome.FAILED, "OutOfMemory"),
        (ERROR, False, AttemptOutcome.FAILED, "DriverFailed"),
        (ERROR, True, AttemptOutcome.DRAINED, "Draining"),
        (DRAINED, True, AttemptOutcome.DRAINED, "Draining"),
        (DRAINED, False, AttemptOutcome.STOPPED, "EndedByItself"),
        (NODE_DRAINED, False, AttemptOutcome.LOST, "Evicted"),
        (NODE_DRAINED, True, AttemptOutcome.DRAINED, "Draining"),
        (NODE_DRAINED_TOO_SLOWLY, False, AttemptOutcome.LOST, "Evicted"),
        (NODE_DRAINED_TOO_SLOWLY, True, AttemptOutcome.DRAINED, "Draining"),
        (PREEMPTED, False, AttemptOutcome.LOST, "Evicted"),
        (COMPLETED_IN_A_DRAIN, False, AttemptOutcome.COMPLETED, "Completed"),
        (REFUSED_IN_A_DRAIN, False, AttemptOutcome.REFUSED, "DriverRefused"),
        (ENDED_BY_KUBECTL_DELETE, False, AttemptOutcome.LOST, "DriverDeleted"),
        (ENDED_BY_A_SIGNAL, False, AttemptOutcome.LOST, "DriverDeleted"),
        (KILLED_BY_KUBECTL_DELETE, False, AttemptOutcome.LOST, "DriverDeleted"),
    ],
)
def test_how_an_attempt_ended(tree: Any, draining: bool, outcome: AttemptOutcome, reason: str) -> None:
    ending = ending_of(pod_state(tree), draining=draining)
    assert (ending.outcome, ending.reason) == (outcome, reason)


def test_a_driver_drained_by_its_node_is_replaced_without_failure() -> None:
    ended = pod_state(NODE_DRAINED)
    decision = decided(seen(app(started()), driver=ended))
    assert (decision.status.ended, decision.status.failures, decision.status.retry_at) == ("Lost", 0, None)
    again = decided(seen(app(decision.status), driver=ended))
    assert [one.attempt for one in again.actions if isinstance(one, StartDriver)] == [2]


def test_a_termination_message_that_is_no_json_is_shown_unchanged() -> None:
    for text in ("[1]", "Killed", "[" * 100_000, '{"message": 7}'):
        ended = pod_state(
            pod({"phase": "Failed", "containerStatuses": [container(terminated={"exitCode": 1, "message": text})]})
        )
        assert ending_of(ended, draining=False).outcome is AttemptOutcome.FAILED


scalars = (
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.sampled_from([*PodPhase, "Evicted", "True"])
)
fields = (
    "metadata spec status phase reason labels containerStatuses state terminated exitCode waiting message nodeName "
    "deletionTimestamp deletionGracePeriodSeconds conditions type ownerReferences controller uid name creationTimestamp"
)
trees = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*fields.split(), ATTEMPT_LABEL]), inner, max_size=5)
    ),
    max_leaves=20,
)


@given(trees, st.booleans(), st.sampled_from(["driver", "other_drivers", "executors"]))
def test_no_pod_whatever_makes_a_decision_fail(tree: Any, draining: bool, field: str) -> None:
    facts = pod_state(tree)
    status = started().model_copy(update={"draining": "Suspended" if draining else None})
    pod_facts = facts if field == "driver" else (facts,)
    decision = decided(seen(app(status), report=report(), **{field: pod_facts}))
    assert isinstance(decision.wake, (LookAgain, WaitForChange))


@pytest.mark.parametrize(
    "tree",
    [EVICTED, NODE_LOST, NEVER_SCHEDULED, NO_STATUS, DELETED_WHILE_PENDING, IMAGE, OOM, SHUTDOWN, ERROR, DRAINED],
)
def test_each_odd_pod_is_followed_by_a_look(tree: Any) -> None:
    decision = decided(seen(app(started()), driver=pod_state(tree)))
    assert isinstance(decision.wake, LookAgain)


def test_who_makes_a_pod_again_is_a_fact_of_it() -> None:
    other = {"kind": "StatefulSet", "name": "spark-s-a-0", "uid": "u"}
    made = {"metadata": {"name": "spark-s-a-0-1", "ownerReferences": [other | {"controller": True}]}}
    assert pod_state(made).made_by == PodController("spark-s-a-0", "u")
    assert pod_state(made | {"metadata": {"ownerReferences": [other]}}).made_by is None
    driver = {"kind": "StreamApp", "name": "a", "uid": "u", "controller": True}
    assert pod_state({"metadata": {"ownerReferences": [driver]}}).made_by is None
