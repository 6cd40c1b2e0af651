"""What stands before a registry in production: a proxy with a certificate, which asks for a login.

Its certificates are made by `openssl`. Must not change requests or answers.
"""

import base64
import http.client
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from pathlib import Path

from tests.registry.scripted import served
from tests.registry.server import ANSWER_TIMEOUT
from tests.waiting import patience

USER = "reader"
PASSWORD = "a right password"  # noqa: S105 - the guard's own


@dataclass(frozen=True, slots=True)
class Certificates:
    """Certificates that sign themselves, and their keys, in files of a folder: `server`, `client` and `other`."""

    folder: Path

    @classmethod
    def made(cls, folder: Path) -> "Certificates":
        """Make them."""
        command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-noenc"]
        for name in ("server", "client", "other"):
            subject = ["-days", "2", "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1"]
            files = ["-keyout", str(folder / f"{name}.key"), "-out", str(folder / f"{name}.crt")]
            subprocess.run([*command, *subject, *files], check=True, capture_output=True, timeout=patience(30))
        return cls(folder)

    def certificate(self, name: str) -> str:
        """Return a certificate as it stands in a Secret."""
        return (self.folder / f"{name}.crt").read_text()

    def key(self, name: str) -> str:
        """Return a key as it stands in a Secret."""
        return (self.folder / f"{name}.key").read_text()


@contextmanager
def guarded(certificates: Certificates, port: int, *, asks_for_certificate: bool = False) -> Iterator[str]:
    """Serve what is at a port, encrypted, to who has the login; return the origin of the url."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.folder / "server.crt", certificates.folder / "server.key")
    if asks_for_certificate:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(certificates.folder / "client.crt")
    login = f"Basic {base64.b64encode(f'{USER}:{PASSWORD}'.encode()).decode()}"

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # a second packet would wait until the first has been acknowledged

        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if self.headers.get("Authorization") != login:
                self._answer(401, b'{"error_code": 401, "message": "Unauthorized"}')
                return
            with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=patience(ANSWER_TIMEOUT))) as behind:
                behind.request(
                    self.command, self.path, body or None, {"Content-Type": "application/json"} if body else {}
                )
                response = behind.getresponse()
                self._answer(response.status, response.read())

        do_POST = do_GET  # noqa: N815 - as http.server calls it

        def _answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with served(Handler, context) as guard_port:
        yield f"https://127.0.0.1:{guard_port}"
