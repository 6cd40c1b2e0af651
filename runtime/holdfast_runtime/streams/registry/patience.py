"""How long a schema registry is waited for, and the attempts in that time; clock and pauses come in from outside."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 2.0


@dataclass(frozen=True, slots=True)
class RegistryPatience:
    """Times are in seconds."""

    answer: float = 10.0
    """For the connection, and then for each part of an answer."""
    away: float = 15.0
    """For a registry that does not answer, or not as one; each attempt is given its time for an answer."""
    unknown: float = 5.0
    """For an id that the registry does not know: its followers learn of a new one later than whoever wrote it."""
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def attempts(self, seconds: float) -> Iterator[None]:
        """Yield before each attempt, the first at once and the last when the time is over."""
        deadline, pause = self.clock() + seconds, _FIRST_PAUSE
        yield
        while (left := deadline - self.clock()) > 0:
            self.sleep(min(pause, left))
            pause = min(2 * pause, _LONGEST_PAUSE)
            yield
