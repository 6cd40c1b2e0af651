"""A registry that answers what a test tells it to, in a thread; and a clock that a test's waiting moves.

For answers that a real registry does not give when it is asked to: failures, nonsense, too much.
"""

import ssl
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from holdfast_runtime.streams.registry.patience import RegistryPatience


class _Server(ThreadingHTTPServer):
    """Says nothing of clients that end a connection, for which they may have their reasons."""

    def handle_error(self, request: object, client_address: object) -> None:
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


@contextmanager
def served(handler: type[BaseHTTPRequestHandler], encryption: ssl.SSLContext | None = None) -> Iterator[int]:
    """Serve on a port of loopback, which is returned, until the end of the block."""
    server = _Server(("127.0.0.1", 0), handler)
    if encryption is not None:
        server.socket = encryption.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@dataclass(frozen=True, slots=True)
class ScriptedAnswer:
    """What a client gets."""

    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True)
class ScriptedRegistry:
    """The answers, of which the last is given to all further requests."""

    answers: list[ScriptedAnswer]
    requests: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)
    """Method, path, headers and body of each."""
    connections: set[tuple[str, int]] = field(default_factory=set)
    """The other ends."""

    @contextmanager
    def running(self) -> Iterator[str]:
        """Serve; return the url."""
        script = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # a second packet would wait until the first has been acknowledged

            def do_GET(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                script.requests.append((self.command, self.path, dict(self.headers), body))
                script.connections.add(self.client_address)
                answer = script.answers.pop(0) if len(script.answers) > 1 else script.answers[0]
                self.send_response(answer.status)
                for name, value in answer.headers:
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                self.wfile.write(answer.body)

            do_POST = do_GET  # noqa: N815 - as http.server calls it

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        with served(Handler) as port:
            yield f"http://127.0.0.1:{port}"


@dataclass(slots=True)
class PatientClock:
    """A clock that waiting moves, so that nobody waits."""

    passed: float = 0.0

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.passed += seconds

    def patience(self, **seconds: float) -> RegistryPatience:
        """Return the patience of a client with this clock."""
        return RegistryPatience(**seconds, clock=lambda: self.passed, sleep=self.sleep)
