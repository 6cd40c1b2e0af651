"""What must hold in a trouble, whether it did, and the figures that go with it. Must not measure anything."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from tests.waiting import patience, wait_until


@dataclass(frozen=True, slots=True)
class Promise:
    """A row of the table."""

    event: str
    """What happened."""
    text: str
    """What must hold; empty: this row only gives a figure."""
    held: bool
    figure: str = ""


def figure(event: str, text: str) -> Promise:
    """A figure of which nothing is promised."""
    return Promise(event, "", held=True, figure=text)


def within(event: str, text: str, limit: float, reached: Callable[[], bool], began: float | None = None) -> Promise:
    """What must be reached in so many seconds from `began`, or from now; a slow machine is given time, but no mercy."""
    began = time.monotonic() if began is None else began
    promise = f"{text}, in {limit:g} s"
    try:
        wait_until(reached, limit, text)
    except TimeoutError:
        return Promise(event, promise, held=False, figure=f"not in {patience(limit):.0f} s")
    seconds = time.monotonic() - began
    return Promise(event, promise, seconds <= limit, f"{seconds:.1f} s")
