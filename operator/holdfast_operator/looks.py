"""Why: when each app is looked at next, so that none is forgotten and none is looked at twice at once.

A change asks for a look at once; a decision asks for one later; the earlier counts. A look that failed is repeated
after a wait that doubles. Must not know what a look does.
"""

import asyncio
import heapq
import itertools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from holdfast_operator.cache import Key
from holdfast_operator.decision import Again, Wake

_FIRST_WAIT, _LONGEST_WAIT = 0.5, 60.0
_WORKERS = 16


@dataclass(slots=True)
class Looks:
    """The queue and its workers."""

    look: Callable[[Key], Awaitable[Wake]]
    failed: Callable[[Key, Exception], None]
    workers: int = _WORKERS
    _due: dict[Key, float] = field(default_factory=dict)
    """When each app is to be looked at; what is in the heap beside it is out of date."""
    _heap: list[tuple[float, int, Key]] = field(default_factory=list)
    _order: "itertools.count[int]" = field(default_factory=itertools.count)
    _busy: set[Key] = field(default_factory=set)
    _again: set[Key] = field(default_factory=set)
    """Changed while it was being looked at."""
    _waits: dict[Key, float] = field(default_factory=dict)
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def soon(self, key: Key) -> None:
        """Something changed."""
        if key in self._busy:
            self._again.add(key)
        else:
            self._put(key, 0.0)

    def forget(self, key: Key) -> None:
        """The app is gone."""
        self._due.pop(key, None)
        self._waits.pop(key, None)

    @property
    def waiting(self) -> int:
        """Apps that have a next look."""
        return len(self._due)

    async def run(self) -> None:
        """Look, for ever."""
        running: set[asyncio.Task[None]] = set()
        loop = asyncio.get_running_loop()
        try:
            while True:
                self._news.clear()
                while self._heap and self._heap[0][0] <= loop.time() and len(running) < self.workers:
                    due, _, key = heapq.heappop(self._heap)
                    if self._due.get(key) == due and key not in self._busy:
                        del self._due[key]
                        self._busy.add(key)
                        running.add(loop.create_task(self._one(key)))
                wait = min(1.0, max(0.0, self._heap[0][0] - loop.time())) if self._heap else 1.0
                if len(running) >= self.workers:
                    await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                else:
                    await _first(self._news.wait(), wait)
                running = {task for task in running if not task.done()}
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def _one(self, key: Key) -> None:
        try:
            wake = await self.look(key)
        except Exception as error:  # noqa: BLE001 - one app must not stop the others; it is counted, logged and repeated
            self._waited(key, error)
        else:
            self._waits.pop(key, None)
            if isinstance(wake, Again):
                self._put(key, wake.after / 1000)
        finally:
            self._busy.discard(key)
            if key in self._again:
                self._again.discard(key)
                self._put(key, 0.0)
            self._news.set()

    def _waited(self, key: Key, error: Exception) -> None:
        wait = min(_LONGEST_WAIT, self._waits.get(key, _FIRST_WAIT / 2) * 2)
        self._waits[key] = wait
        self.failed(key, error)
        self._put(key, wait)

    def _put(self, key: Key, after: float) -> None:
        due = asyncio.get_running_loop().time() + after
        if key in self._due and self._due[key] <= due:
            return
        self._due[key] = due
        heapq.heappush(self._heap, (due, next(self._order), key))
        self._news.set()


async def _first(news: Awaitable[bool], seconds: float) -> None:
    # Not `wait_for`: before Python 3.12 it can swallow a cancellation that comes together with the news.
    try:
        async with asyncio.timeout(seconds):
            await news
    except TimeoutError:
        return
