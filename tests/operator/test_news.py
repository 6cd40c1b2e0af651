"""Events: what an app can't do is told when it begins, and once."""

from typing import Any

from holdfast.protocol.pods import ContainerEnd, PodPhase
from holdfast.reasons import Reason
from holdfast.spec.app import Status
from holdfast.tasks.record import parse_record
from holdfast_operator.decide.decision import Decision, LookAgain, StartDriver
from tests.operator.apps import NOW, after, app, condition, decided, driver, report, seen, started

REJECTED: dict[str, Any] = {"steps": [{"name": "written", "from": ["clicks"], "filter": "nothing = 1"}]}
PROCESSED: dict[str, Any] = {
    "steps": [
        {"name": "totals", "from": ["clicks"], "process": {"function": "f:count", "by": ["k"], "keeps": ["k"]}},
        {"name": "written", "from": ["totals"], "to": "out"},
    ]
}
RECORD: dict[str, Any] = {"runId": "1", "grouping": {f"partition-{n}": [f"clicks/{n}"] for n in range(4)}}


def told(decision: Decision) -> list[tuple[str, bool]]:
    """Reason, and whether it is a warning."""
    return [(event.reason.value, event.warning) for event in decision.events]


def again(decision: Decision, generation: int = 1, **spec: Any) -> Decision:
    """The next look, with nothing changed but what is given."""
    return decided(seen(app(decision.status, generation, **spec)), NOW + 5_000)


def test_a_rejected_plan_is_told_once_for_each_spec() -> None:
    first = decided(seen(app(**REJECTED)))
    assert told(first) == [("UnknownColumn", True)]
    assert "nothing" in first.events[0].message
    assert told(again(first, **REJECTED)) == []
    assert told(again(first, generation=2, **REJECTED)) == [("UnknownColumn", True)]


def test_a_spec_that_can_not_be_read_is_told_once() -> None:
    broken: dict[str, Any] = {"steps": [{"name": "x"}]}
    first = decided(seen(app(**broken)))
    assert told(first) == [("InvalidSpec", True)]
    assert told(again(first, **broken)) == []


def test_a_failed_driver_is_told_once_for_each_attempt() -> None:
    end = ContainerEnd(1, message='{"failed": "bug", "message": "ValueError: x"}')
    first = decided(seen(app(started()), driver=driver(phase=PodPhase.FAILED, ended=end)))
    assert told(first) == [("DriverFailed", True)]
    assert "ValueError: x" in first.events[0].message
    waiting = decided(seen(app(first.status), driver=driver(phase=PodPhase.FAILED, ended=end)), NOW + 1_000)
    assert told(waiting) == []


def test_a_driver_that_refuses_is_told_once_though_it_stalls() -> None:
    end = ContainerEnd(1, message='{"failed": "user", "message": "f:count: there is no module f"}')
    first = decided(seen(app(started()), driver=driver(phase=PodPhase.FAILED, ended=end)))
    assert told(first) == [("DriverRefused", True)]
    stays = decided(seen(app(first.status), driver=driver(phase=PodPhase.FAILED, ended=end)))
    assert condition(stays, "Stalled") == ("True", "DriverRefused")
    assert told(stays) == []


def test_a_failing_image_pull_is_told_once_whatever_its_message() -> None:
    first = decided(seen(app(started()), driver=driver(phase=PodPhase.PENDING, waiting=("ErrImagePull", "1 s"))))
    assert told(first) == [("ImageUnavailable", True)]
    later = decided(seen(app(first.status), driver=driver(phase=PodPhase.PENDING, waiting=("ImagePullBackOff", "9 s"))))
    assert told(later) == []


def test_a_driver_without_progress_is_told_each_time_it_begins() -> None:
    stuck = report(progressed=NOW - 10_000_000, lag=7)
    first = decided(seen(app(started()), driver=driver(created=NOW - 10_000_000), report=stuck))
    assert told(first) == [("NoProgress", True)]
    well = decided(seen(app(first.status), driver=driver(), report=report()))
    assert told(well) == []
    assert told(decided(seen(app(well.status), driver=driver(created=0), report=stuck))) == [("NoProgress", True)]


def test_what_is_asked_for_or_under_way_is_no_news() -> None:
    assert told(decided(seen(app(suspend=True)))) == []
    assert told(decided(seen(app(after(ended="Completed"))))) == []
    assert told(decided(seen(app(Status())))) == [("Starting", False)]
    left = seen(app(after(ended="Drained"), suspend=True), executors=(driver(role="executor"),))
    assert condition(decided(left), "Ready") == ("False", "PreviousAttemptAlive")
    assert told(decided(left)) == []
    stranger = decided(seen(app(), strangers=(driver(),)))
    assert told(stranger) == [("PreviousAttemptAlive", True)], "this one waits for somebody to act"


def test_state_dropped_with_a_step_is_told_at_the_start() -> None:
    record = parse_record({**RECORD, "state": {"visits": "process by k"}})
    first = decided(seen(app(), record=record))
    assert told(first) == [("Starting", False), ("StateGivenUp", True)]
    assert "the state of visits is given up" in first.events[1].message


def test_a_step_that_is_renamed_without_a_word_starts_nothing() -> None:
    record = parse_record({**RECORD, "state": {"visits": "process by k"}})
    first = decided(seen(app(**PROCESSED), record=record))
    assert told(first) == [("StepRenamed", True)]
    assert condition(first, "StateCompatible") == ("False", "StepRenamed")
    assert not any(isinstance(action, StartDriver) for action in first.actions)
    renamed_spec: dict[str, Any] = {"steps": [{**PROCESSED["steps"][0], "was": "visits"}, PROCESSED["steps"][1]]}
    goes_on = decided(seen(app(**renamed_spec), record=record))
    assert [event.reason for event in goes_on.events] == [Reason.STARTING]
    assert isinstance(goes_on.wake, LookAgain)
