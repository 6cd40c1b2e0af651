"""A plain expression as a value: columns, values from the text, and functions of others."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Final, TypeAlias


@dataclass(frozen=True, slots=True)
class PlainColumn:
    """A column as it is."""

    name: str


@dataclass(frozen=True, slots=True)
class PlainValue:
    """A value from the text; None is null, and a date with a time is a moment."""

    value: int | str | bool | Decimal | date | None


@dataclass(frozen=True, slots=True)
class PlainCall:
    """A function of other expressions, by the name that whoever computes it knows."""

    function: str
    arguments: "tuple[Plain, ...]"


Plain: TypeAlias = PlainColumn | PlainValue | PlainCall


def has_column(expression: Plain) -> bool:
    """Whether it is more than a value from the text."""
    if isinstance(expression, PlainCall):
        return any(map(has_column, expression.arguments))
    return isinstance(expression, PlainColumn)


def functions_of(expression: Plain) -> set[str]:
    """Return the functions that an expression calls."""
    return {part.function for part in _parts(expression) if isinstance(part, PlainCall)}


def columns_of(expression: Plain) -> set[str]:
    """Return the columns that an expression reads."""
    return {part.name for part in _parts(expression) if isinstance(part, PlainColumn)}


def _parts(expression: Plain) -> Iterable[Plain]:
    """Return all that an expression is made of; what stands in it several times comes once."""
    parts, waiting = dict[int, Plain](), [expression]
    while waiting:
        part = waiting.pop()
        if id(part) not in parts:
            parts[id(part)] = part
            waiting += part.arguments if isinstance(part, PlainCall) else ()
    return parts.values()


FAILING: Final = (
    *(f"checked {name}" for name in ("+", "-", "*", "/", "%", "abs", "whole")),
    "div",
    "shift",
    "date_trunc",
)
"""Functions that a row may fail on: a result too large for its type, or a division by zero."""


def can_fail(expression: Plain) -> bool:
    """Whether there may be rows for which it can't be computed."""
    return not functions_of(expression).isdisjoint(FAILING)
