"""Python steps without state: a user's function over whole batches, and rows put together."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from holdfast_runtime.steps.failures import FunctionResultError, UserFunctionError
from holdfast_runtime.steps.plain.apply import UserFunction, apply
from holdfast_runtime.steps.timed_rows import TimedRows, merge
from tests.codecs.schemas import schema

SCHEMA = schema("k STRING, n INT")


def rows(*values: int, times: list[int | None] | None = None) -> TimedRows:
    batch = pa.RecordBatch.from_pylist([{"k": f"k{value}", "n": value} for value in values], SCHEMA)
    return TimedRows(batch, pa.array(times if times is not None else range(len(values)), pa.int64()))


def step(call: Callable[..., Any], columns: pa.Schema = SCHEMA) -> UserFunction:
    return UserFunction("x", "ads.demo:f", call, columns)


def doubled(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"n": pc.multiply(batch["n"], 2), "k": batch["k"]})


def test_columns_are_matched_by_name_and_cast_as_declared() -> None:
    def give(batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.RecordBatch.from_pydict({"n": batch["n"].cast("int64"), "k": batch["k"].cast("large_string")})

    assert apply(step(give), rows(1, 2)).rows.equals(rows(1, 2).rows)


def test_as_many_rows_keep_their_event_times() -> None:
    out = apply(step(doubled), rows(1, 2, 3, times=[7, None, 5]))
    assert (out.rows["n"].to_pylist(), out.times.to_pylist()) == ([2, 4, 6], [7, None, 5])


@pytest.mark.parametrize(("times", "expected"), [([7, None, 5], 5), ([None, None, None], None)])
@pytest.mark.parametrize("count", [0, 1, 5])
def test_another_number_of_rows_gets_the_earliest_event_time(
    times: list[int | None], expected: int | None, count: int
) -> None:
    out = apply(step(lambda _: rows(*range(count)).rows), rows(1, 2, 3, times=times))
    assert (out.count, out.times.to_pylist()) == (count, [expected] * count)
    assert out.times.type == pa.int64()


def test_without_rows_the_function_is_not_called() -> None:
    out = apply(step(lambda _: pytest.fail("called")), rows())
    assert (out.count, out.rows.schema) == (0, SCHEMA)


@pytest.mark.parametrize("count", [0, 4])
def test_a_table_is_as_good_as_a_batch(count: int) -> None:
    def give(batch: pa.RecordBatch) -> pa.Table:
        return pa.Table.from_batches([batch.slice(0, 2), batch.slice(2)] if count else [], SCHEMA)

    out = apply(step(give), rows(1, 2, 3, 4))
    assert out.rows["n"].to_pylist() == ([1, 2, 3, 4] if count else [])


def test_a_time_no_step_can_use_is_refused_by_column() -> None:
    columns = schema("e STRUCT<at: TIMESTAMP>")
    column = pa.array([{"at": 1_700_000_000_000_000_000}], columns.field("e").type)
    with pytest.raises(FunctionResultError, match=r"gave a time outside of the years 1 to 9999 in column e.at"):
        apply(step(lambda _: pa.record_batch({"e": column}), columns), rows(1))


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (None, r"ads.demo:f \(step x\) gave a NoneType; it must return a pyarrow.RecordBatch"),
        ([1], "gave a list"),
        (pa.record_batch({"k": ["a"]}), r"gave the columns \(k string\), .* declares \(k string, n int32\): n missing"),
        (pa.record_batch({"k": ["a"], "N": [1]}), "n missing, N not declared"),
        (pa.record_batch({"k": ["a"], "n": [1], "m": [1]}), "m not declared"),
        (pa.RecordBatch.from_arrays([pa.array(["a"]), pa.array([1]), pa.array([1])], names=["k", "n", "n"]),
         "some twice"),
        (pa.record_batch({"k": ["a"], "n": ["one"]}), "gave column n as string, which does not become int32"),
        (pa.record_batch({"k": ["a"], "n": [2**40]}), "gave column n as int64, which does not become int32"),
        (pa.record_batch({"k": ["a"], "n": [[1]]}), "gave column n as list"),
    ],
)  # fmt: skip
def test_a_misfit_result_is_told_with_what_it_is(result: object, message: str) -> None:
    with pytest.raises(FunctionResultError, match=message):
        apply(step(lambda _: result), rows(1))


def test_a_failing_function_is_told_with_the_lines_where() -> None:
    def inner(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch["no such column"]

    def outer(batch: pa.RecordBatch) -> pa.RecordBatch:
        return inner(batch)

    with pytest.raises(UserFunctionError, match=r"(?s)step x: ads.demo:f failed at .*KeyError: .* in outer.* in inner"):
        apply(step(outer), rows(1))


def test_rows_get_the_event_time_their_function_keeps() -> None:
    columns = schema("k STRING, ts TIMESTAMP")
    rows_in = pa.RecordBatch.from_pydict(
        {"k": ["a", "b", "c"], "ts": pa.array([3000, 1000, 2000], columns.field(1).type)}
    )
    function = UserFunction("x", "ads.demo:f", lambda batch: batch.take(pa.array([2, 0])), columns, event_time="ts")
    assert apply(function, TimedRows(rows_in, pa.array([3000, 1001, 2000]))).times.to_pylist() == [2000, 3000]


def test_merged_rows_come_in_the_order_of_the_inputs() -> None:
    out = merge([rows(1, 2, times=[5, 6]), rows(), rows(3, times=[1])], SCHEMA)
    assert (out.rows["n"].to_pylist(), out.times.to_pylist()) == ([1, 2, 3], [5, 6, 1])


def test_merged_rows_take_names_and_order_of_the_schema() -> None:
    other = pa.RecordBatch.from_pydict({"N": pa.array([9], pa.int32()), "k": ["z"]})
    out = merge([rows(1), TimedRows(other, pa.array([0]))], SCHEMA)
    assert out.rows.to_pylist() == [{"k": "k1", "n": 1}, {"k": "z", "n": 9}]
    assert merge([], SCHEMA).rows.schema == SCHEMA
