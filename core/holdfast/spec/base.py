"""Why: how every part of the StreamApp model behaves: frozen, strict, closed, documented on the field.

Must not know any particular field.
"""

from typing import Any

from pydantic import BaseModel, ConfigDict, field_validator, model_validator
from pydantic.alias_generators import to_camel

from holdfast.spec.fields_part import names_in_files


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
        known = {name for attribute, field in cls.model_fields.items() for name in names_in_files(attribute, field)}
        return {name: value for name, value in tree.items() if value is not None or name not in known}

    @field_validator("*", mode="before")
    @classmethod
    def _as_read(cls, value: object) -> object:
        # Lists of files become tuples, which can't change later; strict validation would refuse them otherwise.
        return tuple(value) if isinstance(value, list) else value
