"""What the pages say about the cost of changing a field is what the model says."""

import re
from pathlib import Path
from types import UnionType
from typing import get_args, get_origin

import pytest
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from holdfast.spec.fields import change_of
from holdfast.spec.steps import Step, attribute_of
from holdfast.spec.streams import Stream, Table
from holdfast.spec.verbs import VERBS, Verb
from tests.docs.pages import ROOT

DOCS = ROOT / "docs"
COST = re.compile(r"^- `(Live|Restart|NewRun|Forbidden)`: (.*?)[.;]", re.MULTILINE | re.DOTALL)


def said_on(page: Path) -> dict[str, set[str]]:
    """Class -> fields, from the list of a page."""
    costs = COST.findall(page.read_text(encoding="utf-8"))
    return {label: set(re.findall(r"`([A-Za-z]+)`", fields)) for label, fields in costs}


def by_class(fields: dict[str, FieldInfo]) -> dict[str, set[str]]:
    """Class -> fields, from the model."""
    costs: dict[str, set[str]] = {}
    for name, field in fields.items():
        costs.setdefault(change_of(field).label, set()).add(name)
    return costs


def fields_of(model: type[BaseModel]) -> dict[str, FieldInfo]:
    return {field.alias or name: field for name, field in model.model_fields.items()}


def fields_of_verb(verb: Verb) -> dict[str, FieldInfo]:
    """The verb itself and what stands in it."""
    field = Step.model_fields[attribute_of(verb)]
    choices = get_args(field.annotation) if get_origin(field.annotation) is UnionType else (field.annotation,)
    models = [choice for choice in choices if isinstance(choice, type) and issubclass(choice, BaseModel)]
    return {verb: field, **{name: inner for model in models for name, inner in fields_of(model).items()}}


@pytest.mark.parametrize("verb", VERBS)
def test_a_verbs_page_says_what_changing_each_field_costs(verb: Verb) -> None:
    assert said_on(DOCS / "verbs" / f"{verb}.md") == by_class(fields_of_verb(verb))


def test_the_page_of_streams_says_what_changing_each_field_costs() -> None:
    assert said_on(DOCS / "streams.md") == by_class(fields_of(Stream))


def test_the_page_of_tables_says_what_changing_each_field_costs() -> None:
    assert said_on(DOCS / "tables.md") == by_class(fields_of(Table))
