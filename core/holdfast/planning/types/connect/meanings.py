"""What Debezium's values mean, as a table: the column types that take each, and how a value becomes theirs.

Must not walk over schemas: `reading` does.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from holdfast.planning.types.connect.schema import ConnectKind, ConnectType
from holdfast.planning.types.spark_types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    INTEGRAL,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    SparkType,
    is_text,
    struct,
)


class Conversion(Enum):
    """How a value, as JSON has it, becomes that of a column."""

    NONE = "it is one"
    ABSENT = "there is none"
    DAYS = "days since 1970"
    MOMENT = "a count of some unit since 1970"
    CLOCK = "a count of some unit since midnight"
    ISO_MOMENT = "a time as text"
    ISO_DATE = "a date as text, Z behind it"
    UNSCALED = "a whole number in bytes, of which some digits are behind the point"
    OWN_SCALE = "the same, with the number of such digits beside it"
    POINTED = "a number as text that has a point"
    LETTERS = "letters that may be base64 or hexadecimal"
    ROW = "its fields are converted"
    ITEMS = "its elements are"
    PAIRS = "its values are"


@dataclass(frozen=True, slots=True)
class Way:
    """A way from values of a type into columns."""

    targets: tuple[str, ...]
    """The words of the column types."""
    conversion: Conversion = Conversion.NONE
    wire: SparkType | None = None
    """The type that values are read as; None: that of the column."""
    factor: int = 1
    """By what a count is multiplied to be in the column's unit, or divided if it is negative."""


DECIMAL_NAME = "org.apache.kafka.connect.data.Decimal"
OWN_SCALE_NAME = "io.debezium.data.VariableScaleDecimal"
OWN_SCALE_WIRE = struct((("scale", INT), ("value", BINARY)))
_DATES = ("io.debezium.time.Date", "org.apache.kafka.connect.data.Date")
_MOMENTS = {
    "io.debezium.time.Timestamp": 1_000,
    "org.apache.kafka.connect.data.Timestamp": 1_000,
    "io.debezium.time.MicroTimestamp": 1,
    "io.debezium.time.NanoTimestamp": -1_000,
}
"""By what a count becomes microseconds."""
_CLOCKS = {
    "io.debezium.time.Time": 1_000_000,
    "org.apache.kafka.connect.data.Time": 1_000_000,
    "io.debezium.time.MicroTime": 1_000,
    "io.debezium.time.NanoTime": 1,
}
"""By what a count becomes nanoseconds."""
_ISO_MOMENTS = ("io.debezium.time.ZonedTimestamp", "io.debezium.time.IsoTimestamp")
_ISO_DATES = ("io.debezium.time.IsoDate",)
_BOTH_TIMES = (str(TIMESTAMP), str(TIMESTAMP_NTZ))
_REAL = (str(FLOAT), str(DOUBLE))
_SMALL = (*map(str, INTEGRAL), *_REAL, "DECIMAL")
_LARGE = (str(BIGINT), *_REAL, "DECIMAL")
WHOLE_DIGITS = {ConnectKind.INT8: 3, ConnectKind.INT16: 5, ConnectKind.INT32: 10, ConnectKind.INT64: 19}
"""The digits of a whole number."""

_BY_KIND: Mapping[ConnectKind, tuple[str, ...]] = {
    ConnectKind.INT8: _SMALL,
    ConnectKind.INT16: _SMALL,
    ConnectKind.INT32: _SMALL,
    ConnectKind.INT64: _LARGE,
    ConnectKind.FLOAT: _REAL,
    ConnectKind.DOUBLE: (str(DOUBLE),),
    ConnectKind.BOOLEAN: (str(BOOLEAN),),
    ConnectKind.STRING: (str(STRING), "DECIMAL"),
    ConnectKind.BYTES: (str(BINARY),),
}
"""The column types that take a value as it is."""


def ways(kind: ConnectType) -> tuple[Way, ...]:  # noqa: PLR0911 - one per family of types
    """Return the ways of a type without parts, or of a struct that is a number; the best one first."""
    meaning = kind.meaning
    match kind.kind:
        case ConnectKind.INT32 if meaning in _DATES:
            return Way((str(DATE),), Conversion.DAYS, INT), Way((str(INT), str(BIGINT)))
        case ConnectKind.INT64 if meaning in _MOMENTS:
            return Way(_BOTH_TIMES, Conversion.MOMENT, BIGINT, _MOMENTS[meaning]), Way((str(BIGINT),))
        case ConnectKind.INT32 | ConnectKind.INT64 if meaning in _CLOCKS:
            whole = (str(BIGINT),) if kind.kind is ConnectKind.INT64 else (str(INT), str(BIGINT))
            return Way(("TIME",), Conversion.CLOCK, BIGINT, _CLOCKS[meaning]), Way(whole)
        case ConnectKind.STRING if meaning in _ISO_MOMENTS:
            return Way(_BOTH_TIMES, Conversion.ISO_MOMENT, STRING), Way((str(STRING),))
        case ConnectKind.STRING if meaning in _ISO_DATES:
            return Way((str(DATE),), Conversion.ISO_DATE, STRING), Way((str(STRING),))
        case ConnectKind.STRING if meaning:
            return (Way((str(STRING),)),)
        case ConnectKind.BYTES if meaning == DECIMAL_NAME:
            return (Way(("DECIMAL",), Conversion.UNSCALED, BINARY),)
        case ConnectKind.STRUCT if meaning == OWN_SCALE_NAME:
            return (Way(("DECIMAL",), Conversion.OWN_SCALE, OWN_SCALE_WIRE),)
        case ConnectKind.STRUCT | ConnectKind.ARRAY | ConnectKind.MAP:
            return ()
        case _:
            return (Way(_BY_KIND[kind.kind]),)


def way_into(kind: ConnectType, target: SparkType) -> Way | None:
    """Return the way of a type into a column of this type, if there is one."""
    word = str(STRING) if is_text(target) else target.word
    for way in ways(kind):
        if word in way.targets and (word != "DECIMAL" or fits_digits(kind, target)):
            return way
    return None


def fits_digits(kind: ConnectType, target: SparkType) -> bool:
    """Whether a DECIMAL column has the digits of a type's values, as far as the type says how many these are."""
    precision, scale = target.digits
    if kind.kind in WHOLE_DIGITS:
        return precision - scale >= WHOLE_DIGITS[kind.kind]
    if kind.meaning != DECIMAL_NAME:
        return True
    return scale >= kind.scale and (kind.precision is None or precision - scale >= kind.precision - kind.scale)


def columns_for(kind: ConnectType) -> str:
    """Return the column types that take a type, as words for people; empty if there are none."""
    words = [_said(kind, word) for way in ways(kind) for word in way.targets]
    return f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else "".join(words)


def _said(kind: ConnectType, word: str) -> str:
    if word != "DECIMAL":
        return word
    if kind.kind in WHOLE_DIGITS:
        return f"DECIMAL({WHOLE_DIGITS[kind.kind]},0)"
    if kind.meaning != DECIMAL_NAME:
        return "DECIMAL"
    return f"DECIMAL({kind.precision or 38},{kind.scale})"
