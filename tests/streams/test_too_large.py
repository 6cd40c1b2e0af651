"""Rows that are more than an Arrow batch can hold are refused by name, size and cure, before any of it is copied."""

import mmap
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.steps.plain.apply import UserFunction, checked_result
from holdfast_runtime.steps.timed_rows import TimedRows, merge
from holdfast_runtime.streams.records import (
    FETCHED,
    HEADERS,
    BatchTooLargeError,
    OffsetRange,
    fewer,
    joined,
    stacked,
    written_batch,
)

HALF = 1 << 30
ROWS = pa.schema([("text", pa.string())])


def huge(kind: pa.DataType) -> pa.Array:
    """One value of 1 GiB, in pages that the system gives out only when somebody touches them."""
    ends = pa.py_buffer(np.array([0, HALF], np.int32))
    return pa.Array.from_buffers(kind, 1, [None, ends, pa.py_buffer(mmap.mmap(-1, HALF))])


def rows() -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([huge(pa.string())], schema=ROWS)


def records() -> pa.RecordBatch:
    zero = pa.array([0], pa.int64())
    return pa.RecordBatch.from_arrays([zero, pa.nulls(1, pa.binary()), huge(pa.binary()), zero], schema=FETCHED)


def merged() -> object:
    return merge([TimedRows(rows(), pa.array([None], pa.int64()))] * 2, ROWS)


def given() -> object:
    function = UserFunction("big", "m:f", len, ROWS)
    return checked_result(function, pa.Table.from_batches([rows()] * 2))


@pytest.mark.parametrize(
    ("act", "what"),
    [
        (lambda: joined([records()] * 2, OffsetRange(StreamPartition("in", 3), 5, 7)), r"in/3 \[5, 7\)"),
        (merged, "the rows of a task in one batch"),
        (given, r"the rows that m:f \(step big\) gave"),
    ],
)
def test_more_than_a_column_can_hold_is_refused_with_cure(act: Callable[[], object], what: str) -> None:
    with pytest.raises(BatchTooLargeError, match=rf"^{what}: 21474\d+ bytes .* Lower runtime.trigger.maxRecords"):
        act()


def test_parts_become_one_batch_and_other_faults_stay_themselves() -> None:
    parts = [pa.record_batch([pa.array(texts)], schema=ROWS) for texts in (["a"], [], ["b", None])]
    assert stacked(parts, ROWS, "rows").column(0).to_pylist() == ["a", "b", None]
    assert stacked([], ROWS, "rows").schema == ROWS
    with pytest.raises(pa.ArrowInvalid):
        stacked([parts[0], pa.record_batch([pa.array([1])], ["text"])], ROWS, "rows")


def test_small_parts_are_written_as_one_large_ones_alone() -> None:
    tags = pa.array([[{"key": "t", "value": b"1"}]], HEADERS.type)
    small = [written_batch([b"a"], [b"1"], 1), written_batch([None], [b"2"], 2, tags), written_batch([b"c"], [None], 3)]
    (together,) = fewer(small)
    assert [together.column(name).to_pylist() for name in ("key", "value", "timestamp", "headers")] == [
        [b"a", None, b"c"],
        [b"1", b"2", None],
        [1, 2, 3],
        [None, tags[0].as_py(), None],
    ]
    many = written_batch([b"a"] * 1_000, [b"1"] * 1_000, 1)
    for parts in ([many, many], [written_batch([None], [bytes(1 << 17)], 1)] * 2, small[:1]):
        assert fewer(parts) is parts
