"""What people read when a spec is wrong: every error at once, each with its path, its value and what to do."""

import time
from copy import deepcopy
from typing import Any

import pytest

from holdfast.spec.parse import MOST_ERRORS, FieldError, SpecInvalidError, parse_app
from tests.spec.base_app import BASE, SMALL, drop, put
from tests.spec.corpus import BY_FIELD, Case
from tests.spec.test_large import APPS
from tests.waiting import patience

MOST = 1200
"""Characters of a message: names shown in full are at most eleven of 63, and values are cut."""
WORDS_OF_PYTHON = (
    "Input should",
    "String should",
    "Tuple",
    "tuple",
    "Dictionary",
    "None",
    "True",
    "False",
    "validation",
)


def _errors(tree: object) -> tuple[FieldError, ...]:
    with pytest.raises(SpecInvalidError) as error:
        parse_app(tree)
    return error.value.errors


def test_all_errors_of_a_tree_at_once() -> None:
    tree = put("spec.systems.files", {"name": "files", "kafka": {"bootstrapServer": "a:1"}})
    tree = put("spec.streams.clicks.system", "event", tree)
    tree = put("spec.steps.valid.from", ["click"], tree)
    tree = put("spec.steps.matched.join.within", "ten minutes", tree)
    tree = put("spec.runtime.executors.count", "3", tree)
    tree = put("spec.restart.policy", "onFailure", tree)
    tree = put("metadata.name", "Ad_Clicks", tree)
    assert {error.dotted: error.message for error in _errors(tree)} == {
        "metadata.name": 'must be lower-case letters, digits and inner dashes; found "Ad_Clicks"',
        "spec.systems[1].kafka.bootstrapServers": "is required",
        "spec.systems[1].kafka.bootstrapServer": (
            "there is no field bootstrapServer here; did you mean bootstrapServers?"
        ),
        "spec.streams[1].system": "there is no system event; did you mean events?",
        "spec.steps[0].from[0]": "there is no stream or step click; did you mean clicks?",
        "spec.steps[6].join.within": 'must be a duration, e.g. 500ms, 10m or 1h30m; found "ten minutes"',
        "spec.runtime.executors.count": 'must be a whole number without quotes; found "3"',
        "spec.restart.policy": (
            "\"onFailure\" is not one of 'Always', 'OnFailure' or 'Never'; did you mean OnFailure?"
        ),
    }  # fmt: skip


@pytest.mark.parametrize("about", BY_FIELD)
def test_every_error_is_told_once_with_path_and_sentence(about: str) -> None:
    for case in BY_FIELD[about]:
        if not case.good:
            errors = _errors(case.tree)
            for error in errors:
                _check(case, error)
            messages = [(error.path, error.message) for error in errors]
            assert len(set(messages)) == len(messages), case.name


def _check(case: Case, error: FieldError) -> None:
    assert error.path
    _holder_of(case.tree, error.path)
    assert 5 < len(error.message) < MOST
    assert str(error) == f"{error.dotted}: {error.message}"
    assert len(error.shown) <= 60
    assert not any(word in error.message for word in WORDS_OF_PYTHON), error.message


def _holder_of(tree: Any, path: tuple[str | int, ...]) -> None:
    """What the path leads through is there; the last field may be the one that is missing."""
    for part in path[:-1]:
        tree = tree[part]
    assert isinstance(tree, (dict, list))


def test_an_error_holds_the_value_as_the_file_has_it() -> None:
    (error,) = _errors(put("spec.steps.matched.join.by", []))
    assert error.value == []
    assert error.dotted == "spec.steps[6].join.by"


@pytest.mark.parametrize("name", ["on", "true"])
@pytest.mark.parametrize("verb", ["matched.join", "enriched.lookup"])
def test_what_sql_calls_on_is_refused_with_its_name_here(verb: str, name: str) -> None:
    tree = put(f"spec.steps.{verb}.{name}", ["ad_id"], drop(f"spec.steps.{verb}.by"))
    unknown, missing = sorted(_errors(tree), key=lambda error: error.dotted.endswith(".by"))
    assert unknown.dotted.endswith(f".{name}")
    assert unknown.message.startswith("is called by: kubectl reads YAML 1.1")
    assert missing.dotted.endswith(".by")


@pytest.mark.parametrize("tree", [None, 5, "text", [], [{}], True])
def test_what_is_no_object_is_one_error(tree: object) -> None:
    (error,) = _errors(tree)
    assert error.dotted == "(the whole file)"
    assert error.message.startswith("must be an object")


def test_names_that_look_alike_are_suggested_in_any_case() -> None:
    (error,) = _errors(put("spec.streams.in.System", "files", SMALL))
    assert "did you mean system?" in error.message
    (error,) = _errors(put("spec.streams.in.system", "FILES", SMALL))
    assert "did you mean files?" in error.message


def test_without_a_likeness_the_names_there_are_are_listed() -> None:
    (error,) = _errors(put("spec.streams.clicks.system", "pulsar"))
    assert error.message == "there is no system pulsar (there are: events, files, made)"


def test_the_suggestion_is_the_same_at_each_run() -> None:
    tree = deepcopy(SMALL)
    tree["spec"]["streams"] += [{"name": f"in-{letter}", "system": "files"} for letter in "edcba"]
    tree["spec"]["steps"][0]["from"] = ["in-x"]
    (error,) = _errors(tree)
    assert error.message == "there is no stream or step in-x; did you mean in-e?"


def test_a_list_with_wrong_items_is_not_called_too_short() -> None:
    (error,) = _errors(put("spec.steps.matched.join.by", [5]))
    assert error.dotted == "spec.steps[6].join.by[0]"


def test_a_verb_left_empty_is_explained() -> None:
    (error,) = _errors(put("spec.steps.all", {"name": "all", "from": ["in"], "merge": None}, SMALL))
    assert "found none" in error.message
    assert "merge: {}" in error.message


def test_a_large_app_wrong_everywhere_says_so_in_seconds() -> None:
    tree = deepcopy(APPS["a chain"])
    for step in tree["spec"]["steps"]:
        step["from"] = [f"x{step['from'][0]}"]
    began = time.monotonic()
    assert len(_errors(tree)) == MOST_ERRORS + 1
    assert time.monotonic() - began < patience(20)


def test_a_good_spec_is_what_it_says() -> None:
    app = parse_app(BASE)
    assert app.name == "ad-clicks"
    assert [step.verb for step in app.spec.steps][:3] == ["filter", "select", "merge"]
    assert [system.kind for system in app.spec.systems] == ["kafka", "log", "generator"]


def test_the_tree_is_left_as_it_was() -> None:
    tree = put("spec.streams.clicks.topic", None)
    before = deepcopy(tree)
    parse_app(tree)
    assert tree == before
