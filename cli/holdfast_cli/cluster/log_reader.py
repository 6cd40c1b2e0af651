"""Readers of pod logs: the log query, line timestamps, and many logs read in parallel into one queue.

Each log has a thread of its own; lines come out as they arrive. A broken log continues after its last line, found by
the timestamp that the kubelet puts before each line. Every opened log is closed, however reading ends. Must not know
which logs are selected.
"""

import queue
import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Protocol

from holdfast.errors import HoldfastError
from holdfast_cli.cluster.log_pods import PodLog

_STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d) ?")
_NANOS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class LogQuery:
    """The options of a log request."""

    follow: bool = False
    previous: bool = False
    since_seconds: int | None = None
    tail: int | None = None
    stamped: bool = False
    """Whether each line begins with its timestamp."""
    since_time: int | None = None
    """Nanoseconds since 1970."""

    def query(self, container: str) -> dict[str, str]:
        """Return the query parameters of the API."""
        asked = {
            "container": container,
            "follow": "true" if self.follow else None,
            "previous": "true" if self.previous else None,
            "sinceSeconds": None if self.since_seconds is None else str(self.since_seconds),
            "sinceTime": None if self.since_time is None else _second(self.since_time),
            "tailLines": None if self.tail is None else str(self.tail),
            "timestamps": "true" if self.stamped else None,
        }
        return {name: value for name, value in asked.items() if value is not None}


def stamp_of(line: bytes) -> int | None:
    """Return a line's timestamp in nanoseconds since 1970, or None if it has none."""
    found = _STAMP.match(line)
    if found is None:
        return None
    second, fraction, zone = found.groups()
    try:
        at = datetime.fromisoformat((second + zone.replace(b"Z", b"+00:00")).decode())
    except ValueError:
        return None
    return int(at.timestamp()) * _NANOS + int((fraction or b"0").ljust(9, b"0"))


def without_stamp(line: bytes) -> bytes:
    """Return the line without its timestamp."""
    found = _STAMP.match(line)
    return line if found is None else line[found.end() :]


def _second(nanos: int) -> str:
    return datetime.fromtimestamp(nanos // _NANOS, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


_WAITING = 1000
"""Maximum number of unprinted lines; readers wait when it is reached."""
_PAUSE = 0.2
_END = 2.0


class OpenLog(Protocol):
    """A log that is being read."""

    def __iter__(self) -> Iterator[bytes]:
        """Yield lines as they arrive."""

    def cut(self) -> None:
        """End the log from another thread."""

    def close(self) -> None:
        """Release the connection."""


LogOpener = Callable[[PodLog, LogQuery], OpenLog | None]
"""Opens a log, or returns None if its pod is gone."""


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of a log."""

    source: PodLog
    text: bytes


@dataclass(frozen=True, slots=True)
class LogEnd:
    """The end of a log."""

    source: PodLog
    error: HoldfastError | None
    """None: the container ended normally, or the pod is gone."""


class LogReaders:
    """Reads logs in threads until closed: `with closing(LogReaders(opens)) as readers: ...`."""

    def __init__(self, opens: LogOpener) -> None:
        self._opens = opens
        self._queue: queue.Queue[LogLine | LogEnd] = queue.Queue(_WAITING)
        self._closing = threading.Event()
        self._guard = threading.Lock()
        self._lines: dict[str, OpenLog] = {}
        """Pod uid -> the log being read."""
        self._threads: list[threading.Thread] = []
        self._seen: dict[str, int] = {}
        """Pod uid -> timestamp of the last line, if lines have timestamps."""
        self.open: dict[str, PodLog] = {}
        """Label -> the pod being read, until its `LogEnd` has been taken from the queue."""

    def start(self, source: PodLog, how: LogQuery) -> None:
        """Start reading a log; one that was read before continues after its last line."""
        after = self._seen.get(source.pod.uid)
        asked = how if after is None else replace(how, since_time=after, since_seconds=None, tail=None)
        self.open[source.label] = source
        thread = threading.Thread(
            target=self._read, args=(source, asked), name=f"log of {source.pod.name}", daemon=True
        )
        self._threads = [one for one in self._threads if one.is_alive()] + [thread]
        thread.start()

    def next(self, timeout: float | None) -> LogLine | LogEnd | None:
        """Return the next line or end, or None on timeout."""
        try:
            item = self._queue.get(timeout=timeout)
        except queue.Empty:
            return None
        if isinstance(item, LogEnd):
            self.open.pop(item.source.label, None)
        return item

    def cut(self, label: str) -> None:
        """End the log with this label."""
        with self._guard:
            lines = self._lines.get(self.open[label].pod.uid)
        if lines is not None:
            lines.cut()

    def close(self) -> None:
        """End all logs. A request without an answer yet can't be woken; it ends by its own timeout."""
        self._closing.set()
        with self._guard:
            for lines in self._lines.values():
                lines.cut()
        deadline = time.monotonic() + _END
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _read(self, source: PodLog, how: LogQuery) -> None:
        error = None
        try:
            lines = self._opens(source, how)
            if lines is not None:
                self._pass_on(source, lines, how)
        except HoldfastError as failed:
            error = failed
        self._put(LogEnd(source, error))

    def _pass_on(self, source: PodLog, lines: OpenLog, how: LogQuery) -> None:
        uid = source.pod.uid
        with self._guard:
            self._lines[uid] = lines
        try:
            if self._closing.is_set():
                return
            for text in lines:
                stamp = stamp_of(text) if how.stamped else None
                # The API takes whole seconds, so lines of that second that were already seen come again.
                if stamp is not None and how.since_time is not None and stamp <= how.since_time:
                    continue
                if not self._put(LogLine(source, text)):
                    return
                if stamp is not None:
                    self._seen[uid] = stamp
        finally:
            with self._guard:
                del self._lines[uid]
                lines.close()

    def _put(self, item: LogLine | LogEnd) -> bool:
        while not self._closing.is_set():
            try:
                self._queue.put(item, timeout=_PAUSE)
            except queue.Full:
                continue
            return True
        return False
