"""Why: a tolerant view of a spec as it was read, for rules that must find their errors whatever else is wrong.

Nothing here raises; what has the wrong shape looks empty, because the model reports it.
"""

from collections.abc import Collection
from typing import Any


def fields_of(node: object) -> dict[Any, Any]:
    """The node's fields, none if it is no object. A field that is null is not given."""
    return {name: value for name, value in node.items() if value is not None} if isinstance(node, dict) else {}


def items_of(node: object, field: str) -> list[tuple[int, dict[Any, Any]]]:
    """Index and item of a list of objects."""
    value = fields_of(node).get(field)
    return (
        [(i, fields_of(item)) for i, item in enumerate(value) if isinstance(item, dict)]
        if isinstance(value, list)
        else []
    )


def names_of(node: object, field: str, having: str | None = None) -> frozenset[str]:
    """The names in a list of named objects, or of those that have a field."""
    items = (item for _, item in items_of(node, field) if having is None or having in item)
    # A name may be anything as long as nobody has looked at it, even something that no set can hold.
    return frozenset(item["name"] for item in items if isinstance(item.get("name"), str))


def strings_of(value: object) -> list[tuple[int, str]]:
    """Index and item of a list of strings."""
    return [(i, item) for i, item in enumerate(value) if isinstance(item, str)] if isinstance(value, list) else []


def has_name(value: object, names: Collection[Any]) -> bool:
    """Whether a value is one of these names."""
    return isinstance(value, str) and value in names
