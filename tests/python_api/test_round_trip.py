"""Whatever a file of YAML declares, calls of Python declare too, and the YAML they render is that of the file."""

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.spec.app import StreamApp
from holdfast.spec.parse import parse_app
from holdfast_api import App
from holdfast_api.app_source import python_source
from holdfast_cli.plan.app_file import app_document
from tests.docs.pages import ROOT
from tests.pipelines.drawn import drawn_app
from tests.pipelines.whole import WHOLE
from tests.spec.base_app import BASE

FILES = sorted([*(ROOT / "examples").rglob("*.yaml"), *(ROOT / "tests" / "apps").glob("*/app.yaml")])
APPS = {str(file.relative_to(ROOT)): file for file in FILES if "kind: StreamApp" in file.read_text(encoding="utf-8")}


def declared(tree: Mapping[str, Any]) -> App:
    """Run the source of an app and return what it declares."""
    names: dict[str, Any] = {}
    exec(compile(python_source(tree), "app.py", "exec"), names)  # noqa: S102 - of our own apps
    app: App = names["app"]
    return app


def by_name(app: StreamApp) -> StreamApp:
    """Return the app with its steps in an order that no file decides."""
    steps = tuple(sorted(app.spec.steps, key=lambda step: step.name))
    return app.model_copy(update={"spec": app.spec.model_copy(update={"steps": steps})})


def assert_comes_back(tree: Mapping[str, Any]) -> None:
    app = declared(tree)
    assert by_name(app.spec()) == by_name(parse_app(tree))
    assert app_document(app.to_yaml(), "app.yaml").tree == app.tree()


@pytest.mark.parametrize("file", APPS.values(), ids=APPS)
def test_an_app_of_the_repository_comes_back(file: Path) -> None:
    assert_comes_back(app_document(file.read_text(encoding="utf-8"), str(file)).tree)


@pytest.mark.parametrize("tree", [BASE, WHOLE], ids=["base", "whole"])
def test_an_app_with_every_field_comes_back(tree: dict[str, Any]) -> None:
    assert_comes_back(tree)


@given(st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_a_drawn_app_comes_back(seed: int) -> None:
    assert_comes_back(drawn_app(random.Random(seed)))  # noqa: S311


def test_steps_stand_behind_those_they_read() -> None:
    spec = dict(BASE["spec"])
    backwards = {**BASE, "spec": {**spec, "steps": list(reversed(spec["steps"]))}}
    assert_comes_back(backwards)
