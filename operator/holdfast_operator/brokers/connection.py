"""One connection to a Kafka broker: TLS, login by PLAIN or SCRAM, and the questions for topics and their partitions.

The Kafka client is not used: it connects to any address in an answer, starts a thread for each broker in it (3 000 were
measured), accepts answers of 100 MB, and has settings that load libraries. Three requests of the protocol are enough,
as any single broker knows all counts. Config and Secret come from users: nothing here reads a file that they name,
prompts for a password, or computes for as long as a broker asks. Must not open connections, trust a length in an
answer, follow addresses in it, or put a value of the config into a message.
"""

import base64
import hashlib
import hmac
import os
import re
import secrets
import socket
import ssl
import struct
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice

from holdfast.spec.kafka_settings import logs_in

MOST_BYTES = 8 * 1024 * 1024
"""Maximum size of an answer: about 200 000 partitions with three replicas each."""
_MOST_BYTES_OF_ALL = 64 * 1024 * 1024
"""Maximum size of an answer about all topics: some 100 000 with ten partitions of three replicas each."""
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
        request = struct.pack(">i", len(names)) + b"".join(map(_string, names)) + b"\0"
        return _topics(self._asked(_METADATA, request), frozenset(names))

    def topic_names(self) -> frozenset[str]:
        """Ask for the names of all topics that the login may see.

        The answer has every partition of the cluster, so this is for a process that asks for one user, not for all.
        """
        entries = _entries(self._asked(_METADATA, struct.pack(">i", -1) + b"\0", _MOST_BYTES_OF_ALL))
        return frozenset(name for error, name, _ in entries if not error)

    def _asked(self, what: tuple[int, int], body: bytes, most_bytes: int = MOST_BYTES) -> "_Answer":
        # Random: a service that echoes its input or always sends the same is not taken for a broker.
        number = secrets.randbits(31)
        sent = struct.pack(">hhi", *what, number) + _string(self.client_id) + body
        self._waiting()
        self.socket.sendall(struct.pack(">i", len(sent)) + sent)
        length = _Answer(self._received(4)).int32()
        if not 4 <= length <= most_bytes:  # noqa: PLR2004 - its number
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
        length = max(0, self.int32())
        if length * size > len(self._content) - self._at:
            raise NoAnswerError(_CUT)
        return length

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


def _entries(answer: _Answer) -> Iterator[tuple[int, str, int]]:
    """Yield error, name and partition count of each topic in an answer."""
    answer.taken(4)  # throttle time
    for _ in range(answer.count(12)):
        answer.taken(4)  # broker id
        answer.text()  # broker host
        answer.taken(4)  # broker port
        answer.text()  # broker rack
    answer.text()  # cluster id
    answer.taken(4)  # controller id
    for _ in range(answer.count(9)):
        error, name = answer.int16(), answer.text() or ""
        answer.taken(1)  # whether it is an internal topic
        number = answer.count(18)
        for _ in range(min(number, MOST_PARTITIONS)):
            answer.taken(10)  # error, number, leader
            answer.taken(4 * answer.count(4))  # replicas
            answer.taken(4 * answer.count(4))  # in-sync replicas
        yield error, name, number


def _topics(answer: _Answer, names: frozenset[str]) -> TopicAnswers:
    answers = TopicAnswers()
    for error, name, number in islice(_entries(answer), len(names) + 1):
        if error in _MISSING:
            answers.counts[name] = None
        elif error == _FORBIDDEN:
            answers.forbidden.append(name)
        elif error or not 0 < number <= MOST_PARTITIONS:
            message = f"error {error} and {number} partitions for a topic"
            raise NoAnswerError(message)
        else:
            answers.counts[name] = number
    if names != answers.counts.keys() | set(answers.forbidden):
        message = "an answer about other topics"
        raise NoAnswerError(message)
    return answers


_MOST_ROUNDS = 100_000
"""Limit for the SCRAM iterations that a broker asks for. Kafka's own limit is 16 384."""
_NUMBER = re.compile(r"[0-9]{1,6}")
_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}


class LoginInvalidError(Exception):
    """The config does not give a valid login; the message names the setting."""


@dataclass(frozen=True, slots=True)
class Login:
    """Encryption and credentials of a connection."""

    encryption: ssl.SSLContext | None = None
    mechanism: str | None = None
    """None: no SASL login."""
    username: str = field(default="", repr=False)
    password: str = field(default="", repr=False)

    @classmethod
    def of(cls, config: Mapping[str, str]) -> "Login":
        """Return the login of settings that `unacceptable_when_asking` accepts."""
        protocol = config.get("security.protocol", "plaintext").upper()
        encryption = _encryption(config) if protocol.endswith("SSL") else None
        if not logs_in(config):
            return cls(encryption)
        mechanism = config.get("sasl.mechanism") or config["sasl.mechanisms"]
        return cls(encryption, mechanism.upper(), config["sasl.username"], config["sasl.password"])

    def make(self, connection: BrokerConnection) -> None:
        """Log in, if the settings ask for it."""
        if self.mechanism is None:
            return
        connection.mechanism(self.mechanism)
        if self.mechanism == "PLAIN":
            connection.authenticate(f"\0{self.username}\0{self.password}".encode())
        else:
            _scram(connection, _HASHES[self.mechanism], self.username, self.password.encode())


def _encryption(config: Mapping[str, str]) -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if config.get("ssl.endpoint.identification.algorithm", "https").upper() == "NONE":
        made.check_hostname = False
    if config.get("enable.ssl.certificate.verification", "true").upper() == "FALSE":
        made.check_hostname = False
        made.verify_mode = ssl.CERT_NONE
    if "ssl.ca.pem" in config:
        with _said_of("ssl.ca.pem"):
            made.load_verify_locations(cadata=config["ssl.ca.pem"])
    else:
        made.set_default_verify_paths()
    if "ssl.cipher.suites" in config:
        with _said_of("ssl.cipher.suites"):
            made.set_ciphers(config["ssl.cipher.suites"])
    if config.keys() & {"ssl.certificate.pem", "ssl.key.pem"}:
        # Python reads them only from files, and prompts on the terminal if no password is given.
        with _said_of("ssl.certificate.pem, ssl.key.pem or ssl.key.password"), _file_of(config) as path:
            made.load_cert_chain(path, password=lambda: config.get("ssl.key.password", ""))
    return made


@contextmanager
def _said_of(keys: str) -> Iterator[None]:
    try:
        yield
    except (ssl.SSLError, ValueError, OSError):
        message = f"{keys} can't be read"
        raise LoginInvalidError(message) from None


@contextmanager
def _file_of(config: Mapping[str, str]) -> Iterator[str]:
    text = "\n".join((config.get("ssl.certificate.pem", ""), config.get("ssl.key.pem", "")))
    if hasattr(os, "memfd_create"):  # in memory, so that no disk ever has the key
        with os.fdopen(os.memfd_create("certificate"), "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            yield f"/proc/self/fd/{file.fileno()}"
    else:
        with tempfile.NamedTemporaryFile("w", encoding="utf-8") as named:
            named.write(text)
            named.flush()
            yield named.name


def _scram(connection: BrokerConnection, name: str, username: str, password: bytes) -> None:
    """Log in by SCRAM (RFC 5802), as far as Kafka supports it."""

    def mac(key: bytes, text: bytes) -> bytes:
        return hmac.new(key, text, name).digest()

    nonce = secrets.token_urlsafe(18)
    first = f"n={username.replace('=', '=3D').replace(',', '=2C')},r={nonce}".encode()
    challenge = connection.authenticate(b"n,," + first)
    challenge_fields = _fields(challenge)
    salt, rounds = (
        _decoded(challenge_fields.get("s", "")),
        int(challenge_fields["i"]) if _NUMBER.fullmatch(challenge_fields.get("i", "")) else 0,
    )
    if not challenge_fields.get("r", "").startswith(nonce) or not 0 < rounds <= _MOST_ROUNDS:
        raise LoginRefusedError(_NO_SCRAM)
    salted = hashlib.pbkdf2_hmac(name, password, salt, rounds)
    key = mac(salted, b"Client Key")
    last = f"c=biws,r={challenge_fields['r']}".encode()
    signed = b",".join((first, challenge, last))
    signature = mac(hashlib.new(name, key).digest(), signed)
    proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
    proven = connection.authenticate(last + b",p=" + base64.b64encode(proof))
    expected = mac(mac(salted, b"Server Key"), signed)
    if not hmac.compare_digest(_decoded(_fields(proven).get("v", "")), expected):
        message = "the broker does not prove that it knows sasl.password"
        raise LoginRefusedError(message)


_NO_SCRAM = "the broker does not speak SCRAM as it should"


def _fields(message: bytes) -> dict[str, str]:
    pairs = (one.partition("=") for one in message.decode(errors="replace").split(","))
    return {name: value for name, _, value in pairs}


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise LoginRefusedError(_NO_SCRAM) from None
