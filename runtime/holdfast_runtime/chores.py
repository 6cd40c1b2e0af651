"""Why: what is done from time to time for others, how far the app has come, in a thread that no batch waits for.

What can't be done now is said once and tried again with the next news. Must not raise into a run.
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
_PATIENCE = 10.0
Positions = Mapping[StreamPartition, int]


class _Trying:
    """What can't be done now is said once."""

    def __init__(self) -> None:
        self._said = ""

    def now(self, act: Callable[[], None]) -> None:
        """Do it."""
        try:
            act()
            self._said = ""
        except HoldfastError as error:
            if self._said != str(error):
                _LOG.warning("it is tried again: %s", error)
            self._said = str(error)


class Chores:
    """Does something with the newest positions, not more often than every few seconds, and once more at the end."""

    def __init__(self, act: Callable[[Positions], None], every: float = _EVERY) -> None:
        self._act, self._every = act, every
        self._newest: Positions | None = None
        self._trying = _Trying()
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
        """The app has processed everything before these positions, for good."""
        self._newest = positions

    def _run(self) -> None:
        over = False
        while not over:
            over = self._over.wait(self._every)
            positions, self._newest = self._newest, None
            if positions:
                self._trying.now(partial(self._act, positions))


class Rounds:
    """Does something when it is begun, and from then on every so many seconds."""

    def __init__(self, act: Callable[[], None], every: float) -> None:
        self._act, self._every = act, every
        self._trying = _Trying()
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
        """The first round is now; again is fine."""
        if not self._begun:
            self._begun = True
            self._thread.start()

    def _run(self) -> None:
        while not self._over.is_set():
            self._trying.now(self._act)
            self._over.wait(self._every)
