"""OpenLineage events of a driver's attempts: sent to a server by a thread of their own.

    attempt ready -> START      batches -> RUNNING, at most once a minute      over -> COMPLETE, ABORT or FAIL

A server of lineage is no part of what an app needs: nothing waits for it but the end of the process, for a few seconds.
What can't be sent is gone, with one warning for each kind of failure. Must not log the token, nor raise into a run.
"""

import http.client
import json
import logging
import os
import queue
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self
from urllib.parse import urlsplit

from holdfast.errors import HoldfastError, code_of
from holdfast.one_line import one_line
from holdfast.planning.open_lineage import LineageJob, LineageRun, RunState, lineage_job
from holdfast.protocol.attempt import AttemptOrders
from holdfast.spec.app import StreamApp
from holdfast.spec.runtime import LineageEndpoint
from holdfast_runtime.clocks import steady
from holdfast_runtime.progress import AttemptStarted, EndCause, Event, Progress, RunEnded
from holdfast_runtime.streams.logins import LoginPlace

_LOG = logging.getLogger("holdfast")
_PATH = "/api/v1/lineage"
"""Where servers take events, if the url says nothing else."""
_ANSWER_WITHIN = 5.0
"""Seconds for each read and write."""
_LAST_WITHIN = 5.0
"""Seconds that the end of a driver waits for its last event."""
_MOST_WAITING = 4
"""Two attempts that begin and end."""
_APART = 60_000
"""Milliseconds between two events of an attempt that runs."""
_OK = range(200, 300)
_ENDED = (BrokenPipeError, ConnectionAbortedError, ConnectionResetError)
"""Which of these it is depends on how far the request was."""


class LineageServerError(Exception):
    """An event was not taken. `kind` is the same for failures that one warning is enough for."""

    def __init__(self, kind: str, why: str) -> None:
        super().__init__(why)
        self.kind = kind


class LineageServer:
    """A server that takes events."""

    def __init__(self, url: str, token: str | None = None, authority: str | None = None) -> None:
        """`authority`: who signs its certificate, as PEM text. Raise `ValueError` for what no request can have."""
        parts = urlsplit(url)
        self._host, self._port, self._path = parts.hostname or "", parts.port, parts.path.rstrip("/") or _PATH
        self._encryption = ssl.create_default_context(cadata=authority) if parts.scheme == "https" else None
        self._headers = {"Content-Type": "application/json", "User-Agent": "holdfast"}
        if token:
            if not token.isascii() or not token.isprintable():
                message = "its token has letters that no header has"
                raise ValueError(message)
            self._headers["Authorization"] = f"Bearer {token}"

    def post(self, body: bytes) -> None:
        """Send an event; raise `LineageServerError`. Redirects are not followed, as the token would go elsewhere."""
        connection = (
            http.client.HTTPConnection(self._host, self._port, timeout=_ANSWER_WITHIN)
            if self._encryption is None
            else http.client.HTTPSConnection(self._host, self._port, timeout=_ANSWER_WITHIN, context=self._encryption)
        )
        try:
            connection.request("POST", self._path, body, self._headers)
            status = connection.getresponse().status
        except _ENDED as error:
            kind, why = "ended", "it ended the connection"
            raise LineageServerError(kind, why) from error
        except (OSError, http.client.HTTPException, UnicodeError) as error:
            raise LineageServerError(type(error).__name__, str(error) or type(error).__name__) from error
        finally:
            connection.close()
        if status not in _OK:
            raise LineageServerError(str(status), f"it answered {status}")


class _Post(NamedTuple):
    state: RunState
    attempt: LineageRun
    at: int
    error: str | None


class LineagePosts:
    """Tells a server of the attempts of one driver. `job` is made in the thread, as it takes a plan's time."""

    def __init__(
        self, server: LineageServer, job: Callable[[], LineageJob], uid: str, clock: Callable[[], int] = steady
    ) -> None:
        self._server, self._make, self._uid, self._clock = server, job, uid, clock
        self._job: LineageJob | None = None
        self._attempt: LineageRun | None = None
        self._running_at = 0
        self._waiting: queue.Queue[_Post | None] = queue.Queue(_MOST_WAITING)
        self._warned: set[str] = set()
        self._given_up = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lineage", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._end("FAIL", f"{code_of(error)}: {error}")
        deadline = time.monotonic() + _LAST_WITHIN
        with suppress(queue.Full):
            self._waiting.put(None, timeout=_LAST_WITHIN)
        self._thread.join(max(0.0, deadline - time.monotonic()))
        self._given_up.set()

    def listen(self, event: Event) -> None:
        """Note what happens in the run."""
        match event:
            case AttemptStarted():
                self._end("COMPLETE")  # of the attempt before, whose inputs have grown
                self._attempt = LineageRun(self._uid, event.run, event.attempt)
                self._running_at = 0
                self._offer("START")
            case Progress():
                now = self._clock()
                # One that waits behind another would say nothing new.
                if now - self._running_at >= _APART and self._waiting.empty():
                    self._running_at = now
                    self._offer("RUNNING")
            case RunEnded():
                self._end("ABORT" if event.ending is EndCause.DRAINED else "COMPLETE")

    def _end(self, state: RunState, error: str | None = None) -> None:
        self._offer(state, error)
        self._attempt = None

    def _offer(self, state: RunState, error: str | None = None) -> None:
        if self._attempt is not None:
            try:
                self._waiting.put_nowait(_Post(state, self._attempt, self._clock(), error))
            except queue.Full:
                self._warn("behind", "it takes events too slowly")

    def _run(self) -> None:
        while not self._given_up.is_set() and (post := self._waiting.get()) is not None:
            try:
                self._send(post)
            except LineageServerError as error:
                self._warn(error.kind, str(error))
            except Exception as error:  # noqa: BLE001 - whatever it is, the run has nothing to do with it
                self._warn(type(error).__name__, f"{type(error).__name__}: {error}")

    def _send(self, post: _Post) -> None:
        if self._job is None:
            self._job = self._make()
        event = self._job.event(post.state, post.attempt, post.at, version=version("holdfast"), error=post.error)
        self._server.post(json.dumps(event).encode())

    def _warn(self, kind: str, why: str) -> None:
        if kind not in self._warned:
            self._warned.add(kind)
            _LOG.warning("lineage can't be sent to the server of runtime.lineage: %s", one_line(why))


def lineage_posts(app: StreamApp, orders: AttemptOrders, secrets: Path | None) -> LineagePosts | None:
    """Return what sends lineage where the spec says; None if it says nothing, or what it says is of no use."""
    declared = app.spec.runtime.lineage
    if declared is None:
        return None
    try:
        server = _server(declared, secrets)
    except (HoldfastError, OSError, ValueError) as error:
        _LOG.warning("no lineage is sent (runtime.lineage): %s", one_line(error))
        return None
    return LineagePosts(server, lambda: lineage_job(app, orders.namespace), orders.uid)


def _server(declared: LineageEndpoint, secrets: Path | None) -> LineageServer:
    # `HOLDFAST_LINEAGE__OPENLINEAGE__TOKEN` overrides the Secret.
    place = LoginPlace("the server of runtime.lineage", "LINEAGE", "openlineage", declared.secret_name, "TOKEN")
    login = place.entries(secrets, os.environ)
    return LineageServer(declared.url, login.get("token"), login.get("ca.crt"))
