"""Operators of plain expressions: what they are computed by and what may result."""

from collections.abc import Sequence

from holdfast.planning.sql.plain.expressions import Plain, PlainCall, PlainValue, has_column
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
from holdfast.planning.sql.plain.operands import (
    NotPlainError,
    Operand,
    decimal,
    double,
    not_plain,
    sure,
    text_value,
    with_digits,
)
from holdfast.planning.sql.plain.patterns import written_date, written_moment

_RESULTS = (PlainKind.TEXT, PlainKind.BOOLEAN, PlainKind.MOMENT, PlainKind.DATE, PlainKind.DOUBLE)
"""Kinds without bounds that a column may have and that need no more than to be handed on."""


def compared(sign: str, left: Operand, right: Operand) -> Plain:
    """Return a comparison of two values of one kind, or of two numbers."""
    (left_value, left_kind), (right_value, right_kind) = left, right
    match left_kind, right_kind:
        case PlainWhole(), PlainWhole():
            return PlainCall(sign, (left_value, right_value))
        case PlainKind.TEXT | PlainKind.MOMENT | PlainKind.DATE, _ if left_kind is right_kind:
            return PlainCall(sign, (left_value, right_value))
        case PlainKind.BOOLEAN, PlainKind.BOOLEAN if sign in ("=", "<>"):
            return PlainCall(sign, (left_value, right_value))
    if _has_double(left, right):
        return PlainCall(f"double {sign}", (double(left), double(right)))
    (left_value, first), (right_value, second) = decimal(left), decimal(right)
    return PlainCall(sign, (left_value, right_value)) if wider(first, second).fits else not_plain()


def among(value: Operand, values: Sequence[Operand]) -> Plain:
    """Return whether a whole number or a text is one of these."""
    like = PlainWhole if isinstance(value[1], PlainWhole) else PlainKind
    if not values or not all(isinstance(choice, PlainValue) and isinstance(kind, like) for choice, kind in values):
        raise NotPlainError
    if value[1] in (PlainKind.BOOLEAN, PlainKind.DOUBLE):
        raise NotPlainError
    for choice in values:
        compared("=", value, choice)
    return PlainCall("in", (value[0], *(choice for choice, _ in values)))


def computed(sign: str, left: Operand, right: Operand) -> Operand:
    """Return a sum, a difference or a product; one of decimals only where Spark's type has it whatever the values."""
    if _has_double(left, right):
        return PlainCall(sign, (double(left), double(right))), PlainKind.DOUBLE
    match left, right:
        case ((moment, PlainKind.MOMENT), (PlainValue(int(span)), PlainKind.SPAN)) if sign in ("+", "-"):
            return _shifted(moment, span if sign == "+" else -span)
        case ((PlainValue(int(span)), PlainKind.SPAN), (moment, PlainKind.MOMENT)) if sign == "+":
            return _shifted(moment, span)
        case (left_value, PlainWhole() as first), (right_value, PlainWhole() as second):
            whole = whole_result(sign, first, second)
            if whole.fits:
                return PlainCall(sign, (left_value, right_value)), whole
            in_order = sign == "-" or _in_sparks_order(sign, left_value, right_value)
            return _checked(sign, whole.bits, left_value, right_value) if in_order else not_plain()
    (left_value, left_kind), (right_value, right_kind) = decimal(left), decimal(right)
    made = decimal_result(sign, left_kind, right_kind)
    return (PlainCall(sign, (left_value, right_value)), made) if made.fits else not_plain()


def _in_sparks_order(sign: str, left: Plain, right: Plain) -> bool:
    """Whether Spark adds or multiplies several numbers in this order: it leaves those from the text for the end."""
    same, numbers = (sign, f"checked {sign}"), list[Plain]()
    if isinstance(right, PlainCall) and right.function in same:
        return False
    while isinstance(left, PlainCall) and left.function in same:
        left, number, *_ = left.arguments
        numbers.append(number)
    return not numbers or all(map(has_column, (left, *numbers)))


def _shifted(moment: Plain, micros: int) -> Operand:
    """Return a moment that lies so much later."""
    return PlainCall("shift", (moment, PlainValue(micros))), PlainKind.MOMENT


def _checked(name: str, bits: int, *values: Plain) -> Operand:
    """Return a whole number of a type that need not have it."""
    return PlainCall(f"checked {name}", (*values, PlainValue(bits))), PlainWhole.of(bits)


def divided(operand: Operand, by: Operand) -> Operand:
    """Return a DOUBLE, or a whole number, divided by another."""
    match operand, by:
        case ((_, PlainKind.DOUBLE), (PlainValue(divisor), PlainWhole() | PlainDecimal())) | (
            (_, PlainWhole()),
            (PlainValue(divisor), PlainWhole()),
        ) if divisor:
            return PlainCall("/", (double(operand), double(by))), PlainKind.DOUBLE
        case (_, PlainWhole() | PlainKind.DOUBLE), (value, PlainWhole() | PlainKind.DOUBLE) if not _from_text(value):
            return PlainCall("checked /", (double(operand), double(by))), PlainKind.DOUBLE
    raise NotPlainError


def whole_part(operand: Operand, by: Operand) -> Operand:
    """Return how many times a whole number goes into another."""
    match operand, by:
        case (value, PlainWhole()), (divisor, PlainWhole()) if not _from_text(divisor):
            return PlainCall("div", (value, divisor)), PlainWhole.of(64)
        case (value, PlainWhole(_, least, most)), (PlainValue(int(divisor)), PlainWhole()) if divisor > 0:
            ends = (-(-least // divisor) if least < 0 else least // divisor, most // divisor)
            return PlainCall("/", (value, by[0])), PlainWhole(64, *ends)
    raise NotPlainError


def remainder(operand: Operand, by: Operand) -> Operand:
    """Return the rest of dividing a whole number by another."""
    match operand, by:
        case (value, PlainWhole() as kind), (PlainValue(), PlainWhole() as divisor) if divisor.least > 0:
            rest = divisor.least - 1
            least, most = -rest if kind.least < 0 else 0, rest if kind.most > 0 else 0
            return PlainCall("%", (value, by[0])), PlainWhole(max(kind.bits, divisor.bits), least, most)
        case (value, PlainWhole() as kind), (other, PlainWhole() as divisor) if not _from_text(other):
            whole = PlainWhole(max(kind.bits, divisor.bits), min(kind.least, 0), max(kind.most, 0))
            return PlainCall("checked %", (value, other)), whole
    raise NotPlainError


def _from_text(divisor: Plain) -> bool:
    """Whether it stands in the text; of zero, Spark knows before any row comes that it can't be divided by."""
    return isinstance(divisor, PlainValue)


def bitwise(sign: str, left: Operand, right: Operand) -> Operand:
    """Return a whole number of the bits of two."""
    match left, right:
        case (left_value, PlainWhole() as first), (right_value, PlainWhole() as second):
            return PlainCall(sign, (left_value, right_value)), PlainWhole.of(max(first.bits, second.bits))
    raise NotPlainError


def inverted(operand: Operand) -> Operand:
    """Return a whole number with each of its bits inverted."""
    match operand:
        case value, PlainWhole(bits):
            return PlainCall("~", (value,)), PlainWhole.of(bits)
    raise NotPlainError


def negative(operand: Operand) -> Operand:
    """Return a number with the other sign."""
    match operand:
        case value, PlainWhole(bits, least, most) if (whole := PlainWhole(bits, -most, -least)).fits:
            return PlainCall("negative", (value,)), whole
        case value, PlainWhole(bits):
            return _checked("-", bits, PlainValue(0), value)
        case value, PlainDecimal() | PlainKind.DOUBLE as kind:
            return PlainCall("negative", (value,)), kind
    raise NotPlainError


def absolute(operand: Operand) -> Operand:
    """Return a number without its sign."""
    match operand:
        case value, PlainWhole(bits, least, most) if (whole := PlainWhole(bits, 0, max(-least, most))).fits:
            return PlainCall("abs", (value,)), whole
        case value, PlainWhole(bits):
            return _checked("abs", bits, value)
        case value, PlainDecimal() | PlainKind.DOUBLE as kind:
            return PlainCall("abs", (value,)), kind
    raise NotPlainError


def cast_to_double(operand: Operand) -> Operand:
    """Return a number as a DOUBLE."""
    return double(operand), PlainKind.DOUBLE


def cast_to_whole(operand: Operand, bits: int) -> Operand:
    """Return a whole number in another type."""
    match operand:
        case value, PlainWhole(_, least, most) if (whole := PlainWhole(bits, least, most)).fits:
            return value, whole
        case value, PlainWhole():
            return _checked("whole", bits, value)
    raise NotPlainError


def cast_to_decimal(operand: Operand, precision: int, scale: int) -> Operand:
    """Return a number in a type that has all its values, exactly."""
    value, kind = decimal(operand)
    made = PlainDecimal(precision, scale, kind.at(scale)) if scale >= kind.scale else not_plain()
    return (with_digits(value, made), made) if made.fits else not_plain()


def cast_to_text(operand: Operand) -> Operand:
    """Return the digits of a whole number."""
    value, kind = operand
    return (PlainCall("text", (value,)), PlainKind.TEXT) if isinstance(kind, PlainWhole) else not_plain()


def cast_to_date(operand: Operand) -> Operand:
    """Return the date of a moment in UTC, or the one that a text is."""
    match operand:
        case _, PlainKind.DATE:
            return operand
        case value, PlainKind.MOMENT:
            return PlainCall("date", (value,)), PlainKind.DATE
    return PlainValue(written_date(text_value(operand)) or not_plain()), PlainKind.DATE


def cast_to_moment(operand: Operand) -> Operand:
    """Return the moment that a text is."""
    return PlainValue(written_moment(text_value(operand)) or not_plain()), PlainKind.MOMENT


def chosen(conditions: Sequence[Plain], results: Sequence[Operand]) -> Operand:
    """Return the result of the first condition that is true; the one behind all, or null, if none is.

    A result may fail, as Spark computes it only where it is chosen. A condition may not: it is left out where all
    results are the same.
    """
    values, kind = alike(results)
    pairs = [part for pair in zip(map(sure, conditions), values, strict=False) for part in pair]
    return PlainCall("case", (*pairs, *values[len(conditions) :])), kind


def alike(operands: Sequence[Operand]) -> tuple[Sequence[Plain], Kind]:
    """Return values of one kind, of which one is taken, and that kind: a DOUBLE makes all numbers DOUBLE."""
    if _has_double(*operands):
        operands = [operand if operand[1] is PlainKind.NOTHING else cast_to_double(operand) for operand in operands]
    kind = one_of(kind for _, kind in operands)
    values = [value for value, _ in operands]
    return values, kind if kind is not None and _is_handed_on(kind) else not_plain()


def _has_double(*operands: Operand) -> bool:
    return any(kind is PlainKind.DOUBLE for _, kind in operands)


def _is_handed_on(kind: Kind) -> bool:
    """Whether a value of this kind may be a result."""
    return isinstance(kind, PlainWhole | PlainDecimal) or kind in _RESULTS


def struct_of(fields: Sequence[tuple[str, Operand]]) -> Operand:
    """Return a struct of these fields."""
    distinct = len({name.casefold() for name, _ in fields}) == len(fields) > 0
    if not distinct or not all(_is_handed_on(kind) for _, (_, kind) in fields):
        raise NotPlainError
    parts = [part for name, (value, _) in fields for part in (PlainValue(name), value)]
    return PlainCall("struct", tuple(parts)), PlainStruct(tuple((name, kind) for name, (_, kind) in fields))


def field_of(operand: Operand, path: Sequence[str]) -> Operand:
    """Return what is at a path in a struct; the value itself if there is no path."""
    if not path:
        return operand
    for name in path:
        value, kind = operand
        field = kind.find(name) if isinstance(kind, PlainStruct) else None
        operand = (PlainCall("field", (value, PlainValue(field[0]))), field[1]) if field else not_plain()
    return operand if _is_handed_on(operand[1]) else not_plain()
