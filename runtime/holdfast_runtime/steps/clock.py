"""Why: the time a step may know: that of the batch, so that a replay sees the same. Must not read any clock."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Clock:
    """One batch's times, in milliseconds since 1970."""

    now: int
    """Processing time."""
    watermark: int | None
    """Of event time, after the rows of this batch; None: none yet."""
    ended: bool = False
    """No row will come any more: all event time has passed."""
