"""A batch that can't be run at the moment: tried again for as long as that may help, and not once the run is to end.

What is outside (brokers, checkpoint storage) is waited for without end, a lost race only for a while. A run that is
asked to drain while it waits leaves its batch as it is planned: the next run repeats it. Must not know what is run.
"""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from holdfast.errors import AwayError, RetrySoonError

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
