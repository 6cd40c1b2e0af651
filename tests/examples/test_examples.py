"""Every example plans as its comment says, without problems or warnings."""

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from holdfast.planning.plan import PlanningFacts, plan
from holdfast.spec.app import StreamApp
from holdfast.spec.parse import parse_app
from holdfast.spec.verbs import VERBS
from holdfast_cli.plan.app_file import app_document

FOLDER = Path(__file__).parents[2] / "examples"
NAMES = sorted(path.parent.name for path in FOLDER.glob("*/app.yaml"))


@dataclass(frozen=True)
class Expected:
    """What an example is planned as."""

    tasks: int
    made: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    """Intermediate stream -> its count and who decided it."""
    topic_counts: Mapping[str, int] = field(default_factory=dict)
    """Counts of Kafka topics, which the file does not say."""
    stateful: bool = True


EXPECTED = {
    "account-limits": Expected(tasks=8),
    "ad-clicks": Expected(tasks=16, made={"by-campaign": (16, "default")}),
    "card-fraud": Expected(tasks=10),
    "clean-logs": Expected(tasks=8, stateful=False),
    "cold-chain": Expected(
        tasks=24, made={"limits-everywhere": (1, "broadcast")}, topic_counts={"readings": 24, "limits": 1, "alarms": 6}
    ),
    "listening-sessions": Expected(tasks=8),
    "page-totals": Expected(tasks=4, made={"by-page": (4, "config")}),
    "page-views": Expected(tasks=6, made={"by-page": (6, "config")}),
    "paid-orders": Expected(tasks=12, made={"payments-by-order": (12, "join:matched")}),
    "parcel-zones": Expected(tasks=2, stateful=False),
    "priced-orders": Expected(tasks=6),
    "taxi-pickups": Expected(tasks=9, made={"by-driver": (9, "join:located")}),
}


def app_of(name: str) -> StreamApp:
    path = FOLDER / name / "app.yaml"
    document = app_document(path.read_text(encoding="utf-8"), str(path))
    assert not document.errors
    return parse_app(document.tree)


def functions_of(app: StreamApp) -> set[str]:
    """Every Python function the app names."""
    made = {system.generator.function for system in app.spec.systems if system.generator is not None}
    called = {verb.function for step in app.spec.steps for verb in (step.apply, step.process) if verb is not None}
    return made | called


def test_every_example_is_looked_at() -> None:
    assert sorted(EXPECTED) == NAMES


def test_every_example_is_listed() -> None:
    listed = re.findall(
        r"^\| \[(.+)\]\(\1/app[.]yaml\) \|", (FOLDER / "README.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert listed == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_an_example_plans_without_problems_or_warnings(name: str) -> None:
    result = plan(app_of(name), PlanningFacts(given=EXPECTED[name].topic_counts))
    assert result.problems == ()
    assert result.warnings == ()


@pytest.mark.parametrize("name", NAMES)
def test_an_example_has_the_tasks_and_counts_it_speaks_of(name: str) -> None:
    result, expected = plan(app_of(name), PlanningFacts(given=EXPECTED[name].topic_counts)), EXPECTED[name]
    counts = {stream.name: stream.count for stream in result.streams if stream.role == "intermediate"}
    made = {name: (count.partitions, count.decided_by) for name, count in counts.items() if count is not None}
    assert made == dict(expected.made)
    assert len(result.tasks) == expected.tasks
    assert result.stateful == expected.stateful


@pytest.mark.parametrize("name", NAMES)
def test_an_example_is_named_like_its_folder_and_describes_itself(name: str) -> None:
    lines = (FOLDER / name / "app.yaml").read_text(encoding="utf-8").splitlines()
    comment = next(at for at, line in enumerate(lines) if not line.startswith("# "))
    assert 2 <= comment <= 4
    assert app_of(name).name == name


@pytest.mark.parametrize("name", NAMES)
def test_code_compiles_and_has_the_functions_that_its_example_names(name: str) -> None:
    app = app_of(name)
    images = (FOLDER / name).rglob("*.py")
    brought = {".".join(path.relative_to(FOLDER / name).with_suffix("").parts): path.read_text() for path in images}
    functions = {
        f"{module}:{node.name}"
        for module, text in {**brought, **app.spec.runtime.code}.items()
        for node in ast.parse(text, filename=f"{name}/{module}.py").body
        if isinstance(node, ast.FunctionDef)
    }
    assert functions_of(app) <= functions


@pytest.mark.parametrize("name", NAMES)
def test_an_example_declares_nothing_it_could_leave_out(name: str) -> None:
    spec = app_of(name).spec
    used = {stream.system for stream in spec.streams}
    assert {system.name for system in spec.systems} == used


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_appears_in_an_example(verb: str) -> None:
    assert [name for name in NAMES if verb in {step.verb for step in app_of(name).spec.steps}]
