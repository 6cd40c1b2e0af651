"""Rows from the future: event times farther ahead of the batch clock than `maxAhead` allows, and what is said of them.

One such row would carry the watermark along, and all that follow would be late until the clock is there. A clock that
is set wrong is far more likely than a true time, so it moves nothing. Must not decide what becomes of the rows.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.moments import event_moment, time_span
from holdfast.spec.streams import EventTime
from holdfast.spec.values import millis
from holdfast_runtime.streams.codecs.codec import Indices


@dataclass(frozen=True, slots=True)
class FarAheadRows:
    """What is too far ahead among some rows."""

    rows: Indices
    """Which."""
    latest: int | None
    """The latest event time of all others."""
    reason: Callable[[int], str]
    """Why a row is among them."""


def far_ahead(times: pa.Int64Array, declared: EventTime | None, now: int) -> FarAheadRows:
    """What is too far ahead of the batch clock; nothing in a stream that declares no event time."""
    if declared is None:
        return FarAheadRows(np.empty(0, np.int64), _latest(times), lambda _: "")
    beyond = pc.greater(times, now + millis(declared.max_ahead)).fill_null(False)  # noqa: FBT003 - Arrow's own
    rows = np.flatnonzero(beyond.to_numpy(zero_copy_only=False))
    believed = times.filter(pc.invert(beyond)) if len(rows) else times

    def reason(row: int) -> str:
        time = times[row].as_py()
        return (
            f"{declared.column} is {event_moment(time)}, {time_span(time - now)} ahead of the clock, and "
            f"eventTime.maxAhead is {declared.max_ahead}"
        )

    return FarAheadRows(rows, _latest(believed), reason)


def _latest(times: pa.Int64Array) -> int | None:
    return None if times.null_count == len(times) else pc.max(times).as_py()
