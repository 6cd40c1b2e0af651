"""How tests wait: for a condition, with a deadline, and not longer than it takes.

Deadlines are for a machine that does nothing else. How much slower this one is, is measured once, when a run begins,
and every deadline is so many times as long: a busy machine then makes tests slow and not red. The machine may become
slow later, so deadlines are long from the start: they end what hangs, and only what fails waits for them. A promise of
the product in seconds is not a deadline of this kind. Must not sleep for a fixed time where something can be looked at.
"""

import os
import threading
import time
from collections.abc import Callable

_UNHURRIED = 0.3
"""Seconds of `_work` on two idle cores of a common server."""
_SLOWEST = 10.0
_SURELY = 5.0
"""A virtual machine that was fast when a run began took eight times as long for minutes, half an hour later."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.5
_LONGER = 0.05
"""Of what was waited: looking all the time takes the processor from what is waited for."""
_PACE = "HOLDFAST_TEST_PACE"


class Patience(float):
    """Seconds that are a deadline for this machine already."""


def patience(seconds: float) -> Patience:
    """Return a deadline for this machine."""
    return seconds if isinstance(seconds, Patience) else Patience(seconds * pace())


def pace() -> float:
    """Return how many times slower than an idle machine this one may be."""
    if _PACE not in os.environ:
        slower = min(max(_SURELY, _work() / _UNHURRIED), _SLOWEST)
        os.environ[_PACE] = f"{slower:.1f}"  # all that tests start has the same
    return float(os.environ[_PACE])


def wait_until(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """Return as soon as `condition()` holds; fail with `what` when it does not within the patience for `seconds`."""
    began = time.monotonic()
    pause = threading.Event()
    while not condition():
        waited = time.monotonic() - began
        if waited > patience(seconds):
            msg = f"not within {patience(seconds):g} s, {pace():g} times as long as on an idle machine: {what}"
            raise TimeoutError(msg)
        pause.wait(min(_FIRST_PAUSE + waited * _LONGER, _LONGEST_PAUSE))


def _work() -> float:
    began, number = time.perf_counter(), 0
    for step in range(3_000_000):
        number = (number * 31 + step) & 0xFFFFFFFF
    return time.perf_counter() - began
