"""The Kubernetes API client for one user: objects, paged lists, one patch, logs, and commands in pods.

Errors say what to do.

All errors of the client library and all answers of the API server become ours here. Needs the extra `cluster`; only
`ClusterTarget.connect` imports it: the client library takes half a second to load. Must not know apps, nor decide
what to request.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote, urlencode

import urllib3
import websocket
from kubernetes import client, config
from kubernetes.stream.ws_client import create_websocket, get_websocket_url

from holdfast.api_answers import NOT_FOUND, WRONG, ApiUnreachableError, api_error, object_in
from holdfast.bounded_json import ObjectDepth
from holdfast.errors import HoldfastError, UserActionError
from holdfast.trees import Tree
from holdfast_cli.cluster.app import PODS, ObjectKind
from holdfast_cli.cluster.pod_exec import SUBPROTOCOL, ExecStream
from holdfast_cli.output.screen import one_line

_TIMEOUT = (5.0, 15.0)
"""Timeouts in seconds: to connect, and to answer."""
_QUIET = (5.0, 60.0)
"""Longer for a followed log, which may be silent. A dead connection is silent too, so the log is requested again."""
_PAGE, _PIECE = 500, 1 << 16


class ClusterClient:
    """A client for one cluster, as one user."""

    def __init__(self, files: tuple[Path, ...], context: str | None) -> None:
        self._who = "this pod's cluster" if context is None else f"context {context}"
        configuration = client.Configuration()
        configuration.retries = False  # report an unreachable API server at once, not after four retries
        try:
            if files:
                config.load_kube_config(os.pathsep.join(map(str, files)), context, configuration)  # type: ignore[no-untyped-call]
            else:
                config.load_incluster_config(configuration)  # type: ignore[no-untyped-call]
        except (config.ConfigException, OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            message = f"{self._who} can't be used: {type(error).__name__}: {error}"
            raise UserActionError(one_line(message), code="CredentialsError") from error
        if configuration.host.startswith("https") and not (configuration.api_key or configuration.cert_file):
            # When a credential plugin fails, the library only logs it and continues without credentials.
            message = (
                f"{self._who} gives no credentials: its user has none, or its credential plugin failed; log in again"
            )
            raise UserActionError(message, code="CredentialsError")
        self._client = client.ApiClient(configuration)

    def close(self) -> None:
        """Close all connections."""
        self._client.close()  # type: ignore[no-untyped-call]

    def get(self, kind: ObjectKind, namespace: str, name: str) -> Tree | None:
        """Return one object, or None if it does not exist."""
        return self._tree(f"get {kind.right}", _path(kind, namespace, name))

    def find(self, kind: ObjectKind, namespace: str | None, query: Mapping[str, str]) -> list[Tree]:
        """Return all matching objects of a namespace, or of all namespaces."""
        objects: list[Tree] = []
        parameters = {"limit": str(_PAGE), **query}
        while True:
            page = self._tree(f"list {kind.right}", _path(kind, namespace), parameters, depth=ObjectDepth.LIST) or {}
            objects += page.get("items") or []
            parameters["continue"] = (page.get("metadata") or {}).get("continue") or ""
            if not parameters["continue"]:
                return objects

    def patch(self, kind: ObjectKind, namespace: str, name: str, body: Tree) -> Tree | None:
        """Merge `body` into the object and return it, or None if it does not exist."""
        return self._tree(f"patch {kind.right}", _path(kind, namespace, name), body=body)

    def log(self, namespace: str, pod: str, query: Mapping[str, str]) -> "LogStream | None":
        """Return a log stream, or None if there is nothing to read now. The caller closes the stream."""
        follows = "follow" in query
        try:
            response = self._request(
                f"{_path(PODS, namespace, pod)}/log", query, timeout=_QUIET if follows else _TIMEOUT
            )
        except ApiUnreachableError as error:
            if follows and isinstance(error.__cause__, urllib3.exceptions.ReadTimeoutError):
                return None
            raise
        if response.status < WRONG:
            return LogStream(response, self._away, follows=follows)
        self._answer("get pods/log", response, ObjectDepth.OBJECT)
        return None

    def exec(self, namespace: str, pod: str, container: str, command: Sequence[str]) -> ExecStream:
        """Start a command in a container. The caller closes the stream."""
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), "true")
        query = [("container", container), *streams.items(), *(("command", word) for word in command)]
        request = self._client.param_serialize(
            "GET", f"{_path(PODS, namespace, pod)}/exec", auth_settings=["BearerToken"]
        )
        _, url, headers, *_ = request
        headers = {name.lower(): value for name, value in headers.items()} | {"sec-websocket-protocol": SUBPROTOCOL}
        address = get_websocket_url(f"{url}?{urlencode(query)}")  # type: ignore[no-untyped-call]
        try:
            socket = create_websocket(self._client.configuration, address, headers)  # type: ignore[no-untyped-call]
        except websocket.WebSocketBadStatusException as error:
            right = "use pods/exec"
            raise api_error(right, error.status_code, error.resp_body or b"", who=self._who) from error
        except (websocket.WebSocketException, OSError) as error:
            raise self._away(error) from error
        return ExecStream(socket, self._away)

    def _tree(
        self,
        right: str,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        depth: ObjectDepth = ObjectDepth.OBJECT,
        body: Tree | None = None,
    ) -> Tree | None:
        return self._answer(right, self._request(path, query or {}, body), depth)

    def _request(
        self, path: str, query: Mapping[str, str], body: Tree | None = None, timeout: tuple[float, float] = _TIMEOUT
    ) -> urllib3.BaseHTTPResponse:
        verb, kind = ("GET", {}) if body is None else ("PATCH", {"Content-Type": "application/merge-patch+json"})
        request = self._client.param_serialize(
            verb,
            path,
            query_params=list(query.items()),
            header_params={"Accept": "application/json, */*", **kind},
            body=body,
            auth_settings=["BearerToken"],
        )
        try:
            answer = self._client.call_api(*request, _request_timeout=timeout)
        except (urllib3.exceptions.HTTPError, client.ApiException, OSError) as error:
            raise self._away(error) from error
        response: urllib3.BaseHTTPResponse = answer.response
        return response

    def _answer(self, right: str, response: urllib3.BaseHTTPResponse, depth: ObjectDepth) -> Tree | None:
        """Return the object in the answer, or None if the named one does not exist; `right` is what it takes."""
        try:
            status, text = int(response.status), bytes(response.data)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise self._away(error) from error
        tree = object_in(text, depth)
        if status < WRONG and tree:
            return tree
        if status == NOT_FOUND and tree.get("kind") == "Status":
            return None
        raise api_error(right, status, text, who=self._who)

    def _away(self, error: Exception) -> ApiUnreachableError:
        why = error.reason if isinstance(error, client.ApiException) else error
        return ApiUnreachableError(one_line(f"{self._who} does not answer at {self._client.configuration.host}: {why}"))


class LogStream:
    """The lines of a log as they arrive, without line ends."""

    def __init__(
        self, response: urllib3.BaseHTTPResponse, away: Callable[[Exception], HoldfastError], *, follows: bool
    ) -> None:
        self._response, self._away, self._follows, self._cut = response, away, follows, False

    def __iter__(self) -> Iterator[bytes]:
        """Yield lines until the log ends, `cut` is called, or a followed log was silent for a while."""
        rest = b""
        try:
            for piece in self._response.stream(_PIECE):
                *whole, rest = (rest + piece).split(b"\n")
                yield from whole
        except (urllib3.exceptions.HTTPError, OSError, ValueError, AttributeError) as error:
            # Shutting the socket under a reader raises various errors; they are expected only after `cut`.
            if self._cut or (self._follows and isinstance(error, urllib3.exceptions.ReadTimeoutError)):
                return
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


def _path(kind: ObjectKind, namespace: str | None, name: str | None = None) -> str:
    within = "" if namespace is None else f"/namespaces/{quote(namespace, safe='')}"
    return f"{kind.api}{within}/{kind.plural}" + ("" if name is None else f"/{quote(name, safe='')}")
