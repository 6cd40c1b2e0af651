"""The clocks of the runtime: the host's, read only here, and the batch clock, which goes on evenly.

    host's clock + skew = batch clock      measures timers, ttl, silences: never goes back, never jumps
    batch clock - skew = `state.now`       what people call now: it follows the host's clock, also back

A host's clock is set now and then, by hand or by NTP. A batch clock that jumped along would drop all state that has a
ttl, and one that can't go back would stand still for as long as the jump was wide. So within an attempt the clock
that counts since the host's start says how much time has passed, and the durable `skew` takes up the difference.
`BatchClock` itself reads no clock. Must not be imported by steps, or by anything that a replay must repeat.
"""

import time
from dataclasses import dataclass

from holdfast.moments import time_span

TOLERATED = 60_000
"""Milliseconds. What NTP corrects in small steps is followed; back, the batch clock waits so long at most."""


@dataclass(frozen=True, slots=True)
class Instant:
    """Two clocks, read together; milliseconds."""

    wall: int
    """Since 1970, as the host's clock says."""
    passed: int
    """Since some moment, on a clock that nobody sets."""


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
    """The host's clock less the other one, when they were last looked at."""

    def at(self, instant: Instant, last: BatchTime) -> tuple[BatchTime, str | None]:
        """What it is now, `last` being the last batch; and what is to be said if the host's clock has jumped."""
        said = self._begin(instant, last) if self._apart is None else self._go_on(instant)
        self._apart = instant.wall - instant.passed
        return BatchTime(max(instant.wall + self._skew, last.now), self._skew), said

    def _begin(self, instant: Instant, last: BatchTime) -> str | None:
        """Of the readings by which time has not gone back, the one by which less of it has passed."""
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
        where = "ahead" if jumped > 0 else "back"
        return f"the host's clock was put {where} by {time_span(abs(jumped))}. {_GOES_ON}"


_GOES_ON = (
    "Timers of processing time, ttl and idleAfter go on by the time that has really passed, state.now follows the "
    "host's clock; look after the host's time service"
)


def now() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def instant() -> Instant:
    """The same, with the clock that counts on whatever the other is set to, also while the host sleeps."""
    return Instant(now(), time.clock_gettime_ns(_PASSED) // 1_000_000)


def steady() -> int:
    """Milliseconds since 1970, as the host's clock was when the process began, and what has passed since.

    For what must not be done because a clock was set: throwing old runs away, making ten years of rows, falling silent.
    """
    return _BEGAN.wall + instant().passed - _BEGAN.passed


_PASSED = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_BEGAN = instant()
