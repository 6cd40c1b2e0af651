"""Why: what the model says about its fields, for whoever generates something from it: CRD, rules, docs, differences.

Must not name any particular field.
"""

from types import UnionType
from typing import Annotated, Literal, Union, get_args, get_origin

from pydantic import AliasChoices, BaseModel
from pydantic.fields import FieldInfo

from holdfast.spec.fields import ChangeCost


def names_in_files(attribute: str, field: FieldInfo) -> tuple[str, ...]:
    """What a field may be called in a file, its own name first."""
    if isinstance(field.validation_alias, AliasChoices):
        return tuple(str(choice) for choice in field.validation_alias.choices)
    return (field.alias or attribute,)


def change_of(field: FieldInfo) -> ChangeCost:
    """What changing this field costs."""
    (change,) = (item for item in field.metadata if isinstance(item, ChangeCost))
    return change


def kind_of(annotation: object) -> object:
    """The type of a field besides None: a model, `str`, `int`, `bool`, `tuple` or `dict`."""
    found = _besides_none(annotation)
    if get_origin(found) is Literal:
        return type(get_args(found)[0])
    return get_origin(found) or found


def object_of(field: FieldInfo) -> type[BaseModel] | None:
    """The model of a field that is an object."""
    return _as_model(field.annotation)


def items_of_list(field: FieldInfo) -> type[BaseModel] | None:
    """The model of the items of a field that is a list of objects; all such lists are named."""
    found = _besides_none(field.annotation)
    return _as_model(get_args(found)[0]) if get_origin(found) is tuple else None


def _as_model(annotation: object) -> type[BaseModel] | None:
    found = _besides_none(annotation)
    return found if isinstance(found, type) and issubclass(found, BaseModel) else None


def _besides_none(annotation: object) -> object:
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _besides_none(args[0])
    if origin in (Union, UnionType):
        return next(_besides_none(arg) for arg in args if arg is not type(None))
    return annotation
