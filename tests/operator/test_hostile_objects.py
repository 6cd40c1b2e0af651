"""Objects that others wrote into an app's namespace: nothing of others is deleted, and no text does harm where it ends.

Labels, owner references, reports and status can be written by whoever has a right to; names and uids can't. What is
trusted and why: docs/security.md.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from holdfast.api_answers import api_error
from holdfast.attempt_number import LAST_ATTEMPT, AttemptNumberError, padded
from holdfast.one_line import one_line
from holdfast.protocol.assignment import AssignmentInvalidError, read_assignment
from holdfast.protocol.attempt import read_orders
from holdfast.protocol.names import app_id, attempt_in, attempt_name, executor_set, executor_set_in
from holdfast.protocol.pods import pod_state
from holdfast.protocol.report import read_report
from holdfast.spec.app import Status
from holdfast_operator.brokers.partition_counts import UnansweredError
from holdfast_operator.decide.decision import (
    CollectAttempts,
    Decision,
    EndExecutorSet,
    EndPod,
    ForceDeletePod,
    GiveUpClaim,
    GiveUpRunClaims,
    StartDriver,
)
from holdfast_operator.decide.facts import AppObject, ExecutorLocations
from holdfast_operator.observe.snapshot import app_object, with_pods
from tests.operator.apps import NOW, TREE, UID, condition, decided, started

Tree = dict[str, Any]
SET = executor_set("ads", "1")
OWN = (attempt_name("ads", "1", 1), attempt_name("ads", "1", 2), attempt_name("ads", "0", 9), f"{SET}-0", f"{SET}-1")
FOREIGN = (
    attempt_name("ads-2", "1", 1),
    attempt_name("other", "1", 1),
    f"{executor_set('other', '1')}-0",
    "database-0",
    f"{app_id('ads', '1')}",
    f"{app_id('ads', '1')}-01",
    f"{app_id('ads', '1')}-99999999999",
    f"x-{SET}-0",
)
OWNERS = (
    {"kind": "StreamApp", "name": "ads", "uid": UID, "controller": True},
    {"kind": "StreamApp", "name": "ads", "uid": "uid-of-an-earlier-app", "controller": True},
    {"kind": "StatefulSet", "name": SET, "uid": "uid-of-set", "controller": True},
    {"kind": "StatefulSet", "name": "database", "uid": "uid-of-database", "controller": True},
    {"kind": "StatefulSet", "name": executor_set("other", "1"), "uid": "uid-of-others", "controller": True},
)


def labels() -> SearchStrategy[Tree]:
    return st.fixed_dictionaries(
        {
            "holdfast.dev/app": st.just("ads"),
            "holdfast.dev/app-id": st.sampled_from((app_id("ads", "1"), app_id("other", "1"), "x")),
            "holdfast.dev/attempt": st.sampled_from(("1", "2", "0", "99999999999", "²", "-1", "")),
            "spark-role": st.sampled_from(("driver", "executor", "")),
        }
    )


@st.composite
def pods(draw: st.DrawFn) -> Tree:
    name = draw(st.sampled_from(OWN + FOREIGN))
    metadata: Tree = {
        "name": name,
        "uid": f"uid-{name}",
        "labels": draw(labels()),
        "ownerReferences": draw(st.lists(st.sampled_from(OWNERS), max_size=2)),
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    if draw(st.booleans()):
        metadata |= {"deletionTimestamp": "2026-01-01T00:01:00Z", "deletionGracePeriodSeconds": 30}
    claim = draw(st.sampled_from((f"state-{name}", "data-database-0", "shared")))
    phase = draw(st.sampled_from(("Pending", "Running", "Succeeded", "Failed")))
    status: Tree = {"phase": phase, "reason": draw(st.sampled_from(("", "NodeLost", "Evicted")))}
    if draw(st.booleans()):
        status["conditions"] = [{"type": "PodScheduled", "status": "False", "message": "no room"}]
    return {
        "metadata": metadata,
        "spec": {"volumes": [{"name": "state", "persistentVolumeClaim": {"claimName": claim}}]},
        "status": status,
    }


def statuses() -> SearchStrategy[Status]:
    numbers = st.sampled_from((1, 2, 9, LAST_ATTEMPT))
    fields = st.fixed_dictionaries(
        {
            "attempt": numbers,
            "run_id": st.sampled_from(("0", "1", "other")),
            "ended": st.sampled_from((None, "Lost", "Completed", "Drained", "x")),
            "draining": st.sampled_from((None, "Deleting")),
        }
    )
    return fields.map(lambda update: started().model_copy(update=update))


def deletes(decision: Decision) -> Iterator[tuple[str, str]]:
    """Kind and name of all that is deleted."""
    for action in decision.actions:
        match action:
            case EndPod(name) | ForceDeletePod(name):
                yield "Pod", name
            case EndExecutorSet(name):
                yield "StatefulSet", name
            case GiveUpClaim(name):
                yield "Claim", name
            case _:
                pass


@given(st.lists(pods(), max_size=6), statuses(), st.booleans(), st.booleans())
def test_only_what_is_of_the_app_is_deleted(trees: list[Tree], status: Status, deleting: bool, suspend: bool) -> None:
    spec = TREE["spec"] | ({"suspend": True} if suspend else {})
    deletable = {"Pod": OWN, "StatefulSet": (SET,), "Claim": (f"state-{SET}-0",)}
    locations = ExecutorLocations({}, None, {f"state-{SET}-0": "uid-of-claim"})
    # Most is ended after an attempt, when only executors are left.
    left = [tree for tree in trees if tree["metadata"]["name"].startswith("spark-s-")]
    for these, app_status in ((trees, status), (left, status.model_copy(update={"ended": "Lost"}))):
        of = AppObject(
            "ads", "apps", UID, 1, TREE | {"spec": spec}, app_status, NOW if deleting else None, finalizer=True
        )
        snapshot = with_pods(of, {pod.name: pod for pod in map(pod_state, these)})
        for kind, name in deletes(decided(replace(snapshot, counts={"clicks": 4, "out": 4}, locations=locations))):
            assert name in deletable[kind]


@given(
    st.sampled_from(OWN + FOREIGN),
    st.lists(st.sampled_from(OWNERS), max_size=2),
    st.sampled_from((1, 2, LAST_ATTEMPT)),
)
def test_labels_of_an_attempt_alone_get_nothing_collected(name: str, owners: list[Tree], before: int) -> None:
    of = AppObject("ads", "apps", UID, 1, TREE)
    goes = CollectAttempts(before, app_id("ads", "1")).covers(of, {"name": name, "ownerReferences": owners})
    assert not goes or (attempt_in("ads", name) is not None and OWNERS[0] in owners)


@pytest.mark.parametrize(
    ("claim", "goes"),
    [
        (f"state-{SET}-0", True),
        (f"scratch-{SET}-12", True),
        ("data-database-0", False),
        (f"state-{SET}", False),
        (f"state-{executor_set('other', '1')}-0", False),
        (f"state-{executor_set('ads', '2')}-0", False),
    ],
)
def test_the_label_of_a_run_alone_gives_up_no_claim(claim: str, goes: bool) -> None:
    assert GiveUpRunClaims(app_id("ads", "1")).covers({"name": claim}) is goes


def test_a_pod_ends_without_the_foreign_set_it_names() -> None:
    forged = {
        "metadata": {
            "name": f"{SET}-7",
            "uid": "u",
            "labels": {"holdfast.dev/app": "ads"},
            "ownerReferences": [OWNERS[3]],
        },
        "status": {"phase": "Running"},
    }
    of = AppObject("ads", "apps", UID, 1, TREE, started().model_copy(update={"ended": "Lost"}), finalizer=True)
    snapshot = with_pods(of, {"p": pod_state(forged)})
    assert decided(replace(snapshot, counts={"clicks": 4, "out": 4})).actions == (EndPod(f"{SET}-7", "u"),)


def test_a_driver_stripped_of_its_labels_is_still_the_driver() -> None:
    bare = {
        "metadata": {"name": OWN[0], "uid": "uid-1", "ownerReferences": [OWNERS[0]]},
        "status": {"phase": "Running"},
    }
    of = AppObject("ads", "apps", UID, 1, TREE, started(), finalizer=True)
    snapshot = replace(with_pods(of, {"p": pod_state(bare)}), counts={"clicks": 4, "out": 4})
    assert snapshot.driver is not None
    assert not any(isinstance(action, StartDriver) for action in decided(snapshot).actions)


# Numbers


@given(st.text("abcdefghijklmnop-", min_size=1, max_size=40).filter(lambda name: name.strip("-") == name), st.text())
def test_names_are_parsed_into_what_they_were_made_of(app: str, run: str) -> None:
    for attempt in (1, 10, LAST_ATTEMPT):
        named = attempt_in(app, attempt_name(app, run, attempt))
        assert named is not None
        assert (named.app_id, named.attempt) == (app_id(app, run), attempt)
    assert executor_set_in(app, f"{executor_set(app, run)}-3") == executor_set(app, run)
    assert attempt_in(app, executor_set(app, run)) is None


@pytest.mark.parametrize("attempt", [LAST_ATTEMPT + 1, 2**62, 2**63 - 1, -1, True, "1", 1.0, None])
def test_an_impossible_attempt_number_is_refused_by_every_reader(attempt: Any) -> None:
    orders = '{"app":"a","namespace":"n","uid":"u","runId":"1","assignment":"x","report":"y","topics":{},"attempt":%s}'
    with pytest.raises(AttemptNumberError, match="is no number of an attempt"):
        read_orders(orders % json.dumps(attempt))
    with pytest.raises(AttemptNumberError):
        padded(attempt)
    if not isinstance(attempt, int) or isinstance(attempt, bool):
        return
    assert read_report(json.dumps({"attempt": attempt, "at": 1})) is None
    assert read_report(json.dumps({"attempt": 1, "at": 1, "assignment": attempt})) is None
    with pytest.raises(AssignmentInvalidError, match="is no number of an attempt"):
        read_assignment(json.dumps({"version": 1, "attempt": attempt, "processors": {}, "assignment": {}}))
    assert pod_state({"metadata": {"labels": {"holdfast.dev/attempt": str(attempt)}}}).attempt is None
    written = TREE | {"metadata": {"name": "ads", "namespace": "apps", "uid": UID}, "status": {"attempt": attempt}}
    assert app_object(written).status == Status()


def test_a_forged_last_number_is_reported_and_starts_nothing() -> None:
    status = started().model_copy(update={"attempt": LAST_ATTEMPT, "ended": "Drained"})
    of = AppObject("ads", "apps", UID, 1, TREE, status, finalizer=True)
    decision = decided(replace(with_pods(of, {}), counts={"clicks": 4, "out": 4}))
    assert condition(decision, "Stalled") == ("True", "AttemptsUsedUp")
    assert decision.actions == ()
    new = AppObject("ads", "apps", UID, 2, TREE | {"spec": TREE["spec"] | {"runId": "2"}}, status, finalizer=True)
    again = decided(replace(with_pods(new, {}), counts={"clicks": 4, "out": 4}))
    assert any(isinstance(action, StartDriver) and action.attempt == 1 for action in again.actions)


@pytest.mark.parametrize("count", ["restarts", "failures"])
def test_a_forged_count_does_not_invalidate_the_status(count: str) -> None:
    status = started().model_copy(update={count: LAST_ATTEMPT, "driver_uid": "uid-1"})
    failed = {"phase": "Failed"}
    pod = {"metadata": {"name": OWN[0], "uid": "uid-1", "ownerReferences": [OWNERS[0]]}, "status": failed}
    of = AppObject("ads", "apps", UID, 1, TREE, status, finalizer=True)
    decision = decided(replace(with_pods(of, {"p": pod_state(pod)}), counts={"clicks": 4, "out": 4}))
    Status.model_validate(decision.status.model_dump(by_alias=True), by_alias=True, by_name=False)
    assert decision.status.ended == "Failed"


# Texts

HOSTILE = st.text(st.characters(categories=["Cc", "Cf", "Cs", "Zl", "Zp", "Lu", "Zs"]), min_size=1, max_size=60)


def texts(decision: Decision) -> list[str]:
    """All that a decision writes for people."""
    status = decision.status.model_dump(mode="python")
    events = [event.message for event in decision.events]
    return [*events, *(one["message"] for one in status["conditions"]), *(str(one) for one in status.values() if one)]


def terminated(message: str, reason: str) -> Tree:
    return {"terminated": {"exitCode": 1, "message": message, "reason": reason}}


def waiting(message: str, reason: str) -> Tree:
    return {"waiting": {"reason": reason, "message": message}}


@given(HOSTILE, st.sampled_from(("ErrImagePull", "CreateContainerError")), st.booleans(), st.booleans(), HOSTILE)
@example("\n2026-01-01 INFO all is well\x1b[2K\u202egnp.exe" * 900, "ErrImagePull", True, True, "\n")
def test_texts_of_pods_and_statuses_lose_terminal_controls(
    text: str, reason: str, over: bool, nested: bool, quoted: str
) -> None:
    words = json.dumps({"failed": "user" if len(text) % 2 else "world", "message": text}) if nested else text
    state = terminated(words, text) if over else waiting(text, reason)
    tree = {
        "metadata": {"name": OWN[0], "uid": "uid-1", "ownerReferences": [OWNERS[0]]},
        "spec": {"nodeName": text},
        "status": {
            "phase": "Failed" if over else "Pending",
            "message": text,
            "reason": text,
            "conditions": [{"type": "PodScheduled", "status": "False", "message": text}],
            "containerStatuses": [{"state": state}],
        },
    }
    driver_condition = {"type": "DriverRunning", "status": "False", "reason": "DriverFailed", "message": quoted}
    written: Mapping[str, Any] = started().model_dump(mode="json", by_alias=True, exclude_none=True) | {
        "conditions": [driver_condition | {"lastTransitionTime": "2026-01-01T00:00:00Z"}],
        "ended": None if over else "Failed",
        "retryAt": "2040-01-01T00:00:00Z",
    }
    of = app_object(TREE | {"metadata": {"name": "ads", "namespace": "apps", "uid": UID}, "status": written})
    of = replace(of, finalizer=True)
    for snapshot in (with_pods(of, {"p": pod_state(tree)}), with_pods(of, {})):
        for shown in texts(decided(replace(snapshot, counts={"clicks": 4, "out": 4}))):
            assert shown.isprintable()
            assert len(shown) <= 4_000 or shown.startswith("(")


@given(HOSTILE)
def test_texts_of_reports_brokers_and_api_server_lose_terminal_controls(text: str) -> None:
    names = ("heldBack", "heldBy", "loading", "incomplete")
    report = read_report(json.dumps({"attempt": 1, "at": 1, **dict.fromkeys(names, text)}))
    assert report is not None
    refused = api_error("create pods", 422, json.dumps({"message": text * 100}).encode())
    broker = UnansweredError("no answer", [text * 100])
    for shown in (report.held_back, report.held_by, report.loading, report.incomplete, str(refused), broker.tried):
        assert shown is not None
        assert shown.isprintable()
        assert len(shown) < 1_100


def test_a_line_keeps_printable_text_up_to_its_limit() -> None:
    assert one_line("größer 日本 → ok") == "größer 日本 → ok"
    assert one_line("a\nb\x1b[31mc\u202ed") == "a b [31mc d"
    assert one_line("x" * 1_001) == "x" * 997 + "..."
