"""The result types of Spark's operators, literals and casts, as Spark 4.3 gives them with ANSI mode on.

Only the node types in `RULES` have a type; the golden corpus covers each. Must not resolve names.
"""

from collections.abc import Callable
from decimal import Decimal, InvalidOperation

from sqlglot import exp

from holdfast.planning.types.collection_types import Call, element, row
from holdfast.planning.types.ddl import parse_type
from holdfast.planning.types.function_types import concatenated, result, taken_part
from holdfast.planning.types.spark_types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FRACTIONAL,
    INT,
    INTEGRAL,
    INTERVAL_FIELDS,
    MAX_PRECISION,
    STRING,
    TIMES,
    TIMESTAMP,
    VOID,
    SparkType,
    as_decimal,
    decimal,
    interval,
    is_number,
    wider,
    wider_interval,
    widest,
)

Kinds = Callable[[object], SparkType | None]
"""Looks up the type of a node that was visited before."""

NodeRule = Callable[[exp.Expr, Kinds], SparkType | None]

INT_LIMIT, BIGINT_LIMIT = 2**31, 2**63
MAX_LITERAL = 60
UNITS = {**{word: word for word in INTERVAL_FIELDS}, "WEEK": "DAY", "MILLISECOND": "SECOND", "MICROSECOND": "SECOND"}


def _literal(node: exp.Expr, _: Kinds) -> SparkType | None:
    if node.is_string:
        return STRING
    text = str(node.this)
    if len(text) > MAX_LITERAL:
        return None
    if text.isdecimal():
        value = int(text)
        digits = len(str(value))
        return INT if value < INT_LIMIT else BIGINT if value < BIGINT_LIMIT else _exact(digits, 0)
    if "e" in text.lower():
        return DOUBLE
    try:
        sign, whole, exponent = Decimal(text).as_tuple()
    except InvalidOperation:
        return None
    del sign
    scale = -exponent if isinstance(exponent, int) else 0
    return _exact(max(len(whole), scale), scale)


def _exact(precision: int, scale: int) -> SparkType | None:
    return SparkType("DECIMAL", digits=(precision, scale)) if precision <= MAX_PRECISION else None


def _negative(node: exp.Expr, kinds: Kinds) -> SparkType | None:
    kind = kinds(node.this)
    # -2147483648 is one literal in Spark and an INT, while 2147483648 alone is a BIGINT.
    if isinstance(node.this, exp.Literal) and str(node.this.this) in (str(INT_LIMIT), str(BIGINT_LIMIT)):
        return None
    return kind if is_number(kind) or (kind is not None and kind.is_interval) else None


def _in_decimal(node: exp.Expr, kind: SparkType) -> tuple[int, int] | None:
    """Precision and scale of an integer operand beside a decimal: a literal takes only as many digits as it has."""
    node = node.unnest()
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal):
        node = node.this
    if isinstance(node, exp.TryCast) and isinstance(node.this, exp.Literal):
        return None  # 2L and CAST(2 AS BIGINT) look the same here, but only the first is a literal in Spark
    if isinstance(node, exp.Literal) and kind in INTEGRAL:
        return len(str(int(str(node.this)))), 0
    return as_decimal(kind)


def _number(node: exp.Expr, kinds: Kinds) -> SparkType | None:
    """The type of + - * % and of / over numbers."""
    left, right = kinds(node.this), kinds(node.expression)
    if left is None or right is None or not is_number(left) or not is_number(right):
        return None
    if "DECIMAL" not in (left.word, right.word) or left in FRACTIONAL or right in FRACTIONAL:
        if isinstance(node, exp.Div):
            return DOUBLE
        return wider(left, right)
    left_digits, right_digits = _in_decimal(node.this, left), _in_decimal(node.expression, right)
    return _decimal_arithmetic(type(node), left_digits, right_digits) if left_digits and right_digits else None


def _decimal_arithmetic(
    operator: type[exp.Expr], left_digits: tuple[int, int], right_digits: tuple[int, int]
) -> SparkType | None:
    (p1, s1), (p2, s2) = left_digits, right_digits
    scale, whole = max(s1, s2), max(p1 - s1, p2 - s2)
    if operator in (exp.Add, exp.Sub):
        return decimal(whole + scale + 1, scale)
    if operator is exp.Mul:
        return decimal(p1 + p2 + 1, s1 + s2)
    if operator is exp.Div:
        scale = max(6, s1 + p2 + 1)
        return decimal(p1 - s1 + s2 + scale, scale)
    return decimal(min(p1 - s1, p2 - s2) + scale, scale)


def _moved(time: SparkType, span: SparkType) -> SparkType | None:
    """The type of a date or timestamp plus or minus an interval."""
    if time == DATE:
        if span in INTEGRAL and span != BIGINT:
            return DATE
        if span.word in ("INTERVAL DAY", "INTERVAL YEAR", "INTERVAL MONTH", "INTERVAL YEAR TO MONTH"):
            return DATE
        return TIMESTAMP if span.is_interval and span.word != "INTERVAL" else None
    return time if span.is_interval else None


def _added(node: exp.Expr, kinds: Kinds) -> SparkType | None:
    left, right = kinds(node.this), kinds(node.expression)
    if left is None or right is None:
        return None
    if left in TIMES:
        return _moved(left, right)
    if right in TIMES:
        return _moved(right, left)
    return wider_interval(left, right) if left.is_interval else _number(node, kinds)


def _subtracted(node: exp.Expr, kinds: Kinds) -> SparkType | None:
    left, right = kinds(node.this), kinds(node.expression)
    if left is None or right is None:
        return None
    if left in TIMES and right in TIMES:
        return interval("DAY", "DAY") if left == right == DATE else interval("DAY", "SECOND")
    if left in TIMES:
        return _moved(left, right)
    return wider_interval(left, right) if left.is_interval else _number(node, kinds)


def _scaled(node: exp.Expr, kinds: Kinds) -> SparkType | None:
    """The type of products and quotients, where one side may be an interval."""
    left, right = kinds(node.this), kinds(node.expression)
    span, factor = (left, right) if left and left.is_interval else (right, left)
    if span and span.is_interval and factor and is_number(factor) and span.word != "INTERVAL":
        if isinstance(node, exp.Div) and span is not left:
            return None
        months = any(word in span.word for word in ("YEAR", "MONTH"))
        return interval("YEAR", "MONTH") if months else interval("DAY", "SECOND")
    return _number(node, kinds)


def _bits(node: exp.Expr, kinds: Kinds) -> SparkType | None:
    left, right = kinds(node.this), kinds(node.expression)
    return wider(left, right) if left in INTEGRAL and right in INTEGRAL else None


def _shift(node: exp.Expr, kinds: Kinds) -> SparkType | None:
    kind = kinds(node.this)
    return kind if kind in (INT, BIGINT) else None


def _same(node: exp.Expr, kinds: Kinds) -> SparkType | None:
    return kinds(node.this)


def _case(node: exp.Expr, kinds: Kinds) -> SparkType | None:
    branches = [kinds(branch.args["true"]) for branch in node.args["ifs"]]
    default = node.args.get("default")
    return widest([*branches, kinds(default)] if default is not None else branches)


def cast_type(node: exp.Expr) -> SparkType | None:
    """The type of a cast, whatever its operand."""
    to = node.args["to"]
    spelled = parse_type(to.sql("spark")) if isinstance(to, exp.DataType) else None
    # Depending on settings, Spark returns STRING or keeps the length.
    return None if spelled is None or spelled.word in ("CHAR", "VARCHAR") else spelled


def _interval(node: exp.Expr, _: Kinds) -> SparkType | None:
    unit = node.args.get("unit")
    if isinstance(unit, exp.IntervalSpan):
        first, last = unit.this.name.upper(), unit.expression.name.upper()
        return interval(first, last) if first in INTERVAL_FIELDS and last in INTERVAL_FIELDS else None
    word = unit.name.upper() if unit is not None else ""
    word = UNITS.get(word) or UNITS.get(word.removesuffix("S")) or ""
    return interval(word, word) if word else None


def _item(node: exp.Expr, kinds: Kinds) -> SparkType | None:
    return element(Call((), (kinds(node.this),)))


def _field(node: exp.Expr, kinds: Kinds) -> SparkType | None:
    return field_of(kinds(node.this), node.expression.name)


def field_of(kind: SparkType | None, name: str) -> SparkType | None:
    """The type of `.name` of a value: a field of a struct, that field of each array element, or a map's value."""
    if kind is None:
        return None
    if kind.word == "STRUCT":
        return kind.field(name)
    if kind.word == "ARRAY":
        inner = kind.inner[0].field(name) if kind.inner[0].word == "STRUCT" else None
        return SparkType("ARRAY", (inner,)) if inner else None
    return kind.inner[1] if kind.word == "MAP" and kind.inner[0] == STRING else None


def _joined(node: exp.Expr, kinds: Kinds) -> SparkType | None:
    return concatenated((kinds(node.this), kinds(node.expression)))


def _row(node: exp.Expr, kinds: Kinds) -> SparkType | None:
    return row(Call(node.expressions, tuple(kinds(child) for child in node.expressions)))


def _always(kind: SparkType | None) -> NodeRule:
    return lambda *_: kind


def _text_function(name: str) -> NodeRule:
    """The rule for a function with a special syntax, like substring(a FROM 1)."""
    return lambda node, kinds: result(name, Call((node.this,), (kinds(node.this),)))


_CONDITIONS = (
    exp.And, exp.Between, exp.Boolean, exp.EQ, exp.Escape, exp.GT, exp.GTE, exp.ILike, exp.In, exp.Is, exp.LT, exp.LTE,
    exp.Like, exp.NEQ, exp.Not, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Or, exp.RegexpLike,
)  # fmt: skip

RULES: dict[type[exp.Expr], NodeRule] = {
    **dict.fromkeys(_CONDITIONS, _always(BOOLEAN)),
    exp.Literal: _literal,
    exp.RawString: _always(STRING),
    exp.HexString: _always(BINARY),
    exp.Null: _always(VOID),
    exp.Concat: _always(STRING),
    exp.Neg: _negative,
    exp.Paren: _same,
    exp.Alias: _same,
    exp.Kwarg: _always(None),
    exp.Add: _added,
    exp.Sub: _subtracted,
    exp.Mul: _scaled,
    exp.Div: _scaled,
    exp.Mod: _number,
    exp.IntDiv: _always(BIGINT),
    exp.BitwiseAnd: _bits,
    exp.BitwiseOr: _bits,
    exp.BitwiseXor: _bits,
    exp.BitwiseNot: _same,
    exp.BitwiseLeftShift: _shift,
    exp.BitwiseRightShift: _shift,
    exp.Case: _case,
    exp.Cast: lambda node, _: cast_type(node),
    exp.TryCast: lambda node, _: cast_type(node),
    exp.Interval: _interval,
    exp.Bracket: _item,
    exp.Dot: _field,
    exp.DPipe: _joined,
    exp.Extract: lambda node, kinds: taken_part(node.this.name, kinds(node.expression)),
    exp.Trim: _text_function("trim"),
    exp.Substring: _text_function("substring"),
    exp.Overlay: _text_function("overlay"),
    exp.StrPosition: _always(INT),
    exp.Tuple: _row,
    exp.Filter: _same,
    exp.IgnoreNulls: _same,
    exp.RespectNulls: _same,
    exp.WithinGroup: _same,
}

UNTYPED = (
    exp.All, exp.Any, exp.AtTimeZone, exp.Collate, exp.If, exp.Order, exp.Ordered, exp.Var, exp.Where,
)  # fmt: skip
"""Node types that Spark supports and that have no type or an unknown one."""
