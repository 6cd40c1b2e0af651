"""A key is the same bytes wherever it is made: texts as they are, everything else as compact JSON."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast_runtime.streams.keys import key_bytes

NOON = datetime(2026, 1, 2, 12, 0, 0, 5000, tzinfo=UTC)


def keys(columns: dict[str, pa.Array], *names: str) -> list[bytes | None]:
    found: list[bytes | None] = key_bytes(pa.RecordBatch.from_pydict(columns), names).to_pylist()
    return found


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


def test_several_columns_are_a_list_in_the_order_of_the_key() -> None:
    columns = {"a": pa.array(["x", 'q"', None]), "b": pa.array([1, None, None], pa.int32())}
    assert keys(columns, "b", "a") == [b'[1,"x"]', b'[null,"q\\""]', b"[null,null]"]


def test_without_columns_there_is_no_key() -> None:
    assert key_bytes(pa.RecordBatch.from_pydict({"a": pa.array([1, 2])}), None).to_pylist() == [None, None]


@given(rows=st.lists(st.tuples(st.none() | st.text(max_size=5), st.none() | st.integers(-9, 9)), max_size=8))
def test_several_columns_are_what_json_says(rows: list[tuple[str | None, int | None]]) -> None:
    columns = {"a": pa.array([a for a, _ in rows], pa.string()), "b": pa.array([b for _, b in rows], pa.int64())}
    assert keys(columns, "a", "b") == [
        json.dumps(row, separators=(",", ":"), ensure_ascii=False).encode() for row in rows
    ]
