"""The verb `apply`: a user function over whole batches, the check of its result, and the search for failing rows.

The result is checked against what the step declares before anyone relies on it. Event times: if the step `keeps` the
event-time column, they are read from it again. Otherwise a function that returns as many rows as it took keeps them row
by row. With any other number nobody can tell which row came from which, so all get the earliest time of the batch: a
later one could put a row behind the rows it was made of. Failing rows are searched only after a failure, by calling
again with ever smaller parts: at most twice the logarithm of the batch in calls per failing row. A fault of the whole
result, such as undeclared columns, is not a row's failure. Must not load the function, hide whose failure it was, or
write dead letters.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from holdfast_runtime.steps.failures import (
    ColumnValueError,
    FailedRow,
    FailedRows,
    FunctionResultError,
    UserFunctionError,
    no_row_is_to_blame,
    reason,
    row_named,
)
from holdfast_runtime.steps.outcome import StepOutcome
from holdfast_runtime.steps.timed_rows import TimedRows
from holdfast_runtime.streams.codecs import event_times
from holdfast_runtime.streams.codecs.arrow_types import outside_years
from holdfast_runtime.streams.codecs.codec import listed
from holdfast_runtime.streams.records import stacked


@dataclass(frozen=True, slots=True)
class UserFunction:
    """A function that a step calls, and what the step declares of its result."""

    step: str
    path: str
    """The function as the spec names it, `package.module:function`."""
    call: Callable[..., Any]
    schema: pa.Schema
    """The columns of the result."""
    event_time: str | None = None
    """The event-time column, if the function keeps it."""

    def __str__(self) -> str:
        return f"{self.path} (step {self.step})"


def apply(function: UserFunction, input_rows: TimedRows) -> TimedRows:
    """Call the function on the rows and return its checked result. Without rows it is not called."""
    if not input_rows.count:
        return TimedRows.nothing(function.schema)
    return timed_result(function, call_function(function, input_rows.rows), input_rows)


def timed_result(function: UserFunction, result: Any, input_rows: TimedRows) -> TimedRows:
    """Return the checked result of a call for these rows, with its event times."""
    rows = checked_result(function, result)
    marks = input_rows.marks if rows.num_rows == input_rows.count else None
    if function.event_time is not None:
        return TimedRows(rows, event_times(rows, function.event_time), marks=marks)
    if rows.num_rows == input_rows.count:
        return TimedRows(rows, input_rows.times, input_rows.origins, marks)
    earliest = pc.min(input_rows.times)
    return TimedRows(rows, pa.repeat(earliest, rows.num_rows))


def call_function(function: UserFunction, *arguments: Any) -> Any:
    """Call the function. Whatever it raises becomes a `UserFunctionError` with the lines of the user's code."""
    try:
        return function.call(*arguments)
    except Exception as error:
        raise UserFunctionError.raised(error, function.step, function.path) from error


def checked_result(function: UserFunction, result: Any) -> pa.RecordBatch:
    """Return the result as rows of the declared columns, matched by name; values must fit their types."""
    if isinstance(result, pa.Table):
        result = stacked(result.to_batches(), result.schema, f"the rows that {function} gave")
    if not isinstance(result, pa.RecordBatch):
        message = f"{function} gave a {type(result).__name__}; it must return a pyarrow.RecordBatch (or Table)"
        raise FunctionResultError(message)
    names, declared = result.schema.names, function.schema.names
    if sorted(names) != sorted(declared):
        message = (
            f"{function} gave the columns ({listed(result.schema)}), but the step declares "
            f"({listed(function.schema)}){_difference(names, declared)}; return these columns, or change the schema"
        )
        raise FunctionResultError(message)
    columns = [_cast(function, result.column(field.name), field) for field in function.schema]
    return pa.RecordBatch.from_arrays(columns, schema=function.schema)


def _cast(function: UserFunction, column: pa.Array, field: pa.Field) -> pa.Array:
    try:
        values = column if column.type == field.type else column.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        message = (
            f"{function} gave column {field.name} as {column.type}, which does not become {field.type}, the type the "
            f"step declares: {error}"
        )
        if isinstance(error, pa.ArrowInvalid):
            raise ColumnValueError(message, field.name) from error
        raise FunctionResultError(message) from error
    path = outside_years(values, field.name)
    if path is not None:
        message = f"{function} gave a time outside of the years 1 to 9999 in column {path}, which no step can use"
        raise FunctionResultError(message)
    return values


def _difference(names: list[str], declared: list[str]) -> str:
    missing = [name for name in declared if name not in names]
    extra = [name for name in names if name not in declared]
    parts = [f"{', '.join(missing)} missing"] if missing else []
    parts += [f"{', '.join(extra)} not declared"] if extra else []
    parts = parts or ["some twice"]
    return f": {', '.join(parts)}"


Failure = UserFunctionError | ColumnValueError


def apply_or_name(function: UserFunction, rows: TimedRows) -> StepOutcome:
    """Apply the function; its error names the first row on which it fails by itself."""
    try:
        return StepOutcome(apply(function, rows))
    except (UserFunctionError, ColumnValueError) as error:
        if no_row_is_to_blame(error) or (first_failure := _first(function, rows)) is None:
            raise
        row, failure = first_failure
        raise _naming(function, rows, row, failure) from failure.__cause__


def apply_apart(function: UserFunction, rows: TimedRows) -> StepOutcome:
    """Apply the function to the rows it accepts, in their order, and put aside the rows it fails on."""
    apart = _Apart(function, rows)
    apart.run(0, rows.count)
    return StepOutcome(TimedRows.joined(apart.made, function.schema), failed=[FailedRows(rows, apart.failed)])


@dataclass(slots=True)
class _Apart:
    """Rows split into ever smaller parts to find the failing ones."""

    function: UserFunction
    rows: TimedRows
    made: list[TimedRows] = field(default_factory=list)
    failed: list[FailedRow] = field(default_factory=list)

    def run(self, start: int, end: int) -> None:
        """Apply the function to the rows from `start` to before `end`; if it fails, to each half."""
        error = self._tried(start, end)
        if error is None:
            return
        if end - start == 1:
            self.failed.append(FailedRow(start, reason(error), getattr(error, "column", None)))
            return
        middle = (start + end) // 2
        self.run(start, middle)
        self.run(middle, end)

    def _tried(self, start: int, end: int) -> Failure | None:
        try:
            self.made.append(apply(self.function, self.rows.part(start, end)))
        except (UserFunctionError, ColumnValueError) as error:
            if no_row_is_to_blame(error):
                raise
            return error
        return None


def _first(function: UserFunction, rows: TimedRows) -> tuple[int, Failure] | None:
    """Return the first row on which the function fails by itself, or None if no single row is to blame."""
    start, end = 0, rows.count
    while end - start > 1:
        middle = (start + end) // 2
        start, end = (start, middle) if _fails(function, rows.part(start, middle)) else (middle, end)
    error = _fails(function, rows.part(start, end))
    return None if error is None else (start, error)


def _fails(function: UserFunction, part: TimedRows) -> Failure | None:
    try:
        apply(function, part)
    except (UserFunctionError, ColumnValueError) as error:
        return error
    return None


def _naming(function: UserFunction, rows: TimedRows, row: int, error: Failure) -> Failure:
    about = f" on the row {row_named(rows, row)}"
    if isinstance(error, ColumnValueError):
        return ColumnValueError(f"{error}. It fails{about}", error.column)
    return UserFunctionError.raised(error.__cause__ or error, function.step, function.path, about)
