"""Rows as dicts, grouped by key, and keys back from their bytes."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from holdfast_runtime.steps.keyed.grouped_keys import KeyReader, key_groups
from holdfast_runtime.steps.row_dicts import row_dicts
from holdfast_runtime.streams.record_keys import key_bytes
from tests.steps.memory import timed

MOMENTS = st.integers(-62135596800000000, 253402300799999999).map(
    lambda micros: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)
)
SCHEMA = pa.schema(
    [
        ("text", pa.string()),
        ("bytes", pa.binary()),
        ("int", pa.int64()),
        ("small", pa.int8()),
        ("float", pa.float64()),
        ("bool", pa.bool_()),
        ("date", pa.date32()),
        ("ts", pa.timestamp("us", tz="UTC")),
        ("wall", pa.timestamp("us")),
        ("decimal", pa.decimal128(12, 3)),
        ("list", pa.list_(pa.timestamp("us", tz="UTC"))),
        ("struct", pa.struct([("a", pa.string()), ("b", pa.binary())])),
    ]
)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "text": st.text(st.characters(exclude_categories=["Cs"])),
    "bytes": st.binary(),
    "int": st.integers(-(1 << 63), (1 << 63) - 1),
    "small": st.integers(-128, 127),
    "float": st.floats(allow_nan=False).map(lambda number: number + 0.0),
    "bool": st.booleans(),
    "date": st.dates(),
    "ts": MOMENTS,
    "wall": MOMENTS.map(lambda moment: moment.replace(tzinfo=None)),
    "decimal": st.decimals(places=3, min_value=-1000, max_value=1000),
    "list": st.lists(st.none() | MOMENTS, max_size=3),
    "struct": st.tuples(st.none() | st.text("ab\"'é"), st.none() | st.binary(max_size=3)).map(
        lambda pair: {"a": pair[0], "b": pair[1]}
    ),
}
rows = st.lists(
    st.tuples(*[st.none() | value for value in VALUES.values()]).map(lambda row: dict(zip(VALUES, row, strict=True))),
    max_size=3,
)


def alike(actual: Any, expected: Any) -> bool:
    return repr(actual) == repr(expected)


@given(rows)
def test_rows_become_the_dicts_they_were_made_of(drawn_rows: list[dict[str, Any]]) -> None:
    assert alike(row_dicts(pa.RecordBatch.from_pylist(drawn_rows, SCHEMA)), drawn_rows)


@given(rows, st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=3, unique=True))
def test_keys_are_read_back_from_their_bytes(drawn_rows: list[dict[str, Any]], by: list[str]) -> None:
    reader = KeyReader(SCHEMA, by)
    keys = key_bytes(pa.RecordBatch.from_pylist(drawn_rows, SCHEMA), by).to_pylist()
    assert alike([reader.values(key) for key in keys], [tuple(row[name] for name in by) for row in drawn_rows])


@given(st.lists(st.tuples(st.sampled_from(["a", "b", "", None]), st.none() | st.integers(-9, 9)), min_size=1))
def test_groups_hold_all_rows_in_order(drawn_rows: list[tuple[str | None, int | None]]) -> None:
    given_rows = timed(
        pa.schema([("text", pa.string()), ("n", pa.int64())]),
        [{"text": key, "n": place} for place, (key, _) in enumerate(drawn_rows)],
        [time for _, time in drawn_rows],
    )
    groups = key_groups(given_rows, ["text"])
    numbers, start = groups.rows.column("n").to_pylist(), 0
    assert groups.keys == [None if key is None else key.encode() for key in dict.fromkeys(key for key, _ in drawn_rows)]
    for key, end, latest in zip(dict.fromkeys(key for key, _ in drawn_rows), groups.ends, groups.latest, strict=True):
        assert numbers[start:end] == [place for place, (other, _) in enumerate(drawn_rows) if other == key]
        times = [time for other, time in drawn_rows if other == key and time is not None]
        assert latest == max(times, default=None)
        start = end
    assert start == len(drawn_rows)


def test_a_slice_of_a_batch_is_read_where_it_is() -> None:
    whole = pa.RecordBatch.from_pylist([{"text": str(n), "bool": n % 2 == 0} for n in range(9)], SCHEMA)
    assert [row["text"] for row in row_dicts(whole.slice(3, 2))] == ["3", "4"]
    assert row_dicts(whole.slice(3, 2))[1]["bool"] is True
    assert row_dicts(pa.RecordBatch.from_pylist([{"ts": datetime(1, 1, 1, tzinfo=UTC)}], SCHEMA))[0]["ts"].year == 1
