"""The queue of looks: when each app is looked at next. No app is forgotten, none is looked at twice at a time.

A change requests a look at once, a decision requests a later one; the earlier counts. An app that changes all the time
is looked at twice a second: somebody undoes what a look writes, another operator for instance. Changes of running apps
come before new apps, so that launching thousands does not delay the status of the others. A report of progress
postpones the next look, but each app is looked at regularly. A failed look is repeated after a wait that doubles. Must
not know what a look does.
"""

import asyncio
import heapq
import itertools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from holdfast_operator.decide.decision import LookAgain, NextLook
from holdfast_operator.decide.facts import AppKey

_FIRST_WAIT, _LONGEST_WAIT = 0.5, 60.0
_AT_LEAST_EVERY = 1800.0
_LONGEST_LOOK = 120.0
_AHEAD = 3600.0
_WORKERS = 16
_PACE, _AT_ONCE = 0.5, 20
"""Seconds between looks at an app that changes all the time, and how many looks it gets at once before."""


@dataclass(slots=True)
class LookQueue:
    """The queue and its workers."""

    look: Callable[[AppKey], Awaitable[NextLook]]
    failed: Callable[[AppKey, Exception], None]
    looked: Callable[[float, float | None], None] = lambda *_: None
    """Called with the duration of a look, and the time from the change to its end."""
    workers: int = _WORKERS
    _due: dict[AppKey, float] = field(default_factory=dict)
    """App -> when its next look is due."""
    _heap: list[tuple[float, int, AppKey]] = field(default_factory=list)
    """Times at which to check whether an app is due."""
    _heaped: dict[AppKey, float] = field(default_factory=dict)
    """App -> the time of its valid heap entry; its other entries are outdated. Looks with priority get an earlier
    time."""
    _order: "itertools.count[int]" = field(default_factory=itertools.count)
    _busy: set[AppKey] = field(default_factory=set)
    _again: set[AppKey] = field(default_factory=set)
    """Apps that changed while they were being looked at."""
    _waits: dict[AppKey, float] = field(default_factory=dict)
    _looked: dict[AppKey, float] = field(default_factory=dict)
    """App -> start of its last look."""
    _paced: dict[AppKey, float] = field(default_factory=dict)
    """App -> when its looks would have begun, had each waited for its turn."""
    _postponable: set[AppKey] = field(default_factory=set)
    """Apps whose driver's reports postpone the next look."""
    _changed: dict[AppKey, float] = field(default_factory=dict)
    """App -> time of the first change that no look has handled yet."""
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def soon(self, key: AppKey, *, first: bool = False) -> None:
        """Request a look at once; `first`: with priority over other waiting apps."""
        self._changed.setdefault(key, asyncio.get_running_loop().time())
        if key in self._busy:
            self._again.add(key)
        else:
            self._put(key, self._hold(key), _AHEAD if first else 0.0)

    def put_off(self, key: AppKey, seconds: float) -> None:
        """Postpone the next look by this time, if the last one allows that, and no change waits for it."""
        now, due = asyncio.get_running_loop().time(), self._due.get(key)
        if due is not None and due > now and key in self._postponable and key not in self._changed:
            latest = self._looked.get(key, now) + _AT_LEAST_EVERY
            # The heap is corrected only when the earlier time comes, as reports are far more frequent than looks.
            self._due[key] = max(due, min(now + seconds, latest))

    def forget(self, key: AppKey) -> None:
        """Remove a deleted app."""
        for times in (self._due, self._heaped, self._waits, self._looked, self._paced, self._changed):
            times.pop(key, None)
        self._postponable.discard(key)

    @property
    def waiting(self) -> int:
        """Return the number of apps with a next look."""
        return len(self._due)

    def overdue(self, now: float) -> float:
        """Return for how many seconds the longest-due look has not begun."""
        return max((now - due for due in self._due.values()), default=0.0)

    @property
    def entries(self) -> int:
        """Return the size of the heap."""
        return len(self._heap)

    async def run(self) -> None:
        """Run looks until cancelled."""
        running: set[asyncio.Task[None]] = set()
        loop = asyncio.get_running_loop()
        try:
            while True:
                self._news.clear()
                while self._heap and self._heap[0][0] <= loop.time() and len(running) < self.workers:
                    key = self._pop(loop.time())
                    if key is not None:
                        self._busy.add(key)
                        running.add(loop.create_task(self._one(key)))
                wait = max(0.0, self._heap[0][0] - loop.time()) if self._heap else _LONGEST_WAIT
                if len(running) >= self.workers:
                    await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                else:
                    await _first(self._news.wait(), wait)
                running = {task for task in running if not task.done()}
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    def _pop(self, now: float) -> AppKey | None:
        """Remove the first heap entry; return its app if it is due now."""
        moment, _, key = heapq.heappop(self._heap)
        if self._heaped.get(key) != moment:
            return None
        del self._heaped[key]
        due = self._due.get(key)
        if due is None or key in self._busy:
            return None
        if due > now:
            self._push(key, due)
            return None
        del self._due[key]
        return key

    def _push(self, key: AppKey, due: float) -> None:
        self._heaped[key] = due
        heapq.heappush(self._heap, (due, next(self._order), key))

    async def _one(self, key: AppKey) -> None:
        clock = asyncio.get_running_loop().time
        began = self._looked[key] = clock()
        self._paced[key] = max(self._paced.get(key, began), began) + _PACE
        changed = self._changed.pop(key, None)
        try:
            async with asyncio.timeout(_LONGEST_LOOK):
                wake = await self.look(key)
        except Exception as error:  # noqa: BLE001 - one app must not stop the others; it is counted, logged and repeated
            self._waited(key, error)
        else:
            self._waits.pop(key, None)
            self.looked(clock() - began, None if changed is None else clock() - changed)
            self._postponable.discard(key)
            if isinstance(wake, LookAgain):
                self._put(key, wake.after / 1000)
                if wake.postponable:
                    self._postponable.add(key)
        finally:
            self._busy.discard(key)
            if key in self._again:
                self._again.discard(key)
                self._put(key, self._hold(key))
            self._news.set()

    def _hold(self, key: AppKey) -> float:
        """Return for how many seconds a change has to wait."""
        ahead = self._paced.get(key, 0.0) - asyncio.get_running_loop().time()
        return max(0.0, ahead - _AT_ONCE * _PACE)

    def _waited(self, key: AppKey, error: Exception) -> None:
        wait = min(_LONGEST_WAIT, self._waits.get(key, _FIRST_WAIT / 2) * 2)
        self._waits[key] = wait
        self._postponable.discard(key)
        self.failed(key, error)
        self._put(key, wait)

    def _put(self, key: AppKey, after: float, ahead: float = 0.0) -> None:
        due = asyncio.get_running_loop().time() + after
        if key in self._due and self._due[key] <= due and not ahead:
            return
        self._due[key] = min(due, self._due.get(key, due))
        if key not in self._heaped or due - ahead < self._heaped[key]:
            self._push(key, due - ahead)
        self._news.set()


async def _first(news: Awaitable[bool], seconds: float) -> None:
    # Not `wait_for`: before Python 3.12 it can swallow a cancellation that arrives together with the news.
    try:
        async with asyncio.timeout(seconds):
            await news
    except TimeoutError:
        return
