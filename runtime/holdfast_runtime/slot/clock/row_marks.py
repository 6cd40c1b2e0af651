"""The marks of a task's rows: where the watermark of their partition stood at each, in the middle of a batch too.

As if rows came one by one, so that what looks at marks does not depend on where batches end. A source's watermark moves
with the event time of each row, that of an intermediate stream with the control messages between rows. Pure.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from holdfast.control.messages import EARLIEST, ControlMessage
from holdfast.control.watermark import Watermarks
from holdfast.times import MICROS_PER_MILLI, micros
from holdfast_runtime.slot.clock.task_clock import ClockInput, is_believed
from holdfast_runtime.slot.program import ClockSource
from holdfast_runtime.steps.context import UNKNOWN
from holdfast_runtime.steps.timed_rows import RowOrigin, TimedRows

_Marks = npt.NDArray[np.int64]


def marked_rows(
    rows: TimedRows,
    source: ClockSource,
    before: Watermarks,
    messages: Sequence[tuple[int, ControlMessage]],
    clock_input: ClockInput,
) -> TimedRows:
    """Return the rows of one partition with their marks.

    `before`: the watermarks when the batch began; `messages`: those between the rows, with their offsets.
    """
    if len(rows.origins) != 1:
        return rows  # nothing was read
    (origin,) = rows.origins
    value = before.of(origin.partition)
    began, horizon = EARLIEST if value is None else value, clock_input.horizon(source.max_ahead)
    if source.producers is not None:
        believed = [(offset, message) for offset, message in messages if is_believed(message, horizon)]
        partition, rule = before.partitions[origin.partition], before.rule(origin.partition)
        path = partition.path((message for _, message in believed), rule, clock_input.now)
        marks = _behind_messages(began, path, [offset for offset, _ in believed], origin)
    elif source.lateness is not None:
        marks = _behind_rows(began, rows.times, source.lateness, horizon)
    else:
        return rows
    return TimedRows(rows.rows, rows.times, rows.origins, pa.array(marks, mask=marks == EARLIEST))


def _behind_rows(began: int, times: pa.Int64Array, lateness: int, horizon: int | None) -> _Marks:
    """Return marks that move with each row, unless it has no event time or one that is not believed."""
    latest = times.fill_null(UNKNOWN).to_numpy()
    moving = latest > UNKNOWN if horizon is None else (latest > UNKNOWN) & (latest <= micros(horizon))
    reached = np.where(moving, latest // MICROS_PER_MILLI - lateness, EARLIEST)
    return _rising(np.maximum(reached, began))


def _behind_messages(began: int, path: Sequence[int | None], offsets: Sequence[int], origin: RowOrigin) -> _Marks:
    """Return marks that move with the messages at these offsets."""
    reached = _rising([began, *(EARLIEST if mark is None else mark for mark in path)])
    row_marks: _Marks = reached[np.searchsorted(np.array(offsets, np.int64), origin.offsets.to_numpy())]
    return row_marks


def _rising(values: npt.ArrayLike) -> _Marks:
    risen: _Marks = np.maximum.accumulate(np.asarray(values, np.int64))
    return risen
