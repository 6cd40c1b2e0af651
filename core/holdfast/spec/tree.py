"""Why: a tolerant view of a spec as it was read, for rules that must find their errors whatever else is wrong.

Nothing here raises; what has the wrong shape looks empty, because the model reports it.
"""

from collections.abc import Collection
from difflib import get_close_matches
from functools import lru_cache
from heapq import nsmallest
from typing import Any

_MANY, _TYPO, _LONGEST = 100, 2, 255
"""How many names are compared, how different in length, and up to what length."""


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


def nearest(name: str, known: Collection[str]) -> str | None:
    """The known name that was probably meant."""
    return _nearest(name, frozenset(known))


@lru_cache(maxsize=1024)
def _nearest(name: str, known: frozenset[str]) -> str | None:
    # Comparing is slow. A large app that misnames its streams is wrong in thousands of places; it must not take minutes
    # to say so. Hence the cache, and of many names only those that look alike at first sight.
    names = sorted(known)  # or which of two equally near ones is meant would change from run to run
    if len(names) > _MANY:
        names = [k for k in names if k[:1] == name[:1] and abs(len(k) - len(name)) <= _TYPO][:_MANY]
    near = [k for k in names if k.lower() == name.lower()]
    if not near and len(name) <= _LONGEST:
        near = get_close_matches(name, names, n=1, cutoff=0.6)
    return near[0] if near else None


def did_you_mean(name: str, known: Collection[str]) -> str:
    """A suggestion to put behind "there is no ...": the nearest known name, or those there are."""
    near = nearest(name, known)
    if near:
        return f"; did you mean {near}?"
    if not known:
        return "; there are none"
    shown = nsmallest(10, known)
    more = f" and {len(known) - len(shown)} more" if len(known) > len(shown) else ""
    return f" (there are: {', '.join(shown)}{more})"
