"""Why: the one place where the runtime looks at the clock; everything else is told the time.

Must not be imported by steps, or by anything that a replay must repeat.
"""

import time

from holdfast_runtime.clocks import Instant


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
