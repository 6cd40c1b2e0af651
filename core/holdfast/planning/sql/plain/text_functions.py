"""Functions of texts that plain expressions may call: what computes them and what may result.

What is sought, cut off or filled up stands in the text of the expression, so nothing depends on a row but the text
itself.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from holdfast.planning.sql.plain.expressions import PlainCall, PlainValue, functions_of
from holdfast.planning.sql.plain.kinds import Kind, PlainKind, PlainWhole
from holdfast.planning.sql.plain.operands import NotPlainError, Operand, not_plain, of_kind, text_value, whole_value
from holdfast.planning.sql.plain.patterns import matches_nothing, plain_separator, same_pattern

_TEXT: Final = PlainKind.TEXT
_CHARACTERS: Final = PlainWhole(32, 0, 2**31 - 1)
_MOST_PADDED: Final = 1000
_CASES: Final = ("lower", "upper")


def concat(operands: Sequence[Operand]) -> Operand:
    """Texts, one behind another."""
    return PlainCall("concat", tuple(of_kind(text, _TEXT) for text in operands)), _TEXT


def _of_text(name: str, kind: Kind, operands: Sequence[Operand]) -> Operand:
    match operands:
        case [text]:
            return PlainCall(name, (of_kind(text, _TEXT),)), kind
    raise NotPlainError


def _in_case(name: str, operands: Sequence[Operand]) -> Operand:
    # Of lower(upper(x)) Spark makes lower(x), which is another text for ß.
    call, kind = _of_text(name, _TEXT, operands)
    return (call, kind) if functions_of(operands[0][0]).isdisjoint(_CASES) else not_plain()


def _of_part(name: str, operands: Sequence[Operand]) -> Operand:
    match operands:
        case [text, part] if text_value(part):
            kind = _CHARACTERS if name == "instr" else PlainKind.BOOLEAN
            return PlainCall(name, (of_kind(text, _TEXT), part[0])), kind
    raise NotPlainError


def _replace(operands: Sequence[Operand]) -> Operand:
    match operands:
        case [text, old, *new] if len(new) <= 1 and text_value(old):
            texts = (PlainValue(text_value(old)), PlainValue("".join(map(text_value, new))))
            return PlainCall("replace", (of_kind(text, _TEXT), *texts)), _TEXT
    raise NotPlainError


def _translate(operands: Sequence[Operand]) -> Operand:
    """Return a text with some characters in place of others, or without them.

    One replacement after the other is the same as all at once if none makes what another one replaces.
    """
    match operands:
        case [text, old, new]:
            old_text, new_text = text_value(old), text_value(new)
            # A character that is there twice counts as the first one; behind the end of the others is nothing.
            pairs = {old: new_text[at : at + 1] for at, old in reversed([*enumerate(old_text)])}
            if pairs.keys().isdisjoint(pairs.values()):
                parts = [PlainValue(part) for pair in pairs.items() for part in pair]
                return PlainCall("translate", (of_kind(text, _TEXT), *parts)), _TEXT
    raise NotPlainError


def _regexp_replace(operands: Sequence[Operand]) -> Operand:
    """Return a text with another one in place of what a pattern finds, which must not be empty."""
    match operands:
        case [text, pattern, new] if not set(text_value(new)) & {"$", "\\"}:
            same = same_pattern(text_value(pattern), 0)
            if same is not None and not matches_nothing(text_value(pattern)):
                return PlainCall("regexp_replace", (of_kind(text, _TEXT), PlainValue(same), new[0])), _TEXT
    raise NotPlainError


def _split(operands: Sequence[Operand]) -> Operand:
    match operands:
        case [text, separator] if plain_separator(text_value(separator)):
            return PlainCall("split", (of_kind(text, _TEXT), separator[0])), PlainKind.TEXTS
    raise NotPlainError


def _get(operands: Sequence[Operand]) -> Operand:
    match operands:
        case [texts, index] if whole_value(index) >= 0:
            return PlainCall("get", (of_kind(texts, PlainKind.TEXTS), index[0])), _TEXT
    raise NotPlainError


def _regexp_extract(operands: Sequence[Operand]) -> Operand:
    match operands:
        case [text, pattern, *index] if len(index) <= 1:
            same = same_pattern(text_value(pattern), whole_value(index[0]) if index else 1)
            if same is not None:
                return PlainCall("extract", (of_kind(text, _TEXT), PlainValue(same))), _TEXT
    raise NotPlainError


def _matched(operands: Sequence[Operand]) -> Operand:
    """Return whether a pattern is found in a text."""
    match operands:
        case [text, pattern] if (same := same_pattern(text_value(pattern), 0)) is not None:
            return PlainCall("rlike", (of_kind(text, _TEXT), PlainValue(same))), PlainKind.BOOLEAN
    raise NotPlainError


def _substring(operands: Sequence[Operand]) -> Operand:
    match operands:
        case [text, position, *length] if len(length) <= 1:
            # From 1, as from 0; below, from the end of the text.
            start = _number(position) - (_number(position) > 0)
            return _slice(text, start, *map(_number, length))
    raise NotPlainError


def _left(operands: Sequence[Operand]) -> Operand:
    match operands:
        case [text, length]:
            return _slice(text, 0, _number(length))
    raise NotPlainError


def _right(operands: Sequence[Operand]) -> Operand:
    match operands:
        case [text, length] if _number(length) > 0:
            return _slice(text, -_number(length))
    raise NotPlainError


def _slice(text: Operand, start: int, length: int = _CHARACTERS.most) -> Operand:
    """Return a part of a text; a start below zero is counted from its end."""
    if length < 0:
        raise NotPlainError
    end = None if start < 0 <= start + length else start + length
    return PlainCall("slice", (of_kind(text, _TEXT), PlainValue(start), PlainValue(end))), _TEXT


def _pad(name: str, operands: Sequence[Operand]) -> Operand:
    match operands:
        case [text, width, *paddings] if len(paddings) <= 1 and 0 <= _number(width) <= _MOST_PADDED:
            padding = text_value(paddings[0]) if paddings else " "
            if len(padding) == 1:
                return PlainCall(name, (of_kind(text, _TEXT), width[0], PlainValue(padding))), _TEXT
    raise NotPlainError


def _number(operand: Operand) -> int:
    """Return a number of Spark's type for positions, which must stand in the expression."""
    value, kind = whole_value(operand), operand[1]
    return value if isinstance(kind, PlainWhole) and kind.bits <= _CHARACTERS.bits else not_plain()


TEXT_FUNCTIONS: Final[Mapping[str, Callable[[Sequence[Operand]], Operand]]] = {
    "concat": concat,
    "get": _get,
    "left": _left,
    "length": partial(_of_text, "length", _CHARACTERS),
    "regexp_extract": _regexp_extract,
    "regexp": _matched,
    "regexp_like": _matched,
    "regexp_replace": _regexp_replace,
    "replace": _replace,
    "right": _right,
    "rlike": _matched,
    "split": _split,
    "substring": _substring,
    "translate": _translate,
    **{name: partial(_of_text, name, _TEXT) for name in ("ltrim", "rtrim", "trim")},
    **{name: partial(_in_case, name) for name in _CASES},
    **{name: partial(_of_part, name) for name in ("contains", "endswith", "instr", "startswith")},
    **{name: partial(_pad, name) for name in ("lpad", "rpad")},
}
