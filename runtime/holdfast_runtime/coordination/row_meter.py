"""The meter of a driver's rows: what was read and written by stream since the report before, as rows a second.

It counts whole batches: from the end of the last one that is reported to the end of the last one that is counted. So
rates are right whether batches take milliseconds or minutes, with pauses between them. A new attempt has a new meter,
which counts from 0. Times are seconds of a clock that nobody sets. Must not read a clock.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from heapq import nsmallest

from holdfast.protocol.report import MOST_STREAMS, RowRates

_PAUSE = 10.0
"""Seconds without the end of a batch after which nothing flows any more, or twice what is usual for the app."""
_LONGEST = 300.0
"""Seconds: a batch that takes longer, as of an app that catches up, says nothing of the next one."""
_DIGITS = 3
_SHORTEST = 0.001


@dataclass(slots=True)
class RowMeter:
    """The meter of one attempt. Not thread-safe."""

    began: float
    """When the attempt began."""
    interval: float = 0.0
    """Seconds between batches, as the app wants them."""
    _since: float = field(init=False)
    _until: float = field(init=False)
    _seconds: float = 0.0
    """How long the last batch took."""
    _counted: bool = False
    """Whether a batch was counted since the last rates."""
    _read: dict[str, int] = field(default_factory=dict)
    _written: dict[str, int] = field(default_factory=dict)
    _rates: RowRates | None = None

    def __post_init__(self) -> None:
        self._since = self._until = self.began

    def count(self, now: float, seconds: float, read: Mapping[str, int], written: Mapping[str, int]) -> None:
        """Count a batch that ends now and took so many seconds."""
        start, pause = now - seconds, max(_PAUSE, 2 * self.interval)
        # Of a long pause only so much is time of what follows it.
        if start - self._until > pause and not self._counted:
            self._since = start - pause
        for total, counts in ((self._read, read), (self._written, written)):
            for stream, rows in counts.items():
                total[stream] = total.get(stream, 0) + rows
        self._until, self._seconds, self._counted = now, seconds, True

    def idle(self, now: float) -> bool:
        """Return whether no batch has ended for so long that nothing flows, also if one waits for a broker."""
        usual = max(2 * self.interval, min(2 * self._seconds, _LONGEST))
        return not self._counted and now - self._until > max(_PAUSE, usual)

    def rates(self, now: float) -> RowRates | None:
        """Return the rates since the last call; the same as then if no batch has ended. None: none has yet."""
        if self._counted:
            seconds = max(self._until - self._since, _SHORTEST)
            self._rates = RowRates(_rates(self._read, seconds), _rates(self._written, seconds))
            self._read, self._written, self._since, self._counted = {}, {}, self._until, False
        elif self._rates is not None and self.idle(now):
            self._rates = RowRates()
        return self._rates


def _rates(counts: Mapping[str, int], seconds: float) -> dict[str, float]:
    """The rates of the streams with the most rows; a stream without rows has none."""
    most = nsmallest(MOST_STREAMS, ((-rows, stream) for stream, rows in counts.items() if rows))
    return {stream: float(f"{-rows / seconds:.{_DIGITS}g}") for rows, stream in most}
