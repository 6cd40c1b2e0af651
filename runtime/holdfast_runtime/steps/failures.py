"""Failures of a user function in a step: typed errors, the failed row, and its dead letter.

Errors name the step and the function and keep the last frames of the user's own traceback, so that the user finds the
line to change; frames of Holdfast would only hide them. A dead letter has the row, the reason, the step, and where the
row was read, if known. Must not decide what happens next: the step stops the batch or puts the row aside.
"""

import re
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from holdfast.errors import HoldfastError, UserActionError
from holdfast.spec.steps import Step
from holdfast_runtime.functions import UnknownTableError
from holdfast_runtime.steps.timed_rows import TimedRows
from holdfast_runtime.streams.codecs import DEAD_LETTER_SCHEMA, EncodeError, codec_for
from holdfast_runtime.worker_resources import WorkerSetUpError

_OURS = str(Path(__file__).parents[1])
_FRAMES = 5
_LONGEST_REASON = 1000
_OF_THE_WORKER = (MemoryError, WorkerSetUpError, UnknownTableError)
_CURE = (
    "correct the function and run again, filter out the rows it can't take, or put them aside: onError: DeadLetter of "
    "the step"
)
_CURE_OF_SET_UP = "see that the worker can set it up, and run again; no row is put aside for it"


class UserFunctionError(UserActionError):
    """A user function raised an exception."""

    def __init__(self, message: str, step: str, function: str, frames: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.step = step
        self.function = function
        self.frames = frames
        """The innermost frames of the user's code, the failing one last."""

    def __reduce__(self) -> tuple[type, tuple[str, str, str, tuple[str, ...]]]:
        """Pickle all fields, because the error travels from a worker process to the driver."""
        return type(self), (str(self), self.step, self.function, self.frames)

    @classmethod
    def raised(cls, error: BaseException, step: str, function: str, about: str = "") -> "UserFunctionError":
        """Build the error from the exception of a user function; `about` says what the call was for, ` for key 'a'`.

        What Holdfast has raised because a table can't be read now is no failure of the function, and raised again.
        """
        if _of_holdfast(error):
            raise error
        frames = user_frames(error)
        source_line = f" at {frames[-1].split(', in ')[0]}" if frames else ""
        frame_lines = "".join(f"\n  {frame}" for frame in frames)
        message = (
            f"step {step}: {function} failed{about}{source_line}: {_error_text(error)}{frame_lines}\n"
            f"{_CURE_OF_SET_UP if isinstance(error, WorkerSetUpError) else _CURE}"
        )
        return cls(message, step, function, frames)


class FunctionResultError(UserActionError):
    """A user function returned what its step can't use: an unknown column, a wrong type, something other than rows."""


class ColumnValueError(FunctionResultError):
    """A user function returned a value that its column can't hold; other rows may be good."""

    def __init__(self, message: str, column: str) -> None:
        super().__init__(message)
        self.column = column

    def __reduce__(self) -> tuple[type, tuple[str, str]]:
        """Pickle all fields, because the error travels from a worker process to the driver."""
        return type(self), (str(self), self.column)


def reason(error: Exception) -> str:
    """Return in one line what a function raised and where, or what is wrong with its result."""
    raised = error.__cause__ if isinstance(error, UserFunctionError) else None
    if raised is None:
        return _shortened(str(error) if isinstance(error, UserActionError) else _error_text(error))
    frames = user_frames(raised)
    source_line = f" at {frames[-1].split(', in ')[0]}" if frames else ""
    return _shortened(f"{_error_text(raised)}{source_line}")


def no_row_is_to_blame(error: Exception) -> bool:
    """Whether it is the host's memory, or what functions need, rather than a row."""
    return any(isinstance(each, _OF_THE_WORKER) or _of_holdfast(each) for each in (error, error.__cause__))


def _of_holdfast(error: BaseException | None) -> bool:
    return isinstance(error, HoldfastError) and not isinstance(error, UserActionError)


def user_frames(error: BaseException) -> tuple[str, ...]:
    """Return the innermost frames outside Holdfast and libraries, as `file:line, in function: source`."""
    outside = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(_OURS)]
    frames = [frame for frame in outside if not _is_library(frame.filename)] or outside
    return tuple(
        f"{frame.filename}:{frame.lineno}, in {frame.name}" + (f": {frame.line}" if frame.line else "")
        for frame in frames[-_FRAMES:]
    )


def _is_library(file: str) -> bool:
    return "site-packages" in file or file.endswith((".pxi", ".pyx"))


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_REASON else f"{text[:_LONGEST_REASON]}..."


def _error_text(error: BaseException) -> str:
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


_LONGEST = 200


@dataclass(frozen=True, slots=True)
class FailedRow:
    """A row that a step can't process, or a failed call without rows."""

    row: int | None
    """Its index in `FailedRows.rows`; None for a call for the timers of a key."""
    reason: str
    column: str | None = None
    """The column that could not be computed, if one is to blame."""
    key: bytes | None = None
    """The key the function was called for, as in stream records."""


@dataclass(frozen=True, slots=True)
class FailedRows:
    """The rows that a step failed on, among others."""

    rows: TimedRows
    failures: Sequence[FailedRow]
    """Which of these rows it failed on, and why."""


def not_computed(step: Step, column: str | None, why: str) -> str:
    """Return why a row was put aside for which a column, or without one the `filter` of a step, can't be computed."""
    if column is None:
        return f"the filter {step.filter} can't be computed for this row: {why}"
    named = re.compile(rf".*\sAS\s+`?{re.escape(column)}`?\s*", re.IGNORECASE | re.DOTALL)
    items = [item for item in step.select or () if named.fullmatch(item)]
    return f"{items[0] if items else f'column {column}'} can't be computed for this row: {why}"


def letters_of(step: str, failed: FailedRows) -> pa.RecordBatch:
    """Return the dead letters of rows that a step failed on. The value of each is the row as JSON."""
    failures, rows = failed.failures, [failure.row for failure in failed.failures]
    origins = [None if row is None else failed.rows.origin(row) for row in rows]
    columns: dict[str, list[object] | pa.Array] = {
        "reason": [failure.reason for failure in failures],
        "stream": [None if origin is None else origin[0].stream for origin in origins],
        "partition": [None if origin is None else origin[0].partition for origin in origins],
        "offset": [None if origin is None else origin[1] for origin in origins],
        "key": [failure.key for failure in failures],
        "value": row_texts(failed.rows.rows, rows),
        "step": [step] * len(failures),
        "column": [failure.column for failure in failures],
    }
    return pa.RecordBatch.from_arrays(
        [
            pa.nulls(len(failures), field.type)
            if (values := columns.get(field.name)) is None
            else pa.array(values, field.type)
            for field in DEAD_LETTER_SCHEMA
        ],
        schema=DEAD_LETTER_SCHEMA,
    )


def row_texts(rows: pa.RecordBatch, row_numbers: Sequence[int | None]) -> list[object]:
    """Return these rows as JSON, None for a None or for a row that JSON can't express."""
    present = [row for row in row_numbers if row is not None]
    if not present:
        return [None] * len(row_numbers)
    texts = iter(_texts(rows.take(pa.array(np.array(present)))))
    return [None if row is None else next(texts) for row in row_numbers]


def _texts(rows: pa.RecordBatch) -> list[object]:
    try:
        return codec_for("json", rows.schema).encode(rows).to_pylist()  # type: ignore[no-any-return]
    except EncodeError:
        # A row that can't be expressed must not hide why it failed, nor spoil the others.
        if rows.num_rows == 1:
            return [None]
        return [text for row in range(rows.num_rows) for text in _texts(rows.slice(row, 1))]


def row_named(rows: TimedRows, row: int) -> str:
    """Return the row for a message: its values, shortened, and where it was read, if known."""
    (text,) = row_texts(rows.rows, [row])
    shown = text.decode() if isinstance(text, bytes) else str(text)
    shown = shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}..."
    origin = rows.origin(row)
    return shown if origin is None else f"{shown} ({origin[0]}, offset {origin[1]})"
