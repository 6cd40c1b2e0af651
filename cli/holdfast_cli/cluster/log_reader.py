"""Readers of pod logs: how a log is asked for, its time stamps, and many logs read at once into one queue.

Each log is read by a thread of its own; lines come out as they arrive, and a log that broke off is read on behind
the last line by the moment the kubelet puts before each. Each log that was opened is closed, whatever ends the
reading. Must not know which logs are meant.
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
    """What is asked of a log."""

    follow: bool = False
    previous: bool = False
    since_seconds: int | None = None
    tail: int | None = None
    stamped: bool = False
    """Whether each line begins with its moment."""
    since_time: int | None = None
    """Nanoseconds since 1970."""

    def query(self, container: str) -> dict[str, str]:
        """As the API takes it."""
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
    """Nanoseconds since 1970; None: it begins with no moment."""
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
    """What was written."""
    found = _STAMP.match(line)
    return line if found is None else line[found.end() :]


def _second(nanos: int) -> str:
    return datetime.fromtimestamp(nanos // _NANOS, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


_WAITING = 1000
"""Lines that wait to be printed; readers wait then."""
_PAUSE = 0.2
_END = 2.0


class OpenLog(Protocol):
    """A log that is being read."""

    def __iter__(self) -> Iterator[bytes]:
        """Its lines, as they come."""

    def cut(self) -> None:
        """End it from another thread."""

    def close(self) -> None:
        """Let its connection go."""


LogOpener = Callable[[PodLog, LogQuery], OpenLog | None]
"""Opens a log; None: its pod is gone."""


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line."""

    source: PodLog
    text: bytes


@dataclass(frozen=True, slots=True)
class LogEnd:
    """A log has ended."""

    source: PodLog
    error: HoldfastError | None
    """None: as logs do when their container ends, or its pod is gone."""


class LogReaders:
    """`with closing(Readings(opens)) as readings: ...`."""

    def __init__(self, opens: LogOpener) -> None:
        self._opens = opens
        self._queue: queue.Queue[LogLine | LogEnd] = queue.Queue(_WAITING)
        self._closing = threading.Event()
        self._guard = threading.Lock()
        self._lines: dict[str, OpenLog] = {}
        """Uid -> what is being read."""
        self._threads: list[threading.Thread] = []
        self._seen: dict[str, int] = {}
        """Uid -> stamp of the last line that came, where lines have stamps."""
        self.open: dict[str, PodLog] = {}
        """Label -> what is being read, until its end was taken out."""

    def start(self, source: PodLog, how: LogQuery) -> None:
        """Read it; if it was read before and broke off, from where it did."""
        after = self._seen.get(source.pod.uid)
        asked = how if after is None else replace(how, since_time=after, since_seconds=None, tail=None)
        self.open[source.label] = source
        thread = threading.Thread(
            target=self._read, args=(source, asked), name=f"log of {source.pod.name}", daemon=True
        )
        self._threads = [one for one in self._threads if one.is_alive()] + [thread]
        thread.start()

    def next(self, timeout: float | None) -> LogLine | LogEnd | None:
        """What comes next; None: nothing came in time."""
        try:
            item = self._queue.get(timeout=timeout)
        except queue.Empty:
            return None
        if isinstance(item, LogEnd):
            self.open.pop(item.source.label, None)
        return item

    def cut(self, label: str) -> None:
        """End one."""
        with self._guard:
            lines = self._lines.get(self.open[label].pod.uid)
        if lines is not None:
            lines.cut()

    def close(self) -> None:
        """End all. One that has not been answered yet can't be woken: it is left to its deadline."""
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
                # The API takes whole seconds: what was seen of that second comes again.
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
