"""Invariant 6. The model and the API server give one verdict, and it is the expected one."""

from collections.abc import Iterator

import pytest
from pydantic import BaseModel

from holdfast.spec.app import AppSpec
from holdfast.spec.fields import items_of_list, name_in_files, object_of
from holdfast.spec.parse import SpecInvalidError, parse_app
from tests.crd.harness import Question, Verdicts, ask
from tests.spec.base_app import BASE, resolve
from tests.spec.corpus import BY_FIELD, CASES, Case
from tests.spec.field_values import ROWS

ABOUT = pytest.mark.parametrize("about", BY_FIELD)


@pytest.fixture(scope="module")
def verdicts() -> Verdicts:
    """What the API server says of all of them at once."""
    return ask(Question(case.name, case.tree) for case in CASES)


@ABOUT
def test_the_model_gives_the_expected_verdict(about: str) -> None:
    for case in BY_FIELD[about]:
        _check(case)


def _check(case: Case) -> None:
    if case.good:
        parse_app(case.tree)
        return
    with pytest.raises(SpecInvalidError) as error:
        parse_app(case.tree)
    paths = [found.path for found in error.value.errors]
    assert any(path[: len(case.near)] == case.near for path in paths), paths


@ABOUT
def test_the_api_server_gives_the_expected_verdict(about: str, verdicts: Verdicts) -> None:
    for case in BY_FIELD[about]:
        answer = verdicts.answers[case.name]
        assert answer.valid == case.good, (case.name, answer.errors)


def test_the_corpus_is_worth_its_name() -> None:
    assert sum(case.good for case in CASES) >= 200
    assert sum(not case.good for case in CASES) >= 200


def test_every_field_has_values_to_take_and_to_refuse() -> None:
    tried = {_without_items(row.path) for row in ROWS}
    assert set(_fields(AppSpec, "spec")) == tried


def _fields(model: type[BaseModel], at: str) -> Iterator[str]:
    for attribute, field in model.model_fields.items():
        path = f"{at}.{name_in_files(attribute, field)}"
        yield path
        inner, items = object_of(field), items_of_list(field)
        if inner is not None:
            yield from _fields(inner, path)
        if items is not None:
            yield f"{path}[]"
            yield from _fields(items, f"{path}[]")


def _without_items(path: str) -> str:
    """`spec.steps.matched.join` -> `spec.steps[].join`."""
    parts = path.split(".")
    items = resolve(BASE, path)
    return ".".join(part if isinstance(key, str) else "[]" for part, key in zip(parts, items, strict=True)).replace(
        ".[]", "[]"
    )
