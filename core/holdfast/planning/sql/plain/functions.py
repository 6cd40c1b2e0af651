"""Functions that plain expressions may call, by name: what computes them and what may result."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, TypeAlias

from holdfast.planning.sql.plain.expressions import PlainCall, PlainValue
from holdfast.planning.sql.plain.kinds import PlainKind, PlainWhole
from holdfast.planning.sql.plain.operands import NotPlainError, Operand, not_plain, of_kind, text_value, whole_value
from holdfast.planning.sql.plain.operators import absolute, alike, chosen
from holdfast.planning.sql.plain.patterns import plain_separator, same_pattern, time_parts

_TEXT, _TEXTS = PlainKind.TEXT, PlainKind.TEXTS
_Function: TypeAlias = Callable[[Sequence[Operand]], Operand]


def called(name: str, operands: Sequence[Operand]) -> Operand:
    """Return a call of the function that Spark knows by this name."""
    return _FUNCTIONS[name](operands) if name in _FUNCTIONS else not_plain()


def concat(operands: Sequence[Operand]) -> Operand:
    """Texts, one behind another."""
    return PlainCall("concat", tuple(of_kind(one, _TEXT) for one in operands)), _TEXT


def _part_of_time(name: str, kind: PlainWhole, operands: Sequence[Operand]) -> Operand:
    match operands:
        case [moment]:
            return PlainCall(name, (of_kind(moment, PlainKind.MOMENT),)), kind
    raise NotPlainError


def _date_format(operands: Sequence[Operand]) -> Operand:
    match operands:
        case [moment, pattern] if parts := time_parts(text_value(pattern)):
            return PlainCall("date_format", (of_kind(moment, PlainKind.MOMENT), *map(PlainValue, parts))), _TEXT
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


def _length(operands: Sequence[Operand]) -> Operand:
    match operands:
        case [text]:
            return PlainCall("length", (of_kind(text, _TEXT),)), PlainWhole(32, 0, 2**31 - 1)
    raise NotPlainError


def _lower(operands: Sequence[Operand]) -> Operand:
    match operands:
        case [text]:
            return PlainCall("lower", (of_kind(text, _TEXT),)), PlainKind.FOLDED
    raise NotPlainError


def _replace(operands: Sequence[Operand]) -> Operand:
    match operands:
        case [text, old, *new] if len(new) <= 1 and text_value(old):
            texts = (PlainValue(text_value(old)), PlainValue("".join(map(text_value, new))))
            return PlainCall("replace", (of_kind(text, _TEXT), *texts)), _TEXT
    raise NotPlainError


def _split(operands: Sequence[Operand]) -> Operand:
    match operands:
        case [text, separator] if plain_separator(text_value(separator)):
            return PlainCall("split", (of_kind(text, _TEXT), separator[0])), _TEXTS
    raise NotPlainError


def _get(operands: Sequence[Operand]) -> Operand:
    match operands:
        case [texts, index] if whole_value(index) >= 0:
            return PlainCall("get", (of_kind(texts, _TEXTS), index[0])), _TEXT
    raise NotPlainError


def _regexp_extract(operands: Sequence[Operand]) -> Operand:
    match operands:
        case [text, pattern, *index] if len(index) <= 1:
            same = same_pattern(text_value(pattern), whole_value(index[0]) if index else 1)
            if same is not None:
                return PlainCall("extract", (of_kind(text, _TEXT), PlainValue(same))), _TEXT
    raise NotPlainError


def _if(operands: Sequence[Operand]) -> Operand:
    match operands:
        case [condition, then, otherwise]:
            return chosen([of_kind(condition, PlainKind.BOOLEAN)], [then, otherwise])
    raise NotPlainError


def _coalesce(operands: Sequence[Operand]) -> Operand:
    match operands:
        case [_, _, *_]:
            values, kind = alike([one for one in operands if one[1] is not PlainKind.NOTHING])
            return PlainCall("coalesce", tuple(values)), kind
    raise NotPlainError


_MICROS: Final = (-(2**63), 2**63 - 1)
_TIMES: Final = {
    "year": PlainWhole.of(32),
    "month": PlainWhole(32, 1, 12),
    "day": PlainWhole(32, 1, 31),
    "hour": PlainWhole(32, 0, 23),
    "minute": PlainWhole(32, 0, 59),
    "second": PlainWhole(32, 0, 59),
    "unix_seconds": PlainWhole(64, *(bound // 10**6 for bound in _MICROS)),
    "unix_millis": PlainWhole(64, *(bound // 10**3 for bound in _MICROS)),
    "unix_micros": PlainWhole(64, *_MICROS),
}
_FUNCTIONS: Final[Mapping[str, _Function]] = {
    "abs": _abs,
    "coalesce": _coalesce,
    "concat": concat,
    "date_format": _date_format,
    "get": _get,
    "if": _if,
    "isnan": _isnan,
    "length": _length,
    "lower": _lower,
    "regexp_extract": _regexp_extract,
    "replace": _replace,
    "split": _split,
    **{name: partial(_part_of_time, name, kind) for name, kind in _TIMES.items()},
}
