"""Rows of many nodes and tasks travel in one frame and come out as they went in."""

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from holdfast.errors import HoldfastError
from holdfast_runtime.segments import union
from holdfast_runtime.segments.union import NodeRows, PackedNote, UnionLayout
from holdfast_runtime.steps.timed_rows import TimedRows
from tests.codecs.schemas import schema
from tests.error_codes import has_code

NARROW, WIDE = schema("a INT"), schema("s STRING, m MAP<STRING, ARRAY<INT>>, n STRUCT<x: INT, y: STRUCT<z: BINARY>>")
EVERYTHING = schema(
    "a BOOLEAN, b TINYINT, c SMALLINT, d INT, e BIGINT, f FLOAT, g DOUBLE, h STRING, i BINARY, j DATE, k TIMESTAMP, "
    "l TIMESTAMP_NTZ, m DECIMAL(38,9), n ARRAY<ARRAY<STRING>>, o MAP<INT, STRUCT<x: TIMESTAMP>>, p STRUCT<>, q VOID, "
    "r INTERVAL DAY TO SECOND, `odd name` STRUCT<`x y`: ARRAY<STRUCT<z: DATE>>>"
)
MOMENT = dt.datetime(1969, 12, 31, 23, 59, 59, 999999, dt.UTC)
ROW = {
    "a": True, "b": -1, "c": 2, "d": 3, "e": 2**63 - 1, "f": 0.5, "g": -0.0, "h": "é", "i": b"\x00\xff",
    "j": dt.date(1582, 10, 4), "k": MOMENT, "l": MOMENT.replace(tzinfo=None), "m": Decimal("1E-9"),
    "n": [["x", None], None, []], "o": [(1, {"x": MOMENT}), (2, None)], "p": {}, "q": None,
    "r": dt.timedelta(days=-1, microseconds=1), "odd name": {"x y": [{"z": None}, None]},
}  # fmt: skip


@dataclass(frozen=True)
class One:
    index: int
    schema: pa.Schema


LAYOUT = UnionLayout.of([One(3, NARROW), One(4, WIDE), One(7, NARROW)])


def timed(columns: pa.Schema, rows: list[dict[str, Any]], first: int = 0) -> TimedRows:
    times = [None if at % 3 == 2 else first + at for at in range(len(rows))]
    return TimedRows(pa.RecordBatch.from_pylist(rows, columns), pa.array(times, pa.int64()))


def narrow(*values: int | None) -> TimedRows:
    return timed(NARROW, [{"a": value} for value in values])


def wide(count: int) -> TimedRows:
    return timed(WIDE, [{"s": str(at), "m": [("k", [at, None])], "n": {"x": at, "y": None}} for at in range(count)])


def plain(rows: TimedRows) -> tuple[list[dict[str, Any]], list[int | None]]:
    return rows.rows.to_pylist(), rows.times.to_pylist()


def test_nodes_with_equal_columns_share_one_column_of_the_union() -> None:
    assert LAYOUT.arrow_schema.names == ["task", "node", "time", "mark", "note", "s0", "s1"]
    assert LAYOUT.shape_of == {3: 0, 4: 1, 7: 0}


def test_what_is_packed_comes_out_in_order() -> None:
    batches = [LAYOUT.pack(0, 3, narrow(1, None, 3)), LAYOUT.pack_note(0, b"x"), LAYOUT.pack(0, 4, wide(2))]
    out = [piece for batch in batches for piece in LAYOUT.unpack(batch)]
    rows, note, wide_rows = out
    assert isinstance(rows, NodeRows)
    assert isinstance(wide_rows, NodeRows)
    assert (rows.task, rows.node, plain(rows.rows)) == (0, 3, plain(narrow(1, None, 3)))
    assert note == PackedNote(0, b"x")
    assert (wide_rows.node, plain(wide_rows.rows)) == (4, plain(wide(2)))


def test_rows_have_the_columns_of_their_node_exactly() -> None:
    for piece in LAYOUT.unpack(LAYOUT.pack(0, 4, wide(2))):
        assert isinstance(piece, NodeRows)
        assert piece.rows.rows.schema.equals(WIDE, check_metadata=True)


def test_a_boundary_that_no_rows_cross_carries_notes() -> None:
    layout = UnionLayout.of([])
    assert list(layout.gathered([layout.pack_note(2, b"a"), layout.pack_note(2, b""), layout.pack_note(1, b"b")])) == [
        (2, {}, [b"a", b""]),
        (1, {}, [b"b"]),
    ]


def test_no_rows_are_no_pieces() -> None:
    assert list(LAYOUT.unpack(LAYOUT.pack(0, 4, TimedRows.nothing(WIDE)))) == []
    assert list(LAYOUT.gathered([])) == []


@pytest.mark.parametrize("size", [1, 40, 1 << 20])
def test_sealed_rows_survive_any_number_of_notes(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(union, "SEALED_BYTES", size)
    layout = UnionLayout.of([One(3, NARROW)], [One(4, WIDE), One(5, EVERYTHING)])
    assert layout.arrow_schema.names == ["task", "node", "time", "mark", "note", "s0"]
    everything = timed(EVERYTHING, [ROW, dict.fromkeys(ROW), ROW])
    batches = [*layout.packed(0, 4, wide(7)), *layout.packed(0, 3, narrow(1)), *layout.packed(0, 5, everything)]
    assert size > 1 or len(batches) == 7 + 1 + 3
    whole = pa.concat_batches([*batches, layout.pack_note(0, b"note"), *layout.packed(1, 4, TimedRows.nothing(WIDE))])
    ((task, by_node, notes),) = layout.gathered([whole])
    assert (task, notes, sorted(by_node)) == (0, [b"note"], [3, 4, 5])
    assert plain(by_node[4]) == plain(wide(7))
    assert plain(by_node[3]) == plain(narrow(1))
    assert plain(by_node[5]) == plain(everything)
    assert by_node[5].rows.schema.equals(EVERYTHING, check_metadata=True)


def test_a_task_that_comes_twice_is_a_fault() -> None:
    batches = [LAYOUT.pack(task, 3, narrow(1)) for task in (0, 1, 0)]
    with pytest.raises(HoldfastError, match="rows of task 0 are not together", check=has_code("UnionBrokenError")):
        list(LAYOUT.gathered(batches))


def test_a_row_without_its_columns_is_a_fault() -> None:
    batch = LAYOUT.pack(0, 3, narrow(1, 2))
    nodes = pa.array([3, 4], pa.int32())
    broken = batch.set_column(1, "node", nodes)
    with pytest.raises(
        HoldfastError, match="1 rows of node 4 came without their columns", check=has_code("UnionBrokenError")
    ):
        list(LAYOUT.unpack(broken))


@st.composite
def packed(draw: st.DrawFn) -> tuple[list[pa.RecordBatch], dict[int, dict[int, list[Any]]], dict[int, list[bytes]]]:
    """Batches of several tasks, and what is in them."""
    batches: list[pa.RecordBatch] = []
    rows: dict[int, dict[int, list[Any]]] = {}
    notes: dict[int, list[bytes]] = {}
    for task in draw(st.lists(st.integers(0, 5), unique=True, max_size=3)):
        rows[task], notes[task] = {}, []
        for number in range(draw(st.integers(1, 5))):
            node = draw(st.sampled_from([3, 4, 7, -1]))
            if node == -1:
                batches.append(LAYOUT.pack_note(task, b"%d" % number))
                notes[task].append(b"%d" % number)
                continue
            timed_rows = (
                wide(draw(st.integers(0, 3))) if node == 4 else narrow(*draw(st.lists(st.integers(0, 9), max_size=4)))
            )
            batches.append(LAYOUT.pack(task, node, timed_rows))
            if timed_rows.count:
                rows[task].setdefault(node, []).append(timed_rows)
    return batches, rows, notes


@given(packed(), st.data())
def test_however_batches_are_cut_and_joined_the_same_comes_out(
    given_: tuple[list[pa.RecordBatch], dict[int, dict[int, list[TimedRows]]], dict[int, list[bytes]]],
    data: st.DataObject,
) -> None:
    batches, rows, notes = given_
    whole = pa.concat_batches(batches) if batches else LAYOUT.pack(0, 3, narrow())
    cuts = sorted(data.draw(st.lists(st.integers(0, whole.num_rows), max_size=4)))
    edges = [0, *cuts, whole.num_rows]
    pieces = [whole.slice(start, end - start) for start, end in pairwise(edges)]
    out = {task: (by_node, task_notes) for task, by_node, task_notes in LAYOUT.gathered(pieces)}
    expected = {task: rows[task] for task in rows if rows[task] or notes[task]}
    assert list(out) == list(expected)
    for task, by_node in expected.items():
        assert out[task][1] == notes[task]
        assert {node: plain(timed_rows) for node, timed_rows in out[task][0].items()} == {
            node: plain(TimedRows.joined(parts, LAYOUT.schemas[node])) for node, parts in by_node.items()
        }


def test_spark_hands_back_what_it_was_given(spark: SparkSession) -> None:
    layout = UnionLayout.of([One(0, EVERYTHING), One(1, NARROW), One(2, WIDE)])
    rows = timed(EVERYTHING, [ROW, dict.fromkeys(ROW), ROW])
    many = narrow(*range(25_000))

    def first(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield layout.pack(0, 1, many)
            yield layout.pack(0, 0, rows)
            yield layout.pack(0, 2, TimedRows.nothing(WIDE))
            yield layout.pack_note(0, b"note")

    def last(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pickle  # noqa: PLC0415 - travels to a worker

        for gathered in layout.gathered(batches):
            yield pa.RecordBatch.from_pydict({"told": [pickle.dumps(gathered)]})

    frame = (
        spark.range(1)
        .coalesce(1)
        .mapInArrow(first, from_arrow_schema(layout.arrow_schema))
        .mapInArrow(last, "told BINARY")
    )
    import pickle  # noqa: PLC0415 - as above

    ((task, by_node, notes),) = (pickle.loads(row.told) for row in frame.collect())  # noqa: S301 - its own
    assert (task, notes, sorted(by_node)) == (0, [b"note"], [0, 1])
    assert by_node[1].rows.column(0).to_pylist() == list(range(25_000))
    assert plain(by_node[0]) == plain(rows)
    assert by_node[0].rows.schema.equals(EVERYTHING)
