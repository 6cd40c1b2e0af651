"""The three requests of Kafka's protocol that partition counts take, over one connection: login (two) and metadata.

The Kafka client is not used: it connects to any address in an answer, starts a thread for each broker in it (3 000 were
measured), accepts answers of 100 MB, and has settings that load libraries. Any single broker knows all counts. Must
not open connections, trust a length in an answer, or follow addresses in it.
"""

import secrets
import socket
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

MOST_BYTES = 8 * 1024 * 1024
"""Maximum size of an answer: about 200 000 partitions with three replicas each."""
MOST_PARTITIONS = 100_000
"""Maximum per topic."""

_METADATA, _HANDSHAKE, _AUTHENTICATE = (3, 4), (17, 1), (36, 0)
"""Request number and version: known to Kafka 1.0 and still supported by 4."""
_MISSING = (3, 17)
"""Error codes for a missing topic; an invalid name counts, as no topic can have it."""
_FORBIDDEN = 29


class NoAnswerError(Exception):
    """The address did not answer like a Kafka broker; the message has the details."""


class LoginRefusedError(Exception):
    """A Kafka broker does not accept the login."""


@dataclass(slots=True)
class TopicAnswers:
    """A broker's answer about topics."""

    counts: dict[str, int | None] = field(default_factory=dict)
    """Topic -> partition count; None: there is no such topic."""
    forbidden: list[str] = field(default_factory=list)


@dataclass(slots=True)
class BrokerConnection:
    """A connection to what may be a broker, with a deadline."""

    socket: socket.socket
    until: float
    """Deadline on the clock `time.monotonic`."""
    client_id: str

    def mechanism(self, name: str) -> None:
        """Announce the login mechanism."""
        answer = self._asked(_HANDSHAKE, _string(name))
        if answer.int16():
            offered = ", ".join(answer.text() or "" for _ in range(answer.count(2)))
            message = f"the broker does not take sasl.mechanism {name}, but {offered or 'none'}"
            raise LoginRefusedError(message)

    def authenticate(self, token: bytes) -> bytes:
        """Send one step of a login; return the broker's answer."""
        answer = self._asked(_AUTHENTICATE, struct.pack(">i", len(token)) + token)
        if answer.int16():
            raise LoginRefusedError(answer.text() or "the broker gives no reason")
        answer.text()
        return answer.taken(max(0, answer.int32()))

    def topics(self, names: Sequence[str]) -> TopicAnswers:
        """Ask about each topic. Asking does not create topics."""
        asked = struct.pack(">i", len(names)) + b"".join(map(_string, names)) + b"\0"
        return _topics(self._asked(_METADATA, asked), frozenset(names))

    def _asked(self, what: tuple[int, int], body: bytes) -> "_Answer":
        # Random: a service that echoes its input or always sends the same is not taken for a broker.
        number = secrets.randbits(31)
        sent = struct.pack(">hhi", *what, number) + _string(self.client_id) + body
        self._waiting()
        self.socket.sendall(struct.pack(">i", len(sent)) + sent)
        length = _Answer(self._received(4)).int32()
        if not 4 <= length <= MOST_BYTES:  # noqa: PLR2004 - its number
            message = f"an answer of {length} bytes, which is none of a Kafka broker's"
            raise NoAnswerError(message)
        answer = _Answer(self._received(length))
        if answer.int32() != number:
            message = "an answer to another question"
            raise NoAnswerError(message)
        return answer

    def _received(self, size: int) -> bytearray:
        received = bytearray()
        while len(received) < size:
            self._waiting()
            part = self.socket.recv(min(size - len(received), 65536))
            if not part:
                message = "the connection was closed"
                raise NoAnswerError(message)
            received += part
        return received

    def _waiting(self) -> None:
        left = self.until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self.socket.settimeout(left)


class _Answer:
    """The body of an answer, read from front to back."""

    def __init__(self, content: bytearray) -> None:
        self._content, self._at = content, 0

    def int16(self) -> int:
        return int.from_bytes(self.taken(2), "big", signed=True)

    def int32(self) -> int:
        return int.from_bytes(self.taken(4), "big", signed=True)

    def text(self) -> str | None:
        length = self.int16()
        return None if length < 0 else self.taken(length).decode(errors="replace")

    def count(self, size: int) -> int:
        """Read the length of a list whose items take at least `size` bytes each."""
        found = max(0, self.int32())
        if found * size > len(self._content) - self._at:
            raise NoAnswerError(_CUT)
        return found

    def taken(self, size: int) -> bytes:
        end = self._at + size
        if end > len(self._content):
            raise NoAnswerError(_CUT)
        self._at, start = end, self._at
        return bytes(self._content[start:end])


_CUT = "an answer that ends in its middle"


def _string(text: str) -> bytes:
    content = text.encode(errors="replace")
    return struct.pack(">h", len(content)) + content


def _topics(answer: _Answer, wanted: frozenset[str]) -> TopicAnswers:
    answer.taken(4)  # throttle time
    for _ in range(answer.count(12)):
        answer.taken(4)  # broker id
        answer.text()  # broker host
        answer.taken(4)  # broker port
        answer.text()  # broker rack
    answer.text()  # cluster id
    answer.taken(4)  # controller id
    found = TopicAnswers()
    for _ in range(min(answer.count(9), len(wanted) + 1)):
        error, name = answer.int16(), answer.text() or ""
        answer.taken(1)  # whether it is an internal topic
        number = answer.count(18)
        for _ in range(min(number, MOST_PARTITIONS)):
            answer.taken(10)  # error, number, leader
            answer.taken(4 * answer.count(4))  # replicas
            answer.taken(4 * answer.count(4))  # in-sync replicas
        if error in _MISSING:
            found.counts[name] = None
        elif error == _FORBIDDEN:
            found.forbidden.append(name)
        elif error or not 0 < number <= MOST_PARTITIONS:
            message = f"error {error} and {number} partitions for a topic"
            raise NoAnswerError(message)
        else:
            found.counts[name] = number
    if wanted != found.counts.keys() | set(found.forbidden):
        message = "an answer about other topics"
        raise NoAnswerError(message)
    return found
