"""The implementation of `holdfast drain` and `holdfast resume`: sets `spec.suspend` and waits until it has effect.

Writes nothing but `spec.suspend`. Must not end a pod: the operator does that, and lets the driver finish its batch.
"""

import argparse
import functools
import json
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass

from rich.console import Console

from holdfast.errors import HoldfastError, RetrySoonError
from holdfast_cli.cluster.app import AppDetail, AppEvent, AppUnknownError, ObjectReader, read_app
from holdfast_cli.cluster.client import ClusterClient, ClusterReader
from holdfast_cli.cluster.requests import APPS, ApiRequest
from holdfast_cli.cluster.suspend_progress import (
    SuspendJudge,
    SuspendOutcome,
    SuspendProgress,
    drain_outcome,
    events_of,
    progress_of,
    resume_outcome,
)
from holdfast_cli.cluster.target import ClusterPlace, cluster_place
from holdfast_cli.output.failures import print_failure
from holdfast_cli.output.live import ChangesView, LiveView, WatchView
from holdfast_cli.output.screen import live_screen, screen, styled

_NO, _INTERRUPTED = 1, 130
_EVERY = 1.0
_LATE = 3
"""Extra looks for the event that says how an attempt ended: it may come after the condition."""


@dataclass(frozen=True, slots=True)
class SuspendActions:
    """The effects that a drain or resumption needs."""

    reader: ObjectReader
    suspend: Callable[[bool], None]
    """Sets `spec.suspend`."""
    pause: Callable[[], None]
    """Waits between two looks."""


@dataclass(frozen=True, slots=True)
class SuspendDirection:
    """Drain or resume, with the words for it."""

    suspend: bool
    judge: SuspendJudge
    begun: str
    already: str
    back: str
    """The command that does the opposite."""


DRAIN = SuspendDirection(
    suspend=True,
    judge=drain_outcome,
    begun="is being drained",
    already="is suspended already",
    back="resume",
)
RESUME = SuspendDirection(
    suspend=False,
    judge=resume_outcome,
    begun="is being resumed",
    already="is not suspended",
    back="drain",
)


@dataclass(frozen=True, slots=True)
class SuspendOptions:
    """The options of the command line."""

    app: str
    wait: bool
    timeout: float | None
    """Seconds."""
    output: str
    color: str


def suspend_or_resume(options: argparse.Namespace, way: SuspendDirection) -> int:
    """Run the command; return the exit code."""
    place = cluster_place(options)
    asked = SuspendOptions(options.app, options.wait, options.timeout, options.output, options.color)
    with closing(ClusterClient(place.target)) as client:
        suspend = functools.partial(_suspend, client, place.namespace, options.app)
        return apply_direction(
            SuspendActions(ClusterReader(client), suspend, functools.partial(time.sleep, _EVERY)), place, asked, way
        )


def apply_direction(hands: SuspendActions, place: ClusterPlace, asked: SuspendOptions, way: SuspendDirection) -> int:
    """Set `spec.suspend`, wait for the effect, and print the outcome and how to undo it; return the exit code."""
    look = functools.partial(read_app, hands.reader, place.namespace, asked.app)
    hints = _hints(place, asked.app, way)
    set_now = False
    try:
        first = look()
        now, already = progress_of(first), first.app.suspend == way.suspend
        if already and (now.suspended or not way.suspend):
            return _finish(asked, now, SuspendOutcome(0, way.already), hints, shown=False)
        if not already:
            hands.suspend(way.suspend)
            set_now = True
        if not asked.wait:
            return _finish(
                asked, progress_of(look()), SuspendOutcome(0, f"{way.begun}; see {hints.status}"), hints, shown=False
            )
        now, end = _Waiting(look, way, asked, events_of(first), drove=now.driver).until_over(hands.pause)
        return _finish(asked, now, end, hints, shown=True)
    except HoldfastError as error:
        sys.stderr.write(f"holdfast: {error}\n")
        print_failure(asked.output, type(error).__name__, str(error))
        return _NO
    except KeyboardInterrupt:
        done = f"{way.begun}, and that goes on; take it back with {hints.back}" if set_now else "was not changed"
        sys.stderr.write(f"holdfast: {asked.app} {done}\n")
        return _INTERRUPTED


def _suspend(client: ClusterClient, namespace: str, name: str, suspend: bool) -> None:  # noqa: FBT001 - it is the value
    if client.ask(ApiRequest("patch", APPS, namespace, name, body={"spec": {"suspend": suspend}})) is None:
        message = f"StreamApp {name} in namespace {namespace} was deleted a moment ago"
        raise AppUnknownError(message)


@dataclass(frozen=True, slots=True)
class _Hints:
    """Command lines for the same cluster and namespace."""

    status: str
    back: str
    back_by_kubectl: str


def _hints(place: ClusterPlace, app: str, way: SuspendDirection) -> _Hints:
    patch = json.dumps({"spec": {"suspend": not way.suspend}}, separators=(",", ":"))
    return _Hints(
        place.command("holdfast", "status", app),
        place.command("holdfast", way.back, app),
        place.command("kubectl", "patch", "streamapp", app, "--type=merge", "-p", patch),
    )


def _finish(asked: SuspendOptions, now: SuspendProgress, end: SuspendOutcome, hints: _Hints, *, shown: bool) -> int:
    """Print the outcome; return the exit code. `shown`: the current progress has already been printed."""
    if end.code != 0:
        sys.stderr.write(f"holdfast: {asked.app}: {end.text}; see {hints.status}\n")
    elif asked.output == "text":
        console = screen(asked.color)
        console.print(styled((asked.app, "bold"), f" {end.text}"))
        if now.suspend:
            console.print(styled(("take it up again: ", "dim"), hints.back))
            console.print(styled(("or with:          ", "dim"), hints.back_by_kubectl))
    if asked.output == "json" and not shown:
        _write_json(now)
    return end.code


def _write_json(now: SuspendProgress) -> None:
    sys.stdout.write(json.dumps(now.tree(), ensure_ascii=False) + "\n")


class _Waiting:
    """Looks at the app, shows and judges its progress until the drain or resumption is over."""

    def __init__(
        self,
        look: Callable[[], AppDetail],
        way: SuspendDirection,
        asked: SuspendOptions,
        before: tuple[AppEvent, ...],
        *,
        drove: bool,
    ) -> None:
        self._look, self._way, self._asked, self._before = look, way, asked, before
        self._drove, self._late = drove, 0

    def until_over(self, pause: Callable[[], None]) -> tuple[SuspendProgress, SuspendOutcome]:
        """Return the last progress and the outcome."""
        began = time.monotonic()
        now: SuspendProgress | None = None
        with ExitStack() as opened:
            view = self._view(opened)
            while True:
                trouble = None
                try:
                    now = progress_of(self._look(), self._before)
                except RetrySoonError as error:
                    trouble = str(error)
                if now is not None:
                    view.show(now, trouble)
                    end = None if trouble else self._judged(now)
                    if end is not None:
                        return now, end
                    if self._asked.timeout is not None and time.monotonic() - began >= self._asked.timeout:
                        return now, SuspendOutcome(_NO, f"{self._way.begun}, not done within the --timeout: {now.line}")
                pause()

    def _judged(self, now: SuspendProgress) -> SuspendOutcome | None:
        self._drove = self._drove or now.driver
        end = self._way.judge(now)
        if end is not None and end.code == 0 and self._way.suspend and self._drove and now.ended is None:
            self._late += 1
            return end if self._late > _LATE else None
        return end

    def _view(self, opened: ExitStack) -> WatchView[SuspendProgress]:
        if self._asked.output == "json":
            return ChangesView(_write_json)
        live = live_screen(self._asked.color)
        if sys.stdout.isatty() and not live.is_dumb_terminal:
            return opened.enter_context(LiveView(live, _draw))
        return ChangesView(functools.partial(_draw, screen(self._asked.color)))


def _draw(console: Console, now: SuspendProgress) -> None:
    console.print(styled(now.line))
