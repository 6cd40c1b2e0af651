"""A kubelet that runs commands in pods, as processes of this host: by websockets with channels.

In place of the directory that the operator mounts, a command finds one of the test's. Must not know apps.
"""

import base64
import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import IO, Any
from urllib.parse import parse_qs, urlsplit

from holdfast.protocol.pods import APP_DIRECTORY
from tests.api.admin import Admin
from tests.api.kubelet_node import node
from tests.api.plane import Plane
from tests.waiting import patience

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_PROTOCOL = "v4.channel.k8s.io"
_BINARY, _CLOSE = 2, 8


@dataclass
class KubeletExec:
    """Made by `kubelet_exec`."""

    directory: Path
    """What a driver's pod has mounted."""
    variables: Mapping[str, str]
    commands: list[list[str]] = field(default_factory=list)
    """All that were run."""
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, words: list[str]) -> subprocess.Popen[bytes]:
        """Run a command as the container would."""
        self.commands.append(words)
        line = [
            sys.executable if word == "python" else word.replace(APP_DIRECTORY, str(self.directory)) for word in words
        ]
        pipe = subprocess.PIPE
        environment = os.environ | {"PYTHONUNBUFFERED": "1"} | dict(self.variables)
        process = subprocess.Popen(line, stdin=pipe, stdout=pipe, stderr=pipe, env=environment)
        self.processes.append(process)
        return process


@contextmanager
def kubelet_exec(plane: Plane, admin: Admin, directory: Path, **variables: str) -> Iterator[KubeletExec]:
    """A node whose kubelet runs commands, as long as this lasts."""
    kubelet = KubeletExec(directory, variables)

    class Handler(_Handler):
        runner = kubelet

    try:
        with node(plane, admin, Handler):
            yield kubelet
    finally:
        for process in kubelet.processes:
            process.kill()
            with process:  # closes its pipes
                process.wait(patience(20))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    runner: KubeletExec

    def do_GET(self) -> None:
        """`/exec/NAMESPACE/POD/CONTAINER?command=...`, upgraded to a websocket."""
        self.close_connection = True
        words = parse_qs(urlsplit(self.path).query)["command"]
        accept = base64.b64encode(hashlib.sha1(self.headers["Sec-WebSocket-Key"].encode() + _GUID).digest())  # noqa: S324
        self.send_response(101)
        for name, value in {
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Protocol": _PROTOCOL,
        }.items():
            self.send_header(name, value)
        self.send_header("Sec-WebSocket-Accept", accept.decode())
        self.end_headers()
        self._serve(self.runner.start(words))

    def _serve(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._writing = threading.Lock()
        pumps = [
            threading.Thread(target=self._pump, args=(channel, output), daemon=True)
            for channel, output in ((1, process.stdout), (2, process.stderr))
        ]
        threading.Thread(target=self._feed, args=(process.stdin,), daemon=True).start()
        for pump in pumps:
            pump.start()
        for pump in pumps:
            pump.join()
        code = process.wait()
        status: dict[str, Any] = {"status": "Success"}
        if code:
            cause = {"reason": "ExitCode", "message": str(code if code > 0 else 128 - code)}
            status = {"status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": [cause]}}
        self._send(b"\x03" + json.dumps(status).encode())
        self._send(b"", _CLOSE)

    def _pump(self, channel: int, output: IO[bytes]) -> None:
        while data := os.read(output.fileno(), 1 << 15):
            self._send(bytes([channel]) + data)

    def _feed(self, stdin: IO[bytes]) -> None:
        """Hand on what comes, and end the input with the connection."""
        with stdin:
            while (frame := self._frame()) is not None:
                if frame[:1] == b"\0":
                    stdin.write(frame[1:])
                    stdin.flush()

    def _frame(self) -> bytes | None:
        """A frame of a client, which masks all it sends; None: it has gone."""
        try:
            head = self.rfile.read(2)
            if len(head) < 2 or head[0] & 0xF == _CLOSE:
                return None
            size = head[1] & 0x7F
            if size == 126:
                size = int.from_bytes(self.rfile.read(2))
            mask, data = self.rfile.read(4), self.rfile.read(size)
        except OSError:
            return None
        return bytes(byte ^ mask[at % 4] for at, byte in enumerate(data))

    def _send(self, data: bytes, opcode: int = _BINARY) -> None:
        size = bytes([len(data)]) if len(data) < 126 else b"\x7e" + len(data).to_bytes(2)
        try:
            with self._writing:
                self.wfile.write(bytes([0x80 | opcode]) + size + data)
                self.wfile.flush()
        except OSError:
            return  # the client has gone

    def log_message(self, *_: Any) -> None:
        """Nothing: pytest's output is no access log."""
