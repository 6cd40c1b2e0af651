"""Why: where the time of a batch goes. Must not be used to decide anything."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager


class PhaseTimes:
    """Milliseconds by name, added up."""

    def __init__(self) -> None:
        self._spent: dict[str, float] = {}
        self._inner = 0.0

    @contextmanager
    def measured(self, name: str) -> Iterator[None]:
        """Count what happens inside for this phase, and for no other one around it."""
        began, outer = time.perf_counter(), self._inner
        self._inner = 0.0
        try:
            yield
        finally:
            whole = (time.perf_counter() - began) * 1000
            self.add({name: whole - self._inner})
            self._inner = outer + whole

    def add(self, spent: Mapping[str, float]) -> None:
        """Add what was measured elsewhere."""
        for name, milliseconds in spent.items():
            self._spent[name] = self._spent.get(name, 0.0) + milliseconds

    def taken(self) -> dict[str, float]:
        """What was spent since the last call."""
        spent, self._spent = self._spent, {}
        return spent
