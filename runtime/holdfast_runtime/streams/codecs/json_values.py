"""Values that JSON has no type for (times, dates, bytes): one function each, for both readers and the writer.

All take and return whole columns, and raise `ArrowInvalid` for an invalid value. Must not guess.
"""

import base64
import binascii
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from holdfast_runtime.streams.codecs.arrow_types import outside_years

TOO_FINE = r"([T ]\d\d:\d\d:\d\d\.\d{6})\d+"
ZONED = r"[T ]\d\d.*(Z|[+-]\d\d(:?\d\d)?)$"


def instants(texts: pa.StringArray, kind: pa.DataType) -> pa.Array:
    """Parse timestamps from ISO 8601: `2024-01-31T12:00:00.5+01:00`, a blank for the T, or a shorter time of day.

    Without a zone it is UTC. Digits beyond microseconds are cut off, as in Spark.
    """
    texts = pc.replace_substring_regex(texts, pattern=TOO_FINE, replacement=r"\1")
    zoned = pc.match_substring_regex(texts, pattern=ZONED)
    nothing = pa.scalar(None, pa.string())
    utc, bare = pa.timestamp("us", tz="UTC"), pa.timestamp("us")
    with_zone = pc.if_else(zoned, texts, nothing).cast(utc)
    without = pc.if_else(zoned, nothing, texts).cast(bare)
    return pc.coalesce(with_zone.view(pa.int64()), without.view(pa.int64())).view(kind)


def dates(texts: pa.StringArray) -> pa.Date32Array:
    """Parse dates like `2024-01-31`."""
    return texts.cast(pa.date32())


def from_base64(texts: pa.StringArray) -> pa.BinaryArray:
    """Decode base64 with padding, as Spark does. The only type read value by value, because it is rare."""
    try:
        return pa.array(
            [None if text is None else base64.b64decode(text, validate=True) for text in texts.to_pylist()], pa.binary()
        )
    except (binascii.Error, ValueError) as error:
        message = f"not base64: {error}"
        raise pa.ArrowInvalid(message) from error


def to_base64(values: pa.BinaryArray) -> pa.StringArray:
    """Encode as base64 with padding."""
    return pa.array(
        [None if raw is None else base64.b64encode(raw).decode() for raw in values.to_pylist()], pa.string()
    )


def largest(kind: pa.Decimal128Type) -> Decimal:
    """Return the largest number of this decimal type."""
    return Decimal((0, (9,) * kind.precision, -kind.scale))


def within_years(times: pa.Array) -> pa.Array:
    """Return the same times; raise `ArrowInvalid` for one outside of the years 1 to 9999."""
    if outside_years(times, "") is not None:
        message = "a time outside of the years 1 to 9999"
        raise pa.ArrowInvalid(message)
    return times


MICROS_PER_MILLI = 1000


def from_millis(numbers: pa.Int64Array, kind: pa.DataType) -> pa.Array:
    """Convert milliseconds since 1970 to timestamps; raise `ArrowInvalid` if one does not fit."""
    return pc.multiply_checked(numbers, MICROS_PER_MILLI).cast(kind)
