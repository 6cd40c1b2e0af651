"""A TCP proxy before a server, whose connections are slow, or die, as those of a network do: silently, or not.

Must not look into what it forwards.
"""

import socket
import threading
import time
from contextlib import suppress
from queue import Queue
from types import TracebackType
from typing import Self

_SIZE, _ON_ITS_WAY = 1 << 16, 64
"""Bytes that are received at once, and how often before they are passed on."""


class _Pair:
    """A connection of a client, and the one to the server."""

    def __init__(self, client: socket.socket, server: socket.socket, delay: float) -> None:
        self.ends = client, server
        self.silent, self.passing = False, threading.Event()
        self.passing.set()
        for source, target, later in ((client, server, 0.0), (server, client, delay)):
            arrived = Queue[tuple[float, bytes]](_ON_ITS_WAY)
            threading.Thread(target=self._receive, args=(source, arrived, later), daemon=True).start()
            threading.Thread(target=self._send, args=(arrived, target), daemon=True).start()

    def close(self) -> None:
        self.passing.set()
        for end in self.ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _receive(self, source: socket.socket, arrived: "Queue[tuple[float, bytes]]", later: float) -> None:
        with suppress(OSError):
            while data := source.recv(_SIZE):
                arrived.put((time.monotonic() + later, data))
        arrived.put((0.0, b""))

    def _send(self, arrived: "Queue[tuple[float, bytes]]", target: socket.socket) -> None:
        with suppress(OSError):
            while (piece := arrived.get())[1]:
                time.sleep(max(0.0, piece[0] - time.monotonic()))
                self.passing.wait()
                if not self.silent:
                    target.sendall(piece[1])
        self.passing.wait()
        if not self.silent:
            self.close()


class Proxy:
    """`with Proxy(port) as proxy: ... proxy.port`."""

    def __init__(self, server: int, source: str = "127.0.0.1", delay: float = 0.0) -> None:
        """`source`: the address by which the server knows who comes through this proxy.

        `delay`: seconds by which what the server says comes later.
        """
        self._server, self._source, self._delay = server, source, delay
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._pairs: list[_Pair] = []
        self._open = self._passes = True

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.drop()

    def silence(self) -> None:
        """Forward nothing more of the connections there are; neither end notices. New ones work."""
        for pair in self._pairs:
            pair.silent = True

    def drop(self) -> None:
        """End the connections there are."""
        for pair in self._pairs:
            pair.close()
        self._pairs.clear()

    def cut(self) -> None:
        """As `silence`, and refuse new connections."""
        self._open = False
        self.silence()

    def mend(self) -> None:
        """Let connections through again; those from before the cut are dropped."""
        self.drop()
        self._open = True

    def hold(self) -> None:
        """As a partition of the network: nothing passes, also of new connections, and no end notices."""
        self._passes = False
        for pair in self._pairs:
            pair.passing.clear()

    def release(self) -> None:
        """After `hold`: all that was under way arrives now."""
        self._passes = True
        for pair in self._pairs:
            pair.passing.set()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    if not self._open:
                        raise ConnectionRefusedError
                    self._pairs.append(self._pair(client))
                except OSError:
                    client.close()

    def _pair(self, client: socket.socket) -> _Pair:
        server = socket.create_connection(("127.0.0.1", self._server), source_address=(self._source, 0))
        pair = _Pair(client, server, self._delay)
        if not self._passes:
            pair.passing.clear()
        return pair
