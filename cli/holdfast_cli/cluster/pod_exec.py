"""A command in a pod over a websocket of the API server: what it prints, its exit code, and how it is ended.

A command in a container does not end because nobody listens any more. So its standard input is a leash: a byte every
few seconds, which also keeps proxies from closing a silent connection, and an end of file when the connection is gone
(`holdfast_cli.in_pod` holds the other end). Ctrl-C is passed on, and the command ends as it would here.
"""

import json
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import websocket

from holdfast.errors import HoldfastError, UserActionError
from holdfast_cli.output.screen import one_line

SUBPROTOCOL = "v4.channel.k8s.io"
_INPUT, _ERROR = 0, 3
_OUTPUTS = (1, 2)
_BEAT, _INTERRUPT = b"\n", b"\x03"
_EVERY = 10.0
"""Seconds between two bytes on the leash."""
_LAST = 5.0
"""Seconds for what was printed and comes behind the exit code."""


class ExecStream:
    """A command that runs in a pod."""

    def __init__(self, socket: websocket.WebSocket, away: Callable[[Exception], HoldfastError]) -> None:
        self._socket, self._away = socket, away
        self._interrupted, self._ended = threading.Event(), threading.Event()

    def run(self, write: Callable[[int, bytes], None]) -> int:
        """Hand on what it prints, by stream 1 or 2, until it ends; return its exit code."""
        leash = threading.Thread(target=self._hold, name="leash", daemon=True)
        is_main = threading.current_thread() is threading.main_thread()
        before = signal.signal(signal.SIGINT, self._on_interrupt) if is_main else None
        leash.start()
        code = None
        try:
            while (message := self._next(ended=code is not None)) is not None:
                channel, data = message
                if channel == _ERROR and data:
                    code = exit_code(data)
                    self._socket.settimeout(_LAST)
                if channel in _OUTPUTS and data:
                    write(channel, data)
        finally:
            self._ended.set()
            self._interrupted.set()
            if before is not None:
                signal.signal(signal.SIGINT, before)
        if code is None:
            raise self._away(ConnectionError("the connection was closed before the command ended"))
        return code

    def close(self) -> None:
        """Release the connection, which ends the command."""
        self._socket.shutdown()  # type: ignore[no-untyped-call]

    def _next(self, *, ended: bool) -> tuple[int, bytes] | None:
        """Return a channel and what came on it; None when no more will come."""
        try:
            opcode, data = self._socket.recv_data()
        except (websocket.WebSocketException, OSError) as error:
            if ended:
                return None
            raise self._away(error) from error
        if opcode == websocket.ABNF.OPCODE_CLOSE or not data:
            return None
        content = data.encode() if isinstance(data, str) else bytes(data)
        return content[0], content[1:]

    def _hold(self) -> None:
        try:
            while not self._ended.is_set():
                beat = _INTERRUPT if self._interrupted.wait(_EVERY) else _BEAT
                if self._ended.is_set():
                    return
                self._interrupted.clear()
                self._socket.send(bytes([_INPUT]) + beat, websocket.ABNF.OPCODE_BINARY)
        except (websocket.WebSocketException, OSError):
            return  # whoever reads is told

    def _on_interrupt(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the protocol of handlers
        if self._interrupted.is_set():
            raise KeyboardInterrupt
        self._interrupted.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)


def exit_code(data: bytes) -> int:
    """Return the exit code that this status says; raise if the command was not run."""
    status: Any = json.loads(data)
    if status.get("status") == "Success":
        return 0
    causes = (status.get("details") or {}).get("causes") or []
    for cause in causes:
        if cause.get("reason") == "ExitCode" and str(cause.get("message")).isdigit():
            return int(cause["message"])
    message = f"the command can't be run in the pod: {one_line(str(status.get('message')))}"
    raise UserActionError(message, code="ExecRefusedError")
