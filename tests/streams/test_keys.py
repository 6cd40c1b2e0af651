"""A key is the same bytes wherever it is made: texts as they are, everything else as compact JSON."""

import base64
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast_runtime.streams.record_keys import key_bytes

NOON = datetime(2026, 1, 2, 12, 0, 0, 5000, tzinfo=UTC)


def keys(columns: dict[str, pa.Array], *names: str) -> list[bytes | None]:
    encoded: list[bytes | None] = key_bytes(pa.RecordBatch.from_pydict(columns), names).to_pylist()
    return encoded


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array(["ad", "ü", "", None]), [b"ad", "ü".encode(), b"", None]),
        (pa.array(["a", None]).dictionary_encode(), [b"a", None]),
        (pa.array([b"\xff\0", None]), [b"\xff\0", None]),
        (pa.array([1, -(2**63), None], pa.int64()), [b"1", b"-9223372036854775808", None]),
        (pa.array([True, False, None]), [b"true", b"false", None]),
        (pa.array([1.0, 0.1, 1e300]), [b"1.0", b"0.1", b"1e+300"]),
        (pa.array([Decimal("1.50")]), [b'"1.50"']),
        (pa.array([date(2026, 1, 2)]), [b'"2026-01-02"']),
        (pa.array([NOON, None], pa.timestamp("us", "UTC")), [b'"2026-01-02T12:00:00.005000Z"', None]),
        (pa.array([NOON], pa.timestamp("us", "Asia/Tokyo")), [b'"2026-01-02T12:00:00.005000Z"']),
        (pa.array([NOON.replace(tzinfo=None)], pa.timestamp("us")), [b'"2026-01-02T12:00:00.005000"']),
        (pa.array([{"a": 1, "b": ["x"]}]), [b'{"a":1,"b":["x"]}']),
    ],
)
def test_one_column(column: pa.Array, expected: list[bytes | None]) -> None:
    assert keys({"k": column}, "k") == expected


def test_several_columns_are_a_list_in_the_keys_order() -> None:
    columns = {"a": pa.array(["x", 'q"', None]), "b": pa.array([1, None, None], pa.int32())}
    assert keys(columns, "b", "a") == [b'[1,"x"]', b'[null,"q\\""]', b"[null,null]"]


def test_zero_and_nan_are_one_key_each_at_any_depth() -> None:
    zeros = pa.array([0.0, -0.0])
    assert keys({"k": zeros}, "k") == [b"0.0", b"0.0"]
    assert keys({"k": zeros.cast(pa.float32()), "n": pa.array([1, 1])}, "k", "n") == [b"[0.0,1]", b"[0.0,1]"]
    assert keys({"k": pa.array([[-0.0], [0.0]])}, "k") == [b"[0.0]", b"[0.0]"]
    assert keys({"k": pa.array([{"x": -0.0}, {"x": 0.0}])}, "k") == [b'{"x":0.0}', b'{"x":0.0}']
    bits = pa.array(np.array([0x7FF8000000000000, 0xFFF8000000000001, 0x7FF0000000000001], np.uint64).view(np.float64))
    assert keys({"k": bits}, "k") == [b"NaN"] * 3
    assert keys({"k": pa.array([float("inf"), float("-inf")])}, "k") == [b"Infinity", b"-Infinity"]


MICROS = st.integers(-62135596800000000, 253402300799999999)
BINARY_64 = st.floats() | st.integers(-(2**70), 2**70).map(float) | st.decimals(-(10**18), 10**18, places=3).map(float)
KINDS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.float64(), BINARY_64),
    (pa.float32(), st.floats(width=32)),
    (pa.float16(), st.floats(width=16).map(np.float16)),
    (pa.timestamp("us", "UTC"), MICROS),
    (pa.timestamp("us", "Asia/Tokyo"), st.integers(-(10**15), 10**15)),
    (pa.timestamp("us"), MICROS),
    (pa.timestamp("ms", "UTC"), MICROS.map(lambda micros: micros // 1000)),
    (pa.date32(), st.dates()),
    (pa.date64(), st.dates()),
    (pa.decimal128(38, 18), st.decimals(-(10**19), 10**19, places=18)),
    (pa.decimal128(9, 9), st.decimals(0, 1, places=9).filter(lambda number: number < 1)),
    (pa.decimal128(5, -3), st.integers(-99999, 99999).map(lambda n: Decimal(n).scaleb(3))),
    (pa.string(), st.text(st.characters(exclude_categories=["Cs"])) | st.text('"\\\n\x00\x1f\x7fü/')),
    (pa.large_string(), st.text("ab")),
    (pa.binary(), st.binary(max_size=4)),
]


def one_by_one(value: Any) -> Any:
    """How a value was written when each was written on its own."""
    if isinstance(value, float):
        return value or 0.0
    if isinstance(value, datetime):
        aware = value.astimezone(UTC) if value.tzinfo else value
        return aware.replace(tzinfo=None).isoformat(timespec="microseconds") + ("Z" if value.tzinfo else "")
    if isinstance(value, date | Decimal):
        return str(value)
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


@pytest.mark.parametrize(("kind", "values"), KINDS, ids=[str(kind) for kind, _ in KINDS])
def test_keys_of_a_batch_equal_those_of_single_values(kind: pa.DataType, values: st.SearchStrategy[Any]) -> None:
    @given(st.lists(st.none() | values, max_size=8), st.integers(0, 2))
    def agrees(drawn: list[Any], start: int) -> None:
        column = pa.array([None] * start + drawn, kind).slice(start)
        texts = [
            json.dumps([one_by_one(value), 1], separators=(",", ":"), ensure_ascii=False).encode()
            for value in column.to_pylist()
        ]
        assert keys({"k": column, "n": pa.array([1] * len(column), pa.int64())}, "k", "n") == texts
        if column.type not in (pa.string(), pa.large_string(), pa.binary()):
            single_keys = [None if text == b"[null,1]" else text[1:-3] for text in texts]
            assert keys({"k": column}, "k") == single_keys

    agrees()


def test_without_columns_there_is_no_key() -> None:
    assert key_bytes(pa.RecordBatch.from_pydict({"a": pa.array([1, 2])}), None).to_pylist() == [None, None]


@given(rows=st.lists(st.tuples(st.none() | st.text(max_size=5), st.none() | st.integers(-9, 9)), max_size=8))
def test_several_columns_are_what_json_says(rows: list[tuple[str | None, int | None]]) -> None:
    columns = {"a": pa.array([a for a, _ in rows], pa.string()), "b": pa.array([b for _, b in rows], pa.int64())}
    assert keys(columns, "a", "b") == [
        json.dumps(row, separators=(",", ":"), ensure_ascii=False).encode() for row in rows
    ]
