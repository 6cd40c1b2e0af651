"""Why: a user's function over whole batches, whose result is held to what the step declared before anyone relies on it.

Event times: where the step `keeps` the column they came from, they are read from it again. Otherwise a function that
gives as many rows as it took keeps them row by row. With any other number nobody can tell which row came from which, so
all get the earliest event time of the batch: a later one could put a row behind what it was made of. Must not load the
function, or hide whose failure it was.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from holdfast_runtime.steps.failures import ColumnValueError, FunctionResultError, UserFunctionError
from holdfast_runtime.steps.timed_rows import TimedRows
from holdfast_runtime.streams.codecs import event_time_ms
from holdfast_runtime.streams.codecs.codec import listed
from holdfast_runtime.streams.codecs.times import outside_years


@dataclass(frozen=True, slots=True)
class UserFunction:
    """A function that a step calls, and what the step promises of its result."""

    step: str
    path: str
    """As the spec names it, `package.module:function`."""
    call: Callable[..., Any]
    schema: pa.Schema
    """The columns that come out."""
    event_time: str | None = None
    """One of them that the function keeps, and that is the event time of its rows."""

    def __str__(self) -> str:
        return f"{self.path} (step {self.step})"


def apply(function: UserFunction, given: TimedRows) -> TimedRows:
    """What the function makes of the rows. It is not called without rows."""
    if not given.count:
        return TimedRows.nothing(function.schema)
    rows = checked_result(function, call_function(function, given.rows))
    if function.event_time is not None:
        return TimedRows(rows, event_time_ms(rows, function.event_time))
    if rows.num_rows == given.count:
        return TimedRows(rows, given.times, given.origins)
    earliest = pc.min(given.times)
    return TimedRows(rows, pa.repeat(earliest, rows.num_rows))


def call_function(function: UserFunction, *arguments: Any) -> Any:
    """What the function gives; what it raises is said to be its own, with the lines where."""
    try:
        return function.call(*arguments)
    except Exception as error:
        raise UserFunctionError.raised(error, function.step, function.path) from error


def checked_result(function: UserFunction, result: Any) -> pa.RecordBatch:
    """The result as rows of the declared columns, found by name in any order; values must fit their types."""
    if isinstance(result, pa.Table):
        result = _one_batch(result)
    if not isinstance(result, pa.RecordBatch):
        message = f"{function} gave a {type(result).__name__}; it must return a pyarrow.RecordBatch (or Table)"
        raise FunctionResultError(message)
    names, wanted = result.schema.names, function.schema.names
    if sorted(names) != sorted(wanted):
        message = (
            f"{function} gave the columns ({listed(result.schema)}), but the step declares "
            f"({listed(function.schema)}){_difference(names, wanted)}; return these columns, or change the schema"
        )
        raise FunctionResultError(message)
    columns = [_cast(function, result.column(field.name), field) for field in function.schema]
    return pa.RecordBatch.from_arrays(columns, schema=function.schema)


def _cast(function: UserFunction, column: pa.Array, field: pa.Field) -> pa.Array:
    try:
        made = column if column.type == field.type else column.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        message = (
            f"{function} gave column {field.name} as {column.type}, which does not become {field.type}, the type the "
            f"step declares: {error}"
        )
        if isinstance(error, pa.ArrowInvalid):
            raise ColumnValueError(message, field.name) from error
        raise FunctionResultError(message) from error
    path = outside_years(made, field.name)
    if path is not None:
        message = f"{function} gave a time outside of the years 1 to 9999 in column {path}, which no step can use"
        raise FunctionResultError(message)
    return made


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    columns = [column.combine_chunks() for column in table.columns]
    return pa.RecordBatch.from_arrays(columns, schema=table.schema)


def _difference(names: list[str], wanted: list[str]) -> str:
    missing = [name for name in wanted if name not in names]
    extra = [name for name in names if name not in wanted]
    parts = [f"{', '.join(missing)} missing"] if missing else []
    parts += [f"{', '.join(extra)} not declared"] if extra else []
    parts = parts or ["some twice"]
    return f": {', '.join(parts)}"
