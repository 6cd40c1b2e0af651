"""The three requests of Kafka's protocol that tell partition counts, over one connection: login (two) and metadata.

Not the Kafka client: it goes where an answer says, starts a thread for each broker that an answer names (3 000 were
measured), takes 100 MB of an answer, and knows settings that load libraries. One answer of one broker is enough,
and any broker has all counts. Must not connect, believe a length that an answer states, or go to where it says.
"""

import secrets
import socket
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

MOST_BYTES = 8 * 1024 * 1024
"""How long an answer can be: some 200 000 partitions with three replicas each."""
MOST_PARTITIONS = 100_000
"""Of a topic."""

_METADATA, _HANDSHAKE, _AUTHENTICATE = (3, 4), (17, 1), (36, 0)
"""Requests by number and version: old enough for Kafka 1.0, and part of 4."""
_MISSING = (3, 17)
"""Errors that mean: not there. No topic can have an invalid name, so none has it."""
_FORBIDDEN = 29


class NoAnswerError(Exception):
    """What is at an address did not answer as a Kafka broker that admits who asks; the message has the detail."""


class LoginRefusedError(Exception):
    """A Kafka broker does not accept the login."""


@dataclass(slots=True)
class TopicAnswers:
    """What a broker says of topics."""

    counts: dict[str, int | None] = field(default_factory=dict)
    """None: there is no such topic."""
    forbidden: list[str] = field(default_factory=list)


@dataclass(slots=True)
class BrokerConnection:
    """To whatever is at an address, until a moment."""

    socket: socket.socket
    until: float
    """On the clock `time.monotonic`."""
    client_id: str

    def mechanism(self, name: str) -> None:
        """Say how a login is about to be made."""
        answer = self._asked(_HANDSHAKE, _string(name))
        if answer.int16():
            offered = ", ".join(answer.text() or "" for _ in range(answer.count(2)))
            message = f"the broker does not take sasl.mechanism {name}, but {offered or 'none'}"
            raise LoginRefusedError(message)

    def authenticate(self, token: bytes) -> bytes:
        """One step of a login: what the broker says to what it is told."""
        answer = self._asked(_AUTHENTICATE, struct.pack(">i", len(token)) + token)
        if answer.int16():
            raise LoginRefusedError(answer.text() or "the broker gives no reason")
        answer.text()
        return answer.taken(max(0, answer.int32()))

    def topics(self, names: Sequence[str]) -> TopicAnswers:
        """What the broker says of each topic. Asking creates none."""
        asked = struct.pack(">i", len(names)) + b"".join(map(_string, names)) + b"\0"
        return _topics(self._asked(_METADATA, asked), frozenset(names))

    def _asked(self, what: tuple[int, int], body: bytes) -> "_Answer":
        # By chance: who sends back what comes in, or the same to everybody, is no broker.
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
    """The body of an answer, read from its beginning."""

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
        """The length of a list whose items take `size` bytes at least."""
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
    answer.taken(4)  # how long to wait
    for _ in range(answer.count(12)):
        answer.taken(4)  # the number of a broker
        answer.text()  # its host
        answer.taken(4)  # its port
        answer.text()  # its rack
    answer.text()  # the cluster
    answer.taken(4)  # its controller
    found = TopicAnswers()
    for _ in range(min(answer.count(9), len(wanted) + 1)):
        error, name = answer.int16(), answer.text() or ""
        answer.taken(1)  # whether it is the brokers' own
        number = answer.count(18)
        for _ in range(min(number, MOST_PARTITIONS)):
            answer.taken(10)  # error, number, leader
            answer.taken(4 * answer.count(4))  # replicas
            answer.taken(4 * answer.count(4))  # those in sync
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
