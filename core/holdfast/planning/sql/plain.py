"""Plain expressions: those few whose value is the same whoever computes it, so that rows need no trip to the JVM.

Columns, whole numbers, texts and booleans; comparisons, AND, OR, NOT, IN, BETWEEN, IS NULL, and `%` by a number. None
can fail for a row, and nulls mean the same in Spark SQL and in Arrow. Numbers with a fraction are not among them (Spark
takes NaN for equal to NaN), nor sums and products (they overflow). Must not compute anything.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from sqlglot import exp

from holdfast.planning.problems import ExpressionError, SqlFinding
from holdfast.planning.sql.expressions import check_select
from holdfast.planning.sql.reading import path_of
from holdfast.planning.sql.scope import Scope
from holdfast.planning.sql.text import parse
from holdfast.planning.types.spark_types import UNKNOWN, Column, RowType

PlainKind: TypeAlias = Literal["whole", "text", "boolean", "other"]
"""What is known of a column; `other` can only be asked whether it is null."""


@dataclass(frozen=True, slots=True)
class PlainColumn:
    """A column as it is."""

    name: str


@dataclass(frozen=True, slots=True)
class PlainValue:
    """A value from the text."""

    value: int | str | bool


@dataclass(frozen=True, slots=True)
class PlainCall:
    """A function of other expressions: one of `COMPARISONS`, or `and`, `or`, `not`, `null`, `in`, `%`."""

    function: str
    arguments: "tuple[Plain, ...]"


Plain: TypeAlias = PlainColumn | PlainValue | PlainCall
COMPARISONS: Final = {exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
_ORDERED: Final = ("whole", "text")
_LARGEST: Final = 2**63 - 1


class _NotPlainError(Exception):
    """The expression has something that is not plain."""


def plain_filter(text: str, kinds: Mapping[str, PlainKind]) -> Plain | None:
    """Return the condition of a filter over rows with these columns; None if it is not plain."""
    return _plain(text, kinds, "boolean")


def plain_select(items: Sequence[str], kinds: Mapping[str, PlainKind]) -> tuple[Plain, ...] | None:
    """Return the columns that a select puts out, in order; None if they are not all plain."""
    scope, made = _scope(kinds), list[Plain]()
    for text in items:
        found = check_select([text], scope)
        if found and all(one.source is not None for one in found):
            made += [PlainColumn(one.source[1]) for one in found if one.source is not None]
            continue
        value = _plain(text, kinds, None)
        if value is None:
            return None
        made.append(value)
    return tuple(made)


def _scope(kinds: Mapping[str, PlainKind]) -> Scope:
    return Scope.of(RowType(tuple(Column(name, UNKNOWN) for name in kinds)))


def _plain(text: str, kinds: Mapping[str, PlainKind], wanted: PlainKind | None) -> Plain | None:
    """Return the expression; None if it is not plain, not of the wanted kind, or the same for all rows."""
    try:
        found, kind = _Reading(kinds).read(parse(text, tuple(kinds)).unalias())
    except (ExpressionError, _NotPlainError):
        return None
    return found if wanted in (None, kind) and _has_column(found) else None


def _has_column(made: Plain) -> bool:
    if isinstance(made, PlainCall):
        return any(map(_has_column, made.arguments))
    return isinstance(made, PlainColumn)


class _Reading:
    """Reads one expression."""

    def __init__(self, kinds: Mapping[str, PlainKind]) -> None:
        self._kinds, self._scope = kinds, _scope(kinds)

    def read(self, tree: exp.Expr | None) -> tuple[Plain, PlainKind]:
        """Return the expression and its kind."""
        match tree:
            case exp.Paren():
                return self.read(tree.this)
            case exp.Column():
                return self._column(tree)
            case exp.Boolean() | exp.Literal() | exp.Neg():
                return _value(tree)
            case exp.Mod():
                return self._remainder(tree), "whole"
        return self._condition(tree), "boolean"

    def _condition(self, tree: exp.Expr | None) -> Plain:
        match tree:
            case exp.And() | exp.Or():
                word = "and" if isinstance(tree, exp.And) else "or"
                return PlainCall(word, (self._of(tree.left, "boolean"), self._of(tree.right, "boolean")))
            case exp.Not():
                return PlainCall("not", (self._of(tree.this, "boolean"),))
            case exp.Is() if isinstance(tree.expression, exp.Null):
                return PlainCall("null", (self.read(tree.this)[0],))
            case exp.In() | exp.Between():
                return self._among(tree)
            case exp.Binary() if type(tree) in COMPARISONS:
                return self._compared(COMPARISONS[type(tree)], tree.left, tree.right)
        raise _NotPlainError

    def _of(self, tree: exp.Expr | None, kind: PlainKind) -> Plain:
        found, its = self.read(tree)
        if its != kind:
            raise _NotPlainError
        return found

    def _column(self, tree: exp.Column) -> tuple[Plain, PlainKind]:
        path = path_of(tree)
        found = self._scope.find(path) if len(path) == 1 else None
        if found is None or isinstance(found, SqlFinding) or found.source is None:
            raise _NotPlainError
        name = found.source[1]
        return PlainColumn(name), self._kinds[name]

    def _compared(self, sign: str, left: exp.Expr | None, right: exp.Expr | None) -> Plain:
        (one, kind), (other, its) = self.read(left), self.read(right)
        if kind != its or not (kind in _ORDERED or (kind == "boolean" and sign in ("=", "<>"))):
            raise _NotPlainError
        return PlainCall(sign, (one, other))

    def _remainder(self, tree: exp.Mod) -> Plain:
        value, by = self._of(tree.this, "whole"), self._of(tree.expression, "whole")
        if not isinstance(by, PlainValue) or int(by.value) < 1:
            raise _NotPlainError
        return PlainCall("%", (value, by))

    def _among(self, tree: exp.In | exp.Between) -> Plain:
        if isinstance(tree, exp.Between):
            if tree.args.get("symmetric"):
                raise _NotPlainError
            least = self._compared(">=", tree.this, tree.args.get("low"))
            return PlainCall("and", (least, self._compared("<=", tree.this, tree.args.get("high"))))
        if any(part and name not in ("this", "expressions") for name, part in tree.args.items()):
            raise _NotPlainError
        value, kind = self.read(tree.this)
        values = [self._of(one, kind) for one in tree.expressions]
        if kind not in _ORDERED or not values or not all(isinstance(one, PlainValue) for one in values):
            raise _NotPlainError
        return PlainCall("in", (value, *values))


def _value(tree: exp.Expr) -> tuple[Plain, PlainKind]:
    if isinstance(tree, exp.Boolean):
        return PlainValue(bool(tree.this)), "boolean"
    if isinstance(tree, exp.Neg):
        return PlainValue(-_whole(tree.this)), "whole"
    text = str(tree.this)
    if isinstance(tree, exp.Literal) and tree.is_string:
        if "\\" in text or not text.isprintable():
            raise _NotPlainError
        return PlainValue(text), "text"
    return PlainValue(_whole(tree)), "whole"


def _whole(tree: exp.Expr) -> int:
    text = str(tree.this)
    if not isinstance(tree, exp.Literal) or tree.is_string or not (text.isascii() and text.isdigit()):
        raise _NotPlainError
    if int(text) > _LARGEST:
        raise _NotPlainError
    return int(text)
