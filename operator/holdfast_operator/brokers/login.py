"""TLS and login at brokers: certificates from texts, and the mechanisms PLAIN and SCRAM.

The settings come from a spec and a Secret written by users. So nothing here reads a file that they name, prompts for a
password, or computes for as long as a broker asks. Must not put a value of the config into a message.
"""

import base64
import hashlib
import hmac
import os
import re
import secrets
import ssl
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from holdfast.spec.kafka_settings import logs_in
from holdfast_operator.brokers.protocol import BrokerConnection, LoginRefusedError

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
    said = _fields(challenge)
    salt, rounds = _decoded(said.get("s", "")), int(said["i"]) if _NUMBER.fullmatch(said.get("i", "")) else 0
    if not said.get("r", "").startswith(nonce) or not 0 < rounds <= _MOST_ROUNDS:
        raise LoginRefusedError(_NO_SCRAM)
    salted = hashlib.pbkdf2_hmac(name, password, salt, rounds)
    key = mac(salted, b"Client Key")
    last = f"c=biws,r={said['r']}".encode()
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
