"""Why: the API server as a user of `holdfast status` meets it: trees are read, and what goes wrong says the way out.

Needs the extra `cluster`; imported when a cluster is asked, as the client library takes half a second to load. Must
not write, and must not know an app.
"""

import json
import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import urllib3
from kubernetes import client, config

from holdfast.errors import RetrySoonError, UserActionError, WorldChangeError
from holdfast_cli.cluster_kinds import Kind
from holdfast_cli.kubeconfig import Target
from holdfast_cli.screen import one_line

Tree = dict[str, Any]
_TIMEOUT = (5.0, 15.0)
"""Seconds to connect, and to answer."""
_PAGE = 500
_WRONG, _WHO, _FORBIDDEN, _NOT_FOUND, _TOO_MANY, _SERVER = 300, 401, 403, 404, 429, 500
_SHOWN = 500


class CredentialsError(UserActionError):
    """The cluster does not take who asks for anybody it knows."""


class RightMissingError(UserActionError):
    """Who asks may not see this."""


class NotInstalledError(UserActionError):
    """The cluster does not know this kind of object."""


class UnreachableError(RetrySoonError):
    """No API server answered, or not now."""


class AnswerError(WorldChangeError):
    """The API server answered what nobody expects."""


class ClusterReader:
    """One cluster, seen by one user."""

    def __init__(self, target: Target) -> None:
        self._target = target
        configuration = client.Configuration()
        configuration.retries = False  # an API server that is away is said at once, not after four waits
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
            # The library logs that a credential plugin failed, and would go on as nobody.
            message = (
                f"{self._who()} gives no credentials: its user has none, or its credential plugin failed; log in again"
            )
            raise CredentialsError(message)
        self._client = client.ApiClient(configuration)

    def close(self) -> None:
        """Let connections go."""
        self._client.close()  # type: ignore[no-untyped-call]

    def get(self, kind: Kind, namespace: str, name: str) -> Tree | None:
        """One object; None: it is not there."""
        return self._read("get", kind, namespace, f"/{quote(name, safe='')}", {})

    def find(self, kind: Kind, namespace: str | None, query: Mapping[str, str]) -> list[Tree]:
        """All objects of a namespace, or of all, that fit."""
        found: list[Tree] = []
        after = ""
        while True:
            more = {"continue": after} if after else {}
            page = self._read("list", kind, namespace, "", {"limit": str(_PAGE), **query, **more}) or {}
            found += page.get("items") or []
            after = (page.get("metadata") or {}).get("continue") or ""
            if not after:
                return found

    def _read(self, verb: str, kind: Kind, namespace: str | None, name: str, query: Mapping[str, str]) -> Tree | None:
        within = "" if namespace is None else f"/namespaces/{quote(namespace, safe='')}"
        status, text = self._answer(f"{kind.api}{within}/{kind.plural}{name}", query)
        tree = _tree(text)
        said = one_line(str(tree.get("message") or text[:_SHOWN].decode(errors="replace")))
        if status == _NOT_FOUND and tree.get("kind") != "Status":
            message = f"{self._who()} knows no {kind.right}: Holdfast's CustomResourceDefinition is not installed there"
            raise NotInstalledError(message)
        if status == _NOT_FOUND:
            return None
        if status == _WHO:
            message = f"{self._who()}: its credentials are not accepted, they may have expired: log in again ({said})"
            raise CredentialsError(message)
        if status == _FORBIDDEN:
            message = f"{said}; ask whoever runs the cluster for the right to {verb} {kind.right}"
            raise RightMissingError(message)
        if status == _TOO_MANY or status >= _SERVER:
            message = f"{self._who()} can't answer now ({status}): {said}"
            raise UnreachableError(message)
        if status >= _WRONG or not tree:
            message = f"{self._who()} answered {status} to {verb} {kind.right}: {said}"
            raise AnswerError(message)
        return tree

    def _answer(self, path: str, query: Mapping[str, str]) -> tuple[int, bytes]:
        request = self._client.param_serialize(
            "GET",
            path,
            query_params=list(query.items()),
            header_params={"Accept": "application/json"},
            auth_settings=["BearerToken"],
        )
        try:
            response = self._client.call_api(*request, _request_timeout=_TIMEOUT)
            return int(response.status), bytes(response.read())  # type: ignore[no-untyped-call]
        except (urllib3.exceptions.HTTPError, client.ApiException, OSError) as error:
            why = error.reason if isinstance(error, client.ApiException) else error
            message = f"{self._who()} does not answer at {self._client.configuration.host}: {why}"
            raise UnreachableError(one_line(message)) from error

    def _who(self) -> str:
        return "this pod's cluster" if self._target.context is None else f"context {self._target.context}"


def _tree(text: bytes) -> Tree:
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return tree if isinstance(tree, dict) else {}
