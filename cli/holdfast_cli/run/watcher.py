"""The watcher of a run: engine thread, signals, choice of view, exit code.

The engine is a function that runs in its own thread. Signal handlers run only in the main thread, and as nothing here
blocks it, Ctrl-C is handled at once, whatever the engine does. PySpark does not handle Ctrl-C if it is not started from
the main thread. The first Ctrl-C or SIGTERM drains; a second one raises `KeyboardInterrupt` and the process ends at
once: the next run repeats the batch. Must not know how the engine works.
"""

import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Any, NoReturn, Protocol

from holdfast.errors import HoldfastError
from holdfast_cli.local.local_app import RunFiles
from holdfast_cli.output.screen import live_screen, screen
from holdfast_cli.run.line_views import JsonView, LinesView
from holdfast_cli.run.screen_view import ScreenView
from holdfast_cli.run.totals import RunTotals
from holdfast_runtime.progress import Event, Listener, RunDraining, RunEnded


class RunView(Protocol):
    """Shows a run while it is going on. All calls come from one thread."""

    def show(self, event: Event, seen: RunTotals, now: float) -> None:
        """Show an event; `seen` already includes it."""

    def tick(self, seen: RunTotals, now: float) -> None:
        """Update the view as time passes."""

    def close(self) -> None:
        """Restore the terminal."""

    def over(self, seen: RunTotals, failure: BaseException | None, now: float) -> None:
        """Show the end of the run, normal or failed; called after `close`."""


_TICK = 0.25
Engine = Callable[[Listener, threading.Event], RunEnded]
"""Runs an app until it ends; raises if it fails."""


class _Over:
    """The queue's last item: the engine has ended."""

    def __init__(self) -> None:
        self.failure: BaseException | None = None


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """A finished run."""

    seen: RunTotals
    failure: BaseException | None
    views: Sequence[RunView]
    """Views that could still be written to at the end."""


def watch_run(engine: Engine, views: Sequence[RunView], clock: Callable[[], float]) -> FinishedRun:
    """Run the engine until it ends. Must be called in the main thread."""
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
    """All views. If one can't be written to any more, it is dropped and the run drains, as nobody watches it."""

    def __init__(self, views: Sequence[RunView], seen: RunTotals, drain: threading.Event) -> None:
        self.views, self._seen, self._drain = list(views), seen, drain

    def show(self, event: Event, now: float) -> None:
        """Show an event in all views. Skip repeats: engine and signals both report draining; the end may come twice."""
        if (isinstance(event, RunDraining) and self._seen.draining) or (
            isinstance(event, RunEnded) and self._seen.ended
        ):
            return
        self._seen.note(event, now)
        for view in tuple(self.views):
            with self._while_it_listens(view):
                view.show(event, self._seen, now)

    def tick(self, now: float) -> None:
        """Update all views as time passes."""
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
            # Further key presses must not interrupt the shutdown.
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


_FAILED = 3
_INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class RunDisplay:
    """The options of the command line for showing a run."""

    as_json: bool
    color: str
    """auto | always | never."""
    metrics: str | None
    """[HOST:]PORT."""
    where: RunFiles


def run_watched(engine: Engine, show: RunDisplay) -> int:
    """Run and show; return the exit code, or end the process if it is stopped at once."""
    with ExitStack() as opened:
        metrics = [] if show.metrics is None else [_metrics(show.metrics, opened)]
        view = _view(show)
        opened.callback(view.close)
        try:
            watched = watch_run(engine, [view, *metrics], time.monotonic)
        except KeyboardInterrupt:
            opened.close()
            _stop_at_once()
    return _ended(watched, view)


def _view(show: RunDisplay) -> RunView:
    if show.as_json:
        return JsonView()
    if sys.stdout.isatty() and not (live := live_screen(show.color)).is_dumb_terminal:
        return ScreenView(live, show.where)
    return LinesView(screen(show.color), show.where)


def _metrics(address: str, opened: ExitStack) -> RunView:
    from holdfast_cli.run.metrics import MetricsServer, RunMetrics, parse_address  # noqa: PLC0415 - rarely needed

    metrics = RunMetrics()
    server = MetricsServer(metrics, parse_address(address))
    opened.callback(server.close)
    _say(f"metrics: {server.url}")
    return metrics


def _ended(watched: FinishedRun, shown: RunView) -> int:
    if shown in watched.views:
        shown.over(watched.seen, watched.failure, time.monotonic())
    else:
        # The reader has gone: nothing may be written any more, not even at exit.
        sys.stdout = None
    if watched.failure is None:
        return 0
    if isinstance(watched.failure, HoldfastError):
        _say(f"holdfast: {watched.failure}")
    else:
        traceback.print_exception(watched.failure)
    return _FAILED


def _stop_at_once() -> NoReturn:
    # The engine may be anywhere in a batch and needs no cleanup: the next run repeats it. The JVM ends with us.
    _say("stopped at once; the next run repeats the batch that was not committed")
    sys.stderr.flush()
    os._exit(_INTERRUPTED)


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
