"""Why: how many rows a generator has made by now: a function of time alone, so that every restart finds the same.

Must not look at a clock.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]
_SECOND = 1000


@dataclass(frozen=True, slots=True)
class Pace:
    """So many rows up to a time, and so many a second from then on. The caller keeps it where a restart finds it."""

    rows_per_second: int
    since: int
    """Milliseconds since 1970."""
    before: int = 0
    """Rows made before `since`, over all partitions."""

    def total(self, now: int) -> int:
        """Rows over all partitions; a clock before `since` makes none."""
        return self.before + self.rows_per_second * max(0, now - self.since) // _SECOND

    def changed(self, rows_per_second: int, now: int) -> "Pace":
        """Another rate from now on; what was made stays made."""
        if rows_per_second == self.rows_per_second:
            return self
        return Pace(rows_per_second, max(now, self.since), self.total(now))

    def end(self, partition: int, partitions: int, now: int) -> int:
        """The end offset of a partition: rows are dealt to partitions in turn."""
        return max(0, self.total(now) - partition + partitions - 1) // partitions

    def due(self, rows: Numbers) -> Numbers:
        """When rows, counted over all partitions, were due; those from before `since`, at `since`."""
        return self.since + np.maximum(0, rows - self.before + 1) * _SECOND // self.rows_per_second
