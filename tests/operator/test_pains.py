"""What hurts users of other operators, each in a situation of ours; `tests/pains.md` tells the stories."""

import ast
import dataclasses
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.protocol.pods import ContainerEnd, PodPhase
from holdfast.reasons import Reason
from holdfast.spec.parse import parse_app
from holdfast_operator.decide.decision import Decision, ForceDeletePod, LookAgain, StartDriver, WaitForChange
from holdfast_operator.decide.facts import Unknown
from holdfast_operator.manifests.driver_pod import AppOwner, Installation, driver_pod, spark_settings
from tests.operator.apps import NOW, app, condition, decided, driver, report, seen, started, tree
from tests.operator.test_lives import ACCIDENTS
from tests.operator.world import World

ROOT = Path(__file__).parents[2]
OWNER, RELEASE = AppOwner("ads", "apps", "uid-of-app"), Installation("registry/holdfast:1")
OPERATOR = sorted((ROOT / "operator" / "holdfast_operator").rglob("*.py"))
ERROR: Any = {"phase": PodPhase.FAILED, "ended": ContainerEnd(1, "Error", "boom")}
OUT_OF_MEMORY: Any = {"phase": PodPhase.FAILED, "ended": ContainerEnd(137, "OOMKilled")}
ENDED_BY_ITSELF: Any = {"phase": PodPhase.SUCCEEDED, "ended": ContainerEnd(0)}
EVICTED: Any = {"phase": PodPhase.FAILED, "reason": "Evicted"}


def test_no_decision_lacks_its_next_look() -> None:
    wake = next(one for one in dataclasses.fields(Decision) if one.name == "wake")
    assert wake.default is dataclasses.MISSING
    assert wake.default_factory is dataclasses.MISSING


@pytest.mark.parametrize(
    "left",
    [
        {"other_drivers": (driver(1),)},
        {"other_drivers": (driver(1, deleting_since=NOW, grace=30_000),)},
        {"executors": (driver(role="executor"),)},
        {"strangers": (driver(),)},
        {"driver": driver(2, deleting_since=NOW, grace=30_000)},
        {"other_drivers": Unknown("timeout")},
    ],
)
def test_leftovers_of_an_attempt_are_waited_for_with_another_look(left: dict[str, Any]) -> None:
    status = started().model_copy(update={"attempt": 2, "driver_uid": None, "ended": "Lost"})
    decision = decided(seen(app(status), **left))
    assert isinstance(decision.wake, LookAgain)
    assert not any(isinstance(one, StartDriver) for one in decision.actions)


def test_a_driver_has_one_owner_and_that_one_controls_it() -> None:
    (owner,) = driver_pod(parse_app(tree()), 1, OWNER, RELEASE)["metadata"]["ownerReferences"]
    assert (owner["uid"], owner["controller"]) == ("uid-of-app", True)


def test_spark_gets_the_driver_pod_that_owns_its_executors() -> None:
    for attempt in (1, 2):
        pod = driver_pod(parse_app(tree()), attempt, OWNER, RELEASE)
        settings = spark_settings(parse_app(tree()), attempt, OWNER, RELEASE)
        assert settings["spark.kubernetes.driver.pod.name"] == pod["metadata"]["name"]


@pytest.mark.parametrize("node_lost", [False, True])
def test_a_hanging_deletion_is_looked_at_until_it_ends(node_lost: bool) -> None:
    for age in (0, 60_000, 89_000, 91_000, 86_400_000):
        pod = driver(deleting_since=NOW - age, grace=30_000, node="n", node_lost=node_lost)
        decision = decided(seen(app(started()), driver=pod))
        assert isinstance(decision.wake, LookAgain)
        assert any(isinstance(one, ForceDeletePod) for one in decision.actions) == (node_lost and age > 90_000)


def test_an_edit_of_an_app_that_may_not_restart_counts() -> None:
    never: Any = {"restart": {"policy": "Never"}}
    failed = decided(seen(app(started(**never), **never), driver=driver(**ERROR)))
    stays = decided(seen(app(failed.status, **never), driver=driver(**ERROR)))
    assert condition(stays, "Stalled") == ("True", Reason.RESTART_NEVER)
    edited: Any = {**never, "runtime": {"checkpoint": {"location": "s3a://bucket/ads"}, "image": "other"}}
    forgiven = decided(seen(app(stays.status, 2, **edited), driver=driver(**ERROR)))
    again = decided(seen(app(forgiven.status, 2, **edited), driver=driver(**ERROR)))
    assert [one.attempt for one in again.actions if isinstance(one, StartDriver)] == [2]


@pytest.mark.parametrize(
    "facts", [{}, {"driver": driver(), "report": report()}, {"driver": driver(**ERROR)}, {"counts": Unknown("away")}]
)
def test_every_generation_is_answered_whatever_state_the_app_is_in(facts: dict[str, Any]) -> None:
    for status in (None, started(), started().model_copy(update={"ended": "Failed"})):
        decision = decided(seen(app(status, generation=7), **facts))
        assert decision.status.observed_generation == 7


@pytest.mark.parametrize(
    ("facts", "restarts_under"),
    [
        (ERROR, {"Always", "OnFailure"}),
        (OUT_OF_MEMORY, {"Always", "OnFailure"}),
        (None, {"Always", "OnFailure"}),
        (EVICTED, {"Always", "OnFailure"}),
        (ENDED_BY_ITSELF, {"Always"}),
    ],
    ids=["error", "out-of-memory", "deleted", "evicted", "ended-by-itself"],
)
@pytest.mark.parametrize("policy", ["Always", "OnFailure", "Never"])
def test_the_restart_policy_counts_for_every_way_to_end(
    facts: dict[str, Any] | None, restarts_under: set[str], policy: str
) -> None:
    spec: Any = {"restart": {"policy": policy}}
    pod = None if facts is None else driver(**facts)
    over = decided(seen(app(started(**spec), **spec), driver=pod))
    later = NOW + 600_000
    last = decided(seen(app(over.status, **spec), driver=pod), now=later)
    starts = [one.attempt for one in last.actions if isinstance(one, StartDriver)]
    assert starts == ([2] if policy in restarts_under else [])
    assert isinstance(last.wake, LookAgain if starts else WaitForChange)


def test_hundreds_of_attempts_do_not_make_the_status_larger() -> None:
    def size(world: World) -> int:
        return len(world.status.model_dump_json(by_alias=True, exclude_none=True))

    world = World()
    world.settle()
    first = size(world)
    for _ in range(300):
        world.end(1, "x" * 100)
        while world.driver() is None:
            decision = world.look()
            world.pass_time(decision.wake.after if isinstance(decision.wake, LookAgain) else 1)
    world.settle()
    assert (world.status.attempt or 0) > 300
    assert size(world) < first + 100


@given(st.randoms(use_true_random=False))
def test_ready_reconciling_and_stalled_never_contradict_each_other(pick: random.Random) -> None:
    world = World()
    for _ in range(pick.randrange(40)):
        if pick.random() < 0.3:
            pick.choice(ACCIDENTS)(world)
        decision = world.look(blind=pick.random() < 0.1)
        world.pass_time(pick.choice((1, 1_000, 20_000, 200_000)))
        if not decision.status.conditions:
            continue  # the app is guarded first; what is said of it comes at once
        ready, moving, stalled = (condition(decision, kind) for kind in ("Ready", "Reconciling", "Stalled"))
        if ready[0] == "True":
            assert (moving[0], stalled[0]) == ("False", "False")
        assert stalled[0] != "True" or stalled[1] == ready[1]
        assert (moving[0], stalled[0]) != ("True", "True")
        # Between the attempts of a crash loop Ready says what failed, and Reconciling what is done about it.
        assert moving[0] != "True" or moving[1] == ready[1] or decision.status.failures


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield str(node.module)


def test_the_operator_starts_no_process_and_so_no_jvm() -> None:
    starters = {"subprocess", "multiprocessing", "pty", "pyspark", "py4j"}
    offenders = {
        f"{path.name}: {name}" for path in OPERATOR for name in imports(path) if name.split(".")[0] in starters
    }
    assert offenders == set()


def test_of_kopf_only_what_tells_of_changes_is_used() -> None:
    used = {
        node.attr
        for path in OPERATOR
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "kopf.on"
    }
    assert "event" in used
    assert used <= {"event", "login", "startup", "cleanup", "probe"}


def test_nothing_that_is_installed_is_a_webhook() -> None:
    files = [*(ROOT / "crds").rglob("*.yaml"), *(one for one in (ROOT / "charts").rglob("*") if one.is_file())]
    assert files
    assert [str(one) for one in files if b"WebhookConfiguration" in one.read_bytes()] == []
