"""The tests on the page about testing are run."""

import contextlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.docs.pages import ROOT, blocks_of
from tests.segments.conftest import small_session

PAGE = ROOT / "docs" / "testing.md"


def names() -> dict[str, Any]:
    """What the Python blocks of the page define, one after the other."""
    namespace: dict[str, Any] = {}
    for block in blocks_of(PAGE):
        if block.language == "python":
            exec(compile(block.text, block.where, "exec"), namespace)  # noqa: S102 - our own page
    return namespace


FOUND = names()
TESTS = sorted(name for name in FOUND if name.startswith("test_"))


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """What the page's tests ask for; gone before other tests want a session of another shape."""
    with small_session() as session:
        yield session


def test_there_are_tests_on_the_page() -> None:
    assert len(TESTS) == 5


@pytest.mark.parametrize("name", TESTS)
def test_a_test_on_the_page_passes(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    for block in blocks_of(PAGE):
        if block.title is not None:
            (tmp_path / block.title).write_text(block.text, encoding="utf-8")
    test = FOUND[name]
    with contextlib.chdir(tmp_path):
        for values in tables_of(test):
            fixtures = set(inspect.signature(test).parameters) - values.keys()
            test(**values, **{one: request.getfixturevalue(one) for one in fixtures})


def tables_of(test: Any) -> list[dict[str, Any]]:
    """What `parametrize` gives the test."""
    for mark in getattr(test, "pytestmark", []):
        name, values = mark.args
        return [{name: value} for value in values]
    return [{}]
