"""The implementation of `holdfast logs`: prints logs once, or follows them from attempt to attempt.

Looks up the app and its pods, opens logs, turns errors into exit codes. Messages about the log go to stderr, so that
stdout holds nothing but its lines. Reads with the user's rights and writes nothing. Must not decide which pods are
selected.
"""

import argparse
import functools
import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TextIO

from holdfast.errors import HoldfastError, RetrySoonError, UserActionError, WorldChangeError
from holdfast.protocol.names import APP_LABEL
from holdfast.reasons import Reason
from holdfast_cli.cluster.app import AppUnknownError, ClusterApp, ObjectReader, find_app
from holdfast_cli.cluster.client import ClusterClient, ClusterReader, LogStream, QuietError
from holdfast_cli.cluster.log_pods import (
    DRIVER,
    AttemptPods,
    FollowedLogs,
    LogSelection,
    PodLog,
    attempts_in,
    no_pods_message,
    selected_logs,
)
from holdfast_cli.cluster.log_reader import LogEnd, LogLine, LogQuery, LogReaders, without_stamp
from holdfast_cli.cluster.requests import PODS, ApiRequest
from holdfast_cli.cluster.target import cluster_place

_UNREADABLE = 1
_PATIENCE = 3
"""For how many looks a log may stay open although its pod is replaced or its app is over."""


class NoLogError(WorldChangeError):
    """The selected pods don't exist or have not started."""


@dataclass(frozen=True, slots=True)
class AppPods:
    """An app and its pods at one moment."""

    app: ClusterApp
    attempts: tuple[AttemptPods, ...]


@dataclass(frozen=True, slots=True)
class LogPrinter:
    """Prints log lines."""

    out: TextIO
    prefixed: bool
    strips: bool
    """Whether lines carry timestamps that the user did not ask for."""

    def line(self, line: LogLine) -> None:
        """Print the line at once. On a terminal, replace characters that would move the cursor."""
        text = (without_stamp(line.text) if self.strips else line.text).decode(errors="replace")
        if self.out.isatty() and not text.isprintable():
            text = "".join(letter if letter.isprintable() or letter == "\t" else " " for letter in text)
        self.out.write(f"[{line.source.label}] {text}\n" if self.prefixed else f"{text}\n")
        self.out.flush()


@dataclass(frozen=True, slots=True)
class LogRequest:
    """The options of the command line."""

    asked: LogSelection
    how: LogQuery
    hint: str
    """The command that shows the app's status."""


def show_once(look: AppPods, wanted: LogRequest, readings: LogReaders, paper: LogPrinter) -> int:
    """Print the existing lines of the selected logs; return the exit code."""
    asked = wanted.asked
    found = selected_logs(look.attempts, asked)
    if not found:
        raise NoLogError(no_pods_message(look.app, look.attempts, asked, wanted.hint))
    code = 0
    missing = sorted((asked.executors or frozenset()) - {int(one.label) for one in found if one.label != DRIVER})
    if missing:
        say(f"attempt {found[0].attempt} of {look.app.name} has no executor {', '.join(map(str, missing))}")
        code = _UNREADABLE
    _say_older(look, found[0], asked)
    for source in found:
        if source.begun:
            readings.start(source, replace(wanted.how, previous=asked.previous and source.label != DRIVER))
        else:
            say(f"{source.pod.name} has no log yet: {source.why_not_begun}")
            code = _UNREADABLE
    while readings.open:
        item = readings.next(None)
        if isinstance(item, LogLine):
            paper.line(item)
        elif isinstance(item, LogEnd) and item.error is not None:
            say(f"{item.source.pod.name}: {item.error}")
            code = _UNREADABLE
    return code


def say(what: str) -> None:
    """Print a message to stderr, apart from the log."""
    sys.stderr.write(f"holdfast: {what}\n")
    sys.stderr.flush()


def _say_older(look: AppPods, source: PodLog, asked: LogSelection) -> None:
    """Warn that the log is of an older attempt, which is easily mistaken for the newest."""
    newest, run = look.app.status.attempt, look.app.status.run_id
    if asked.attempt is None and not asked.previous and newest is not None and run and source.attempt < newest:
        said = look.app.verdict
        say(f"attempt {newest} has no pod ({said.reason}: {said.message}); this is attempt {source.attempt}")


class LogFollower:
    """Follows logs from attempt to attempt until the app is over."""

    def __init__(
        self, look: Callable[[], AppPods], wanted: LogRequest, readings: LogReaders, paper: LogPrinter
    ) -> None:
        self._look, self._wanted, self._readings, self._paper = look, wanted, readings, paper
        self._course = FollowedLogs(wanted.asked)
        self._said: str | None = None
        self._trouble = False
        self._waited = 0
        self._complaints: dict[str, str] = {}
        """Pod uid -> the last message about its log."""

    def follow(self, every: float) -> None:
        """Follow until the app is completed or deleted, or the requested attempt is over."""
        app = None
        while True:
            try:
                look = self._look()
                if app is None:
                    self._check(look)
                app, over = look.app, self._over(look)
                self._trouble = False
                self._open(look)
                if over is None and not self._readings.open:
                    self._say_waiting(look)
                self._give_up(look, over)
            except AppUnknownError:
                if app is None:
                    raise
                over = f"{app.name} is deleted"
                self._cut_after_a_while(frozenset(self._readings.open))
            except RetrySoonError as error:
                if app is None:
                    raise
                over = None
                if not self._trouble:
                    say(str(error))
                self._trouble = True
            if over is not None and not self._readings.open:
                say(over)
                return
            self._print_until(time.monotonic() + every)

    def _check(self, look: AppPods) -> None:
        """Raise if the requested attempt has no pods: it will not get any later."""
        asked = self._wanted.asked
        if asked.attempt is not None and not selected_logs(look.attempts, asked):
            raise NoLogError(no_pods_message(look.app, look.attempts, asked, self._wanted.hint))

    def _open(self, look: AppPods) -> None:
        due = self._course.due(look.attempts, self._readings.open)
        for source in due:
            before = self._course.last.get(source.label)
            how = replace(self._wanted.how, previous=False)
            if before is not None and before.pod.uid != source.pod.uid:
                who = "the driver" if source.label == DRIVER else f"executor {source.label}"
                say(f"{who} of attempt {before.attempt} is over; attempt {source.attempt} goes on in {source.pod.name}")
                how = replace(how, since_seconds=None, tail=None)
            self._course.last[source.label] = source
            self._said = None
            self._readings.start(source, how)

    def _say_waiting(self, look: AppPods) -> None:
        """Say once why no log is being read."""
        verdict = look.app.verdict
        waits = [one for one in selected_logs(look.attempts, self._wanted.asked) if not one.begun]
        why = f"{waits[0].pod.name} has no log yet: {waits[0].why_not_begun}" if waits else verdict.message
        text = f"waiting for the {self._wanted.asked.words} of {look.app.name}: {why}"
        if text != self._said:
            say(text)
        self._said = text

    def _over(self, look: AppPods) -> str | None:
        """Return why no more lines will come; None: they may."""
        asked, app = self._wanted.asked, look.app
        if asked.attempt is not None:
            # An attempt is never started again once a later one has begun or its pods are over.
            mine = selected_logs(look.attempts, asked)
            later = any(one.number > asked.attempt for one in look.attempts if not mine or one.run == mine[0].run)
            if (self._course.last or later) and all(one.pod.over for one in mine):
                return f"attempt {asked.attempt} of {app.name} has ended"
            return None
        if app.verdict.reason == Reason.COMPLETED:
            return f"{app.name} is completed"
        return None

    def _give_up(self, look: AppPods, over: str | None) -> None:
        if over is not None:
            self._cut_after_a_while(frozenset(self._readings.open))
        else:
            self._cut_after_a_while(self._course.overtaken(look.attempts, self._readings.open))

    def _cut_after_a_while(self, labels: frozenset[str]) -> None:
        """End these logs after some looks: logs of pods on a lost node do not end by themselves."""
        self._waited = self._waited + 1 if labels else 0
        if self._waited > _PATIENCE:
            for label in labels:
                self._readings.cut(label)

    def _print_until(self, deadline: float) -> None:
        while (left := deadline - time.monotonic()) > 0:
            item = self._readings.next(left)
            if isinstance(item, LogLine):
                self._paper.line(item)
            elif isinstance(item, LogEnd):
                self._ended(item.source, item.error)

    def _ended(self, source: PodLog, error: HoldfastError | None) -> None:
        broken = self._course.broken
        if error is None:
            broken.pop(source.pod.uid, None)
            return
        if isinstance(error, UserActionError):
            raise error
        broken[source.pod.uid] = broken.get(source.pod.uid, 0) + 1
        text = f"{source.pod.name}: {error}; it is read on when it can be"
        if not isinstance(error, QuietError) and self._complaints.get(source.pod.uid) != text:
            say(text)
            self._complaints[source.pod.uid] = text


_FAILED = 1
_EVERY = 2.0
"""Seconds between two looks with -f."""


def show_logs(options: argparse.Namespace) -> int:
    """Find the logs and print them."""
    place = cluster_place(options)
    wanted = LogRequest(
        _asked(options),
        LogQuery(
            follow=options.follow,
            since_seconds=options.since,
            tail=options.tail,
            # Without timestamps, a broken log could not continue after its last line.
            stamped=options.timestamps or options.follow,
        ),
        place.command("holdfast", "status", options.app),
    )
    paper = LogPrinter(sys.stdout, prefixed=wanted.asked.several, strips=options.follow and not options.timestamps)
    with closing(ClusterClient(place.target)) as client:
        look = functools.partial(_look, ClusterReader(client), place.namespace, options.app)
        with closing(LogReaders(functools.partial(_open, client, place.namespace))) as readings:
            try:
                if not options.follow:
                    return show_once(look(), wanted, readings, paper)
                LogFollower(look, wanted, readings, paper).follow(_EVERY)
            except HoldfastError as error:
                say(str(error))
                return _FAILED
    return 0


def _asked(options: argparse.Namespace) -> LogSelection:
    if options.all or options.executors:
        return LogSelection(driver=options.all, executors=None, attempt=options.attempt, previous=options.previous)
    executors = frozenset(options.executor or ())
    return LogSelection(driver=not executors, executors=executors, attempt=options.attempt, previous=options.previous)


def _look(reader: ObjectReader, namespace: str, name: str) -> AppPods:
    app = find_app(reader, namespace, name)
    return AppPods(app, attempts_in(reader.find(PODS, namespace, {"labelSelector": f"{APP_LABEL}={name}"})))


def _open(client: ClusterClient, namespace: str, source: PodLog, how: LogQuery) -> LogStream | None:
    ask = ApiRequest("get", PODS, namespace, source.pod.name, "log", how.query(source.container))
    return client.lines(ask, follow=how.follow)
