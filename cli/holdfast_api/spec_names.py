"""The names that fields of the spec have in Python, and which of them a call for a verb takes.

Both the typed options, which are generated, and the calls that write a spec ask here, so that they are about the same
fields. Must not know how a call is written.
"""

import keyword
from collections.abc import Mapping

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from holdfast.spec.fields import ChangeCost, change_of, kind_of, name_in_files, object_of
from holdfast.spec.steps import Step, attribute_of
from holdfast.spec.verbs import VERBS, Verb

POSITIONAL: Mapping[str, str] = {"apply": "function", "process": "function", "lookup": "table"}
"""Verb -> the field that its call takes first, without a name."""


def python_name(attribute: str) -> str:
    """Return what Python calls a field: as the model does, without the `_` that only pydantic needs."""
    name = attribute.rstrip("_")
    return f"{name}_" if keyword.iskeyword(name) else name


def fields_by_python_name(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """Return all fields of a model under their names in Python."""
    return {python_name(attribute): field for attribute, field in model.model_fields.items()}


def file_names(model: type[BaseModel]) -> dict[str, str]:
    """Return name in Python -> name in files."""
    return {python_name(attribute): name_in_files(attribute, field) for attribute, field in model.model_fields.items()}


def is_list(field: FieldInfo) -> bool:
    """Return whether a field is a list, for which a call also takes its only item."""
    return kind_of(field.annotation) is tuple


def verb_model(verb: Verb) -> type[BaseModel] | None:
    """Return the model of what is written below a verb; None if that is a text or a list of texts."""
    return object_of(Step.model_fields[attribute_of(verb)])


def name_is_needed(verb: Verb) -> bool:
    """Return whether something is kept under the name of such a step, so that the name must not be derived."""
    return change_of(Step.model_fields[attribute_of(verb)]) >= ChangeCost.NEW_RUN


def fields_beside_verbs() -> dict[str, FieldInfo]:
    """Return the fields that steps have besides name, inputs and verb, by their names in Python."""
    elsewhere = {"name", "inputs", *(attribute_of(verb) for verb in VERBS)}
    return {name: field for name, field in fields_by_python_name(Step).items() if name not in elsewhere}


def step_fields(verb: Verb) -> dict[str, FieldInfo]:
    """Return the fields beside the verb that such a step may have, by their names in Python."""
    traits = VERBS[verb]
    sensible = {
        "was": name_is_needed(verb),
        "event_time": traits.may_set_time,
        "on_error": traits.may_fail,
        "late": traits.may_be_late,
        "dead_letter": traits.may_fail or traits.may_be_late,
    }
    return {name: field for name, field in fields_beside_verbs().items() if sensible.get(name, True)}
