"""Background chores of a driver: periodic work in threads that no batch waits for.

A chore that fails, whatever the error, is logged once and tried again, less and less often: a thread that ended
silently would leave the chore undone for the rest of the attempt. Must not raise into a run.
"""

import logging
import threading
from collections.abc import Callable, Mapping
from functools import partial
from types import TracebackType
from typing import Self

from holdfast.errors import HoldfastError
from holdfast.tasks.partitions import StreamPartition

_LOG = logging.getLogger("holdfast")
_EVERY = 5.0
_LONGEST = 160.0
"""A chore that fails waits twice as long each time, up to this."""
_PATIENCE = 10.0
Positions = Mapping[StreamPartition, int]


class RetriedChore:
    """Runs a chore and survives its failures; each failure is logged once."""

    def __init__(self) -> None:
        self._said = ""
        self._failed = 0

    def now(self, act: Callable[[], None]) -> bool:
        """Run the chore; return whether it succeeded."""
        try:
            act()
        except HoldfastError as error:
            self._say(str(error), foreign=False)
        except Exception as error:  # noqa: BLE001 - a foreign error is no reason to leave all later chores undone
            self._say(f"{type(error).__name__}: {error}", foreign=True)
        else:
            self._said, self._failed = "", 0
            return True
        self._failed += 1
        return False

    def wait(self, every: float) -> float:
        """Return the seconds until the next try, for a chore that runs at this interval while it succeeds."""
        return min(every * 2.0 ** min(self._failed, 16), max(every, _LONGEST))

    def _say(self, problem: str, *, foreign: bool) -> None:
        if problem != self._said:
            _LOG.warning("background work failed and is tried again: %s", problem, exc_info=foreign)
        self._said = problem


class PositionChore:
    """Runs a chore with the newest positions, at most every few seconds, and once more at the end."""

    def __init__(self, act: Callable[[Positions], None], every: float = _EVERY) -> None:
        self._act, self._every = act, every
        self._newest: Positions | None = None
        self._trying = RetriedChore()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="chores", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join(_PATIENCE)

    def processed(self, positions: Positions) -> None:
        """Note that the app has processed everything before these positions for good."""
        self._newest = positions

    def _run(self) -> None:
        over = False
        left: Positions | None = None
        while not over:
            over = self._over.wait(self._trying.wait(self._every))
            newest, self._newest = self._newest, None
            left = newest or left
            if left and self._trying.now(partial(self._act, left)):
                left = None


class PeriodicChore:
    """Runs a chore when it is begun, and then every `every` seconds."""

    def __init__(self, act: Callable[[], None], every: float) -> None:
        self._act, self._every = act, every
        self._trying = RetriedChore()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rounds", daemon=True)
        self._begun = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._begun:
            self._thread.join(_PATIENCE)

    def begin(self) -> None:
        """Start with the first round; further calls do nothing."""
        if not self._begun:
            self._begun = True
            self._thread.start()

    def _run(self) -> None:
        while not self._over.is_set():
            self._trying.now(self._act)
            self._over.wait(self._trying.wait(self._every))
