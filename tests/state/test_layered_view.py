"""Layered rows as people see them: with columns, told by the table alone, in memory and in a store only read."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import EllipsisType

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import UserActionError
from holdfast.times import Micros
from holdfast_runtime.columns.hashed_rows import HashedRows
from holdfast_runtime.columns.key_columns import KeyColumns
from holdfast_runtime.state.errors import StateUnreadableError
from holdfast_runtime.state.sorted.layered_rows import ASIDE, LayeredRows
from holdfast_runtime.state.sorted.schema import time_column
from holdfast_runtime.state.sorted.view import LayeredSize, LayeredView
from holdfast_runtime.state.store.offline import OfflineStore
from holdfast_runtime.state.store.task_store import TaskStore
from tests.error_codes import has_code
from tests.state.places import Disk
from tests.state.test_layered_rows import TINY, MemoryTable

SCHEMA = pa.schema([("user", pa.string()), time_column("#time"), ("#n", pa.int64())])
HOUR = 3_600_000_000
Kept = tuple[str | None, int, int]
"""User, time, number."""
kept_rows = st.lists(st.tuples(st.none() | st.sampled_from("abcd"), st.integers(0, 3), st.integers(0, 99)), max_size=9)


def all_of_it(rows: HashedRows) -> HashedRows:
    return rows


def hashed(rows: Sequence[Kept], *, collide: bool = False) -> HashedRows:
    columns = [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), SCHEMA, strict=True)]
    batch = pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
    hashes = KeyColumns.of(columns[:1], len(rows)).hashes()
    if collide:
        hashes[:] = KeyColumns.of([pa.array(["a"])], 1).hashes()[0]
    order = np.argsort(hashes, kind="stable")
    return HashedRows(hashes[order], batch.take(pa.array(order)))


def seen(view: LayeredView | None, user: str | EllipsisType | None = ...) -> list[tuple[int | None, Kept]]:
    """The start of the bucket, and the row."""
    assert view is not None
    key = None if user is ... else pa.RecordBatch.from_arrays([pa.array([user], pa.string())], schema=view.key)
    rows_seen: list[tuple[int | None, Kept]] = []
    for start, rows in view.rows(key):
        times = rows.column(1).cast(pa.int64()).to_pylist()
        rows_seen += [
            (start, row) for row in zip(rows.column(0).to_pylist(), times, rows.column(2).to_pylist(), strict=True)
        ]
    return rows_seen


def moment(hours: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(hours=hours)


@given(st.lists(st.tuples(st.integers(-1, 2), kept_rows), max_size=12), st.integers(1, 30))
def test_what_was_appended_is_seen_however_it_was_merged(batches: list[tuple[int, list[Kept]]], budget: int) -> None:
    table = MemoryTable()
    layered = LayeredRows(table, SCHEMA, all_of_it, TINY, width=HOUR)
    model: list[tuple[int, Kept]] = []
    for bucket, rows in batches:
        if rows:
            layered.append(bucket, hashed(rows))
            model += [(bucket * HOUR, row) for row in rows]
        layered.tidy(bucket, budget)
        layered.purge()
    view = LayeredView.of(table)
    if not model:
        assert view is None
        return
    assert view is not None
    assert sorted(seen(view), key=str) == sorted(model, key=str)
    for user in ("a", "b", None):
        # Of one bucket the older rows first: as they were appended.
        assert seen(view, user) == sorted((one for one in model if one[1][0] == user), key=lambda pair: pair[0])
    starts = [start for start, _ in model]
    size = view.size()
    assert (size.oldest, size.newest) == (min(starts), max(starts))
    assert size.rows >= len(model)


def test_keys_that_share_a_hash_are_told_apart() -> None:
    table = MemoryTable()
    LayeredRows(table, SCHEMA, all_of_it).append(0, hashed([("a", 1, 1), ("b", 2, 2), ("a", 3, 3)], collide=True))
    assert [row for _, row in seen(LayeredView.of(table), "a")] == [("a", 1, 1), ("a", 3, 3)]


def test_a_steps_own_columns_come_last_with_plain_names() -> None:
    table, schema = MemoryTable(), pa.schema([time_column("#time"), ("user", pa.string())])
    rows = pa.RecordBatch.from_arrays([pa.array([5 * HOUR]), pa.array(["a"])], schema=schema)
    LayeredRows(table, schema, all_of_it).append(0, HashedRows(np.array([7], np.uint64), rows))
    view = LayeredView.of(table)
    assert view is not None
    assert [(start, batch.to_pylist()) for start, batch in view.rows()] == [(None, [{"user": "a", "time": moment(5)}])]


def test_the_size_is_told_without_reading_a_piece() -> None:
    table = MemoryTable()
    layered = LayeredRows(table, SCHEMA, all_of_it, TINY, width=HOUR)
    for bucket in (-1, 4):
        for _ in range(2):
            layered.append(bucket, hashed([(str(number), number, number) for number in range(10)]))
    for key in [key for key in table.rows if key.startswith(b"p")]:
        del table.rows[key]
    view = LayeredView.of(table)
    assert view is not None
    assert view.size() == LayeredSize(40, 4, Micros(-HOUR), Micros(4 * HOUR))


def test_buckets_without_a_width_are_no_times() -> None:
    table = MemoryTable()
    LayeredRows(table, SCHEMA, all_of_it).append(0, hashed([("a", 1, 1)]))
    view = LayeredView.of(table)
    assert view is not None
    assert (view.timed, view.size()) == (False, LayeredSize(1, 1, None, None))


def test_rows_of_no_stretch_of_time_come_last_and_count() -> None:
    table = MemoryTable()
    layered = LayeredRows(table, SCHEMA, all_of_it, width=HOUR)
    layered.append(ASIDE, hashed([("a", 2, 2)]))
    layered.append(3, hashed([("a", 1, 1)]))
    view = LayeredView.of(table)
    assert [start for start, _ in seen(view)] == [start for start, _ in seen(view, "a")] == [3 * HOUR, None]
    assert view is not None
    assert view.size() == LayeredSize(2, 2, Micros(3 * HOUR), Micros(3 * HOUR))


@pytest.mark.parametrize(
    "schema",
    [
        SCHEMA.set(0, pa.field("user", pa.int64())),
        SCHEMA.set(0, pa.field("client", pa.string())),
        SCHEMA.remove(2),
        SCHEMA.append(pa.field("#m", pa.int64())),
        pa.schema([SCHEMA.field(0), SCHEMA.field(2), SCHEMA.field(1)]),
    ],
    ids=["type", "name", "fewer", "more", "order"],
)
def test_rows_with_other_columns_are_not_opened(schema: pa.Schema) -> None:
    table = MemoryTable()
    LayeredRows(table, SCHEMA, all_of_it).append(0, hashed([("a", 1, 1)]))
    with pytest.raises(
        UserActionError, match=r"table kept has the columns user \(string\), time", check=has_code("RunsSchemaError")
    ):
        LayeredRows(table, schema, all_of_it)


@pytest.mark.parametrize(
    "schema",
    [SCHEMA.set(0, pa.field("USER", pa.string())), SCHEMA.set(0, pa.field("user", pa.string(), nullable=False))],
    ids=["case", "nullable"],
)
def test_what_spark_takes_for_the_same_columns_is_opened(schema: pa.Schema) -> None:
    table = MemoryTable()
    LayeredRows(table, SCHEMA, all_of_it).append(0, hashed([("a", 1, 1)]))
    (rows,) = LayeredRows(table, schema, all_of_it).read([0])
    assert rows.rows.column(0).to_pylist() == ["a"]


def test_nothing_is_written_before_the_first_row() -> None:
    table = MemoryTable()
    layered = LayeredRows(table, SCHEMA, all_of_it)
    layered.purge()
    layered.append(0, HashedRows(np.zeros(0, np.uint64), pa.RecordBatch.from_pylist([], SCHEMA)))
    assert table.rows == {}


@pytest.mark.parametrize("value", [b"", b"{}", b'{"format": 1, "width": null, "rows": "AAAA"}', b"[]", b"\xff"])
def test_a_schema_that_can_not_be_read_is_told(value: bytes) -> None:
    table = MemoryTable()
    table.rows[b"s"] = value
    with pytest.raises(StateUnreadableError, match="the schema of the rows in table kept"):
        LayeredView.of(table)


@pytest.mark.parametrize("other", [1, 3])
def test_a_schema_of_another_format_names_both(other: int) -> None:
    table = MemoryTable()
    table.rows[b"s"] = json.dumps({"format": other}).encode()
    with pytest.raises(StateUnreadableError, match=f"has format {other}, and this release reads 2"):
        LayeredView.of(table)


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path)


def test_undoing_the_first_rows_batch_takes_their_schema_back(disk: Disk) -> None:
    with TaskStore.create(disk.store_directory, -1) as store:
        store.begin(0, 1)
        LayeredRows(store.table("kept"), SCHEMA, all_of_it).append(0, hashed([("a", 1, 1)]))
        store.commit()
        store.begin(0, 1)
        assert LayeredView.of(store.table("kept")) is None
        other = pa.schema([("user", pa.int64())])
        rows = pa.RecordBatch.from_pylist([{"user": 3}], other)
        LayeredRows(store.table("kept"), other, all_of_it).append(0, HashedRows(np.array([1], np.uint64), rows))
        store.commit()
        view = LayeredView.of(store.table("kept"))
        assert view is not None
        assert view.key == other


def test_a_store_that_is_only_read_shows_what_was_committed(disk: Disk) -> None:
    rows = [(f"user {number}", number, number) for number in range(100)]
    with TaskStore.create(disk.store_directory, -1) as store:
        store.begin(0, 1)
        layered = LayeredRows(store.table("kept"), SCHEMA, all_of_it, TINY, width=HOUR)
        for at in range(0, 100, 10):
            layered.append(at // 50, hashed(rows[at : at + 10]))
            layered.tidy(at // 50, 25)
        store.commit()
    with OfflineStore(disk.store_directory, disk.store_directory.data_path) as offline:
        view = LayeredView.of(offline.table("kept"))
        assert sorted(row for _, row in seen(view)) == sorted(rows)
        assert seen(view, "user 7") == [(0, rows[7])]
        assert LayeredView.of(offline.table("other")) is None


@pytest.mark.parametrize(
    ("prefix", "start", "stop"),
    [
        (b"", b"", None),
        (b"b", b"", None),
        (b"", b"b1", b"c"),
        (b"b", b"b2", b"b3"),
        (b"x" * 500, b"", None),
        (b"z", b"", None),
    ],
)
def test_a_part_of_a_table_reads_as_in_the_app(disk: Disk, prefix: bytes, start: bytes, stop: bytes | None) -> None:
    keys = [b"a", b"b", b"b1", b"b2", b"b22", b"b3", b"c", b"x" * 500 + b"2", b"x" * 500 + b"1", b"x" * 490]
    with TaskStore.create(disk.store_directory, -1) as store:
        store.begin(0, 1)
        store.table("one").put_many(keys, keys)
        store.commit()
        expected = list(store.table("one").scan(prefix, start, stop))
    with OfflineStore(disk.store_directory, disk.store_directory.data_path) as offline:
        assert list(offline.table("one").scan(prefix, start, stop)) == expected
        assert list(offline.table("none").scan(prefix)) == []
