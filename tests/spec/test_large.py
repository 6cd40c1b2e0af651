"""The largest apps there can be pass the API server within its budgets, when they come and when they change."""

from copy import deepcopy
from typing import Any

import pytest

from holdfast.spec.parse import parse_app
from tests.crd.harness import Question, Verdicts, ask

STREAMS, TABLES, STEPS, SYSTEMS = 500, 100, 1000, 16


def _chain() -> dict[str, Any]:
    """A chain of a thousand steps over five hundred streams."""
    streams = [{"name": f"stream-{n}", "system": f"system-{n % SYSTEMS}", "key": ["a"]} for n in range(STREAMS)]
    steps: list[dict[str, Any]] = []
    for n in range(STEPS):
        before = steps[-1]["name"] if n else "stream-400"
        verb = {"aggregate": {"by": ["a"], "compute": ["count(*) AS n"]}} if n % 2 else {"filter": "a > 0"}
        steps.append({"name": f"step-{n}", "from": [before], **verb})
    return _app(streams, [], steps)


def _everything() -> dict[str, Any]:
    """As much of everything as there may be, under the longest names."""
    streams = [{"name": _long("s", n), "system": f"system-{n % SYSTEMS}"} for n in range(STREAMS)]
    sides = [stream["name"] for stream in streams[-8:]]  # all other streams are looked for in each table
    tables = [{"name": _long("t", n), "key": ["a"], "sources": sides} for n in range(TABLES)]
    inputs = [stream["name"] for stream in streams[:-8]]
    steps = [
        {"name": _long("p", n), "from": [inputs[(n + i) % len(inputs)] for i in range(16)], "merge": {}}
        for n in range(STEPS)
    ]
    return _app(streams, tables, steps)


def _calls() -> dict[str, Any]:
    """As many functions as there may be, each with as many tables."""
    streams = [{"name": _long("s", n), "system": f"system-{n % SYSTEMS}"} for n in range(2)]
    tables = [{"name": _long("t", n), "key": ["a"], "sources": [streams[1]["name"]]} for n in range(TABLES)]
    call = {"function": "m:f", "by": ["a"]}
    steps = [
        {
            "name": _long("p", n),
            "from": [streams[0]["name"]],
            "process": {**call, "tables": [tables[(n + i) % TABLES]["name"] for i in range(16)]},
        }
        for n in range(STEPS)
    ]
    return _app(streams, tables, steps)


def _app(streams: list[Any], tables: list[Any], steps: list[Any]) -> dict[str, Any]:
    return {
        "apiVersion": "holdfast.dev/v1alpha1",
        "kind": "StreamApp",
        "metadata": {"name": "large", "namespace": "default", "uid": "1", "resourceVersion": "1"},
        "spec": {
            "systems": [{"name": f"system-{n}", "log": {}} for n in range(SYSTEMS)],
            "streams": streams,
            "tables": tables,
            "steps": steps,
        },
    }


def _long(kind: str, n: int) -> str:
    return f"{kind}{n:04d}".ljust(63, "x")


APPS = {"a chain": _chain(), "everything": _everything(), "functions with tables": _calls()}
BY_NAME = pytest.mark.parametrize("name", APPS)


@pytest.fixture(scope="module")
def verdicts() -> Verdicts:
    questions = [Question(name, tree, cost=True) for name, tree in APPS.items()]
    for name, tree in APPS.items():
        changed = deepcopy(tree)
        changed["spec"]["steps"][-1]["name"] = "renamed"
        questions.append(Question(f"{name}, changed", changed, tree, cost=True))
    return ask(questions)


@BY_NAME
def test_the_model_takes_it(name: str) -> None:
    assert len(parse_app(APPS[name]).spec.steps) == STEPS


@BY_NAME
def test_the_api_server_takes_it(name: str, verdicts: Verdicts) -> None:
    assert verdicts.answers[name].errors == ()


@BY_NAME
def test_the_api_server_takes_a_change_of_it(name: str, verdicts: Verdicts) -> None:
    assert verdicts.answers[f"{name}, changed"].errors == ()


def test_half_of_the_budget_is_left(verdicts: Verdicts) -> None:
    limit = verdicts.definition["runtimeLimit"]
    assert {name: answer.cost for name, answer in verdicts.answers.items() if answer.cost * 2 > limit} == {}
