"""Why: a run and those who watch it: the engine works in a thread of its own, this one draws and hears signals.

Signal handlers run in the main thread alone; as nothing here blocks, Ctrl-C is answered at once, whatever the engine
does. PySpark, for its part, leaves Ctrl-C alone when it is not started from the main thread. The first Ctrl-C or
SIGTERM drains; another while it drains raises `KeyboardInterrupt` here, and the caller ends the process.
"""

import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Any

from holdfast_cli.run.totals import RunTotals
from holdfast_cli.run.watcher import RunView
from holdfast_runtime.progress import Event, Listener, RunDraining, RunEnded

_TICK = 0.25
Engine = Callable[[Listener, threading.Event], RunEnded]
"""Runs an app until it ends; raises if it fails."""


class _Over:
    """Put behind the last event."""

    def __init__(self) -> None:
        self.failure: BaseException | None = None


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """A run that is over."""

    seen: RunTotals
    failure: BaseException | None
    views: Sequence[RunView]
    """Those that could be written to until the end."""


def watch_run(engine: Engine, views: Sequence[RunView], clock: Callable[[], float]) -> FinishedRun:
    """Run to the end. Call it in the main thread."""
    seen, drain = RunTotals(started_at=clock()), threading.Event()
    said: SimpleQueue[Event | _Over] = SimpleQueue()
    audience = _Audience(views, seen, drain)
    with _signals(drain, said):
        threading.Thread(target=_work, args=(engine, drain, said), name="holdfast-run", daemon=True).start()
        failure = _follow(said, audience, clock)
    return FinishedRun(seen, failure, audience.views)


def _work(engine: Engine, drain: threading.Event, said: "SimpleQueue[Event | _Over]") -> None:
    over = _Over()
    try:
        ended = engine(said.put, drain)
        said.put(ended)
    except BaseException as error:  # noqa: BLE001 - it is handed to the main thread, not swallowed
        over.failure = error
    said.put(over)


def _follow(
    said: "SimpleQueue[Event | _Over]", audience: "_Audience", clock: Callable[[], float]
) -> BaseException | None:
    while True:
        try:
            event = said.get(timeout=_TICK)
        except Empty:
            audience.tick(clock())
            continue
        if isinstance(event, _Over):
            return event.failure
        audience.show(event, clock())


class _Audience:
    """All views. One that can't be written to any more is left, and the run drains: nobody sees it."""

    def __init__(self, views: Sequence[RunView], seen: RunTotals, drain: threading.Event) -> None:
        self.views, self._seen, self._drain = list(views), seen, drain

    def show(self, event: Event, now: float) -> None:
        """One event, to all. Engine and signals both say that it drains, and the engine may say the end twice."""
        if (isinstance(event, RunDraining) and self._seen.draining) or (
            isinstance(event, RunEnded) and self._seen.ended
        ):
            return
        self._seen.note(event, now)
        for view in tuple(self.views):
            with self._while_it_listens(view):
                view.show(event, self._seen, now)

    def tick(self, now: float) -> None:
        """Time has passed."""
        for view in tuple(self.views):
            with self._while_it_listens(view):
                view.tick(self._seen, now)

    @contextmanager
    def _while_it_listens(self, view: RunView) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            self.views.remove(view)
            self._drain.set()


@contextmanager
def _signals(drain: threading.Event, said: "SimpleQueue[Event | _Over]") -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the protocol of handlers
        if drain.is_set():
            # Keys that are pressed on and on must not interrupt the way out.
            signal.signal(number, signal.SIG_IGN)
            raise KeyboardInterrupt
        drain.set()
        said.put(RunDraining())

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    except KeyboardInterrupt:
        raise
    except BaseException:
        _restore(before)
        raise
    _restore(before)


def _restore(handlers: Mapping[signal.Signals, Any]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler)
