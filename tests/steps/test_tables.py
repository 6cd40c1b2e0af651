"""`toTable` and `lookup` beside a dictionary: any batches, keys of any type, nulls, hashes that collide, merges."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.planning.join_columns import JoinColumn
from holdfast_runtime.columns import key_columns
from holdfast_runtime.columns.hashed_rows import as_they_are
from holdfast_runtime.state.sorted import layered_rows
from holdfast_runtime.state.sorted.layered_rows import LayeredRows
from holdfast_runtime.steps.tables.kept_table import GONE, KeptTable, TableShape
from holdfast_runtime.steps.tables.lookup import LookupPlan, LookupStep
from holdfast_runtime.steps.tables.to_table import ToTableStep
from holdfast_runtime.steps.timed_rows import TimedRows
from tests.steps.memory import MemoryTables

WRITTEN = pa.schema([("value", pa.int64()), ("k", pa.string()), ("j", pa.int32())])
GIVEN = pa.schema([("J", pa.int32()), ("n", pa.int64()), ("K", pa.string())])
COLUMNS = (JoinColumn("both", "K", "k"), JoinColumn("left", "n", "n"), JoinColumn("right", "value", "value"))
SHAPE = TableShape(("k", "j"), WRITTEN)
Key = tuple[str | None, int | None]
keys = st.tuples(st.one_of(st.none(), st.sampled_from(["", "a", "b", "aa"])), st.one_of(st.none(), st.integers(0, 2)))


class Task:
    """One task with a table, from batch to batch."""

    def __init__(self, *, inner: bool = False) -> None:
        self.tables = MemoryTables()
        self.writer = ToTableStep(SHAPE, "t.table", first=True)
        self.lookup = LookupStep(LookupPlan(("J", "K"), inner, COLUMNS, GIVEN, SHAPE, "t.table"))

    def write(self, rows: list[tuple[Key, int]]) -> None:
        columns: list[list[Any]] = [
            [value for _, value in rows],
            [key[0] for key, _ in rows],
            [key[1] for key, _ in rows],
        ]
        written = timed(columns, WRITTEN)
        assert self.writer.run(written, self.tables).rows is written

    def find(self, *looked_up: Key) -> list[tuple[Any, ...]]:
        columns: list[list[Any]] = [
            [key[1] for key in looked_up],
            list(range(len(looked_up))),
            [key[0] for key in looked_up],
        ]
        answer = self.lookup.run(timed(columns, GIVEN), self.tables).rows
        assert answer.times.to_pylist() == answer.rows.column(1).to_pylist()
        return list(zip(*(column.to_pylist() for column in answer.rows.columns), strict=True))


def timed(columns: list[list[Any]], schema: pa.Schema) -> TimedRows:
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    rows = pa.RecordBatch.from_arrays(arrays, schema=schema)
    return TimedRows(rows, pa.array(range(rows.num_rows), pa.int64()))


@pytest.mark.parametrize("collide", [False, True], ids=["hashes apart", "one hash"])
@given(
    batches=st.lists(st.tuples(st.lists(st.tuples(keys, st.integers()), max_size=8), st.lists(keys, max_size=6))),
    inner=st.booleans(),
)
def test_a_look_up_gives_what_a_dictionary_gives(
    collide: bool, batches: list[tuple[list[tuple[Key, int]], list[Key]]], inner: bool
) -> None:
    task, model = Task(inner=inner), dict[Key, int]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layered_rows, "FAN_IN", 2)
        if collide:
            patch.setattr(key_columns.KeyColumns, "hashes", lambda self: np.full(self.rows, 7, np.uint64))
        for rows, looked_up in batches:
            task.write([(key, value % 2**62) for key, value in rows])
            model |= {key: value % 2**62 for key, value in rows if None not in key}
            assert task.find(*looked_up) == [
                (key[0], at, model.get(key)) for at, key in enumerate(looked_up) if not inner or key in model
            ]


def test_a_key_is_kept_once_however_often_it_is_written() -> None:
    task = Task()
    for batch in range(200):
        task.write([((str(number), 0), batch) for number in range(20)])
    assert task.find(("7", 0)) == [("7", 0, 199)]
    pieces = [key for table in task.tables.content().values() for key in table if key.startswith(b"p")]
    assert len(pieces) < 25


def test_nothing_is_found_in_a_table_that_nobody_has_written() -> None:
    assert Task().find(("a", 0), (None, 1)) == [("a", 0, None), (None, 1, None)]
    assert Task(inner=True).find(("a", 0)) == []
    assert Task().find() == []


class FedTask:
    """One task with a table whose keys can be deleted."""

    def __init__(self) -> None:
        self.tables = MemoryTables()
        self.shape = TableShape(("k",), pa.schema([("k", pa.int64()), ("value", pa.int64()), GONE]))

    def write(self, changes: list[tuple[int, int | None]]) -> None:
        columns: list[list[Any]] = [
            [key for key, _ in changes],
            [value for _, value in changes],
            [value is None for _, value in changes],
        ]
        ToTableStep(self.shape, "t", first=True).run(timed(columns, self.shape.given), self.tables)

    def find(self, looked_up: list[int]) -> list[int | None]:
        answer = KeptTable(self.tables.table("t"), self.shape).find([pa.array(looked_up, pa.int64())], len(looked_up))
        values: list[int | None] = answer.column(self.shape.index("value")).to_pylist()
        return values

    def rows(self) -> int:
        """Rows that are kept, also those that only say that a key is deleted."""
        return sum(size for _, size in [LayeredRows(self.tables.table("t"), self.shape.kept, as_they_are).size(0)])


changes = st.lists(st.tuples(st.integers(0, 5), st.one_of(st.none(), st.integers(0, 99))), max_size=8)


@given(batches=st.lists(changes, max_size=30))
def test_deleted_keys_are_not_found_whatever_is_merged(batches: list[list[tuple[int, int | None]]]) -> None:
    task, model = FedTask(), dict[int, int | None]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layered_rows, "FAN_IN", 2)
        for batch in batches:
            task.write(batch)
            model |= dict(batch)
            assert task.find(list(range(6))) == [model.get(key) for key in range(6)]


def test_marks_of_deleted_keys_go_when_nothing_older_is_left() -> None:
    task = FedTask()
    for batch in range(400):
        task.write([(batch, 1), (batch - 1, None)])
    assert task.find([399, 398, 0]) == [1, None, None]
    assert task.rows() < 200, "of 400 deleted keys"
