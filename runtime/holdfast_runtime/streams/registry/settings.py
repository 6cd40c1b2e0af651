"""The settings of a schema registry: its url, the login, and the encryption of the connection.

The login is in a mounted Secret or in the environment: `username` and `password`, `ca.crt` of who signs the registry's
certificate, `tls.crt` and `tls.key` of a client that has one. None of them appears in a message or a repr. Must not
open a connection.
"""

import base64
import os
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from holdfast.errors import UserActionError
from holdfast.one_line import one_line
from holdfast_runtime.streams.logins import LoginPlace

_ENTRIES = ("username", "password", "ca.crt", "tls.crt", "tls.key")
_PAIRS = (("username", "password"), ("tls.crt", "tls.key"))
_LOGIN = "Put the login into username and password of a Secret that secretName names"


class RegistryAddress(NamedTuple):
    """A url in parts."""

    encrypted: bool
    host: str
    port: int | None
    path: str
    """Before that of each request; without a slash at its end."""


@dataclass(frozen=True, slots=True)
class RegistrySettings:
    """The schema registry of one system, and how to talk to it."""

    url: str
    system: str
    login: Mapping[str, str] = field(repr=False)
    """From Secret and environment."""

    def __post_init__(self) -> None:
        fault = _fault_of_url(self.url) or _fault_of_login(self.login)
        if fault is not None:
            raise self._invalid(fault)

    def __str__(self) -> str:
        """Return what it is called in messages."""
        return f"schema registry {self.url} of system {self.system}"

    @property
    def variable(self) -> str:
        """The name of the variable with its password, for messages."""
        place = _place(self.system, None)
        return place.prefix + place.example

    @property
    def address(self) -> RegistryAddress:
        """Where it is."""
        parts = urlsplit(self.url)
        return RegistryAddress(parts.scheme == "https", parts.hostname or "", parts.port, parts.path.rstrip("/"))

    def authorization(self) -> str | None:
        """Return the header that logs in; None without a login."""
        if not self.login.get("username"):
            return None
        login = f"{self.login['username']}:{self.login['password']}".encode(errors="surrogateescape")
        return f"Basic {base64.b64encode(login).decode()}"

    def encryption(self) -> ssl.SSLContext:
        """Return whom to trust, which is the system's authorities without a `ca.crt`, and the client's certificate."""
        try:
            context = ssl.create_default_context(cadata=self.login.get("ca.crt"))
        except (ssl.SSLError, TypeError, ValueError):  # not a certificate, not ASCII, nothing
            fault = "ca.crt has no certificate in PEM format. Correct this entry"
            raise self._invalid(fault) from None
        if self.login.get("tls.crt"):
            try:
                _load_certificate(context, self.login["tls.crt"], self.login["tls.key"])
            except (ssl.SSLError, ValueError):
                fault = (
                    "tls.crt and tls.key are no certificate and its key in PEM format, or the key is encrypted. "
                    "Correct these entries"
                )
                raise self._invalid(fault) from None
        return context

    def shown(self, text: str) -> str:
        """Return a text from the network as one line of a message, without the password."""
        password = self.login.get("password")
        return one_line(text.replace(password, "***") if password else text)

    def _invalid(self, fault: str) -> UserActionError:
        # Its url is shown only where it is known to have no login in it.
        message = f"the schema registry of system {self.system} can't be used: {fault}."
        return UserActionError(message, code="RegistryConfigError")


def registry_settings(
    system: str, url: str, secret: str | None, secrets: Path | None, environment: Mapping[str, str] | None = None
) -> RegistrySettings:
    """Return the settings of a system's registry with its login.

    Variables override entries as they do for Kafka, whose name in theirs is replaced by REGISTRY. Entries of the Secret
    with other names are for others.
    """
    entries = _place(system, secret).entries(secrets, os.environ if environment is None else environment)
    return RegistrySettings(url, system, {name: entries[name] for name in _ENTRIES if name in entries})


def _place(system: str, secret: str | None) -> LoginPlace:
    return LoginPlace(f"schema registry of system {system}", "REGISTRY", system, secret, "PASSWORD")


def _fault_of_url(url: str) -> str | None:
    if "@" in url:  # before anything that could quote it
        return f"its url has a login in it, which everyone who sees the spec could read. {_LOGIN}, and remove it"
    if not url.isascii() or not url.isprintable() or " " in url:
        return "its url has letters that no url has. Correct it"
    try:
        parts = urlsplit(url)
        whole = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        whole = False
    if not whole:
        return "its url is not http:// or https:// with a host, and a port if it is unusual. Correct it"
    if "?" in url or "#" in url:
        return "its url has a part that begins with ? or #. Remove that part"
    return None


def _fault_of_login(login: Mapping[str, str]) -> str | None:
    for pair in _PAIRS:
        missing = [name for name in pair if not login.get(name)]
        if len(missing) == 1:
            names = " and ".join(pair)
            return f"its login has only one of {names}. Add {missing[0]} to the Secret or the environment"
    if ":" in login.get("username", ""):
        return "its username has a colon, which no registry can tell from the password's begin. Choose another login"
    return None


def _load_certificate(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """Load from a file that only this user may read and that is removed at once: ssl takes no text for these."""
    with tempfile.NamedTemporaryFile("w", encoding="ascii", suffix=".pem") as file:
        file.write(f"{key}\n{certificate}\n")
        file.flush()
        # Without a password, an encrypted key would ask whoever sits at the terminal.
        context.load_cert_chain(file.name, password="")
