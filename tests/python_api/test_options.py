"""Calls take every field of the spec, under its name and with its type, and nothing else."""

import inspect
from typing import Any, get_args, get_type_hints

import pytest
from pydantic import BaseModel

from holdfast.spec.app import AppSpec
from holdfast.spec.fields import ChangeCost, SpecModel, change_of
from holdfast.spec.steps import Step, attribute_of
from holdfast.spec.streams import GeneratorSystem, KafkaSystem, Stream, System, Table
from holdfast.spec.verbs import VERBS, Verb
from holdfast_api import App, RowSource
from holdfast_api.declared import DeclaredSystem
from holdfast_api.spec_names import fields_beside_verbs, fields_by_python_name, step_fields, verb_model

CALLS: dict[str, tuple[Any, type[BaseModel], set[str]]] = {
    "App": (App.__init__, AppSpec, {"systems", "streams", "tables", "steps"}),
    "kafka": (App.kafka, KafkaSystem, set()),
    "generator": (App.generator, GeneratorSystem, set()),
    "stream": (DeclaredSystem.stream, Stream, {"system"}),
    "table": (App.table, Table, set()),
}
"""Call, the model whose fields it takes, and those that other calls declare."""


def taken(call: Any) -> set[str]:
    """Return the names of all that a call takes."""
    parameters = inspect.signature(call).parameters.values()
    named = {each.name for each in parameters if each.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD}
    return named | set(options_of(call).__annotations__)


def options_of(call: Any) -> Any:
    """Return the typed dict of a call's options."""
    (options,) = get_args(get_type_hints(call)["options"])
    return options


def method_of(verb: Verb) -> Any:
    return getattr(RowSource, attribute_of(verb))


@pytest.mark.parametrize("name", CALLS)
def test_a_call_takes_every_field_of_its_model(name: str) -> None:
    call, model, elsewhere = CALLS[name]
    assert taken(call) - {"self", "name"} == set(fields_by_python_name(model)) - {"name"} - elsewhere


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_takes_every_field_of_its_model(verb: Verb) -> None:
    model = verb_model(verb)
    below = set() if model is None else set(fields_by_python_name(model))
    assert taken(method_of(verb)) >= below | {"name"} | set(step_fields(verb))


def test_every_kind_of_system_has_a_call() -> None:
    assert all(hasattr(App, kind) for kind in set(System.model_fields) - {"name"})


def test_every_field_of_a_step_belongs_to_some_verb() -> None:
    assert set(fields_beside_verbs()) == {name for verb in VERBS for name in step_fields(verb)}


def test_no_verb_has_a_field_that_steps_have_too() -> None:
    beside = set(fields_beside_verbs()) | {"name"}
    models = [model for verb in VERBS if (model := verb_model(verb)) is not None]
    assert [model for model in models if beside & set(fields_by_python_name(model))] == []


@pytest.mark.parametrize("verb", VERBS)
def test_a_step_that_keeps_something_must_have_a_name(verb: Verb) -> None:
    keeps = change_of(Step.model_fields[attribute_of(verb)]) is ChangeCost.NEW_RUN
    assert ("name" in options_of(method_of(verb)).__required_keys__) == keeps


def test_options_that_are_objects_are_the_models_of_the_spec() -> None:
    hints = get_type_hints(options_of(App.__init__))
    objects = {name: hint for name, hint in hints.items() if isinstance(hint, type) and issubclass(hint, SpecModel)}
    assert set(objects) == {"planning", "expansion", "runtime", "state", "restart", "alerts"}
