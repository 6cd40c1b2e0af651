"""What can be at the other end of a connection, of which only some are brokers.

Must not wait: each connection has a thread of its own.
"""

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

Talk = Callable[[socket.socket], None]


@dataclass
class Peer:
    """Something that listens."""

    port: int
    connected: list[float] = field(default_factory=list)
    """When, on the clock `time.monotonic`."""

    @property
    def address(self) -> str:
        """As `bootstrapServers` has it."""
        return f"127.0.0.1:{self.port}"


@contextmanager
def listening(talk: Talk) -> Iterator[Peer]:
    """Something that talks like this to each who connects."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        peer = Peer(server.getsockname()[1])

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                peer.connected.append(time.monotonic())
                threading.Thread(target=_talk, args=(talk, connection), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        yield peer
        server.shutdown(socket.SHUT_RDWR)


def _talk(talk: Talk, connection: socket.socket) -> None:
    with connection:
        try:
            talk(connection)
        except OSError:
            return


def silent(connection: socket.socket) -> None:
    """Takes whatever comes, and says nothing."""
    while connection.recv(65536):
        pass


def closing(_connection: socket.socket) -> None:
    """Hangs up at once."""


def greeting(connection: socket.socket) -> None:
    """Speaks first, as SSH does."""
    connection.sendall(b"SSH-2.0-OpenSSH_9.6\r\n")
    silent(connection)


def web(connection: socket.socket) -> None:
    """Says in HTTP that it did not understand."""
    connection.recv(65536)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")


def echo(connection: socket.socket) -> None:
    """Sends back what comes."""
    while sent := connection.recv(65536):
        connection.sendall(sent)


def dripping(connection: socket.socket) -> None:
    """Begins an answer of 1 MB and sends a byte of it now and then."""
    connection.sendall(struct.pack(">i", 1_000_000))
    while True:
        connection.sendall(b"\0")
        time.sleep(0.02)


def endless(connection: socket.socket) -> None:
    """Begins an answer of 2 GB."""
    connection.sendall(struct.pack(">i", 2**31 - 1))
    while True:
        connection.sendall(bytes(65536))


NO_BROKERS: Mapping[str, Talk] = {
    talk.__name__: talk for talk in (silent, closing, greeting, web, echo, dripping, endless)
}


@dataclass
class FakeBroker:
    """Speaks as much of Kafka's protocol as is needed to be asked for metadata, and says what it is told to say."""

    brokers: list[tuple[str, int]]
    """Those that it says the cluster has."""
    topics: Mapping[str, tuple[int, int]]
    """Name -> error, partitions."""
    cut: int | None = None
    """How much of an answer is left."""

    def __call__(self, connection: socket.socket) -> None:
        """Answer until nothing comes."""
        stream = connection.makefile("rb")
        while len(head := stream.read(4)) == 4:
            request = stream.read(*struct.unpack(">i", head))
            key, version, number = struct.unpack_from(">hhi", request)
            answer = (struct.pack(">i", number) + self.answer(key, version, request))[: self.cut]
            connection.sendall(struct.pack(">i", len(answer)) + answer)

    def answer(self, key: int, version: int, request: bytes) -> bytes:  # noqa: ARG002 - one that listens may need it
        """What is sent back."""
        if key != 3:  # versions: those of a request that it knows
            known = ((18, 0, 0), (3, 4, 4), (0, 0, 3), (1, 0, 4))
            head = struct.pack(">hi", 35 if version else 0, len(known))
            return head + b"".join(struct.pack(">hhh", *one) for one in known)
        made = struct.pack(">ii", 0, len(self.brokers))
        for number, (host, port) in enumerate(self.brokers, start=1):
            made += struct.pack(">i", number) + _text(host) + struct.pack(">ih", port, -1)
        made += struct.pack(">hii", -1, 1, len(self.topics))
        for name, (error, partitions) in self.topics.items():
            made += struct.pack(">h", error) + _text(name) + struct.pack(">bi", 0, partitions)
            made += b"".join(struct.pack(">hiiiiii", 0, each, 1, 1, 1, 1, 1) for each in range(partitions))
        return made


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()
