"""Why: one run from the first to the last line on a terminal, and the exit code that says how it ended.

The engine comes in as a function. Must not know how it works.
"""

import os
import sys
import time
import traceback
from contextlib import ExitStack
from dataclasses import dataclass
from typing import NoReturn

from holdfast.errors import HoldfastError
from holdfast_cli.output.screen import live_screen, screen
from holdfast_cli.run.line_views import LinesView
from holdfast_cli.run.run_json import JsonView
from holdfast_cli.run.run_loop import Engine, FinishedRun, watch_run
from holdfast_cli.run.run_summary import RunFiles
from holdfast_cli.run.screen_view import ScreenView
from holdfast_cli.run.watcher import RunView

_FAILED = 3
_INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class RunDisplay:
    """What the command line says about it."""

    as_json: bool
    color: str
    """auto | always | never."""
    metrics: str | None
    """[HOST:]PORT."""
    where: RunFiles


def run_watched(engine: Engine, show: RunDisplay) -> int:
    """Run and show; returns the exit code, or ends the process when it is stopped at once."""
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
    from holdfast_cli.run.metrics import MetricsServer, RunMetrics, parse_address  # noqa: PLC0415 - seldom asked for

    metrics = RunMetrics()
    server = MetricsServer(metrics, parse_address(address))
    opened.callback(server.close)
    _say(f"metrics: {server.url}")
    return metrics


def _ended(watched: FinishedRun, shown: RunView) -> int:
    if shown in watched.views:
        shown.over(watched.seen, watched.failure, time.monotonic())
    else:
        # Whoever read has gone: nothing may be written any more, not even at exit.
        sys.stdout = None
    if watched.failure is None:
        return 0
    if isinstance(watched.failure, HoldfastError):
        _say(f"holdfast: {watched.failure}")
    else:
        traceback.print_exception(watched.failure)
    return _FAILED


def _stop_at_once() -> NoReturn:
    # The engine may be anywhere in a batch and needs no good-bye: the next run repeats the batch. The JVM ends with us.
    _say("stopped at once; the next run repeats the batch that was not committed")
    sys.stderr.flush()
    os._exit(_INTERRUPTED)


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
