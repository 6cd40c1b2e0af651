"""One connection to a schema registry: requests, waiting for a registry that is away, and errors by the way out.

The connection is kept open between requests, and made anew after any failure. Redirects are not followed, as the login
would go elsewhere. Threads may share a connection; one asks after the other. Must not know what an answer means.
"""

import http.client
import json
import ssl
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple, TypeVar

from holdfast.errors import HoldfastError, UserActionError, WorldChangeError
from holdfast_runtime.streams.registry.answers import (
    MOST_BYTES,
    Reader,
    UnexpectedAnswerError,
    parsed,
    refusal_in,
)
from holdfast_runtime.streams.registry.patience import RegistryPatience
from holdfast_runtime.streams.registry.settings import RegistrySettings

_Value = TypeVar("_Value")
_MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"
_OK = range(200, 300)
_NOT_FOUND, _NOT_LOGGED_IN, _FORBIDDEN = 404, 401, 403
_REFUSALS = (400, 409, 413, 422)
"""Of a schema: it is invalid, incompatible or too long, or the registry takes none now."""
_CONNECTION_ENDED = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)
"""Errors of encryption that another attempt may not have."""
_NOT_SENT = (BrokenPipeError, ConnectionResetError, ssl.SSLEOFError)
"""The server closed the connection before it had the request; what it said before, like that it wants a certificate,
can still be read.
"""


class RegistryUnreachableError(WorldChangeError):
    """The schema registry did not answer, or not as a schema registry does."""


class _Exchange(NamedTuple):
    method: str
    path: str
    body: bytes | None

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


class RegistryConnection:
    """Asks one registry."""

    def __init__(self, settings: RegistrySettings, patience: RegistryPatience) -> None:
        self._settings, self._patience = settings, patience
        encrypted, host, port, self._path = settings.address
        self._connection = (
            http.client.HTTPSConnection(host, port, timeout=patience.answer, context=settings.encryption())
            if encrypted
            else http.client.HTTPConnection(host, port, timeout=patience.answer)
        )
        self._headers = {"Accept": f"{_MEDIA_TYPE}, application/json", "User-Agent": "holdfast"}
        authorization = settings.authorization()
        if authorization is not None:
            self._headers["Authorization"] = authorization
        self._lock = threading.Lock()

    def close(self) -> None:
        """Close the connection; another request makes a new one."""
        with self._lock:
            self._connection.close()

    def get(self, path: str, read: Reader[_Value]) -> _Value | None:
        """Return what is there; None if the registry says that there is none."""
        return self._ask(_Exchange("GET", path, None), read)

    def post(self, path: str, body: Mapping[str, str], read: Reader[_Value]) -> _Value | None:
        """Return the answer about a schema; None if the registry says that there is none such."""
        return self._ask(_Exchange("POST", path, json.dumps(body).encode()), read)

    def _ask(self, exchange: _Exchange, read: Reader[_Value]) -> _Value | None:
        for _ in self._patience.attempts(self._patience.away):
            try:
                return self._judged(exchange, *self._answer(exchange), read)
            except RegistryUnreachableError as error:
                failure = error
        raise failure

    def _answer(self, exchange: _Exchange) -> tuple[int, bytes]:
        """Return status and body."""
        try:
            with self._lock:
                return self._exchanged(exchange)
        except ssl.SSLError as error:
            if isinstance(error, _CONNECTION_ENDED):
                raise self._unreachable(exchange, "the connection ended") from error
            raise self._not_encrypted(exchange, error) from error
        except (OSError, http.client.HTTPException, UnicodeError) as error:  # the last, of a host that no name can be
            why = "no answer in time" if isinstance(error, TimeoutError) else str(error) or type(error).__name__
            raise self._unreachable(exchange, why) from error

    def _exchanged(self, exchange: _Exchange) -> tuple[int, bytes]:
        headers = self._headers if exchange.body is None else {**self._headers, "Content-Type": _MEDIA_TYPE}
        try:
            if self._connection.sock is None:
                self._connection.connect()
            with suppress(*_NOT_SENT):
                self._connection.request(exchange.method, self._path + exchange.path, exchange.body, headers)
            with self._connection.getresponse() as response:
                body = response.read(MOST_BYTES + 1)
        except BaseException:
            self._connection.close()
            raise
        if len(body) > MOST_BYTES:
            self._connection.close()  # or the next answer would begin with the rest of this one
        return response.status, body

    def _judged(self, exchange: _Exchange, status: int, body: bytes, read: Reader[_Value]) -> _Value | None:
        if status in _OK:
            try:
                return read(parsed(body))
            except UnexpectedAnswerError as error:
                raise self._unreachable(exchange, str(error)) from error
        refusal = refusal_in(body)
        if status == _NOT_FOUND and refusal.none_such:
            return None
        raise self._failure(exchange, status, refusal.reason.rstrip("."))

    def _failure(self, exchange: _Exchange, status: int, reason: str) -> HoldfastError:
        answer = f"{status} {self._settings.shown(reason)}".rstrip()
        if status in (_NOT_LOGGED_IN, _FORBIDDEN):
            cure = "Correct its login" if status == _NOT_LOGGED_IN else "Grant it to the login"
            return UserActionError(
                f"{self._settings} does not allow {exchange}: {answer}. {cure}: username and password, or tls.crt and "
                f"tls.key, in the Secret of the registry or in variables like {self._settings.variable}",
                code="RegistryLoginError",
            )
        if status in _REFUSALS and exchange.body is not None:
            return UserActionError(
                f"{self._settings} refuses {exchange}: {answer}. Correct the schema, or what the registry demands of "
                "this subject",
                code="RegistryRefusedError",
            )
        return self._unreachable(exchange, f"it answered {answer}")

    def _unreachable(self, exchange: _Exchange, why: str) -> RegistryUnreachableError:
        return RegistryUnreachableError(
            f"{self._settings} gave no usable answer to {exchange}: {self._settings.shown(why)}. Check that it runs, "
            "that it can be reached from here, and that its url is that of an API like Confluent's"
        )

    def _not_encrypted(self, exchange: _Exchange, error: ssl.SSLError) -> UserActionError:
        why = error.verify_message if isinstance(error, ssl.SSLCertVerificationError) else error.reason or str(error)
        return UserActionError(
            f"{self._settings} gave no answer to {exchange}: no encrypted connection: {self._settings.shown(why)}. "
            "Correct ca.crt, or tls.crt and tls.key, in the Secret of the registry, or its url",
            code="RegistryLoginError",
        )
