"""When the loop ends, and when it waits instead: stop conditions of a run, and retries of a batch that can't run now.

What is outside (brokers, checkpoint storage) is waited for without end, a lost race only for a while. A run that is
asked to drain while it waits leaves its batch as it is planned: the next run repeats it. Must not know what is run,
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
    """The run was asked to drain while its batch waited; carries what it waited for."""


def patiently(
    run: Callable[[], _T],
    waits: Callable[[AwayError], None],
    drain: threading.Event,
    clock: Callable[[], float] = time.monotonic,
) -> _T:
    """What it returns at last; `waits` is told what is away. Raises `WaitEndedError`, and all that no waiting helps."""
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
    """What has to be reached; without any of it a run goes on until it is asked to stop."""

    idle: bool = False
    """Nothing is left to read."""
    batches: int | None = None
    seconds: float | None = None

    def reached(self, *, batches: int, seconds: float, idle: bool) -> EndCause | None:
        """Why a run ends that has done so many batches in so many seconds; None: it goes on."""
        if self.batches is not None and batches >= self.batches:
            return EndCause.ENOUGH
        if self.seconds is not None and seconds >= self.seconds:
            return EndCause.ENOUGH
        return EndCause.IDLE if self.idle and idle else None
