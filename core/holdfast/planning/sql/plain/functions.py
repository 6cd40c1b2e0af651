"""Functions that plain expressions may call, by name: what computes them and what may result."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, TypeAlias

from holdfast.planning.sql.plain.expressions import PlainCall, PlainValue, functions_of
from holdfast.planning.sql.plain.kinds import PlainKind, PlainWhole
from holdfast.planning.sql.plain.operands import (
    NotPlainError,
    Operand,
    not_plain,
    of_kind,
    sure,
    text_value,
    whole_value,
)
from holdfast.planning.sql.plain.operators import absolute, alike, cast_to_date, chosen, compared, computed, remainder
from holdfast.planning.sql.plain.patterns import time_parts
from holdfast.planning.sql.plain.text_functions import TEXT_FUNCTIONS

_Function: TypeAlias = Callable[[Sequence[Operand]], Operand]


def called(name: str, operands: Sequence[Operand]) -> Operand:
    """Return a call of the function that Spark knows by this name."""
    return _FUNCTIONS[name](operands) if name in _FUNCTIONS else not_plain()


def _part_of_time(name: str, kind: PlainWhole, operands: Sequence[Operand]) -> Operand:
    match operands:
        case [moment]:
            return PlainCall(name, (of_kind(moment, PlainKind.MOMENT),)), kind
    raise NotPlainError


def _part_of_date(name: str, kind: PlainWhole, operands: Sequence[Operand]) -> Operand:
    match operands:
        case [(date, PlainKind.DATE)]:
            return PlainCall(name, (PlainCall("midnight", (date,)),)), kind
    return _part_of_time(name, kind, operands)


def _to_date(operands: Sequence[Operand]) -> Operand:
    match operands:
        case [(_, PlainKind.MOMENT | PlainKind.DATE) as operand]:
            return cast_to_date(operand)
    raise NotPlainError


def _datediff(operands: Sequence[Operand]) -> Operand:
    """Return how many days one date is after another; both may be moments."""
    match operands:
        case [later, earlier]:
            dates = [_to_date([operand])[0] for operand in (later, earlier)]
            return PlainCall("datediff", tuple(dates)), PlainWhole.of(32)
    raise NotPlainError


def _days_later(sign: int, operands: Sequence[Operand]) -> Operand:
    """Return the date so many days, from the text, after a date or before it; no row can have too late a date then."""
    match operands:
        case [date, days] if abs(whole_value(days)) <= _MOST_DAYS:
            later = PlainValue(sign * whole_value(days))
            return PlainCall("days later", (_to_date([date])[0], later)), PlainKind.DATE
    raise NotPlainError


def _last_day(operands: Sequence[Operand]) -> Operand:
    """Return the last date of a month."""
    match operands:
        case [date]:
            return PlainCall("last_day", (_to_date([date])[0],)), PlainKind.DATE
    raise NotPlainError


def _trunc(operands: Sequence[Operand]) -> Operand:
    """Return the date on which a unit began."""
    match operands:
        case [date, unit] if (name := _UNITS_OF_DATES.get(text_value(unit).lower())) is not None:
            return PlainCall("trunc", (_to_date([date])[0], PlainValue(name))), PlainKind.DATE
    raise NotPlainError


def _date_format(operands: Sequence[Operand]) -> Operand:
    match operands:
        case [moment, pattern] if parts := time_parts(text_value(pattern)):
            call = PlainCall("date_format", (of_kind(moment, PlainKind.MOMENT), *map(PlainValue, parts)))
            return call, PlainKind.TEXT
    raise NotPlainError


def _date_trunc(operands: Sequence[Operand]) -> Operand:
    match operands:
        case [unit, moment] if (name := text_value(unit).lower()) in _UNITS:
            call = PlainCall("date_trunc", (of_kind(moment, PlainKind.MOMENT), PlainValue(name)))
            return call, PlainKind.MOMENT
    raise NotPlainError


def _pmod(operands: Sequence[Operand]) -> Operand:
    """Return the rest of dividing by a number above zero from the text, never below zero."""
    match operands:
        case [number, (PlainValue(int(divisor)), PlainWhole()) as by] if divisor > 0:
            return remainder(computed("+", remainder(number, by), by), by)
    raise NotPlainError


def _abs(operands: Sequence[Operand]) -> Operand:
    match operands:
        case [number]:
            return absolute(number)
    raise NotPlainError


def _isnan(operands: Sequence[Operand]) -> Operand:
    match operands:
        case [number]:
            return PlainCall("isnan", (of_kind(number, PlainKind.DOUBLE),)), PlainKind.BOOLEAN
    raise NotPlainError


def _if(operands: Sequence[Operand]) -> Operand:
    match operands:
        case [condition, then, otherwise]:
            return chosen([of_kind(condition, PlainKind.BOOLEAN)], [then, otherwise])
    raise NotPlainError


def _nullif(operands: Sequence[Operand]) -> Operand:
    match operands:
        case [first, second] if "case" not in functions_of(first[0]):
            # The first one stands in it twice: within each other, such calls would double what is computed.
            return chosen([compared("=", first, second)], [(PlainValue(None), PlainKind.NOTHING), first])
    raise NotPlainError


def _coalesce(operands: Sequence[Operand]) -> Operand:
    match operands:
        case [_, _, *_]:
            values, kind = alike([operand for operand in operands if operand[1] is not PlainKind.NOTHING])
            return PlainCall("coalesce", tuple(map(sure, values))), kind
    raise NotPlainError


def _nvl(operands: Sequence[Operand]) -> Operand:
    match operands:
        case [first, second]:
            return _coalesce([first, second])
    raise NotPlainError


def _extreme(name: str, operands: Sequence[Operand]) -> Operand:
    """Return the greatest or the least of whole numbers; nulls are passed over."""
    match operands:
        case [_, _, *_] if all(isinstance(kind, PlainWhole) for _, kind in operands):
            values, kind = alike(operands)
            return PlainCall(name, tuple(map(sure, values))), kind
    raise NotPlainError


_UNITS: Final = ("second", "minute", "hour", "day", "week", "month", "quarter", "year")
_UNITS_OF_DATES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("year", "yyyy", "yy"), "year"),
    **dict.fromkeys(("month", "mon", "mm"), "month"),
    "quarter": "quarter",
    "week": "week",
}
_MOST_DAYS: Final = 100_000
_MICROS: Final = (-(2**63), 2**63 - 1)
_DATES: Final = {
    "year": PlainWhole.of(32),
    "month": PlainWhole(32, 1, 12),
    "quarter": PlainWhole(32, 1, 4),
    "day": PlainWhole(32, 1, 31),
    "dayofmonth": PlainWhole(32, 1, 31),
    "dayofweek": PlainWhole(32, 1, 7),
    "dayofyear": PlainWhole(32, 1, 366),
    "weekday": PlainWhole(32, 0, 6),
    "weekofyear": PlainWhole(32, 1, 53),
}
_TIMES: Final = {
    "hour": PlainWhole(32, 0, 23),
    "minute": PlainWhole(32, 0, 59),
    "second": PlainWhole(32, 0, 59),
    "unix_seconds": PlainWhole(64, *(bound // 10**6 for bound in _MICROS)),
    "unix_millis": PlainWhole(64, *(bound // 10**3 for bound in _MICROS)),
    "unix_micros": PlainWhole(64, *_MICROS),
}
_FUNCTIONS: Final[Mapping[str, _Function]] = {
    **TEXT_FUNCTIONS,
    "abs": _abs,
    "coalesce": _coalesce,
    "date": _to_date,
    "date_add": partial(_days_later, 1),
    "date_diff": _datediff,
    "datediff": _datediff,
    "date_format": _date_format,
    "date_sub": partial(_days_later, -1),
    "date_trunc": _date_trunc,
    "greatest": partial(_extreme, "greatest"),
    "if": _if,
    "ifnull": _nvl,
    "isnan": _isnan,
    "last_day": _last_day,
    "least": partial(_extreme, "least"),
    "nullif": _nullif,
    "nvl": _nvl,
    "pmod": _pmod,
    "to_date": _to_date,
    "trunc": _trunc,
    **{name: partial(_part_of_date, name, kind) for name, kind in _DATES.items()},
    **{name: partial(_part_of_time, name, kind) for name, kind in _TIMES.items()},
}
