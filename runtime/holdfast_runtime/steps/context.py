"""Why: the times a step may know: those of the batch, so that a replay sees the same. Must not read any clock."""

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

_EARLIEST, _LATEST = -(2**63), 2**63 - 1


@dataclass(frozen=True, slots=True)
class StepClock:
    """One batch's times for one step, in milliseconds since 1970."""

    now: int
    """Processing time: the batch clock, by which timers and ttl are measured."""
    watermark: int | None
    """Of event time, after the rows of this batch: timers fire by it; None: none yet."""
    ended: bool = False
    """No row will come any more: all event time has passed."""
    before: int | None = None
    """The watermark before this batch: what rows were promised not to be earlier than."""
    horizon: int | None = None
    """The latest event time that is believed; None: any is."""
    skew: int = 0
    """How far the batch clock is ahead of the host's."""

    @property
    def wall(self) -> int:
        """Processing time as the host's clock has it."""
        return self.now - self.skew

    def late(self, times: pa.Int64Array) -> pa.BooleanArray:
        """Which rows with these event times are late: behind the watermark, or farther ahead than is believed."""
        behind = pc.less(times, _EARLIEST if self.before is None else self.before)
        ahead = pc.greater(times, _LATEST if self.horizon is None else self.horizon)
        return pc.or_(behind, ahead).fill_null(False)  # noqa: FBT003 - Arrow's own
