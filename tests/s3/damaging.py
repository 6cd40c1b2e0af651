"""An object store whose answers arrive damaged or refused, a proxy in front of the real one that a test arms.

`with Damaging(bucket) as spoiled: spoiled.next("GET", "delta-", cut)`; requests that no order fits pass unchanged. Must
not change requests: the server checks their signatures.
"""

import http.client
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

from tests.s3.gateway import Bucket, Gateway

_OF_A_CONNECTION = {"connection", "transfer-encoding", "content-length", "keep-alive"}


@dataclass(frozen=True, slots=True)
class Answer:
    """What a client gets."""

    status: int
    headers: dict[str, str]
    body: bytes
    length: int
    """As it is told, whatever the body has."""


Spoil = Callable[[Answer], Answer]


def cut(answer: Answer) -> Answer:
    """Half of a body, whose length is told as if it were all."""
    half = answer.body[: len(answer.body) // 2]
    return replace(answer, body=half, length=len(half))


def broken_off(answer: Answer) -> Answer:
    """Half of a body, and then the connection ends."""
    return replace(answer, body=answer.body[: len(answer.body) // 2])


def garbled(answer: Answer) -> Answer:
    """A body of the right length that says something else."""
    return replace(answer, body=bytes(byte ^ 0x5A for byte in answer.body))


def failed(answer: Answer) -> Answer:
    """An answer of a proxy that has lost its server."""
    body = b"<html>bad gateway</html>"
    return replace(answer, status=502, headers={"Content-Type": "text/html"}, body=body, length=len(body))


def without_checksums(spoil: Spoil) -> Spoil:
    """As a store that sends none."""

    def spoiled(answer: Answer) -> Answer:
        headers = {name: value for name, value in answer.headers.items() if "checksum" not in name.lower()}
        return spoil(replace(answer, headers=headers))

    return spoiled


_BODY = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
_FORBIDDEN = Answer(403, {"Content-Type": "application/xml"}, _BODY, len(_BODY))


@dataclass(slots=True)
class _Order:
    method: str
    part: str
    spoil: Spoil | None
    """None: the request is refused, and the server does not see it."""
    left: int


@dataclass(slots=True)
class Damaging:
    """The proxy; its `bucket` is reached through it."""

    behind: Bucket
    requests: list[str] = field(default_factory=list)
    """All requests, as method and path."""
    _orders: list[_Order] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _server: ThreadingHTTPServer = field(init=False)

    def __enter__(self) -> Self:
        handler = type("Handler", (_Forwarding,), {"damaging": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def bucket(self) -> Bucket:
        return replace(self.behind, endpoint=f"http://127.0.0.1:{self._server.server_port}")

    def next(self, method: str, part: str, spoil: Spoil, times: int = 1) -> None:
        """Spoil the next answers to this method whose path and query have this part."""
        with self._lock:
            self._orders.append(_Order(method, part, spoil, times))

    def forbid(self, method: str, part: str) -> None:
        """Refuse all such requests from now on, as if a right were missing."""
        with self._lock:
            self._orders.append(_Order(method, part, None, sys.maxsize))

    def order(self, method: str, path: str) -> _Order | None:
        """What is to become of a request."""
        with self._lock:
            self.requests.append(f"{method} {path}")
            for order in self._orders:
                if order.left and order.method == method and order.part in path:
                    order.left -= 1
                    return order
        return None


class _Forwarding(BaseHTTPRequestHandler):
    damaging: Damaging
    protocol_version = "HTTP/1.1"

    def _forward(self) -> None:
        body = self._body()
        order = self.damaging.order(self.command, self.path)
        if order is not None and order.spoil is None:
            self._send(_FORBIDDEN)
            return
        behind = http.client.HTTPConnection(self._gateway.address)
        try:
            behind.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() != "expect":
                    behind.putheader(name, value)
            behind.endheaders(body)
            response = behind.getresponse()
            content = response.read()
            length = int(response.headers.get("Content-Length") or len(content))
            headers = {name: value for name, value in response.getheaders() if name.lower() not in _OF_A_CONNECTION}
            answer = Answer(response.status, headers, content, length)
        finally:
            behind.close()
        self._send(answer if order is None or order.spoil is None else order.spoil(answer))

    def _body(self) -> bytes:
        """The body of the request as it came, in chunks or not."""
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts, size = [], -1
        while size:
            parts.append(self.rfile.readline())
            size = int(parts[-1].partition(b";")[0], 16)
            parts.append(self.rfile.read(size) + self.rfile.readline())
        return b"".join(parts)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _forward  # noqa: N815 - as the library looks for them

    @property
    def _gateway(self) -> Gateway:
        return self.damaging.behind.gateway

    def _send(self, answer: Answer) -> None:
        self.send_response_only(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(answer.length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)
            self.close_connection = len(answer.body) < answer.length

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the library calls it
        """Say nothing."""
