"""Objects of Kubernetes, and parts of files, as trees of what JSON has."""

from collections.abc import Mapping
from typing import Any

Tree = dict[str, Any]
ReadTree = Mapping[str, Any]
"""A tree that its reader does not change."""


def as_object(value: object) -> Tree:
    """Return the object that somebody else may have written, empty if it is none."""
    return value if isinstance(value, dict) else {}


def as_objects(value: object) -> list[Tree]:
    """Return the objects of a list that somebody else may have written, without what is none."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
