"""What a topic takes: how large a record may be, and which timestamps.

A value that is asked for once per attempt and travels to every slot with the program. Must not ask anybody.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

ANY_TIME = 2**63 - 1
DEFAULT_AHEAD = 3_600_000
"""How far ahead of its clock a broker takes timestamps where nobody has set it otherwise: milliseconds."""
_MARGIN = 300_000
"""How far a broker's clock may be from this one, and how long a transaction may be tried again: milliseconds."""


@dataclass(frozen=True, slots=True)
class TopicLimits:
    """The limits of one topic."""

    record_bytes: int | None = None
    """Limit of a batch of records as sent; None if unknown."""
    ahead: int = DEFAULT_AHEAD
    """Milliseconds that a timestamp may be ahead of the broker's clock."""
    behind: int = ANY_TIME
    """Milliseconds that it may be behind that clock."""

    def timestamps(self, times: pa.Array, now: int) -> pa.Array:
        """Return the nearest timestamps the topic accepts. A row keeps its own time in its column."""
        lowest = max(
            1, now - self.behind + min(_MARGIN, self.behind)
        )  # for Kafka, 0 is "no time", and negative times are invalid
        highest = min(ANY_TIME, now + self.ahead - min(_MARGIN, self.ahead))
        values = times.to_numpy()
        if not len(values) or (values.min() >= lowest and values.max() <= highest):
            return times
        return pa.array(np.clip(values, lowest, highest))
