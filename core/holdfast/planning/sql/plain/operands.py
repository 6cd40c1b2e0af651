"""What an operator or a function is given: a plain expression with its kind."""

from typing import Never, TypeAlias

from holdfast.planning.sql.plain.expressions import Plain, PlainCall, PlainValue, can_fail
from holdfast.planning.sql.plain.kinds import Kind, PlainDecimal, PlainKind, PlainWhole

Operand: TypeAlias = tuple[Plain, Kind]


class NotPlainError(Exception):
    """The expression has something that is not plain."""


def not_plain() -> Never:
    """Leave the expression to Spark."""
    raise NotPlainError


def of_kind(operand: Operand, kind: Kind) -> Plain:
    """Return an operand that must be of this kind."""
    return operand[0] if operand[1] == kind else not_plain()


def sure(value: Plain) -> Plain:
    """Return what no row fails on: Spark need not compute it for all rows, and which they are is its choice."""
    return not_plain() if can_fail(value) else value


def text_value(operand: Operand) -> str:
    """Return a text that must stand in the expression."""
    match operand:
        case PlainValue(str() as text), PlainKind.TEXT:
            return text
    not_plain()


def whole_value(operand: Operand) -> int:
    """Return a whole number that must stand in the expression."""
    match operand:
        case PlainValue(int() as value), PlainWhole():
            return value
    not_plain()


def decimal(operand: Operand) -> tuple[Plain, PlainDecimal]:
    """Return a number as a decimal."""
    match operand:
        case value, PlainDecimal() as kind:
            return value, kind
        case value, PlainWhole() as kind:
            return with_digits(value, kind.decimal), kind.decimal
    not_plain()


def double(operand: Operand) -> Plain:
    """Return a number as Spark takes it beside a DOUBLE; a decimal only from the text, where it is rounded once."""
    match operand:
        case value, PlainKind.DOUBLE:
            return value
        case (value, PlainWhole()) | (PlainValue() as value, PlainDecimal()):
            return PlainCall("double", (value,))
    not_plain()


def with_digits(value: Plain, kind: PlainDecimal) -> Plain:
    """Return a number as a decimal of this type."""
    return PlainCall("decimal", (value, PlainValue(kind.precision), PlainValue(kind.scale)))
