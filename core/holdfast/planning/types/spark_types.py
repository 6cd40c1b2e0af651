"""Spark SQL types as values, and the columns of rows: names and types, or that they are not known.

Typing rules compare and build types without cutting up strings. An unknown type is `None` inside a rule and `UNKNOWN`
in a column, where types have Spark's own spelling in upper case (`BIGINT`, `STRUCT<a: INT>`). Must not guess, since a
wrong type is worse than none, nor hold rules of single functions.
"""

import dataclasses
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, reduce

MAX_PRECISION = 38
PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
INTERVAL_FIELDS = ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND")


@dataclass(frozen=True, slots=True)
class SparkType:
    """A type: its word, and its arguments (elements, key and value, fields with their names, digits)."""

    word: str
    inner: tuple["SparkType", ...] = ()
    names: tuple[str, ...] = ()
    digits: tuple[int, ...] = ()
    length: int = dataclasses.field(init=False, compare=False, repr=False)
    """About the length of its spelling, without building it: nested types may be shared, so it can be huge."""

    def __post_init__(self) -> None:
        inside = sum(kind.length + 2 for kind in self.inner) + sum(len(name) + 2 for name in self.names)
        object.__setattr__(self, "length", len(self.word) + 2 + inside)

    def __str__(self) -> str:
        """Spark's own spelling."""
        if self.names or self.word == "STRUCT":
            pairs = zip(self.names, self.inner, strict=True)
            return f"{self.word}<{', '.join(f'{quoted(name)}: {kind}' for name, kind in pairs)}>"
        if self.inner:
            return f"{self.word}<{', '.join(map(str, self.inner))}>"
        if self.digits:
            return f"{self.word}({','.join(map(str, self.digits))})"
        return self.word

    @property
    def is_interval(self) -> bool:
        """Whether it is an interval type."""
        return self.word.startswith("INTERVAL")

    def field(self, name: str) -> "SparkType | None":
        """Return the type of this struct field: the exact name first, then ignoring case."""
        if name not in self.names:
            folded = name.casefold()
            name = next((known for known in self.names if known.casefold() == folded), name)
        return self.inner[self.names.index(name)] if name in self.names else None


def quoted(name: str) -> str:
    """Return the name as a type or an expression must spell it, quoted if needed."""
    return name if PLAIN_NAME.match(name) else f"`{name.replace('`', '``')}`"


BOOLEAN, BINARY, DATE, VOID = SparkType("BOOLEAN"), SparkType("BINARY"), SparkType("DATE"), SparkType("VOID")
TINYINT, SMALLINT, INT, BIGINT = (SparkType(word) for word in ("TINYINT", "SMALLINT", "INT", "BIGINT"))
FLOAT, DOUBLE, STRING = SparkType("FLOAT"), SparkType("DOUBLE"), SparkType("STRING")
TIMESTAMP, TIMESTAMP_NTZ = SparkType("TIMESTAMP"), SparkType("TIMESTAMP_NTZ")

INTEGRAL = (TINYINT, SMALLINT, INT, BIGINT)
FRACTIONAL = (FLOAT, DOUBLE)
TIMES = (DATE, TIMESTAMP_NTZ, TIMESTAMP)
WHOLE_DIGITS = {TINYINT: 3, SMALLINT: 5, INT: 10, BIGINT: 20}


def array(element: SparkType) -> SparkType:
    """Return `ARRAY<element>`."""
    return SparkType("ARRAY", (element,))


def mapping(key: SparkType, value: SparkType) -> SparkType:
    """Return `MAP<key, value>`."""
    return SparkType("MAP", (key, value))


def struct(fields: Iterable[tuple[str, SparkType]]) -> SparkType:
    """Return `STRUCT<name: type, ...>`."""
    pairs = tuple(fields)
    return SparkType("STRUCT", tuple(kind for _, kind in pairs), tuple(name for name, _ in pairs))


def decimal(precision: int, scale: int) -> SparkType:
    """Return a decimal cut to 38 digits as Spark's arithmetic does: first the fraction, down to 6 digits."""
    if precision > MAX_PRECISION:
        whole = precision - scale
        precision, scale = MAX_PRECISION, max(MAX_PRECISION - whole, min(scale, 6))
    return SparkType("DECIMAL", digits=(precision, scale))


def is_number(kind: SparkType | None) -> bool:
    """Whether it is a number type."""
    return kind is not None and (kind in INTEGRAL or kind in FRACTIONAL or kind.word == "DECIMAL")


def as_decimal(kind: SparkType) -> tuple[int, int] | None:
    """Precision and scale of a decimal, or of the decimal that holds any value of a whole number type."""
    if kind.word == "DECIMAL":
        return kind.digits[0], kind.digits[1]
    return (WHOLE_DIGITS[kind], 0) if kind in WHOLE_DIGITS else None


def interval(first: str, last: str) -> SparkType:
    """`INTERVAL DAY TO SECOND`, or `INTERVAL DAY` when it spans one unit."""
    return SparkType(f"INTERVAL {first}" if first == last else f"INTERVAL {first} TO {last}")


def wider_interval(left: SparkType, right: SparkType) -> SparkType | None:
    """Return the interval type that holds both; None for months and days, which Spark keeps apart."""
    ranks = [
        INTERVAL_FIELDS.index(word) for kind in (left, right) for word in kind.word.split() if word in INTERVAL_FIELDS
    ]
    if not left.is_interval or not right.is_interval or "INTERVAL" in (left.word, right.word):
        return None
    if min(ranks) < INTERVAL_FIELDS.index("DAY") <= max(ranks):
        return None
    return interval(INTERVAL_FIELDS[min(ranks)], INTERVAL_FIELDS[max(ranks)])


def wider(left: SparkType | None, right: SparkType | None) -> SparkType | None:
    """Return the common type of both, as in `coalesce` and `CASE`; None if Spark's answer is not certain."""
    if left is None or right is None:
        return None
    if right in (left, VOID):
        return left
    if left == VOID:
        return right
    if is_number(left):
        return wider_number(left, right) if is_number(right) else None
    if left in TIMES:
        return max(left, right, key=TIMES.index) if right in TIMES else None
    return wider_interval(left, right) if left.is_interval else wider_nested(left, right)


def wider_nested(left: SparkType, right: SparkType) -> SparkType | None:
    """Return the array, map or struct type that holds both, if they differ only in their inner types."""
    if left.word != right.word or left.names != right.names or not len(left.inner) == len(right.inner) > 0:
        return None
    inner = (wider(first, second) for first, second in zip(left.inner, right.inner, strict=True))
    kinds = tuple(kind for kind in inner if kind is not None)
    return SparkType(left.word, kinds, left.names) if len(kinds) == len(left.inner) else None


def wider_number(left: SparkType, right: SparkType) -> SparkType:
    """Return the number type that holds both."""
    if left in INTEGRAL and right in INTEGRAL:
        return max(left, right, key=INTEGRAL.index)
    left_decimal, right_decimal = as_decimal(left), as_decimal(right)
    if left_decimal and right_decimal:
        scale = max(left_decimal[1], right_decimal[1])
        precision = max(left_decimal[0] - left_decimal[1], right_decimal[0] - right_decimal[1]) + scale
        return SparkType("DECIMAL", digits=(min(precision, MAX_PRECISION), min(scale, MAX_PRECISION)))
    return FLOAT if left == right == FLOAT else DOUBLE


def widest(kinds: Iterable[SparkType | None]) -> SparkType | None:
    """Return the common type of all of them; None if there is none."""
    return reduce(wider, kinds)


UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Column:
    """One named column and its Spark SQL type, or `UNKNOWN`."""

    name: str
    type: str


@dataclass(frozen=True)
class RowType:
    """The columns of some rows. `closed` is False if there may be columns that are not known."""

    columns: tuple[Column, ...]
    closed: bool = True

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return tuple(column.name for column in self.columns)

    def find(self, name: str) -> Column | None:
        """Return the column of this name as Spark resolves it: the exact name first, then ignoring case."""
        return self._by_name.get(name) or self._by_folded.get(name.casefold())

    @cached_property
    def _by_name(self) -> dict[str, Column]:
        return {column.name: column for column in reversed(self.columns)}

    @cached_property
    def _by_folded(self) -> dict[str, Column]:
        return {column.name.casefold(): column for column in reversed(self.columns)}


OPEN = RowType(columns=(), closed=False)
"""Rows whose columns are not known."""


def inside(path: str, name: str) -> str:
    """Return the path of a field inside a struct."""
    return f"{path}.{name}".lstrip(".")


def is_text(kind: SparkType) -> bool:
    """Whether it is a type of text."""
    return kind.word.split()[0] in ("STRING", "CHAR", "VARCHAR")
