"""The end of a Spark worker process, which first closes what functions have set up in it.

Spark's daemon ends idle workers by `os._exit`, and all of them by a hangup, for which each task sets the default again;
neither runs what Python does at exit. Both are replaced in the daemon, from which workers are forked. A worker without
resources ends as Spark ends it; a hangup may come while the task that sets up the first one still ends, so it is caught
from then on, or, as only the main thread may set what a signal does, from the next task on. The daemon sends two, and
closes connections before, so a worker may be closing already when one comes, by whatever way it ends: it goes on with
that. Must not keep a worker from ending.
"""

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from holdfast_runtime.worker_resources import before_the_first, close_resources, closing_resources, resources_held

CLOSED_WITHIN = 5
"""Seconds; then a worker ends as it is."""
_end_process = os._exit
_set_signal = signal.signal


def close_before_end() -> None:
    """Let processes that are forked from this one close what functions have set up before they end."""
    os._exit = _end  # type: ignore[assignment]  # which never returns either
    signal.signal = _signal  # type: ignore[assignment]  # with the same parameters
    before_the_first(_catch_hangup)


def _end(code: int) -> None:
    if resources_held():
        _end_soon()
        close_resources()
    _end_process(code)


def _end_soon() -> None:
    if _may_set_signals():
        _set_signal(signal.SIGHUP, signal.SIG_IGN)
        _set_signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(CLOSED_WITHIN)


def _signal(number: int, action: Callable[[int, FrameType | None], Any] | int | None) -> Any:
    hung_up = number == signal.SIGHUP and action == signal.SIG_DFL and resources_held()
    return _set_signal(number, _hung_up if hung_up else action)


def _catch_hangup() -> None:
    if _may_set_signals():
        _set_signal(signal.SIGHUP, _hung_up)


def _may_set_signals() -> bool:
    return threading.current_thread() is threading.main_thread()


def _hung_up(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the protocol of handlers
    if closing_resources():
        _end_soon()
    else:
        _end(0)
