"""The Kubernetes API client for one user: single calls, paged lists, and log streams; errors say what to do.

Needs the extra `cluster`. Imported only when a cluster is contacted: the client library takes half a second to load.
Must not know apps, nor decide what to request.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import urllib3
from kubernetes import client, config

from holdfast.bounded_json import ObjectDepth, bounded_objects
from holdfast.errors import HoldfastError, RetrySoonError, UserActionError, WorldChangeError
from holdfast_cli.cluster.requests import ApiRequest, ObjectKind, Tree
from holdfast_cli.cluster.target import ClusterTarget
from holdfast_cli.output.screen import one_line

_TIMEOUT = (5.0, 15.0)
"""Timeouts in seconds: to connect, and to answer."""
_QUIET = (5.0, 60.0)
"""Longer for a followed log, which may be silent. A dead connection is silent too, so the log is requested again."""
_WRONG, _WHO, _FORBIDDEN, _NOT_FOUND, _TOO_MANY, _SERVER = 300, 401, 403, 404, 429, 500
_SHOWN = 500
_PIECE = 1 << 16


class CredentialsError(UserActionError):
    """The cluster does not accept the user's credentials."""


class RightMissingError(UserActionError):
    """The user lacks the right to do this."""


class NotInstalledError(UserActionError):
    """The cluster does not know this kind of object."""


class UnreachableError(RetrySoonError):
    """The API server does not answer, or can't right now."""


class QuietError(RetrySoonError):
    """A followed log sent nothing for a while."""


class AnswerError(WorldChangeError):
    """The API server gave an unexpected answer."""


class ClusterClient:
    """A client for one cluster, as one user."""

    def __init__(self, target: ClusterTarget) -> None:
        self._target = target
        configuration = client.Configuration()
        configuration.retries = False  # report an unreachable API server at once, not after four retries
        try:
            if target.files:
                files = os.pathsep.join(map(str, target.files))
                config.load_kube_config(files, target.context, configuration)  # type: ignore[no-untyped-call]
            else:
                config.load_incluster_config(configuration)  # type: ignore[no-untyped-call]
        except (config.ConfigException, OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            message = f"{self._who()} can't be used: {type(error).__name__}: {error}"
            raise CredentialsError(one_line(message)) from error
        if configuration.host.startswith("https") and not (configuration.api_key or configuration.cert_file):
            # When a credential plugin fails, the library only logs it and continues without credentials.
            message = (
                f"{self._who()} gives no credentials: its user has none, or its credential plugin failed; log in again"
            )
            raise CredentialsError(message)
        self._client = client.ApiClient(configuration)

    def close(self) -> None:
        """Close all connections."""
        self._client.close()  # type: ignore[no-untyped-call]

    def ask(self, ask: ApiRequest) -> Tree | None:
        """Return the answer, or None if the named object does not exist."""
        response = self._request(ask, _TIMEOUT)
        try:
            status, text = int(response.status), bytes(response.data)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise self._away(error) from error
        # One object that can't be parsed must not hide the others in a list.
        tree = _tree(bounded_objects(text, ObjectDepth.LIST if ask.name is None else ObjectDepth.OBJECT))
        if status == _NOT_FOUND and tree.get("kind") == "Status":
            return None
        if status >= _WRONG or not tree:
            raise self._refusal(ask, status, text)
        return tree

    def lines(self, ask: ApiRequest, *, follow: bool) -> "LogStream | None":
        """Return a log stream, or None if the pod does not exist. The caller closes the stream."""
        timeout = _QUIET if follow else _TIMEOUT
        response = self._request(ask, timeout)
        if response.status < _WRONG:
            return LogStream(response, lambda error: self._away(error, timeout))
        try:
            status, text = int(response.status), bytes(response.data)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise self._away(error) from error
        if status == _NOT_FOUND and _tree(text).get("kind") == "Status":
            return None
        raise self._refusal(ask, status, text)

    def _request(self, ask: ApiRequest, timeout: tuple[float, float]) -> urllib3.BaseHTTPResponse:
        headers = {"Accept": "application/json" if ask.part != "log" else "*/*"}
        if ask.body is not None:
            headers["Content-Type"] = "application/merge-patch+json"
        request = self._client.param_serialize(
            "GET" if ask.body is None else "PATCH",
            ask.path,
            query_params=list(ask.query.items()),
            header_params=headers,
            body=ask.body,
            auth_settings=["BearerToken"],
        )
        try:
            answer = self._client.call_api(*request, _request_timeout=timeout)
        except (urllib3.exceptions.HTTPError, client.ApiException, OSError) as error:
            raise self._away(error, timeout) from error
        response: urllib3.BaseHTTPResponse = answer.response
        return response

    def _away(self, error: Exception, timeout: tuple[float, float] = _TIMEOUT) -> RetrySoonError:
        if timeout is _QUIET and isinstance(error, urllib3.exceptions.ReadTimeoutError):
            return QuietError(str(error))
        why = error.reason if isinstance(error, client.ApiException) else error
        message = f"{self._who()} does not answer at {self._client.configuration.host}: {why}"
        return UnreachableError(one_line(message))

    def _refusal(self, ask: ApiRequest, status: int, text: bytes) -> HoldfastError:
        """Return the error that this answer stands for."""
        tree = _tree(text)
        said = one_line(str(tree.get("message") or text[:_SHOWN].decode(errors="replace")))
        if status == _NOT_FOUND:
            right = ask.kind.right
            message = f"{self._who()} knows no {right}: Holdfast's CustomResourceDefinition is not installed there"
            return NotInstalledError(message)
        if status == _WHO:
            message = f"{self._who()}: its credentials are not accepted, they may have expired: log in again ({said})"
            return CredentialsError(message)
        if status == _FORBIDDEN:
            message = f"{said}; ask whoever runs the cluster for the right to {ask.right}"
            return RightMissingError(message)
        if status == _TOO_MANY or status >= _SERVER:
            message = f"{self._who()} can't answer now ({status}): {said}"
            return UnreachableError(message)
        message = f"{self._who()} answered {status} to {ask.right}: {said}"
        return AnswerError(message)

    def _who(self) -> str:
        return "this pod's cluster" if self._target.context is None else f"context {self._target.context}"


class LogStream:
    """The lines of a log as they arrive, without line ends."""

    def __init__(self, response: urllib3.BaseHTTPResponse, away: Callable[[Exception], HoldfastError]) -> None:
        self._response, self._away = response, away
        self._cut = False

    def __iter__(self) -> Iterator[bytes]:
        """Yield lines until the log ends or `cut` is called."""
        rest = b""
        try:
            for piece in self._response.stream(_PIECE):
                *whole, rest = (rest + piece).split(b"\n")
                yield from whole
        except (urllib3.exceptions.HTTPError, OSError, ValueError, AttributeError) as error:
            # Shutting the socket under a reader raises various errors; they are expected only after `cut`.
            if not self._cut:
                raise self._away(error) from error
        if rest:
            yield rest

    def cut(self) -> None:
        """End the stream from another thread; a reader waiting for a line wakes up."""
        self._cut = True
        try:
            self._response.shutdown()
        except (ValueError, RuntimeError, OSError):
            return  # the stream has already ended

    def close(self) -> None:
        """Release the connection, even if the log was not read to its end."""
        self._response.close()


def _tree(text: bytes) -> Tree:
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return tree if isinstance(tree, dict) else {}


ObjectTree = dict[str, Any]
_PAGE = 500


class ClusterReader:
    """Reads objects and lists of objects through a client."""

    def __init__(self, client: ClusterClient) -> None:
        self._client = client

    def get(self, kind: ObjectKind, namespace: str, name: str) -> ObjectTree | None:
        """Return one object, or None if it does not exist."""
        return self._client.ask(ApiRequest("get", kind, namespace, name))

    def find(self, kind: ObjectKind, namespace: str | None, query: Mapping[str, str]) -> list[ObjectTree]:
        """Return all matching objects of a namespace, or of all namespaces."""
        found: list[ObjectTree] = []
        after = ""
        while True:
            more = {"continue": after} if after else {}
            page = (
                self._client.ask(ApiRequest("list", kind, namespace, query={"limit": str(_PAGE), **query, **more}))
                or {}
            )
            found += page.get("items") or []
            after = (page.get("metadata") or {}).get("continue") or ""
            if not after:
                return found
