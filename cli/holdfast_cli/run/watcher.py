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
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from types import FrameType
from typing import NoReturn

from holdfast.errors import HoldfastError
from holdfast.spec.app import AppSpec
from holdfast_cli.local.local_app import RunFiles
from holdfast_cli.output.live import LiveView
from holdfast_cli.output.screen import live_screen, print_message, screen
from holdfast_cli.run.totals import RunTotals
from holdfast_cli.run.views import JsonView, RunView, TextView, print_block
from holdfast_runtime.driver.drain_request import DrainRequest
from holdfast_runtime.progress import Event, Listener, RunDraining, RunEnded

_TICK = 0.25
_FAILED, _INTERRUPTED = 3, 130
Engine = Callable[[Listener, threading.Event], RunEnded]
"""Runs an app until it ends; raises if it fails."""


@dataclass(frozen=True, slots=True)
class RunDisplay:
    """The options of the command line for showing a run."""

    as_json: bool
    color: str
    """auto | always | never."""
    metrics: str | None
    """[HOST:]PORT."""
    files: RunFiles
    spec: AppSpec | None = None
    """What metrics are made of beside events."""


class _Over:
    """The queue's last item: the engine has ended."""

    def __init__(self) -> None:
        self.failure: BaseException | None = None


_Queue = SimpleQueue[Event | _Over]


def run_watched(engine: Engine, show: RunDisplay) -> int:
    """Run and show; return the exit code, or end the process if it is stopped at once. Needs the main thread."""
    drain, totals = DrainRequest(), RunTotals(time.monotonic(), time.monotonic())
    with ExitStack() as opened:
        metrics = None if show.metrics is None else _metrics(show.metrics, show.spec, opened)
        audience = _Audience(_view(show, opened), metrics, totals, drain)
        try:
            failure = _watch(engine, audience, drain)
        except KeyboardInterrupt:
            opened.close()
            _stop_at_once()
    if audience.view is None:
        # The reader has gone: nothing may be written any more, not even at exit.
        sys.stdout = None
    else:
        totals.note(None, time.monotonic())
        audience.view.over(totals, failure)
    if failure is None:
        return 0
    if isinstance(failure, HoldfastError):
        _say(f"holdfast: {failure}")
    else:
        traceback.print_exception(failure)
    return _FAILED


class _Audience:
    """Whoever watches the run. If the view can't be written to any more, the run drains, as nobody watches it."""

    def __init__(self, view: RunView, metrics: Listener | None, totals: RunTotals, drain: threading.Event) -> None:
        self.view: RunView | None = view
        self._metrics, self._seen, self._drain = metrics, totals, drain

    def show(self, event: Event | None) -> None:
        """Show an event. Skip repeats: engine and signals both report draining; the end may come twice."""
        if (isinstance(event, RunDraining) and self._seen.draining) or (
            isinstance(event, RunEnded) and self._seen.ended
        ):
            return
        self._seen.note(event, time.monotonic())
        if self._metrics is not None and event is not None:
            self._metrics(event)
        if self.view is None:
            return
        try:
            self.view.show(event, self._seen)
        except BrokenPipeError:
            self.view = None
            self._drain.set()


def _watch(engine: Engine, audience: _Audience, drain: threading.Event) -> BaseException | None:
    """Run the engine until it ends; return why it failed."""
    events: _Queue = SimpleQueue()
    with _signals(drain, events):
        threading.Thread(target=_work, args=(engine, drain, events), name="holdfast-run", daemon=True).start()
        while True:
            try:
                event = events.get(timeout=_TICK)
            except Empty:
                audience.show(None)
                continue
            if isinstance(event, _Over):
                return event.failure
            audience.show(event)


def _work(engine: Engine, drain: threading.Event, events: _Queue) -> None:
    over = _Over()
    try:
        events.put(engine(events.put, drain))
    except BaseException as error:  # noqa: BLE001 - it is handed to the main thread, not swallowed
        over.failure = error
    events.put(over)


@contextmanager
def _signals(drain: threading.Event, events: _Queue) -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the protocol of handlers
        if drain.is_set():
            # Further key presses must not interrupt the shutdown.
            signal.signal(number, signal.SIG_IGN)
            raise KeyboardInterrupt
        events.put(RunDraining())  # before what follows from it
        drain.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    # Not in a `finally`: after the second signal, the next one has to stay ignored until the process has ended.
    for number, handler in before.items():
        signal.signal(number, handler)


def _view(show: RunDisplay, opened: ExitStack) -> RunView:
    if show.as_json:
        return JsonView()
    if sys.stdout.isatty() and not (console := live_screen(show.color)).is_dumb_terminal:
        live = opened.enter_context(LiveView(console, print_block, transient=True))
        return TextView(console, show.files, live)
    return TextView(screen(show.color), show.files)


def _metrics(address: str, spec: AppSpec | None, opened: ExitStack) -> Listener:
    from holdfast_cli.run.metrics import parse_address, serve_metrics  # noqa: PLC0415 - rarely needed
    from holdfast_runtime.driver.metrics import MeasuredApp, RunMetrics  # noqa: PLC0415

    metrics = RunMetrics(None if spec is None else MeasuredApp.of(spec, on_cluster=False))
    server = serve_metrics(metrics, parse_address(address))
    opened.callback(server.close)
    _say(f"metrics: {server.url}")
    return metrics.note


def _stop_at_once() -> NoReturn:
    # The engine may be anywhere in a batch and needs no cleanup: the next run repeats it. The JVM ends with us.
    _say("stopped at once; the next run repeats the batch that was not committed")
    sys.stderr.flush()
    os._exit(_INTERRUPTED)


def _say(text: str) -> None:
    print_message(text)
