"""What each process makes for itself, once for each key: views and clients of values that travel.

After a fork nothing is there yet. What the parent made is abandoned, since its threads stay with the parent. Must not
know what is made.
"""

import os
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


def _nothing(_: object) -> None:
    pass


class PerProcess(Generic[K, V]):
    """Values by key. Threads may ask at once, and all get the same."""

    def __init__(self, make: Callable[[K], V], abandon: Callable[[V], None] = _nothing) -> None:
        """`abandon`: called after a fork with each value of the parent, which must not be closed."""
        self._make, self._abandon = make, abandon
        self._made: dict[K, V] = {}
        self._process, self._lock = os.getpid(), threading.Lock()

    def of(self, key: K) -> V:
        """Return this process's value."""
        if self._process != os.getpid():
            for value in self._made.values():
                self._abandon(value)
            self._made.clear()
            # The parent may have held the lock when it forked.
            self._process, self._lock = os.getpid(), threading.Lock()
        with self._lock:
            if key not in self._made:
                self._made[key] = self._make(key)
            return self._made[key]
