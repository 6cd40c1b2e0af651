"""Logs of an app's pods: which pods are selected, and the follower that reads them from attempt to attempt.

What kubectl can't do: pods are named by attempt and executor number, and a follower goes on in the pod that comes next.
Each log has a thread that prints lines as they arrive. A log that breaks off is read on after its last line, found by
the timestamp that the kubelet puts before each line. Messages go to stderr, so that stdout holds nothing but lines.
"""

import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from holdfast.api_answers import NotAllowedError
from holdfast.errors import HoldfastError, RetrySoonError, UserActionError, WorldChangeError
from holdfast.protocol.names import APP_ID_LABEL
from holdfast.protocol.pods import MAIN, PodPhase, PodState, pod_state
from holdfast.reasons import Reason
from holdfast_cli.cluster.app import AppUnknownError, ClusterApp
from holdfast_cli.output.amounts import many
from holdfast_cli.output.screen import one_line

DRIVER = "driver"
_PATIENCE = 3
"""For how many looks a log is still read although its pod is replaced or its app is over: a lost node's never end."""
_END = 2.0
_ORDINAL = re.compile(r"-([0-9]{1,9})\Z")
_STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)) ?")


@dataclass(frozen=True, slots=True)
class PodLog:
    """A pod whose log can be read."""

    label: str
    """`driver`, or the executor's number, which stays the same when the pod is replaced."""
    attempt: int
    run: str
    """The Spark app id, which is the same in every attempt of a run."""
    pod: PodState

    @property
    def order(self) -> tuple[int, int]:
        """Return a sort key: later pods sort after earlier ones."""
        return self.pod.created, self.attempt

    @property
    def container(self) -> str:
        """Return the name of Holdfast's container; a pod template may have added others."""
        return MAIN["driver" if self.label == DRIVER else "executors"]

    @property
    def begun(self) -> bool:
        """Return whether the pod can have a log yet."""
        return self.pod.over or self.pod.phase is PodPhase.RUNNING or self.pod.ended is not None

    @property
    def not_yet(self) -> str:
        """Return why there is no log yet."""
        why = self.pod.unschedulable or ": ".join(filter(None, self.pod.waiting or ()))
        return f"{self.pod.name} has no log yet: {one_line(why) or f'it is {self.pod.phase}'}"


@dataclass(frozen=True, slots=True)
class AppPods:
    """An app and its pods at one moment."""

    app: ClusterApp
    attempts: tuple[tuple[PodLog, ...], ...]
    """By age, newest last; in each the driver first, then executors by number."""


@dataclass(frozen=True, slots=True)
class LogSelection:
    """Which logs of an app the user asks for."""

    driver: bool = True
    executors: frozenset[int] | None = frozenset()
    """Executor numbers; None: all."""
    attempt: int | None = None
    """None: the newest."""
    previous: bool = False
    """Driver: the previous attempt. Executors: the same pod's log before its container was restarted."""

    @property
    def words(self) -> str:
        """Return the selection in words, e.g. `executor 1, 2`."""
        if self.executors is None:
            return "driver or executors" if self.driver else "executors"
        return "driver" if self.driver else f"executor {', '.join(map(str, sorted(self.executors)))}"

    @property
    def several(self) -> bool:
        """Return whether several logs may be mixed, so that each line needs its label."""
        return self.executors is None or len(self.executors) > 1

    def takes(self, log: PodLog) -> bool:
        """Return whether the log is selected, of whichever attempt."""
        if log.label == DRIVER:
            return self.driver
        return self.executors is None or int(log.label) in self.executors


def attempts_in(pods: Iterable[Mapping[str, Any]]) -> tuple[tuple[PodLog, ...], ...]:
    """Return the pods of each attempt as `AppPods` has them; pods that belong to no attempt are left out."""
    logs_by_attempt: dict[tuple[str, int], list[PodLog]] = {}
    for tree in pods:
        pod, labels = pod_state(tree), (tree.get("metadata") or {}).get("labels") or {}
        ordinal = _ORDINAL.search(pod.name)
        label = DRIVER if pod.role == "driver" else ordinal[1] if pod.role == "executor" and ordinal else None
        if pod.attempt is not None and label is not None:
            log = PodLog(label, pod.attempt, str(labels.get(APP_ID_LABEL)), pod)
            logs_by_attempt.setdefault((log.run, log.attempt), []).append(log)
    attempts = [tuple(sorted(logs, key=_by_label)) for logs in logs_by_attempt.values()]
    return tuple(sorted(attempts, key=lambda logs: max(log.order for log in logs)))


def _by_label(log: PodLog) -> tuple[int, int]:
    return (0, log.pod.created) if log.label == DRIVER else (1, int(log.label))


def selected_logs(attempts: Sequence[tuple[PodLog, ...]], selection: LogSelection) -> tuple[PodLog, ...]:
    """Return the selected logs of the attempt that is asked for; empty if they don't exist."""
    if selection.attempt is None:
        # For executors, `previous` is passed to the kubelet and concerns the same pod.
        within = attempts[:-1] if selection.previous and selection.driver else attempts
    else:
        within = [logs for logs in attempts if logs[0].attempt == selection.attempt]
    return tuple(filter(selection.takes, within[-1])) if within else ()


def no_pods_message(look: AppPods, selection: LogSelection, hint: str) -> str:
    """Say why there is no log and what to do; `hint` is the command that shows the app's status."""
    number = "" if selection.attempt is None else f" of attempt {selection.attempt}"
    before = " before the newest attempt's" if selection.previous and selection.driver else ""
    attempts = ", ".join(map(_attempt_words, look.attempts))
    has = f"pods are there of {attempts}" if attempts else "it has no pods"
    app = look.app
    return (
        f"there is no pod of the {selection.words}{number}{before} of {app.name} in namespace {app.namespace}: {has}; "
        f"{app.name} is {app.verdict.text} ({hint}); "
        "a log goes with its pod; what collects the logs of this cluster may still have it"
    )


def _attempt_words(logs: tuple[PodLog, ...]) -> str:
    executors = sum(log.label != DRIVER for log in logs)
    roles = [*([DRIVER] if executors < len(logs) else []), *([many(executors, "executor")] if executors else [])]
    return f"attempt {logs[0].attempt} ({', '.join(roles)})"


def say(what: str) -> None:
    """Print a message to stderr, apart from the log."""
    sys.stderr.write(f"holdfast: {what}\n")
    sys.stderr.flush()


def print_line(log: PodLog, line: bytes, selection: LogSelection) -> None:
    """Print a line at once. On a terminal, replace characters that would move the cursor."""
    text = line.decode(errors="replace")
    if sys.stdout.isatty() and not text.isprintable():
        text = "".join(letter if letter.isprintable() or letter == "\t" else " " for letter in text)
    sys.stdout.write(f"[{log.label}] {text}\n" if selection.several else f"{text}\n")
    sys.stdout.flush()


def line_time(line: bytes) -> tuple[tuple[datetime, str] | None, bytes]:
    """Return when a line was written and the line without that; None: it does not say.

    The text tells moments within a microsecond apart.
    """
    if match := _STAMP.match(line):
        text = match[1].decode()
        with suppress(ValueError):
            return (datetime.fromisoformat(text), text), line[match.end() :]
    return None, line


class OpenLog(Protocol):
    """A log that is being read."""

    def __iter__(self) -> Iterator[bytes]:
        """Yield lines as they arrive."""

    def cut(self) -> None:
        """End the log from another thread."""

    def close(self) -> None:
        """Release the connection."""


LogOpener = Callable[[PodLog, Mapping[str, str]], OpenLog | None]
"""Opens a log with these query parameters, or returns None if its pod is gone."""


@dataclass(slots=True)
class _Reading:
    """What is read of one pod; a thread writes all but the patience."""

    log: PodLog
    stream: OpenLog | None = None
    open: bool = True
    error: HoldfastError | OSError | None = None
    """Why it broke off; an `OSError`: nobody reads our output."""
    seen: tuple[datetime, str] | None = None
    patience: int = _PATIENCE

    @property
    def whole(self) -> bool:
        """Return whether no line can follow: it ended, and not because of a connection."""
        return not self.open and self.error is None and self.log.pod.over


class LogFollower:
    """Follows logs from attempt to attempt until the app is over; `with closing(LogFollower(...)) as follower:`."""

    def __init__(self, opens: LogOpener, selection: LogSelection, query: Mapping[str, str]) -> None:
        self._opens, self._asked = opens, selection
        # Without timestamps, a broken log could not continue after its last line.
        self._query, self._stamped = {**query, "follow": "true", "timestamps": "true"}, "timestamps" in query
        self._readings: dict[str, _Reading] = {}
        """Label -> the pod opened last."""
        self._threads: list[threading.Thread] = []
        self._printing, self._closing = threading.Lock(), threading.Event()
        self._said: set[str] = set()
        """What need not be said again until a log is opened."""

    def follow(self, looks: Callable[[], AppPods], every: float, hint: str) -> None:
        """Follow until the app is completed or deleted, or the requested attempt is over; look `every` few seconds."""
        look, selection = looks(), self._asked
        if selection.attempt is not None and not selected_logs(look.attempts, selection):
            # It will not get any later.
            raise WorldChangeError(no_pods_message(look, selection, hint), code="NoLogError")
        deleted, away = None, False
        while True:
            if not away:
                over = deleted or self._over(look)
                if not self._open_due(look, over):
                    if over is not None:
                        say(over)
                        return
                    waits = [log.not_yet for log in selected_logs(look.attempts, selection) if not log.begun]
                    why = waits[0] if waits else look.app.verdict.message
                    self._say_once(f"waiting for the {selection.words} of {look.app.name}: {why}")
            time.sleep(every)
            try:
                look, away = looks(), False
            except AppUnknownError:
                look, deleted, away = AppPods(look.app, ()), f"{look.app.name} is deleted", False
            except RetrySoonError as error:
                if not away:
                    say(str(error))
                away = True

    def close(self) -> None:
        """End all logs. A request without an answer yet can't be woken; it ends by its own timeout."""
        self._closing.set()
        for reading in self._readings.values():
            if reading.stream is not None:
                reading.stream.cut()
        deadline = time.monotonic() + _END
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _say_once(self, text: str) -> None:
        if text not in self._said:
            say(text)
        self._said.add(text)

    def _over(self, look: AppPods) -> str | None:
        """Return why no more lines will come; None: they may."""
        selection, app = self._asked, look.app
        if selection.attempt is None:
            return f"{app.name} is completed" if app.verdict.reason == Reason.COMPLETED else None
        # An attempt is never started again once a later one has begun or its pods are over.
        attempt_logs = selected_logs(look.attempts, selection)
        newer = (logs[0] for logs in look.attempts if logs[0].attempt > selection.attempt)
        later = any(not attempt_logs or log.run == attempt_logs[0].run for log in newer)
        ended = (self._readings or later) and all(log.pod.over for log in attempt_logs)
        return f"attempt {selection.attempt} of {app.name} has ended" if ended else None

    def _open_due(self, look: AppPods, over: str | None) -> bool:
        """Open the logs whose turn it is; return whether any is read now."""
        selection, busy = self._asked, False
        pods = [log for logs in look.attempts for log in logs if selection.attempt in (None, log.attempt)]
        newest = {log.label: log for log in selected_logs(look.attempts, selection)}
        for label in {**self._readings, **newest}:
            reading = self._readings.get(label)
            label_logs = sorted((log for log in pods if log.label == label), key=lambda log: log.order)
            # Asked once: a thread may end it at any moment, and its error is looked at in the next round.
            reads = reading is not None and reading.open
            due = newest[label] if reading is None else self._due(reading, label_logs, over, reads=reads)
            if due is not None and due.begun:
                self._start(reading, due)
                busy = True
            busy |= reads
        return busy

    def _due(self, reading: _Reading, logs: Sequence[PodLog], over: str | None, *, reads: bool) -> PodLog | None:
        """Return the log to open after this one, or this one again; cut one that should have ended."""
        same_log = next((log for log in logs if log.pod.uid == reading.log.pod.uid), None)
        later = next((log for log in logs if log.order >= reading.log.order and log is not same_log), None)
        if later or over:
            reading.patience -= 1
        if reads:
            if reading.patience < 0 and reading.stream is not None:
                reading.stream.cut()
            return None
        if isinstance(reading.error, UserActionError | NotAllowedError | OSError):
            raise reading.error
        if reading.error is not None:
            self._say_once(f"{reading.log.pod.name}: {reading.error}; it is read on when it can be")
        return later if same_log is None or reading.whole or reading.patience < 0 else same_log

    def _start(self, before: _Reading | None, log: PodLog) -> None:
        """Read this log in a thread; one that was read before continues after its last line."""
        query, reading = dict(self._query), _Reading(log)
        same = before is not None and before.log.pod.uid == log.pod.uid
        if before is not None and same:
            reading.seen, reading.patience = before.seen, before.patience
        elif before is not None:
            who = "the driver" if log.label == DRIVER else f"executor {log.label}"
            say(f"{who} of attempt {before.log.attempt} is over; attempt {log.attempt} goes on in {log.pod.name}")
        if not same:
            self._said.clear()
        if reading.seen is not None or (before is not None and not same):
            # These are about where to begin.
            query = {name: value for name, value in query.items() if name not in ("sinceSeconds", "tailLines")}
        if reading.seen is not None:
            query["sinceTime"] = reading.seen[1]
        self._readings[log.label] = reading
        thread = threading.Thread(target=self._read, args=(reading, query), name=f"log of {log.pod.name}", daemon=True)
        self._threads = [running for running in self._threads if running.is_alive()] + [thread]
        thread.start()

    def _read(self, reading: _Reading, query: Mapping[str, str]) -> None:
        try:
            stream = self._opens(reading.log, query)
            if stream is not None:
                with closing(stream):
                    self._pass_on(reading, stream)
        except (HoldfastError, OSError) as error:
            reading.error = error
        finally:
            reading.open = False

    def _pass_on(self, reading: _Reading, stream: OpenLog) -> None:
        reading.stream, before = stream, reading.seen
        if self._closing.is_set():
            return
        for line in stream:
            written_at, text = line_time(line)
            # The API takes whole seconds, so lines of that second that were already seen come again.
            if written_at is None or before is None or written_at > before:
                with self._printing:
                    if self._closing.is_set():
                        return
                    print_line(reading.log, line if self._stamped else text, self._asked)
                reading.seen = written_at or reading.seen
