"""The request to drain, made by a signal while its own thread waits for it."""

import signal
import sys
import threading
import time

from holdfast_runtime.driver.drain_request import DrainRequest
from tests.forked import ForkedProcess
from tests.waiting import patience

SIGNALS = 5_000
SECONDS = patience(30)


def interrupted() -> None:
    """Wait for requests that a timer's signals make at any moment of the waits."""
    made = [DrainRequest()]
    signal.signal(signal.SIGALRM, lambda *_: made[-1].set())
    for number in range(SIGNALS):
        signal.setitimer(signal.ITIMER_REAL, 1e-6 * (5 + number % 40))
        while not made[-1].wait(1e-6):
            pass
        made[-1] = DrainRequest()
    sys.exit(7)


def test_a_signal_in_any_moment_of_a_wait_ends_it() -> None:
    assert ForkedProcess(interrupted).wait(SECONDS) == 7


def test_all_who_wait_are_told() -> None:
    request, answers = DrainRequest(), list[bool]()
    waiting = [threading.Thread(target=lambda: answers.append(request.wait(SECONDS))) for _ in range(3)]
    for thread in waiting:
        thread.start()
    assert not request.wait(0.01)
    assert not request.is_set()
    request.set()
    began = time.monotonic()
    for thread in waiting:
        thread.join(SECONDS)
    assert answers == [True] * 3
    assert request.is_set()
    assert request.wait()
    assert time.monotonic() - began < SECONDS
