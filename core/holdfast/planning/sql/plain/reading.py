"""From the text of a `filter` or a `select` to plain expressions, or to none."""

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final

from sqlglot import exp

from holdfast.planning.problems import ExpressionError, SqlFinding
from holdfast.planning.sql.expressions import check_select
from holdfast.planning.sql.plain.expressions import Plain, PlainCall, PlainColumn, PlainValue, can_fail, has_column
from holdfast.planning.sql.plain.functions import called
from holdfast.planning.sql.plain.kinds import Kind, PlainDecimal, PlainKind, PlainWhole
from holdfast.planning.sql.plain.operands import NotPlainError, Operand, not_plain, of_kind, sure, text_value
from holdfast.planning.sql.plain.operators import (
    among,
    bitwise,
    cast_to_date,
    cast_to_decimal,
    cast_to_double,
    cast_to_moment,
    cast_to_text,
    cast_to_whole,
    chosen,
    compared,
    computed,
    divided,
    field_of,
    inverted,
    negative,
    remainder,
    struct_of,
    whole_part,
)
from holdfast.planning.sql.plain.text_functions import concat
from holdfast.planning.sql.reading import path_of
from holdfast.planning.sql.scope import Scope
from holdfast.planning.sql.text import parse
from holdfast.planning.types.spark_types import UNKNOWN, Column, RowType

_COMPARISONS: Final = {exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
_SIGNS: Final = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}
_BITWISE: Final = {exp.BitwiseAnd: "&", exp.BitwiseOr: "|", exp.BitwiseXor: "^"}
_QUOTIENTS: Final = {exp.Div: divided, exp.IntDiv: whole_part, exp.Mod: remainder}
_BITS: Final = {exp.DType.TINYINT: 8, exp.DType.SMALLINT: 16, exp.DType.INT: 32, exp.DType.BIGINT: 64}
_SPANS: Final = {"SECOND": 10**6, "MINUTE": 60 * 10**6, "HOUR": 3600 * 10**6, "DAY": 86_400 * 10**6}
_PARTS: Final[Mapping[type[exp.Expr], tuple[str, ...]]] = {
    exp.Between: ("low", "high"),
    exp.Case: ("ifs", "default"),
    exp.Cast: ("to",),
    exp.Div: ("typed", "safe"),
    exp.DPipe: ("safe",),
    exp.Interval: ("unit",),
    exp.Like: ("negate",),
    exp.Substring: ("start", "length"),
    exp.TryCast: ("to", "safe"),
}
"""What a node may have besides its operands: all else would be read over."""
_OWN_SYNTAX: Final[Mapping[type[exp.Expr], tuple[str, tuple[str, ...]]]] = {
    exp.RegexpLike: ("rlike", ("this", "expression")),
    exp.Substring: ("substring", ("this", "start", "length")),
    exp.Trim: ("trim", ("this",)),
}
"""Functions that the parser has classes for, by name, and where their operands are."""
_LENGTH_LOST: Final = re.compile(r"\b(?:VAR)?CHAR(?:ACTER)?\s*\(", re.IGNORECASE)
"""A type that the parser takes for STRING."""
_OPERANDS: Final = ("this", "expression", "expressions")
_DEFAULT_DECIMAL: Final = (10, 0)
_BEYOND: Final = 2**63
_COMPACT: Final = 18
"""Digits of a number with a point. For longer ones Spark 4.3 takes null < n for true or false where n is not null."""
_INNER: Final = (PlainKind.TEXTS, PlainKind.SPAN, PlainKind.NOTHING)
"""What only stands within an expression."""


def plain_filter(text: str, kinds: Mapping[str, Kind]) -> Plain | None:
    """Return the condition of a filter over rows with these columns; None if it is not plain."""
    operand = _read(text, kinds)
    return operand[0] if operand is not None and operand[1] is PlainKind.BOOLEAN and has_column(operand[0]) else None


def plain_select(items: Sequence[str], kinds: Mapping[str, Kind]) -> tuple[Plain, ...] | None:
    """Return the columns that a select puts out, in order; None if they are not all plain."""
    scope, made = _scope(kinds), list[Plain]()
    for text in items:
        checked = check_select([text], scope)
        if checked and all(expression.source is not None for expression in checked):
            made += [PlainColumn(expression.source[1]) for expression in checked if expression.source is not None]
            continue
        read = _read(text, kinds)
        if read is None or not _is_result(*read):
            return None
        made.append(read[0])
    return tuple(made)


def sure_select(items: Sequence[str], kinds: Mapping[str, Kind]) -> tuple[Plain, ...] | None:
    """Return the columns that a select puts out if they are all plain and no row fails on one."""
    made = plain_select(items, kinds)
    return None if made is None or any(map(can_fail, made)) else made


def _scope(kinds: Mapping[str, Kind]) -> Scope:
    return Scope.of(RowType(tuple(Column(name, UNKNOWN) for name in kinds)))


def _read(text: str, kinds: Mapping[str, Kind]) -> Operand | None:
    """Return an expression and its kind; None if it is not plain."""
    if _LENGTH_LOST.search(text):
        return None
    try:
        tree = parse(text, tuple(kinds)).unalias()
        # Alone in a column, a null may be of any type: Spark says which.
        if isinstance(tree, exp.TryCast) and isinstance(tree.this, exp.Null) and _known_parts(tree):
            return PlainValue(None), PlainKind.OTHER
        return _Reading(kinds).read(tree)
    except (ExpressionError, NotPlainError):
        return None


def _is_result(made: Plain, kind: Kind) -> bool:
    """Whether a column may have this value: what is computed from the text alone may fail for all rows."""
    match made:
        case PlainValue() | PlainCall("double", (PlainValue(),)):
            return kind not in _INNER
    return kind not in _INNER and has_column(made)


def _known_parts(tree: exp.Expr) -> bool:
    names = (*_OPERANDS, *_PARTS.get(type(tree), ()))
    return isinstance(tree, exp.Column | exp.Literal) or all(name in names for name, part in tree.args.items() if part)


def _vary(operands: Sequence[Operand]) -> bool:
    """Whether a function of these is more than a value from the text."""
    return any(has_column(value) for value, _ in operands)


def _mixed(tree: exp.Binary) -> bool:
    """Whether different operators of bits stand side by side, which Spark does not take from the left."""
    return type(tree.left) in _BITWISE and type(tree.left) is not type(tree)


class _Reading:
    """Reads one expression."""

    def __init__(self, kinds: Mapping[str, Kind]) -> None:
        self._kinds, self._scope = kinds, _scope(kinds)

    def read(self, tree: exp.Expr | None) -> Operand:
        """Return the expression and its kind."""
        if tree is None or not _known_parts(tree):
            raise NotPlainError
        match tree:
            case exp.Paren():
                return self.read(tree.this)
            case exp.Column():
                return self._column(tree)
            case exp.Boolean() | exp.Interval() | exp.Literal() | exp.Neg(this=exp.Literal()) | exp.Null():
                return _value(tree)
            case exp.And() | exp.Or() | exp.Not() | exp.Is() | exp.In() | exp.Between() | exp.Like():
                return self._condition(tree), PlainKind.BOOLEAN
            case exp.Binary() if type(tree) not in _OWN_SYNTAX:
                return self._operator(tree, self.read(tree.left), self.read(tree.right))
        return self._function(tree)

    def _condition(self, tree: exp.Expr) -> Plain:
        match tree:
            case exp.And() | exp.Or():
                word = "and" if isinstance(tree, exp.And) else "or"
                first, other = (of_kind(self.read(one), PlainKind.BOOLEAN) for one in (tree.left, tree.right))
                return PlainCall(word, (first, sure(other)))
            case exp.Not():
                return PlainCall("not", (of_kind(self.read(tree.this), PlainKind.BOOLEAN),))
            case exp.Is() if isinstance(tree.expression, exp.Null):
                return PlainCall("null", (self.read(tree.this)[0],))
            case exp.Like():
                pattern = PlainValue(text_value(self.read(tree.expression)))
                like = PlainCall("like", (of_kind(self.read(tree.this), PlainKind.TEXT), pattern))
                return PlainCall("not", (like,)) if tree.args.get("negate") else like
            case exp.Between():
                value, low, high = (self.read(tree.args.get(name)) for name in ("this", "low", "high"))
                sure(high[0])
                return PlainCall("and", (compared(">=", value, low), compared("<=", value, high)))
            case exp.In():
                return among(self.read(tree.this), [self.read(one) for one in tree.expressions])
        raise NotPlainError

    def _operator(self, tree: exp.Binary, left: Operand, right: Operand) -> Operand:
        if type(tree) in _COMPARISONS:
            return compared(_COMPARISONS[type(tree)], left, right), PlainKind.BOOLEAN
        if type(tree) in _SIGNS and _vary([left, right]):
            return computed(_SIGNS[type(tree)], left, right)
        if type(tree) in _BITWISE and _vary([left, right]) and not _mixed(tree):
            return bitwise(_BITWISE[type(tree)], left, right)
        if type(tree) in _QUOTIENTS:
            return _QUOTIENTS[type(tree)](left, right)
        return concat([left, right]) if isinstance(tree, exp.DPipe) else not_plain()

    def _function(self, tree: exp.Expr | None) -> Operand:
        match tree:
            case exp.Anonymous() if str(tree.this).lower() == "struct":
                return self._struct(tree.expressions)
            case exp.Anonymous() | exp.RegexpLike() | exp.Substring() | exp.Trim():
                name, parts = _call(tree)
                operands = [self.read(part) for part in parts]
                return called(name, operands) if _vary(operands) else not_plain()
            case exp.Neg():
                return negative(self.read(tree.this))
            case exp.BitwiseNot():
                return inverted(self.read(tree.this))
            case exp.Cast():
                return _cast(self.read(tree.this), tree.to)
            case exp.Case():
                return self._case(tree)
        raise NotPlainError

    def _column(self, tree: exp.Column) -> Operand:
        first, *inner = path_of(tree) or not_plain()
        resolved = self._scope.find((first,))
        if isinstance(resolved, SqlFinding) or resolved.source is None:
            raise NotPlainError
        name = resolved.source[1]
        return field_of((PlainColumn(name), self._kinds[name]), inner)

    def _struct(self, values: Sequence[exp.Expr]) -> Operand:
        """Return a struct of columns, which have names; all else is named by rules of Spark."""
        fields = []
        for value in values:
            column = value.unalias()
            operand = self._column(column) if isinstance(column, exp.Column) else not_plain()
            name = value.alias or path_of(column)[-1]
            fields.append((name, operand))
        return struct_of(fields)

    def _case(self, tree: exp.Case) -> Operand:
        whens = [(self.read(one.this), self.read(one.args.get("true"))) for one in tree.args["ifs"]]
        if tree.this is None:
            conditions = [of_kind(when, PlainKind.BOOLEAN) for when, _ in whens]
        else:
            value = self.read(tree.this)
            conditions = [compared("=", value, when) for when, _ in whens]
        default = tree.args.get("default")
        rest = [] if default is None else [self.read(default)]
        return chosen(conditions, [*(then for _, then in whens), *rest])


def _call(tree: exp.Expr) -> tuple[str, Sequence[exp.Expr]]:
    """Return the name of a function and its operands."""
    if type(tree) not in _OWN_SYNTAX:
        return str(tree.this).lower(), tree.expressions
    name, parts = _OWN_SYNTAX[type(tree)]
    operands = {part: operand for part, operand in tree.args.items() if operand is not None}
    return name, [operands.pop(part) for part in parts if part in operands] if operands.keys() <= set(
        parts
    ) else not_plain()


def _cast(operand: Operand, to: exp.DataType) -> Operand:
    if to.this in _BITS:
        return cast_to_whole(operand, _BITS[to.this])
    if to.this == exp.DType.DATE:
        return cast_to_date(operand)
    if to.this == exp.DType.TIMESTAMPTZ:
        return cast_to_moment(operand)
    if to.this == exp.DType.DOUBLE:
        return cast_to_double(operand)
    if to.this == exp.DType.TEXT and not to.args.get("collate"):
        return cast_to_text(operand)
    if to.this != exp.DType.DECIMAL:
        raise NotPlainError
    digits = [_whole(one.this) for one in to.expressions]
    return cast_to_decimal(operand, *(*digits, *_DEFAULT_DECIMAL[len(digits) :]))


def _value(tree: exp.Expr) -> Operand:
    if isinstance(tree, exp.Null):
        return PlainValue(None), PlainKind.NOTHING
    if isinstance(tree, exp.Boolean):
        return PlainValue(bool(tree.this)), PlainKind.BOOLEAN
    if isinstance(tree, exp.Neg):
        return _number(tree.this, "-")
    if isinstance(tree, exp.Interval):
        return _span(tree)
    text = str(tree.this)
    if not tree.is_string:
        return _number(tree, "")
    # Two parsers would have to read its escapes alike.
    return (PlainValue(text), PlainKind.TEXT) if "\\" not in text and text.isprintable() else not_plain()


def _span(tree: exp.Interval) -> Operand:
    """Return the microseconds of days or less."""
    match tree:
        case exp.Interval(this=exp.Literal(this=number), unit=exp.Var(this=unit)):
            micros = _SPANS.get(unit.upper().removesuffix("S"))
            if micros is not None and re.fullmatch(r"-?[0-9]{1,9}", number):
                return PlainValue(int(number) * micros), PlainKind.SPAN
    raise NotPlainError


def _number(tree: exp.Expr, sign: str) -> Operand:
    text = str(tree.this) if isinstance(tree, exp.Literal) and not tree.is_string else ""
    if text.isascii() and re.fullmatch(r"\d*\.\d+|\d+\.", text):
        digits, scale = int(text.replace(".", "")), len(text.partition(".")[2])
        kind = PlainDecimal(max(len(str(digits)), scale), scale, digits)
        return (PlainValue(Decimal(sign + text)), kind) if kind.precision <= _COMPACT else not_plain()
    value = int(f"{sign}{_whole(tree)}")
    return PlainValue(value), PlainWhole(32 if PlainWhole(32, value, value).fits else 64, value, value)


def _whole(tree: exp.Expr) -> int:
    text = str(tree.this) if isinstance(tree, exp.Literal) and not tree.is_string else ""
    if not (text.isascii() and text.isdigit()):
        raise NotPlainError
    return int(text) if int(text) < _BEYOND else not_plain()
