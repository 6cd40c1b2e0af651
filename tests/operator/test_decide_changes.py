import copy
from typing import Any

import pytest

from holdfast.protocol.names import app_id
from holdfast.reasons import Reason
from holdfast.tasks.partitions import StreamPartition
from holdfast.tasks.record import PlacementRecord
from holdfast_operator.decide.attempt_endings import AttemptOutcome
from holdfast_operator.decide.decision import CollectAttempts, EndPod, LookAgain, StartDriver, WaitForChange
from holdfast_operator.decide.facts import AppObject, Snapshot, Unknown
from tests.operator.apps import (
    LIMITS,
    NOW,
    TREE,
    after,
    app,
    condition,
    decided,
    driver,
    message,
    report,
    seen,
    started,
)


def recorded(**counts: int) -> PlacementRecord:
    tasks = max(counts.values())
    grouping = {
        f"partition-{at}": tuple(StreamPartition(name, at) for name, count in counts.items() if at < count)
        for at in range(tasks)
    }
    return PlacementRecord("1", grouping, {}, {})


def test_a_rejected_plan_makes_no_pod_and_says_the_repair() -> None:
    joined = {"name": "j", "from": ["clicks", "views"], "join": {"by": ["k"], "within": "1m", "select": ["k"]}}
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
    of = AppObject("ads", "apps", "u", 2, broken, started(), finalizer=True)
    decision = decided(Snapshot(of, driver=driver(), report=report()))
    assert decision.actions == ()
    assert condition(decision, "DriverRunning") == ("True", "Running")
    assert condition(decision, "PlanValid")[0] == "False"
    assert condition(decision, "Stalled")[0] == "True"
    assert condition(decision, "Ready")[0] == "False"


def test_a_driver_of_another_spec_than_written_down_is_drained() -> None:
    """Another operator made it, when this one had written down the next spec for the same attempt."""
    status = started()
    other = driver(spec_hash="of-the-spec-before")
    decision = decided(seen(app(status), driver=other, report=report()))
    assert (decision.status.spec_hash, decision.status.pods) == ("of-the-spec-before", ())
    assert (decision.actions, decision.wake) == ((), LookAgain(0))
    tries = decided(seen(app(decision.status), driver=other, report=report()))
    assert condition(tries, "Ready")[1] == "Trying"
    fitting = driver(spec_hash=status.spec_hash)
    assert condition(decided(seen(app(status), driver=fitting, report=report())), "Ready") == ("True", "Running")


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
    after_end = decided(seen(app(ending.status, generation=2, **changed)))
    assert after_end.status.ended == AttemptOutcome.DRAINED
    start = decided(seen(app(after_end.status, generation=2, **changed))).actions[0]
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
    after_end = decided(seen(app(decision.status, suspend=True)))
    rests = decided(seen(app(after_end.status, suspend=True)))
    assert isinstance(rests.wake, WaitForChange)
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


def test_growth_that_has_to_wait_is_not_ready() -> None:
    """The app was said to run well, and records of new partitions were read by nobody."""
    facts: Any = {"counts": {"clicks": 8, "out": 4}, "record": recorded(clicks=4), "missing": ("Secret kafka-auth",)}
    waits = decided(seen(app(started()), driver=driver(), report=report(), **facts))
    assert (waits.status.draining, condition(waits, "Ready")) == (None, ("False", "ObjectMissing"))
    assert "a restart to read clicks from 4 to 8 partitions has to wait: Secret kafka-auth" in message(waits, "Ready")
    live: Any = {"onPartitionGrowth": "Live"}
    reads = decided(seen(app(started(**live), **live), driver=driver(), report=report(), **facts))
    assert condition(reads, "Ready") == ("True", "Running")


def test_growth_does_not_end_the_attempt_started_for_it() -> None:
    facts: Any = {"counts": {"clicks": 8, "out": 4}, "record": recorded(clicks=4)}
    for driver_report in (None, report(1), report(2, tasks=0, progressed=None)):
        decision = decided(seen(app(after(attempt=2)), driver=driver(2), report=driver_report, **facts))
        assert decision.status.draining is None
        assert not any(isinstance(one, EndPod) for one in decision.actions)
    after_begin = decided(seen(app(after(attempt=2)), driver=driver(2), report=report(2), **facts))
    assert after_begin.status.draining == "PartitionsGrew"


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"counts": Unknown("the brokers are being asked", asked=False)}, Reason.ASKING_BROKERS),
        ({"counts": Unknown("no broker answers")}, Reason.BROKER_UNREACHABLE),
        ({"missing": ("Secret kafka-auth",)}, Reason.OBJECT_MISSING),
    ],
)
def test_a_waiting_change_is_not_ready_beside_a_healthy_attempt(facts: dict[str, Any], reason: Reason) -> None:
    changed: Any = {"runtime": {**TREE["spec"]["runtime"], "image": "other"}}
    ready = decided(seen(app(started()), driver=driver(), report=report())).status
    waits = decided(seen(app(ready, generation=2, **changed), driver=driver(), report=report(), **facts))
    assert waits.actions == ()
    assert condition(waits, "Ready") == ("False", reason.value)
    assert condition(waits, "Reconciling") == ("True", reason.value)
    assert condition(waits, "Stalled")[0] == "False"
    assert waits.wake == LookAgain(LIMITS.look)
    same = decided(seen(app(ready, generation=2), driver=driver(), report=report(), **facts))
    assert condition(same, "Ready") == ("True", "Running")
    tries = decided(seen(app(waits.status, generation=2, **changed), driver=driver(), report=report()))
    assert condition(tries, "Ready") == ("False", "Trying")


def test_growth_that_does_not_fit_leaves_the_attempt_alone() -> None:
    keyed = {"name": "n", "from": ["clicks"], "process": {"function": "m:f", "by": ["k"], "schema": "k STRING"}}
    steps = [keyed, {"name": "written", "from": ["n"], "to": "out"}]
    runtime = {**TREE["spec"]["runtime"], "code": {"m": "def f(key, rows, state): ..."}}
    spec: Any = {"steps": steps, "runtime": runtime}
    facts: Any = {"counts": {"clicks": 6, "out": 4}, "record": recorded(clicks=4)}
    decision = decided(seen(app(started(**spec), **spec), driver=driver(), report=report(), **facts))
    assert decision.actions in ((CollectAttempts(1, app_id("ads", "1")),), ())
    assert condition(decision, "StateCompatible") == ("False", "NotAMultiple")
    assert condition(decision, "DriverRunning") == ("True", "Running")


def test_growth_halts_where_the_spec_says_so() -> None:
    facts: Any = {"counts": {"clicks": 8, "out": 4}, "record": recorded(clicks=4)}
    spec: Any = {"onPartitionGrowth": "Halt"}
    decision = decided(seen(app(started(), **spec), driver=driver(), report=report(), **facts))
    assert decision.status.draining == "GrowthHalted"
    after_end = decided(seen(app(decision.status, **spec), **facts))
    halted = decided(seen(app(after_end.status, **spec), **facts))
    assert condition(halted, "Stalled") == ("True", "GrowthHalted")
    assert halted.actions == ()
    assert isinstance(decided(seen(app(halted.status), **facts)).actions[0], StartDriver)


def test_an_unreachable_broker_is_a_condition_and_harms_nobody() -> None:
    unknown = Unknown("no broker of events answered at kafka:9092")
    waiting = decided(seen(app(), counts=unknown))
    assert condition(waiting, "Reconciling") == ("True", "BrokerUnreachable")
    assert waiting.wake == LookAgain(LIMITS.look)
    running = decided(seen(app(started()), driver=driver(), report=report(), counts=unknown))
    assert condition(running, "Ready") == ("True", "Running")
    assert not any(isinstance(one, EndPod) for one in running.actions)
