"""The schema for editors takes what a plan takes and refuses what is wrong by itself; jsonschema is the judge."""

from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator
from pydantic import BaseModel
from ruamel.yaml import YAML

from holdfast.spec.app import StreamApp
from holdfast.spec.editor_schema import editor_schema
from holdfast.spec.fields import change_of, items_of_list, name_in_files, object_of
from tests.spec.base_app import BASE, put
from tests.spec.corpus import CASES

ROOT = Path(__file__).parents[2]
SCHEMA = editor_schema()
VALIDATOR = Draft7Validator(SCHEMA)
APPS = [path for path in sorted((ROOT / "examples").rglob("*.yaml")) if "kind: StreamApp" in path.read_text()]


def test_the_schema_is_one() -> None:
    Draft7Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("path", APPS, ids=lambda path: str(path.relative_to(ROOT / "examples")))
def test_every_example_is_taken(path: Path) -> None:
    for tree in YAML(typ="safe").load_all(path.read_text(encoding="utf-8")):
        assert [error.message for error in VALIDATOR.iter_errors(tree)] == []


def test_what_a_plan_takes_is_taken_unless_empty() -> None:
    assert [case.name for case in CASES if case.good and not _has_null(case.tree) and not _taken(case.tree)] == []


def _has_null(tree: Any) -> bool:
    match tree:
        case dict():
            return any(map(_has_null, tree.values()))
        case list():
            return any(map(_has_null, tree))
        case _:
            return tree is None


def test_an_empty_field_is_marked() -> None:
    assert not _taken(put("spec.streams.clicks.topic", None))


def test_most_of_what_a_plan_refuses_is_refused() -> None:
    """The rest are rules over several fields, and names."""
    wrong = [case for case in CASES if not case.good]
    assert sum(not _taken(case.tree) for case in wrong) >= 0.88 * len(wrong)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("spec.steps.out.form", ["x"], "Additional properties are not allowed ('form' was unexpected)"),
        ("spec.streams.clicks.partitions", "4", "'4' is not of type 'integer'"),
        ("spec.grouping", "ByPartitions", "'ByPartitions' is not one of ['ByPartition', 'ByStreamPartition']"),
        ("spec.runtime.trigger.interval", "5", "'5' does not match"),
        ("kind", "StreamApps", "'StreamApp' was expected"),
    ],
)
def test_an_editor_marks(path: str, value: object, message: str) -> None:
    assert any(error.message.startswith(message) for error in VALIDATOR.iter_errors(put(path, value)))


def test_a_step_with_two_verbs_is_refused() -> None:
    assert not _taken(put("spec.steps.out.filter", "true"))


def test_every_field_says_what_it_is_and_costs() -> None:
    _check(SCHEMA, StreamApp, "")


def _check(schema: dict[str, Any], model: type[BaseModel], at: str) -> None:
    for attribute, field in model.model_fields.items():
        name = name_in_files(attribute, field)
        child = schema["properties"][name]
        description, end = child["description"], f"Changing it: {change_of(field).label}."
        assert description.endswith(end), f"{at}.{name}"
        assert len(description) > len(end), f"{at}.{name} does not say what it is"
        if nested := object_of(field):
            _check(child, nested, f"{at}.{name}")
        elif item := items_of_list(field):
            _check(child["items"], item, f"{at}.{name}[]")


def _taken(tree: object) -> bool:
    return bool(VALIDATOR.is_valid(tree))


def test_the_base_app_is_taken() -> None:
    assert _taken(BASE)
