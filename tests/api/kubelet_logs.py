"""A kubelet that the API server can ask for the logs of pods: HTTPS on loopback, for `node-a`.

Tests say what containers write. Answers as a kubelet does: moments, tails, lines since, following until the container
ends. Must not know apps.
"""

import select
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.api.admin import Admin
from tests.api.kubelet_node import node
from tests.api.plane import Plane

_BEGIN = 1_800_000_000
_POLL = 0.05


@dataclass
class Log:
    """What a container wrote."""

    lines: list[str] = field(default_factory=list)
    over: bool = False
    broken: int = 0
    """How often followers are to be cut off."""

    def stamped(self) -> list[tuple[datetime, str]]:
        """A line every tenth of a second, so that many share one."""
        return [
            (datetime.fromtimestamp(_BEGIN + at // 10, UTC).replace(microsecond=at % 10 * 100_000), line)
            for at, line in enumerate(self.lines)
        ]


class KubeletLogs:
    """Made by `kubelet_logs`."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self._logs: dict[tuple[str, str], Log] = {}
        self.asked: list[tuple[str, dict[str, str]]] = []
        """Pod and query of each request."""
        self.following = 0
        """How many followers there are now."""

    def say(self, pod: str, *lines: str, container: str = "driver") -> None:
        """A container writes."""
        with self.changed:
            self.log(pod, container).lines.extend(lines)
            self.changed.notify_all()

    def end(self, pod: str, container: str = "driver") -> None:
        """A container ends."""
        with self.changed:
            self.log(pod, container).over = True
            self.changed.notify_all()

    def cut_off(self, pod: str, container: str = "driver") -> None:
        """The connection of a follower is lost."""
        with self.changed:
            self.log(pod, container).broken += 1
            self.changed.notify_all()

    def log(self, pod: str, container: str) -> Log:
        """Of this container."""
        return self._logs.setdefault((pod, container), Log())


@contextmanager
def kubelet_logs(plane: Plane, admin: Admin) -> Iterator[KubeletLogs]:
    """A node whose kubelet answers, as long as this lasts."""
    logs = KubeletLogs()

    class Handler(_Handler):
        kubelet = logs

    with node(plane, admin, Handler):
        yield logs


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    kubelet: KubeletLogs

    def do_GET(self) -> None:
        """`/containerLogs/NAMESPACE/POD/CONTAINER?follow=true...`."""
        url = urlsplit(self.path)
        _, _, _, pod, container = url.path.split("/")
        query = {name: values[-1] for name, values in parse_qs(url.query).items()}
        kubelet = self.kubelet
        with kubelet.changed:
            kubelet.asked.append((pod, query))
            log = kubelet.log(pod, "previous" if query.get("previous") == "true" else container)
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self._write_log(log, query)

    def _write_log(self, log: Log, query: dict[str, str]) -> None:
        kubelet, sent = self.kubelet, 0
        with kubelet.changed:
            kubelet.following += 1
            broken = log.broken
        try:
            while True:
                with kubelet.changed:
                    lines, over = log.stamped(), log.over or query.get("follow") != "true"
                    if len(lines) == sent and not over and log.broken == broken:
                        kubelet.changed.wait(_POLL)
                        if self._left():
                            return
                        continue
                    cut = log.broken != broken
                self._lines(lines, sent, query)
                sent = len(lines)
                if cut:
                    self.close_connection = True
                    return
                if over:
                    self.wfile.write(b"0\r\n\r\n")
                    return
        except OSError:
            self.close_connection = True
        finally:
            with kubelet.changed:
                kubelet.following -= 1
                kubelet.changed.notify_all()

    def _lines(self, lines: list[tuple[datetime, str]], sent: int, query: dict[str, str]) -> None:
        first = max(sent, len(lines) - int(query["tailLines"])) if "tailLines" in query and not sent else sent
        since = datetime.fromisoformat(query["sinceTime"]) if "sinceTime" in query else None
        for at, line in lines[first:]:
            if since is not None and at < since:
                continue
            moment = f"{at:%Y-%m-%dT%H:%M:%S.%f}000Z "
            self._chunk(f"{moment if query.get('timestamps') == 'true' else ''}{line}\n".encode())

    def _left(self) -> bool:
        """Whether whoever asked has gone: nothing else is ever heard of it while it waits."""
        self.close_connection = bool(select.select([self.connection], [], [], 0)[0])
        return self.close_connection

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def log_message(self, *_: Any) -> None:
        """Nothing: pytest's output is no access log."""
