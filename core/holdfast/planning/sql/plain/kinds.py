"""What is known of the value of a plain expression: its type in Spark SQL, and for numbers the bounds of all values."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias

MOST_DIGITS: Final = 38
"""Of a decimal. Where its rules ask for more, Spark rounds."""
_DIGITS: Final[Mapping[int, int]] = {8: 3, 16: 5, 32: 10, 64: 20}
"""The precision that Spark gives a whole number of so many bits beside a decimal."""


class PlainKind(Enum):
    """A type without bounds."""

    TEXT = "text"
    TEXTS = "texts"
    BOOLEAN = "boolean"
    MOMENT = "moment"
    DATE = "date"
    SPAN = "span"
    """Microseconds between two moments."""
    DOUBLE = "double"
    NOTHING = "nothing"
    """Null, of whatever type the values have beside which it stands."""
    OTHER = "other"
    """Can only be asked whether it is null."""


@dataclass(frozen=True, slots=True)
class PlainWhole:
    """A whole number."""

    bits: int
    least: int
    most: int

    @classmethod
    def of(cls, bits: int) -> "PlainWhole":
        """Any value of a type."""
        return cls(bits, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1)

    @property
    def fits(self) -> bool:
        """Whether the type has all values within the bounds."""
        whole = PlainWhole.of(self.bits)
        return whole.least <= self.least and self.most <= whole.most

    @property
    def decimal(self) -> "PlainDecimal":
        """The same value as a decimal."""
        return PlainDecimal(_DIGITS[self.bits], 0, max(-self.least, self.most))


@dataclass(frozen=True, slots=True)
class PlainDecimal:
    """A decimal number."""

    precision: int
    scale: int
    most: int
    """The largest value without its sign and its point."""

    @classmethod
    def of(cls, precision: int, scale: int) -> "PlainDecimal":
        """Any value of a type."""
        return cls(precision, scale, 10**precision - 1)

    @property
    def fits(self) -> bool:
        """Whether Spark has this type, and no value is too large for it."""
        return self.scale <= self.precision <= MOST_DIGITS and self.most < 10**self.precision

    def at(self, scale: int) -> int:
        """The largest value with so many digits behind the point."""
        return self.most * int(10 ** (scale - self.scale))


@dataclass(frozen=True, slots=True)
class PlainStruct:
    """A struct, which can be taken apart."""

    fields: "tuple[tuple[str, Kind], ...]"

    def find(self, name: str) -> "tuple[str, Kind] | None":
        """Return the field of this name as Spark resolves it; None if it is not there, or not alone."""
        matches = [field for field in self.fields if field[0].casefold() == name.casefold()]
        return matches[0] if len(matches) == 1 else None


Kind: TypeAlias = PlainKind | PlainWhole | PlainDecimal | PlainStruct


def whole_result(sign: str, left: PlainWhole, right: PlainWhole) -> PlainWhole:
    """Return what a sum, a difference or a product of whole numbers may be."""
    compute: Mapping[str, Callable[[int, int], int]] = {
        "+": int.__add__,
        "-": int.__sub__,
        "*": int.__mul__,
    }
    ends = [compute[sign](first, second) for first in (left.least, left.most) for second in (right.least, right.most)]
    return PlainWhole(max(left.bits, right.bits), min(ends), max(ends))


def decimal_result(sign: str, left: PlainDecimal, right: PlainDecimal) -> PlainDecimal:
    """Return what a sum, a difference or a product of decimals may be: its type is Spark's, unless it rounds."""
    if sign == "*":
        return PlainDecimal(left.precision + right.precision + 1, left.scale + right.scale, left.most * right.most)
    wide = wider(left, right)
    return PlainDecimal(wide.precision + 1, wide.scale, left.at(wide.scale) + right.at(wide.scale))


def wider(left: PlainDecimal, right: PlainDecimal) -> PlainDecimal:
    """Return the type that has the values of both."""
    scale = max(left.scale, right.scale)
    before = max(left.precision - left.scale, right.precision - right.scale)
    return PlainDecimal(before + scale, scale, max(left.at(scale), right.at(scale)))


def one_of(kinds: Iterable[Kind]) -> Kind | None:
    """Return the kind of a value that is one of these; None if Spark would have to convert one, or all are null."""
    value_kinds = [kind for kind in kinds if kind is not PlainKind.NOTHING]
    if not value_kinds:
        return None
    made, *rest = value_kinds
    for kind in rest:
        match made, kind:
            case PlainWhole(bits, least, most), PlainWhole():
                made = PlainWhole(max(bits, kind.bits), min(least, kind.least), max(most, kind.most))
            case PlainDecimal(precision, scale, most), PlainDecimal() if (precision, scale) == (
                kind.precision,
                kind.scale,
            ):
                made = PlainDecimal(precision, scale, max(most, kind.most))
            case _ if made != kind:
                return None
    return made
