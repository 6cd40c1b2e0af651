"""The HTTP server of the page: on loopback, for one user, read-only.

Others on this machine can connect too, and any page in the browser can send requests; so each address begins with a
secret. A page of another site whose name leads here (DNS rebinding) is refused by its `Host`. The address that a
browser is started with can be read by others in the list of processes: it is good once, and leads to the secret. Must
not know apps, nor what answers mean.
"""

import hmac
import re
import secrets
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from threading import Lock
from typing import Any
from urllib.parse import unquote

from holdfast.errors import UserActionError
from holdfast_cli.cluster.app import is_name
from holdfast_cli.ui.looks import ClusterLooks, PageAnswer

_HOST = re.compile(r"(127\.0\.0\.1|localhost)(:[0-9]{1,5})?")
"""Names under which the page may be asked for, on any port: a forwarded one may differ."""
_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_QUIET = 60.0
"""Seconds after which a connection without a request is closed."""
_SECRET = 24


@dataclass(frozen=True, slots=True)
class PageFile:
    """A file of the page."""

    content_type: str
    body: bytes


def page_files() -> Mapping[str, PageFile]:
    """Return the files of the page by name; the page itself is the empty name."""
    folder = files("holdfast_cli.ui") / "page"
    pages = {
        entry.name: PageFile(f"{_TYPES[entry.name[entry.name.rindex('.') :]]}; charset=utf-8", entry.read_bytes())
        for entry in folder.iterdir()
        if entry.name.endswith(tuple(_TYPES))
    }
    return {**pages, "": pages["index.html"]}


class PageServer:
    """Serves the page and what it asks until it is closed."""

    def __init__(self, looks: ClusterLooks, port: int) -> None:
        """`port`: 0 takes a free one."""
        self._secret = secrets.token_urlsafe(_SECRET)
        self._ticket: str | None = None
        self._lock = Lock()
        self._files, self._looks = page_files(), looks
        try:
            self._server = _QuietServer(("127.0.0.1", port), self._handler())
        except OSError as error:
            message = f"port {port} can't be used: {error.strerror}; choose another --port, or none for a free one"
            raise UserActionError(message, code="PortUnusableError") from error

    @property
    def address(self) -> str:
        """Return the address of the page, which only the user may know."""
        return f"{self._origin}/{self._secret}/"

    def opening_address(self) -> str:
        """Return an address that leads to the page once; the one returned before leads nowhere any more."""
        with self._lock:
            self._ticket = secrets.token_urlsafe(_SECRET)
            return f"{self._origin}/open/{self._ticket}"

    @property
    def port(self) -> int:
        """Return the port on 127.0.0.1."""
        return int(self._server.server_address[1])

    @property
    def _origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def serve(self) -> None:
        """Serve until `close` is called in another thread, or Ctrl-C."""
        self._server.serve_forever(poll_interval=0.2)

    def close(self) -> None:
        """End serving; requests that are being answered end with the process."""
        self._server.server_close()

    def stop(self) -> None:
        """Have `serve` return, from another thread."""
        self._server.shutdown()

    def _handler(self) -> Callable[..., "_PageHandler"]:
        return lambda *arguments: _PageHandler(self, *arguments)

    def enter(self, ticket: str) -> str | None:
        """Return where a ticket leads, once."""
        with self._lock:
            good = self._ticket is not None and hmac.compare_digest(ticket.encode(), self._ticket.encode())
            if good:
                self._ticket = None
        return f"/{self._secret}/" if good else None

    def knows(self, secret: str) -> bool:
        """Return whether this is the secret."""
        return hmac.compare_digest(secret.encode(), self._secret.encode())

    def file(self, name: str) -> PageFile | None:
        """Return a file of the page."""
        return self._files.get(name)

    def answer(self, words: tuple[str, ...]) -> PageAnswer | None:
        """Return the answer at an address below `api`; None if there is none."""
        if not all(map(is_name, words)):
            return None
        match words:
            case ("apps",):
                return self._looks.apps()
            case ("apps", namespace, name):
                return self._looks.app(namespace, name)
            case ("plans", namespace, name):
                return self._looks.plan(namespace, name)
            case ("logs", namespace, name, pod):
                return self._looks.log(namespace, name, pod)
        return None


class _QuietServer(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a browser that has gone."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _PageHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "holdfast", ""
    timeout = _QUIET

    def __init__(self, page: PageServer, *arguments: Any) -> None:
        self._page = page
        super().__init__(*arguments)

    def do_GET(self) -> None:
        """Answer, or refuse."""
        if _HOST.fullmatch(self.headers.get("Host", "")) is None:
            self._refuse(HTTPStatus.FORBIDDEN, "this page is only for 127.0.0.1 and localhost")
            return
        first, *words = map(unquote, self.path.partition("?")[0].removeprefix("/").split("/"))
        if first == "open" and len(words) == 1:
            self._enter(words[0])
        elif not self._page.knows(first):
            self._refuse(HTTPStatus.NOT_FOUND, "open the address that holdfast ui has printed")
        elif words[:1] == ["api"]:
            self._api(tuple(words[1:]))
        else:
            file = self._page.file("/".join(words)) if words else None
            if file is None:
                self._refuse(HTTPStatus.NOT_FOUND, "there is nothing here")
            else:
                self._send(HTTPStatus.OK, {"Content-Type": file.content_type}, file.body)

    def _refuse_method(self) -> None:
        self.close_connection = True  # what it sends is not read
        self._refuse(HTTPStatus.METHOD_NOT_ALLOWED, "this page only shows", {"Allow": "GET"})

    do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_HEAD = _refuse_method  # noqa: N815 - http.server's names

    def _enter(self, ticket: str) -> None:
        place = self._page.enter(ticket)
        if place is None:
            self._refuse(HTTPStatus.NOT_FOUND, "this address was good once; open the one that holdfast ui has printed")
        else:
            self._send(HTTPStatus.SEE_OTHER, {"Location": place}, b"")

    def _api(self, words: tuple[str, ...]) -> None:
        answer = self._page.answer(words)
        if answer is None:
            self._refuse(HTTPStatus.NOT_FOUND, "there is nothing here")
        elif self.headers.get("If-None-Match") == answer.tag:
            self._send(HTTPStatus.NOT_MODIFIED, {"ETag": answer.tag}, b"")
        else:
            kind = {"Content-Type": "application/json", "ETag": answer.tag}
            self._send(HTTPStatus(answer.status), kind, answer.body)

    def _refuse(self, status: HTTPStatus, why: str, headers: Mapping[str, str] | None = None) -> None:
        self._send(status, {"Content-Type": "text/plain; charset=utf-8", **(headers or {})}, f"{why}\n".encode())

    def _send(self, status: HTTPStatus, headers: Mapping[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in {**_HEADERS, **headers}.items():
            self.send_header(name, value)
        if status is not HTTPStatus.NOT_MODIFIED:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Write nothing: addresses hold the secret."""
