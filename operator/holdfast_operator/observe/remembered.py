"""Why: what is found out about an app rarely changes from look to look, and finding it out takes milliseconds or calls.

Each value is kept with what it rests on, and counts no longer than that does. Only the last few are kept: an app that
is looked at is often looked at again at once, and more would take too much memory. Must not find anything out itself.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class RecentValues(Generic[K, V]):
    """The values that were used last."""

    limit: int = 256
    most: int | None = None
    """Of the weights of all values."""
    _last: dict[K, tuple[object, V, int]] = field(default_factory=dict)
    """The one used last is the last."""

    def get(self, key: K, since: object) -> V | None:
        """What was put for this key, if it rests on the same; None: find it out."""
        known = self._last.pop(key, None)
        if known is None or known[0] != since:
            return None
        self._last[key] = known
        return known[1]

    def put(self, key: K, since: object, value: V, weight: int = 0) -> V:
        """Keep it, together with what it rests on; the last one always, whatever its weight."""
        self._last.pop(key, None)
        self._last[key] = since, value, weight
        while len(self._last) > self.limit or (len(self._last) > 1 and self._too_heavy()):
            del self._last[next(iter(self._last))]
        return value

    def _too_heavy(self) -> bool:
        return self.most is not None and sum(weight for *_, weight in self._last.values()) > self.most
