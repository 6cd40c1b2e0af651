"""A plain expression as a value: columns, values from the text, and functions of others."""

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
    """Return the functions that an expression calls; a part that stands in it several times is looked at once."""
    calls, waiting = dict[int, PlainCall](), [expression]
    while waiting:
        part = waiting.pop()
        if isinstance(part, PlainCall) and id(part) not in calls:
            calls[id(part)] = part
            waiting += part.arguments
    return {call.function for call in calls.values()}


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
