"""What an app says while an attempt lives and the newest spec can't run."""

from typing import Any

import pytest

from holdfast.protocol.pods import PodPhase
from tests.operator.apps import LIMITS, NOW, app, condition, decided, driver, message, report, seen, started

TROUBLES: list[dict[str, Any]] = [
    {"driver": {"waiting": ("ImagePullBackOff", "no such image")}, "report": None},
    {"driver": {"waiting": ("CreateContainerConfigError", "secret x not found")}, "report": None},
    {"driver": {"phase": PodPhase.PENDING, "unschedulable": "0/3 nodes"}, "report": None},
    {"driver": {"created": NOW - LIMITS.start - 1}, "report": None},
    {"driver": {}, "report": {"at": NOW - LIMITS.silence - 1}},
    {"driver": {}, "report": {"lag": 10, "progressed": NOW - LIMITS.silence - 1}},
    {"driver": {}, "report": {}},
]
REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("InvalidSpec", {"steps": [{"name": "x"}]}),
    ("UnknownColumn", {"steps": [{"name": "written", "from": ["clicks"], "filter": "nothing = 1"}]}),
]


@pytest.mark.parametrize("trouble", TROUBLES)
@pytest.mark.parametrize(("reason", "spec"), REFUSED)
def test_ready_names_the_refusal_whatever_troubles_the_attempt(
    reason: str, spec: dict[str, Any], trouble: dict[str, Any]
) -> None:
    facts, reported = trouble["driver"], trouble["report"]
    decision = decided(
        seen(app(started(), 2, **spec), driver=driver(**facts), report=None if reported is None else report(**reported))
    )
    assert condition(decision, "Ready") == ("False", reason)
    assert condition(decision, "Stalled") == ("True", reason)
    assert "what was applied can't run: " in message(decision, "Ready")


def test_a_stuck_attempt_hides_not_what_is_waited_for() -> None:
    """Its image was corrected, and what it waits for now is a Secret."""
    stuck = driver(**TROUBLES[0]["driver"])
    decision = decided(seen(app(started(), 2, runId="2"), driver=stuck, missing=("Secret kafka-auth",)))
    assert condition(decision, "Ready") == ("False", "ObjectMissing")
    assert "no such image" in message(decision, "Ready")
    assert "what was applied has to wait: " in message(decision, "Ready")
    same = decided(seen(app(started()), driver=stuck, missing=("Secret kafka-auth",)))
    assert condition(same, "Ready") == ("False", "ImageUnavailable")


@pytest.mark.parametrize("trouble", TROUBLES[:3])
def test_the_trouble_of_the_attempt_stands_beside_the_refusal(trouble: dict[str, Any]) -> None:
    decision = decided(seen(app(started(), 2, **REFUSED[0][1]), driver=driver(**trouble["driver"])))
    plain = decided(seen(app(started()), driver=driver(**trouble["driver"])))
    assert message(plain, "Ready") in message(decision, "Ready")
