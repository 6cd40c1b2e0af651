"""Late rows of a step that leaves them out, and the dead letters they become.

A step can't take a row behind the watermark before the batch, implausibly far ahead of the clock, or without the event
time it needs. A letter says which of these it was and names the watermark, which the row alone does not tell. Must not
decide which rows are late: each verb knows for how long it can take a row.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.times import Micros, event_moment, micros, row_moment
from holdfast_runtime.steps.context import StepClock
from holdfast_runtime.steps.failures import FailedRow, FailedRows, letters_of
from holdfast_runtime.steps.timed_rows import TimedRows


def late_or_untimed(times: pa.Int64Array, clock: StepClock) -> "npt.NDArray[np.bool_]":
    """Return which rows a step that needs event time can't take."""
    late = clock.late(times)
    return np.asarray((pc.or_(late, times.is_null()) if times.null_count else late).to_numpy(zero_copy_only=False))


@dataclass(frozen=True, slots=True)
class LateRows:
    """Rows that a step left out, because they were late or had no event time."""

    step: str
    """The name of the step, or of step and side."""
    rows: TimedRows
    """As the step was given them."""
    clock: StepClock
    """By which they were late."""
    loss: str
    """What the step no longer has for them: `its window has closed`."""


def late_letters(late: LateRows) -> pa.RecordBatch:
    """Return the dead letters of late rows."""
    times = late.rows.times.to_pylist()
    failures = [FailedRow(row, _reason(time, late.clock, late.loss)) for row, time in enumerate(times)]
    return letters_of(late.step, FailedRows(late.rows, failures))


def _reason(time: Micros | None, clock: StepClock, loss: str) -> str:
    if time is None:
        return "the row has no event time"
    if clock.horizon is not None and time > micros(clock.horizon):
        return f"{row_moment(time)} is farther ahead of the clock than eventTime.maxAhead lets it be"
    assert clock.before is not None  # noqa: S101 - without a watermark no row is behind it
    return f"{row_moment(time)} is behind the watermark of {event_moment(clock.before)}: {loss}"
