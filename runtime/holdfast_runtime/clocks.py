"""The clocks of the runtime: the host's clock, which only this module reads, and the batch clock, which never jumps.

    host's clock + skew = batch clock      measures timers, ttl, idle sources: never goes back, never jumps
    batch clock - skew = `state.now`       the time of day: it follows the host's clock, also back

A host's clock is sometimes set, by hand or by NTP. A batch clock that followed a jump ahead would drop all state that
has a ttl; after a jump back it would stand still until the host's clock caught up. So within an attempt the passed time
is measured by the clock that counts since the host's start, and the durable `skew` holds the difference. `BatchClock`
itself reads no clock. Must not be imported by steps, or by anything that a replay must repeat.
"""

import time
from dataclasses import dataclass

from holdfast.times import time_span

TOLERATED = 60_000
"""Milliseconds. Smaller jumps, as NTP makes them, are followed; after one back, the batch clock waits for that long."""


@dataclass(frozen=True, slots=True)
class Instant:
    """Two clocks, read at the same time; milliseconds."""

    wall: int
    """Since 1970, by the host's clock."""
    passed: int
    """Since some fixed moment, by a clock that nobody can set."""


@dataclass(frozen=True, slots=True)
class BatchTime:
    """A moment of the batch clock."""

    now: int
    skew: int = 0
    """How far it is ahead of the host's clock."""


@dataclass(slots=True)
class BatchClock:
    """The batch clock of one attempt."""

    _skew: int = 0
    _apart: int | None = None
    """The host's clock minus the other one, at the last reading."""

    def at(self, instant: Instant, last: BatchTime) -> tuple[BatchTime, str | None]:
        """Return the batch time now, given the last batch's, and a message if the host's clock has jumped."""
        message = self._begin(instant, last) if self._apart is None else self._go_on(instant)
        self._apart = instant.wall - instant.passed
        return BatchTime(max(instant.wall + self._skew, last.now), self._skew), message

    def _begin(self, instant: Instant, last: BatchTime) -> str | None:
        """Choose the skew: of those by which time has not gone back, the one by which less time has passed."""
        fitting = [skew for skew in (last.skew, 0) if instant.wall + skew >= last.now - TOLERATED]
        if fitting:
            self._skew = min(fitting)
            return None
        self._skew, back = last.now - instant.wall, last.now - last.skew - instant.wall
        return f"the host's clock is {time_span(back)} earlier than it was in the last batch. {_GOES_ON}"

    def _go_on(self, instant: Instant) -> str | None:
        jumped = instant.wall - instant.passed - (self._apart or 0)
        if abs(jumped) <= TOLERATED:
            return None
        self._skew -= jumped
        direction = "ahead" if jumped > 0 else "back"
        return f"the host's clock was put {direction} by {time_span(abs(jumped))}. {_GOES_ON}"


_GOES_ON = (
    "Timers of processing time, ttl and idleAfter go on by the time that has really passed, state.now follows the "
    "host's clock; look after the host's time service"
)


def now() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def instant() -> Instant:
    """Both clocks; the second keeps counting when the host's clock is set, and while the host sleeps."""
    return Instant(now(), time.clock_gettime_ns(_PASSED) // 1_000_000)


def steady() -> int:
    """Milliseconds since 1970: the host's clock at the start of the process, plus the time that has passed since.

    For what a changed clock must not cause: old runs deleted, ten years of rows generated, a log that stops.
    """
    return _BEGAN.wall + instant().passed - _BEGAN.passed


_PASSED = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_BEGAN = instant()
