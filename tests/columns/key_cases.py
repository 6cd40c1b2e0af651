"""Keys of every type for tests of columns, and the hash as a plain reading of its definition."""

import datetime as dt
import math
import struct
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

_ALL = 2**64 - 1
_GOLDEN, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53
_NOTHING = 0x6E756C6C6E756C6C

DECIMAL = pa.decimal128(38, 6)
TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "texts": (pa.string(), st.text(max_size=40)),
    "long texts": (pa.large_string(), st.text(max_size=12)),
    "bytes": (pa.binary(), st.binary(max_size=20)),
    "ints": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "bigints": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "doubles": (pa.float64(), st.floats()),
    "floats": (pa.float32(), st.floats(width=32)),
    "booleans": (pa.bool_(), st.booleans()),
    "dates": (pa.date32(), st.dates()),
    "timestamps": (pa.timestamp("us", "UTC"), st.datetimes(timezones=st.just(dt.UTC))),
    "decimals": (DECIMAL, st.decimals(-(10**20), 10**20, places=6)),
}
GOLDEN_KEYS: dict[str, pa.Array] = {
    "texts": pa.array(["", "a", "12345678", "123456789", "ümläut", None, "x" * 100]),
    "bigints": pa.array([0, 1, -1, 2**63 - 1, -(2**63), None]),
    "doubles": pa.array([0.0, -0.0, 1.5, float("nan"), float("inf"), None]),
    "booleans": pa.array([False, True, None]),
    "dates": pa.array([dt.date(1970, 1, 1), dt.date(2026, 11, 22), None]),
    "timestamps": pa.array([dt.datetime(2026, 11, 22, 1, 2, 3, 4, tzinfo=dt.UTC), None], pa.timestamp("us", "UTC")),
    "decimals": pa.array([Decimal(0), Decimal("-1.5"), Decimal(10) ** 30, None], DECIMAL),
}


def canonical(value: Any) -> Any:
    """Return what is equal for equal keys."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value.encode() if isinstance(value, str) else value


def plain_hash(values: Sequence[tuple[Any, pa.DataType]]) -> int:
    """Return the hash of one key, by its definition and without arrays."""
    state = 1
    for value, kind in values:
        for word in _words(value, kind):
            state = _mixed(state, word)
    return state


def _mixed(state: int, word: int) -> int:
    x = (state * _GOLDEN & _ALL) ^ word
    x ^= x >> 33
    x = x * _FIRST & _ALL
    x ^= x >> 33
    x = x * _SECOND & _ALL
    return x ^ (x >> 33)


def _words(value: Any, kind: pa.DataType) -> list[int]:
    if pa.types.is_decimal(kind):
        if value is None:
            return [_NOTHING, _NOTHING]
        whole = int(value.scaleb(kind.scale)) % 2**128
        return [whole & _ALL, whole >> 64]
    if value is None:
        return [_NOTHING]
    return [_digest(_bytes(value)) if isinstance(value, str | bytes) else _number(value) % 2**64]


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


def _number(value: Any) -> int:
    if isinstance(value, float):
        return int.from_bytes(struct.pack("<d", math.nan if math.isnan(value) else value + 0.0), "little")
    if isinstance(value, dt.datetime):
        return (value - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1)
    if isinstance(value, dt.date):
        return (value - dt.date(1970, 1, 1)).days
    return int(value)


def _digest(data: bytes) -> int:
    total = len(data) * _GOLDEN & _ALL
    for at in range(0, len(data), 8):
        total = (total ^ int.from_bytes(data[at : at + 8], "little")) * _FIRST & _ALL
        total ^= total >> 32
    return total
