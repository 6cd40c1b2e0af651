"""Operators of plain expressions: what they are computed by and what may result."""

from collections.abc import Sequence

from holdfast.planning.sql.plain.expressions import Plain, PlainCall, PlainValue
from holdfast.planning.sql.plain.kinds import (
    Kind,
    PlainDecimal,
    PlainKind,
    PlainStruct,
    PlainWhole,
    decimal_result,
    one_of,
    whole_result,
    wider,
)
from holdfast.planning.sql.plain.operands import NotPlainError, Operand, decimal, not_plain, text_value, with_digits

_RESULTS = (PlainKind.TEXT, PlainKind.BOOLEAN, PlainKind.MOMENT)
"""Kinds without bounds that a column may have and that need no more than to be handed on."""


def compared(sign: str, left: Operand, right: Operand) -> Plain:
    """Return a comparison of two values of one kind, or of two numbers."""
    (one, kind), (other, its) = left, right
    equality = sign in ("=", "<>")
    match kind, its:
        case (PlainWhole(), PlainWhole()) | (PlainKind.TEXT, PlainKind.TEXT) | (PlainKind.MOMENT, PlainKind.MOMENT):
            return PlainCall(sign, (one, other))
        case PlainKind.BOOLEAN, PlainKind.BOOLEAN if equality:
            return PlainCall(sign, (one, other))
        case PlainKind.FOLDED, PlainKind.TEXT if equality and text_value(right).isascii():
            return PlainCall(sign, (one, other))
    (one, first), (other, second) = decimal(left), decimal(right)
    return PlainCall(sign, (one, other)) if wider(first, second).fits else not_plain()


def among(value: Operand, values: Sequence[Operand]) -> Plain:
    """Return whether a whole number or a text is one of these."""
    like = PlainWhole if isinstance(value[1], PlainWhole) else PlainKind
    if not values or not all(isinstance(one, PlainValue) and isinstance(kind, like) for one, kind in values):
        raise NotPlainError
    if value[1] is PlainKind.BOOLEAN:
        raise NotPlainError
    for one in values:
        compared("=", value, one)
    return PlainCall("in", (value[0], *(one for one, _ in values)))


def computed(sign: str, left: Operand, right: Operand) -> Operand:
    """Return a sum, a difference or a product that Spark's type has whatever the values."""
    match left, right:
        case (one, PlainWhole() as first), (other, PlainWhole() as second):
            whole = whole_result(sign, first, second)
            return (PlainCall(sign, (one, other)), whole) if whole.fits else not_plain()
    (one, its), (other, kind) = decimal(left), decimal(right)
    made = decimal_result(sign, its, kind)
    return (PlainCall(sign, (one, other)), made) if made.fits else not_plain()


def remainder(given: Operand, by: Operand) -> Operand:
    """Return the rest of dividing a whole number by one above zero from the text."""
    match given, by:
        case (value, PlainWhole() as kind), (PlainValue(), PlainWhole() as divisor) if divisor.least > 0:
            rest = divisor.least - 1
            least, most = -rest if kind.least < 0 else 0, rest if kind.most > 0 else 0
            return PlainCall("%", (value, by[0])), PlainWhole(max(kind.bits, divisor.bits), least, most)
    raise NotPlainError


def cast_to_whole(given: Operand, bits: int) -> Operand:
    """Return a whole number in a type that has all its values."""
    match given:
        case value, PlainWhole(_, least, most) if (whole := PlainWhole(bits, least, most)).fits:
            return value, whole
    raise NotPlainError


def cast_to_decimal(given: Operand, precision: int, scale: int) -> Operand:
    """Return a number in a type that has all its values, exactly."""
    value, kind = decimal(given)
    made = PlainDecimal(precision, scale, kind.at(scale)) if scale >= kind.scale else not_plain()
    return (with_digits(value, made), made) if made.fits else not_plain()


def cast_to_text(given: Operand) -> Operand:
    """Return the digits of a whole number."""
    value, kind = given
    return (PlainCall("text", (value,)), PlainKind.TEXT) if isinstance(kind, PlainWhole) else not_plain()


def chosen(conditions: Sequence[Plain], results: Sequence[Operand]) -> Operand:
    """Return the result of the first condition that is true; the one behind all, or null, if none is."""
    values = [value for value, _ in results]
    pairs = [one for pair in zip(conditions, values, strict=False) for one in pair]
    return PlainCall("case", (*pairs, *values[len(conditions) :])), common(results)


def common(given: Sequence[Operand]) -> Kind:
    """Return the kind of a value that is one of these."""
    kind = one_of(kind for _, kind in given)
    return kind if kind is not None and _is_handed_on(kind) else not_plain()


def _is_handed_on(kind: Kind) -> bool:
    """Whether a value of this kind may be a result."""
    return isinstance(kind, PlainWhole | PlainDecimal) or kind in _RESULTS


def struct_of(fields: Sequence[tuple[str, Operand]]) -> Operand:
    """Return a struct of these fields."""
    alone = len({name.casefold() for name, _ in fields}) == len(fields) > 0
    if not alone or not all(_is_handed_on(kind) for _, (_, kind) in fields):
        raise NotPlainError
    parts = [part for name, (value, _) in fields for part in (PlainValue(name), value)]
    return PlainCall("struct", tuple(parts)), PlainStruct(tuple((name, kind) for name, (_, kind) in fields))


def field_of(given: Operand, path: Sequence[str]) -> Operand:
    """Return what is at a path in a struct; the value itself if there is no path."""
    if not path:
        return given
    for name in path:
        value, kind = given
        found = kind.find(name) if isinstance(kind, PlainStruct) else None
        given = (PlainCall("field", (value, PlainValue(found[0]))), found[1]) if found else not_plain()
    return given if _is_handed_on(given[1]) else not_plain()
