"""How tests wait: for a condition, with a deadline, and not longer than it takes.

Deadlines are for a machine that does nothing else. How much slower this one is, is measured once, when a run begins,
and every deadline is so many times as long: a busy machine then makes tests slow and not red. A promise of the product
in seconds is not a deadline of this kind. Must not sleep for a fixed time where something can be looked at.
"""

import os
import threading
import time
from collections.abc import Callable

_UNHURRIED = 0.3
"""Seconds of `_work` on two idle cores of a common server."""
_SLOWEST = 10.0
_PACE = "HOLDFAST_TEST_PACE"


def patience(seconds: float) -> float:
    """Return a deadline for this machine."""
    return seconds * pace()


def pace() -> float:
    """Return how many times slower than an idle machine this one was at the start, at least 1."""
    if _PACE not in os.environ:
        os.environ[_PACE] = f"{min(max(1.0, _work() / _UNHURRIED), _SLOWEST):.1f}"  # all that tests start has the same
    return float(os.environ[_PACE])


def wait_until(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """Return as soon as `condition()` holds; fail with `what` when it does not within the patience for `seconds`."""
    deadline = time.monotonic() + patience(seconds)
    pause = threading.Event()
    while not condition():
        if time.monotonic() > deadline:
            msg = f"not within {seconds:g} s, times {pace():g} for this machine: {what}"
            raise TimeoutError(msg)
        pause.wait(0.02)


def _work() -> float:
    began, number = time.perf_counter(), 0
    for step in range(3_000_000):
        number = (number * 31 + step) & 0xFFFFFFFF
    return time.perf_counter() - began
