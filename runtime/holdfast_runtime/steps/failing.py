"""Rows on which an `apply` step fails: the first is named and stops the app, or each becomes a dead letter.

The function sees whole batches, so which of their rows it can't take is found by calling it again with ever smaller
parts: only after a failure, with at most twice the logarithm of the batch in calls for each failing row. What is wrong
with any rows, such as columns that the step does not declare, is no row's failure. Must not write letters.
"""

from dataclasses import dataclass, field

from holdfast_runtime.steps.apply import UserFunction, apply
from holdfast_runtime.steps.failures import ColumnValueError, UserFunctionError, out_of_memory, reason
from holdfast_runtime.steps.letters import FailedRow, row_named
from holdfast_runtime.steps.timed_rows import TimedRows

Failure = UserFunctionError | ColumnValueError


def apply_or_name(function: UserFunction, given: TimedRows) -> TimedRows:
    """What the function makes of the rows; where it fails, the error names the first row that it fails on alone."""
    try:
        return apply(function, given)
    except (UserFunctionError, ColumnValueError) as error:
        if out_of_memory(error) or (found := _first(function, given)) is None:
            raise
        row, own = found
        raise _naming(function, given, row, own) from own.__cause__


def apply_apart(function: UserFunction, given: TimedRows) -> tuple[TimedRows, list[FailedRow]]:
    """What the function makes of the rows it can take, in their order, and those it can't."""
    apart = _Apart(function, given)
    apart.run(0, given.count)
    return TimedRows.joined(apart.made, function.schema), apart.failed


@dataclass(slots=True)
class _Apart:
    """Rows taken to pieces."""

    function: UserFunction
    given: TimedRows
    made: list[TimedRows] = field(default_factory=list)
    failed: list[FailedRow] = field(default_factory=list)

    def run(self, start: int, end: int) -> None:
        """The rows from `start` to before `end`; halves of them where that fails."""
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
            self.made.append(apply(self.function, self.given.part(start, end)))
        except (UserFunctionError, ColumnValueError) as error:
            if out_of_memory(error):
                raise
            return error
        return None


def _first(function: UserFunction, given: TimedRows) -> tuple[int, Failure] | None:
    """The first row that the function fails on alone, if it is one row's failure at all."""
    start, end = 0, given.count
    while end - start > 1:
        middle = (start + end) // 2
        start, end = (start, middle) if _fails(function, given.part(start, middle)) else (middle, end)
    error = _fails(function, given.part(start, end))
    return None if error is None else (start, error)


def _fails(function: UserFunction, part: TimedRows) -> Failure | None:
    try:
        apply(function, part)
    except (UserFunctionError, ColumnValueError) as error:
        return error
    return None


def _naming(function: UserFunction, given: TimedRows, row: int, error: Failure) -> Failure:
    about = f" on the row {row_named(given, row)}"
    if isinstance(error, ColumnValueError):
        return ColumnValueError(f"{error}. It fails{about}", error.column)
    return UserFunctionError.raised(error.__cause__ or error, function.step, function.path, about)
