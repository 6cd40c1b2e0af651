"""Executors that end though their attempt goes on: one event says which, where, how, and what helps."""

from typing import Any

import pytest

from holdfast.protocol.names import ATTEMPT_LABEL, executor_set
from holdfast.protocol.pods import MAIN, PodState, pod_state
from holdfast.reasons import Reason
from holdfast.times import stamp
from holdfast_operator.decide.decision import Decision, LookAgain
from tests.operator.apps import LIMITS, NOW, app, decided, driver, report, seen, started

NAME = f"{executor_set('ads', '1')}-0"
SECOND, MINUTE = 1_000, 60_000


def executor(number: int = 0, attempt: int = 1, phase: str = "Running", **status: Any) -> dict[str, Any]:
    """An executor's pod on node b."""
    name = f"{executor_set('ads', '1')}-{number}"
    metadata = {"name": name, "uid": f"uid-of-{number}", "labels": {ATTEMPT_LABEL: str(attempt)}}
    return {"metadata": metadata, "spec": {"nodeName": "b"}, "status": {"phase": phase, **status}}


def ended(code: int, ago: int, *, again: bool = True, name: str = MAIN["executors"], **fields: str) -> dict[str, Any]:
    """The status of a container that ended; `again`: and was started again."""
    end = {"terminated": {"exitCode": code, "finishedAt": stamp(NOW - ago), **fields}}
    states = {"state": {"running": {}}, "lastState": end} if again else {"state": end}
    return {"containerStatuses": [{"name": name, **states}]}


def deleted(pod: dict[str, Any], ago: int) -> dict[str, Any]:
    """The pod, told to end with a grace of half a minute."""
    marks = {"deletionTimestamp": stamp(NOW - ago + 30 * SECOND), "deletionGracePeriodSeconds": 30}
    return {**pod, "metadata": {**pod["metadata"], **marks}}


DISRUPTED: dict[str, Any] = {
    "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}]
}


def look(*pods: dict[str, Any] | PodState, now: int = NOW, **facts: Any) -> Decision:
    states = tuple(pod if isinstance(pod, PodState) else pod_state(pod) for pod in pods)
    snapshot_facts: dict[str, Any] = {"driver": driver(), "report": report(), **facts}
    return decided(seen(app(started()), executors=states, **snapshot_facts), now)


def told(decision: Decision) -> list[str]:
    return [event.message for event in decision.events if event.reason is Reason.EXECUTOR_LOST]


@pytest.mark.parametrize(
    ("pod", "says"),
    [
        (
            executor(**ended(137, 2 * SECOND, reason="OOMKilled")),
            [f"{NAME} on node b", "OOMKilled", "137", "spec.runtime.executors.memory"],
        ),
        (
            executor(**ended(52, MINUTE, reason="Error", message="OutOfMemoryError\n\x1b[31mat line 1")),
            [f"{NAME} on node b", "exit code 52 (Error)", "OutOfMemoryError  [31mat line 1"],
        ),
        (executor(**ended(1, MINUTE, reason="Error")), ["exit code 1", "holdfast logs --executors --previous"]),
        (executor(**ended(137, MINUTE, reason="Error")), ["exit code 137 (killed from outside)"]),
        (executor(phase="Failed", **ended(1, SECOND, again=False)), ["exit code 1"]),
        (deleted(executor(**ended(1, 9 * SECOND, again=False)), 6 * SECOND), ["exit code 1"]),
        (
            executor(phase="Failed", reason="Evicted", message="The node was low on resource: memory."),
            ["had to leave node b", "Evicted: The node was low on resource: memory."],
        ),
        (deleted(executor(**DISRUPTED), SECOND), ["had to leave node b (EvictionByEvictionAPI)"]),
        (executor(reason="NodeLost"), [f"{NAME} is lost with node b"]),
    ],
)
def test_a_death_is_told_with_node_cause_and_cure(pod: dict[str, Any], says: list[str]) -> None:
    (message,) = told(look(pod))
    assert all(part in message for part in says), message


@pytest.mark.parametrize(
    "pod",
    [
        executor(containerStatuses=[{"name": MAIN["executors"], "state": {"running": {}}}]),
        executor(**ended(0, MINUTE)),
        executor(attempt=2, **ended(137, MINUTE, reason="OOMKilled")),
        executor(**ended(1, MINUTE, name="sidecar")),
        executor(**ended(137, LIMITS.recent + SECOND, reason="OOMKilled")),
        executor(**DISRUPTED),
        deleted(executor(), SECOND),
        deleted(executor(**ended(143, 3 * SECOND, again=False)), 3 * SECOND),
        deleted(executor(phase="Failed", **ended(137, SECOND, again=False)), 31 * SECOND),
    ],
    ids=[
        "it runs",
        "its driver ended it",
        "of another attempt",
        "another container",
        "long ago",
        "the eviction was refused",
        "deleted by somebody",
        "ended as it was deleted",
        "killed as it was too slow to end",
    ],
)
def test_an_executor_running_or_meant_to_end_is_not_told(pod: dict[str, Any]) -> None:
    assert told(look(pod)) == []


def test_the_executors_of_an_attempt_that_ends_are_not_told() -> None:
    pod = executor(**ended(137, MINUTE, reason="OOMKilled"))
    draining = started().model_copy(update={"draining": Reason.SPEC_CHANGED.value})
    drains = seen(app(draining), driver=driver(), executors=(pod_state(pod),), report=report())
    assert told(decided(drains)) == []
    assert told(decided(seen(app(started(), suspend=True), driver=driver(), executors=(pod_state(pod),)))) == []
    assert told(look(pod, driver=driver(deleting_since=NOW - SECOND))) == []
    assert told(look(pod, driver=None)) == []


def test_a_failure_is_told_once_the_driver_has_outlived_it() -> None:
    pod = executor(**ended(1, 2 * SECOND))
    first = look(pod)
    assert told(first) == []
    assert isinstance(first.wake, LookAgain)
    assert first.wake.after <= LIMITS.settle - 2 * SECOND
    assert not first.wake.well, "no report of progress puts it off"
    assert len(told(look(pod, now=NOW + first.wake.after + LIMITS.settle))) == 1


def test_each_end_has_its_own_subject_in_every_look() -> None:
    first, second = executor(**ended(1, 2 * MINUTE)), executor(**ended(1, MINUTE))
    about = [look(pod, now=now).events[0].about for pod in (first, second) for now in (NOW, NOW + MINUTE)]
    assert about[0] == about[1] != about[2] == about[3]


def test_an_eviction_from_a_lost_node_is_told_once() -> None:
    lost = executor(reason="NodeLost")
    deleted_pod = deleted(executor(reason="NodeLost", **DISRUPTED), SECOND)
    assert look(lost).events[0].about == look(deleted_pod).events[0].about


def test_of_many_ends_five_and_the_rests_number_are_told() -> None:
    messages = told(look(*(executor(number, **ended(137, MINUTE, reason="OOMKilled")) for number in range(20))))
    assert len(messages) == 5
    assert [message.endswith("15 more executors ended within 10 min") for message in messages] == [False] * 4 + [True]


def test_a_death_is_told_while_the_spec_is_unreadable() -> None:
    pod = pod_state(executor(**ended(137, MINUTE, reason="OOMKilled")))
    broken = app(started(), generation=2, steps=[{"name": "x"}])
    assert len(told(decided(seen(broken, driver=driver(), executors=(pod,), report=report())))) == 1
