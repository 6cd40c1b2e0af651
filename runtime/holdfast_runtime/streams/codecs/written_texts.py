"""Columns as the texts that JSON and CSV carry them in: times, dates and floating numbers, by pyarrow's kernels.

All take and return whole columns; null stays null. Must not know what stands around a text.
"""

import pyarrow as pa
import pyarrow.compute as pc

from holdfast_runtime.streams.codecs.arrow_types import outside_years
from holdfast_runtime.streams.codecs.codec import EncodeError

MICROS_PER_MILLI = 1000


def floating_texts(array: pa.Array, around: str = "") -> pa.StringArray:
    """Return the shortest text that reads back as the same number; what is no number stands between `around`."""
    texts = array.cast(pa.string())
    if pc.all(pc.is_finite(array)).as_py() is not False:
        return texts
    texts = pc.if_else(pc.is_nan(array), f"{around}NaN{around}", texts)
    signed = pc.if_else(pc.greater(array, 0), f"{around}Infinity{around}", f"{around}-Infinity{around}")
    return pc.if_else(pc.is_inf(array), signed, texts)


def time_texts(array: pa.Array, path: str) -> pa.StringArray:
    """Return times in ISO 8601, with three digits behind the second, or six if needed."""
    _require_years(array, path)
    micros = array.view(pa.int64())
    fine = micros.fill_null(0).to_numpy() % MICROS_PER_MILLI != 0
    if fine.all() and len(fine):
        texts = _moments(array)
    else:
        texts = _moments(array.cast(pa.timestamp("ms", tz=array.type.tz), safe=False))
        if fine.any():
            texts = pc.if_else(pa.array(fine), _moments(array), texts)
    return pc.replace_substring(texts, pattern=" ", replacement="T", max_replacements=1)


def date_texts(array: pa.Array, path: str) -> pa.StringArray:
    """Return dates like `2024-01-31`."""
    _require_years(array, path)
    return array.cast(pa.string())


def _moments(array: pa.Array) -> pa.StringArray:
    """Format like pyarrow, but for UTC without its time zone lookup per value, which takes thirty times as long."""
    if array.type.tz != "UTC":
        return array.cast(pa.string())
    return pc.binary_join_element_wise(array.view(pa.timestamp(array.type.unit)).cast(pa.string()), "Z", "")


def _require_years(times: pa.Array, path: str) -> None:
    if outside_years(times, path) is not None:
        message = (
            f"column {path} holds a time outside of the years 1 to 9999, which ISO 8601 text can't express; "
            "correct it in a select step before it is written"
        )
        raise EncodeError(message)
