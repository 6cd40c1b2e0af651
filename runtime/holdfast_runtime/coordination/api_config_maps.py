"""The Kubernetes API client of a driver: the ConfigMaps of its namespace, and nothing else.

An object that does not exist is `None`, never an error; a failed request is an error, never `None`. Every call has a
deadline. Threads may share a client. Must not know what ConfigMaps hold.
"""

import json
from typing import Any
from urllib.parse import quote

import urllib3
from kubernetes import client, config

from holdfast.errors import HoldfastError, RetrySoonError, WorldChangeError
from holdfast.placement.config_map_store import ConfigMapConflictError
from holdfast.trees import Tree

_TIMEOUT = 15.0
_WRONG, _NOT_FOUND, _CONFLICT, _TOO_MANY, _SERVER = 300, 404, 409, 429, 500


class ApiConfigMaps:
    """The ConfigMaps of one namespace."""

    def __init__(self, api: client.ApiClient, namespace: str) -> None:
        self._api = api
        self._path = f"/api/v1/namespaces/{quote(namespace, safe='')}/configmaps"

    @classmethod
    def connected(cls, namespace: str) -> "ApiConfigMaps":
        """Connect as the pod's service account, or outside of a pod as KUBECONFIG says."""
        configuration = client.Configuration()
        try:
            config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
        except config.ConfigException:
            config.load_kube_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
        return cls(client.ApiClient(configuration), namespace)

    def get(self, name: str) -> Tree | None:
        """Return the ConfigMap as it is now; None if it does not exist."""
        return self._call("GET", self._named(name))

    def create(self, tree: Tree) -> Tree:
        """Create the ConfigMap; raise `ConfigMapConflictError` if one of that name exists."""
        created = self._call("POST", self._path, tree)
        if created is None:
            message = f"ConfigMap {tree['metadata']['name']} can't be made: its namespace does not exist"
            raise WorldChangeError(message, code="ApiRefusedError")
        return created

    def replace(self, tree: Tree) -> Tree | None:
        """Replace the version that the tree names; None if it is gone. Raise `ConfigMapConflictError` if it changed."""
        return self._call("PUT", self._named(tree["metadata"]["name"]), tree)

    def delete(self, name: str, version: str) -> None:
        """Delete this version; nothing if it is gone. Raise `ConfigMapConflictError` if it changed."""
        self._call("DELETE", self._named(name), {"preconditions": {"resourceVersion": version}})

    def _named(self, name: str) -> str:
        return f"{self._path}/{quote(name, safe='')}"

    def _call(self, method: str, path: str, body: Tree | None = None) -> Tree | None:
        request = self._api.param_serialize(
            method,
            path,
            header_params={"Accept": "application/json", "Content-Type": "application/json"},
            body=body,
            auth_settings=["BearerToken"],
        )
        try:
            response = self._api.call_api(*request, _request_timeout=_TIMEOUT)
            content: bytes = response.read()  # type: ignore[no-untyped-call]
        except (urllib3.exceptions.HTTPError, client.ApiException, OSError) as error:
            message = f"{method} {path}: the API server did not answer: {error or type(error).__name__}"
            raise RetrySoonError(message, code="ApiUnreachableError") from error
        if response.status == _NOT_FOUND:
            return None
        answer = _tree(content)
        if response.status >= _WRONG:
            reason = str(answer.get("message") or content[:500].decode(errors="replace"))
            raise _error(response.status, f"{method} {path}: {reason}")
        return answer


def _tree(content: bytes) -> Tree:
    try:
        tree: Any = json.loads(content)
    except ValueError:
        return {}
    return tree if isinstance(tree, dict) else {}


def _error(status: int, message: str) -> HoldfastError:
    if status == _CONFLICT:
        return ConfigMapConflictError(message)
    if status == _TOO_MANY or status >= _SERVER:
        return RetrySoonError(message, code="ApiUnreachableError")
    return WorldChangeError(message, code="ApiRefusedError")
