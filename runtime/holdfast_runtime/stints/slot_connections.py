"""The connections between a driver and the slots that stay: slots come to it, and both prove that they know its secret.

On the driver's host they come through a socket in a directory that only its user can enter, elsewhere over TCP. A
stranger who comes and says nothing is let go of after a while, and holds up nobody. Must not know what is said.
"""

import os
import secrets
import socket
import struct
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from pathlib import Path

_GREETED_WITHIN = 10
"""Seconds that a newcomer has to prove itself."""
_SILENT_FOR = 60
"""Seconds after which a connection to a host that does not answer any more is given up."""

_LOOK_EVERY = 0.05
_NONE = -1
"""The number of no stint."""


@dataclass(frozen=True, slots=True)
class DriverAddress:
    """How slots find their driver."""

    address: str | tuple[str, int]
    secret: bytes = field(repr=False)

    def connect(self, stint: int, slot: int) -> Connection:
        """Return a connection to the driver, in a slot of a stint."""
        connection = Connection(self.reach().detach())
        answer_challenge(connection, self.secret)
        deliver_challenge(connection, self.secret)
        connection.send_bytes(f"{stint} {slot}".encode())
        return connection

    def reach(self) -> socket.socket:
        """Return a socket that has reached the driver, and has said nothing."""
        if isinstance(self.address, str):
            end = socket.socket(socket.AF_UNIX)
            end.connect(self.address)
        else:
            end = socket.create_connection(self.address)
        _set_options(end)
        return end


class SlotConnections:
    """The driver's side: who has come, by stint and slot."""

    def __init__(self, host: str | None) -> None:
        """`host`: where slots on other hosts find the driver; None: all are on this one."""
        self._directory = tempfile.TemporaryDirectory(prefix="holdfast-") if host is None else None
        if self._directory is None:
            family = socket.AF_INET6 if ":" in str(host) else socket.AF_INET
            self._socket = socket.create_server((str(host), 0), family=family)
            address: str | tuple[str, int] = (str(host), int(self._socket.getsockname()[1]))
        else:
            address = str(Path(self._directory.name) / "slots")
            self._socket = socket.socket(socket.AF_UNIX)
            self._socket.bind(address)
            self._socket.listen(1024)
        self.address = DriverAddress(address, secrets.token_bytes(32))
        self._stint = _NONE
        self._present: dict[int, Connection] = {}
        self._changed = threading.Condition()
        threading.Thread(target=self._accept, name="slots", daemon=True).start()

    def expect(self, stint: int) -> None:
        """Let the slots of this stint come, and no others."""
        with self._changed:
            for connection in self._present.values():
                _shut(connection)
            self._stint, self._present = stint, {}

    def gathered(self, slots: int, over: Callable[[], bool], seconds: float) -> list[Connection] | None:
        """Return the connections of so many slots in their order; None if not all come, or `over` becomes true."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while len(self._present) < slots:
                if over() or time.monotonic() > deadline:
                    return None
                self._changed.wait(_LOOK_EVERY)
            return [self._present[slot] for slot in range(slots)]

    def leave(self) -> None:
        """End the connections of the stint; its slots end when they notice."""
        self.expect(_NONE)

    def close(self) -> None:
        """End all connections, and accept no more."""
        self.leave()
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        if self._directory is not None:
            self._directory.cleanup()

    def _accept(self) -> None:
        while True:
            try:
                newcomer, _ = self._socket.accept()
            except OSError:
                return  # closed
            threading.Thread(target=self._greet, args=(newcomer,), name="slots", daemon=True).start()

    def _greet(self, newcomer: socket.socket) -> None:
        _set_options(newcomer)
        _limit(newcomer, _GREETED_WITHIN)
        connection = Connection(newcomer.detach())
        try:
            deliver_challenge(connection, self.address.secret)
            answer_challenge(connection, self.address.secret)
            stint, slot = (int(number) for number in connection.recv_bytes(64).split())
            with _end_of(connection) as end:
                _limit(end, 0)
        except (OSError, EOFError, AuthenticationError, ValueError):
            connection.close()
            return
        with self._changed:
            if stint != self._stint:
                connection.close()
                return
            if slot in self._present:
                # Spark holds the one that came before for lost, which may not show yet.
                _shut(self._present[slot])
                connection.close()
                return
            self._present[slot] = connection
            self._changed.notify_all()


def _set_options(end: socket.socket) -> None:
    """Let small messages pass at once, and a host that does not answer any more be noticed."""
    if end.family == socket.AF_UNIX:
        return
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    end.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _SILENT_FOR // 4)
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _SILENT_FOR // 4)
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _SILENT_FOR * 1000)


def _end_of(connection: Connection) -> socket.socket:
    """Return the socket of a connection, to be closed for itself."""
    return socket.socket(fileno=os.dup(connection.fileno()))


def _limit(end: socket.socket, seconds: int) -> None:
    end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", seconds, 0))


def _shut(connection: Connection) -> None:
    """End a connection at which another thread may be waiting: it reads the end, and closes nothing under it."""
    with suppress(OSError), _end_of(connection) as end:
        end.shutdown(socket.SHUT_RDWR)
