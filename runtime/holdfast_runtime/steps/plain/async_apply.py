"""The verb `apply` with `concurrency`: a coroutine for each row, so many at a time, with results in the order of rows.

A call that fails or takes too long is repeated, with pauses that double. A batch ends when all its calls have: none is
under way between batches, so that nothing of them is kept, and a batch that is run again calls again. Each result is
made of one row, whose event time, mark and origin it has. Must not load the function, or write dead letters.
"""

import asyncio
import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from holdfast.spec.steps import Apply
from holdfast.spec.values import millis
from holdfast_runtime.steps.failures import (
    FailedRow,
    FailedRows,
    FunctionResultError,
    UserFunctionError,
    no_row_is_to_blame,
    reason,
    row_named,
)
from holdfast_runtime.steps.outcome import StepOutcome
from holdfast_runtime.steps.plain.apply import UserFunction
from holdfast_runtime.steps.plain.event_loop import awaited
from holdfast_runtime.steps.row_dicts import RowFault, TimeUnusableError, result_rows, row_dicts, short
from holdfast_runtime.steps.timed_rows import TimedRows
from holdfast_runtime.streams.codecs import event_times

USUAL_TIMEOUT = "30s"
_LONGEST_PAUSE = 10.0

Dicts = Sequence[dict[str, Any]]
_Answer = Dicts | BaseException
"""The rows that a call gave, or why it has failed at last."""


class CallTimeoutError(Exception):
    """A call has taken longer than the step's `timeout`."""


@dataclass(frozen=True, slots=True)
class CallLimits:
    """How a service is called; times are in seconds."""

    concurrency: int
    timeout: float
    retries: int = 0
    first_pause: float = 0.1

    @classmethod
    def of(cls, verb: Apply) -> "CallLimits | None":
        """Return the limits that a step declares; None if it does not call row by row."""
        if verb.concurrency is None:
            return None
        return cls(verb.concurrency, millis(verb.timeout or USUAL_TIMEOUT) / 1000, verb.retries or 0)


def apply_each(function: UserFunction, limits: CallLimits, rows: TimedRows, *, apart: bool) -> StepOutcome:
    """Call for each row. `apart`: failing rows are put aside; otherwise an error names the first one."""
    if not rows.count:
        return StepOutcome(TimedRows.nothing(function.schema))
    answers = awaited(_Calls(function, limits, rows, apart=apart).run())
    for row, answer in enumerate(answers):
        if isinstance(answer, MemoryError) or (isinstance(answer, Exception) and no_row_is_to_blame(answer)):
            raise answer
        if isinstance(answer, BaseException) and not apart:
            raise _named(function, rows, row, answer)
    result = result_rows(list(chain.from_iterable(_dicts(answers))), function.schema)
    if isinstance(result, RowFault):
        for row, dicts in enumerate(_dicts(answers)):
            if isinstance(fault := result_rows(dicts, function.schema), RowFault):
                error = answers[row] = FunctionResultError(f"{function}: {fault.message}")
                if not apart:
                    raise _named(function, rows, row, error)
        result = result_rows(list(chain.from_iterable(_dicts(answers))), function.schema)
    assert isinstance(result, pa.RecordBatch)  # noqa: S101 - the faulty ones are out
    failed = [
        FailedRow(row, _reason(answer)) for row, answer in enumerate(answers) if isinstance(answer, BaseException)
    ]
    return StepOutcome(_timed(function, result, rows, answers), failed=[FailedRows(rows, failed)] if apart else [])


def _dicts(answers: Sequence[_Answer]) -> Iterator[Dicts]:
    return (() if isinstance(answer, BaseException) else answer for answer in answers)


def _timed(function: UserFunction, result: pa.RecordBatch, rows: TimedRows, answers: Sequence[_Answer]) -> TimedRows:
    counts = np.array([len(dicts) for dicts in _dicts(answers)])
    if (counts <= 1).all():
        source = rows if counts.all() else rows.where(counts == 1)
        times, origins, marks = source.times, source.origins, source.marks
    else:
        indices = pa.array(np.repeat(np.arange(rows.count), counts))
        times, origins, marks = rows.times.take(indices), (), rows.marks and rows.marks.take(indices)
    if function.event_time is not None:
        times = event_times(result, function.event_time)
    return TimedRows(result, times, origins, marks)


def _named(function: UserFunction, rows: TimedRows, row: int, error: BaseException) -> Exception:
    about = f" on the row {row_named(rows, row)}"
    if isinstance(error, FunctionResultError):
        return FunctionResultError(f"{error}{about}")
    named = UserFunctionError.raised(error, function.step, function.path, about)
    named.__cause__ = error
    return named


def _reason(error: BaseException) -> str:
    if isinstance(error, FunctionResultError | TimeUnusableError):
        return str(error)
    raised = UserFunctionError("", "", "")
    raised.__cause__ = error
    return reason(raised)


class _Calls:
    """The calls for the rows of one batch."""

    def __init__(self, function: UserFunction, limits: CallLimits, rows: TimedRows, *, apart: bool) -> None:
        self._function, self._limits, self._rows, self._apart = function, limits, rows, apart
        self._answers: list[_Answer | None] = [None] * rows.count
        self._waiting = iter(range(rows.count))
        try:
            self._fresh: list[dict[str, Any] | None] = [*row_dicts(rows.rows)]
        except TimeUnusableError:
            self._fresh = [None] * rows.count

    async def run(self) -> list[_Answer]:
        """Return the answer for each row; behind a failure that ends the batch, those of rows without one are empty."""
        callers = [
            asyncio.ensure_future(self._call_next()) for _ in range(min(self._limits.concurrency, self._rows.count))
        ]
        try:
            await asyncio.wait(callers, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            for caller in callers:
                caller.cancel()
            outcomes = await asyncio.gather(*callers, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, Exception) and not isinstance(outcome, _StoppedError):
                raise outcome
        return [() if answer is None else answer for answer in self._answers]

    async def _call_next(self) -> None:
        """Call for the rows that nobody has called for yet, one after the other."""
        for row in self._waiting:
            answer = self._answers[row] = await self._answer(row)
            if isinstance(answer, BaseException) and not self._apart:
                raise _StoppedError

    async def _answer(self, row: int) -> _Answer:
        pause = self._limits.first_pause
        for tries_left in range(self._limits.retries, -1, -1):
            try:
                return await self._called(row)
            except (FunctionResultError, TimeUnusableError, MemoryError) as error:
                return error
            except asyncio.CancelledError as error:
                if (caller := asyncio.current_task()) is None or caller.cancelling():
                    raise
                return error
            except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a user's function raises
                if not tries_left:
                    return error
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        raise AssertionError

    async def _called(self, row: int) -> Dicts:
        argument, self._fresh[row] = self._fresh[row], None
        if argument is None:
            # Anew for each call: the one before may have changed what is inside.
            (argument,) = row_dicts(self._rows.rows.slice(row, 1), f"step {self._function.step}: ")
        called = self._function.call(argument)
        if not inspect.isawaitable(called):
            message = f"{self._function} is no coroutine; write async def, or leave concurrency out for Arrow batches"
            raise FunctionResultError(message)
        try:
            async with asyncio.timeout(self._limits.timeout) as within:
                answer = await called
        except TimeoutError as error:
            if not within.expired():
                raise
            message = f"no answer within {self._limits.timeout:g} s"
            raise CallTimeoutError(message) from error
        if answer is None:
            return ()
        dicts = [answer] if isinstance(answer, dict) else answer
        if not isinstance(dicts, list | tuple) or not all(isinstance(item, dict) for item in dicts):
            message = f"{self._function} gave {short(answer)}; it gives a row, as a dict, a list of rows, or None"
            raise FunctionResultError(message)
        return dicts


class _StoppedError(Exception):
    """A row has failed, and the batch with it."""
