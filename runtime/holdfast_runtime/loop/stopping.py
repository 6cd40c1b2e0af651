"""When the loop ends and when it waits: totals and stop conditions of a run, retries of a batch that can't run now.

Outside systems (brokers, checkpoint storage) are waited for without limit, a lost race is retried only for a while. A
run that is asked to drain while it waits leaves its batch planned: the next run repeats it. Must not know what is run,
nor end anything itself.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from holdfast.errors import AwayError, RetrySoonError
from holdfast_runtime.progress import EndCause

_RACES_FOR = 30.0
_T = TypeVar("_T")


class WaitEndedError(Exception):
    """The run was asked to drain while its batch waited; the message says for what."""


def patiently(
    run: Callable[[], _T],
    waits: Callable[[AwayError], None],
    drain: threading.Event,
    clock: Callable[[], float] = time.monotonic,
) -> _T:
    """Retry `run` until it returns a value; `waits` is called with what is away. Raise `WaitEndedError` on drain."""
    deadline = clock() + _RACES_FOR
    while True:
        try:
            return run()
        except RetrySoonError as error:
            if isinstance(error, AwayError):
                waits(error)
                deadline = clock() + _RACES_FOR
            if drain.is_set():
                raise WaitEndedError(str(error)) from error
            if clock() > deadline:
                raise


@dataclass(frozen=True, slots=True)
class StopCondition:
    """When a run ends; without any condition it goes on until it is asked to stop."""

    idle: bool = False
    """End when nothing is left to read."""
    batches: int | None = None
    seconds: float | None = None

    def reached(self, *, batches: int, seconds: float, idle: bool) -> EndCause | None:
        """Return why a run ends after this many batches and seconds; None if it goes on."""
        if self.batches is not None and batches >= self.batches:
            return EndCause.ENOUGH
        if self.seconds is not None and seconds >= self.seconds:
            return EndCause.ENOUGH
        return EndCause.IDLE if self.idle and idle else None


@dataclass(slots=True)
class Totals:
    """Counts of what a driver has done so far."""

    batches: int = 0
    rows_in: int = 0
    rows_out: int = 0
    began: float | None = None
    """When the first query began, by the monotonic clock."""

    @property
    def seconds(self) -> float:
        """Seconds since the first query began."""
        return 0.0 if self.began is None else time.monotonic() - self.began

    def begin(self) -> None:
        """Start counting seconds, unless already started."""
        self.began = time.monotonic() if self.began is None else self.began

    def add(self, rows_in: int, rows_out: int) -> None:
        """Count one more batch."""
        self.batches += 1
        self.rows_in += rows_in
        self.rows_out += rows_out
