"""The base of the StreamApp model: strict frozen objects, the cost of changing a field, the names of fields in files.

Every field carries its `ChangeCost`; the docs table, the CRD's transition rules and `holdfast diff` all read it from
the field itself, so no second list can disagree. CRD, rules, docs and differences are generated from what is asked
here. Must not know any particular field.
"""

from enum import IntEnum
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, field_validator, model_validator
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo


class ChangeCost(IntEnum):
    """What it takes for a new value of a field to come into force, cheapest first."""

    LIVE = 0
    """Applied without touching the running attempt."""
    RESTART = 1
    """The attempt drains; the next one starts on the same hosts with the same state."""
    NEW_RUN = 2
    """State cannot follow: accepted only together with a new `spec.runId`."""
    FORBIDDEN = 3
    """Never: it would be another app."""

    @property
    def label(self) -> str:
        """The name users see: `Live`, `Restart`, `NewRun`, `Forbidden`."""
        return {0: "Live", 1: "Restart", 2: "NewRun", 3: "Forbidden"}[self.value]

    @property
    def sentence(self) -> str:
        """What happens, in words for a terminal or an event."""
        return {
            ChangeCost.LIVE: "applied while the app runs",
            ChangeCost.RESTART: "drains and starts the next attempt; state, order and exactly-once are kept",
            ChangeCost.NEW_RUN: "state cannot follow: set a new spec.runId, and the app starts with empty state",
            ChangeCost.FORBIDDEN: "not possible: create another StreamApp",
        }[self]


def name_in_files(attribute: str, field: FieldInfo) -> str:
    """What a field is called in a file."""
    return field.alias or attribute


def change_of(field: FieldInfo) -> ChangeCost:
    """What changing this field costs."""
    (change,) = (item for item in field.metadata if isinstance(item, ChangeCost))
    return change


def kind_of(annotation: object) -> object:
    """The type of a field besides None: a model, `str`, `int`, `bool`, `tuple` or `dict`."""
    kind = _besides_none(annotation)
    if get_origin(kind) is Literal:
        return type(get_args(kind)[0])
    return get_origin(kind) or kind


def object_of(field: FieldInfo) -> type[BaseModel] | None:
    """The model of a field that is an object."""
    return _as_model(field.annotation)


def items_of_list(field: FieldInfo) -> type[BaseModel] | None:
    """The model of the items of a field that is a list of objects; all such lists are named."""
    kind = _besides_none(field.annotation)
    return _as_model(get_args(kind)[0]) if get_origin(kind) is tuple else None


def value_of(field: FieldInfo) -> "type[ValueModel] | None":
    """The model of a field that is one value in the shape of an object, or a list of them."""
    kind = _besides_none(field.annotation)
    kind = _besides_none(get_args(kind)[0]) if get_origin(kind) is tuple else kind
    return kind if isinstance(kind, type) and issubclass(kind, ValueModel) else None


def _as_model(annotation: object) -> type[BaseModel] | None:
    kind = _besides_none(annotation)
    is_model = isinstance(kind, type) and issubclass(kind, BaseModel) and not issubclass(kind, ValueModel)
    return kind if is_model else None  # type: ignore[return-value]  # mypy forgets what a name stands for


def _besides_none(annotation: object) -> object:
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _besides_none(args[0])
    if origin in (Union, UnionType):
        return next(_besides_none(arg) for arg in args if arg is not type(None))
    return annotation


class SpecModel(BaseModel):
    """Base of all objects of a StreamApp. Field names are camelCase in files, as Kubernetes writes them."""

    model_config = ConfigDict(
        frozen=True,
        strict=True,
        extra="forbid",
        alias_generator=to_camel,
        validate_by_name=True,
        use_attribute_docstrings=True,
        regex_engine="rust-regex",
    )

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, tree: Any) -> Any:
        # The API server takes null as "not given"; a file must mean the same to `holdfast plan`.
        if not isinstance(tree, dict) or None not in tree.values():
            return tree
        field_names = {name_in_files(attribute, field) for attribute, field in cls.model_fields.items()}
        return {name: value for name, value in tree.items() if value is not None or name not in field_names}

    @field_validator("*", mode="before")
    @classmethod
    def _as_read(cls, value: object) -> object:
        # Lists of files become tuples, which can't change later; strict validation would refuse them otherwise.
        return tuple(value) if isinstance(value, list) else value


class ValueModel(SpecModel):
    """An object that is one value: it is compared as a whole, and the field that has it says what a change costs."""
