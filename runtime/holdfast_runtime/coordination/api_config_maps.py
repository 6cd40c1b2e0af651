"""The Kubernetes API client of a driver: the ConfigMaps of its namespace, and nothing else.

An object that does not exist is `None`, never an error; a failed request is an error, never `None`. Every call has a
deadline. Threads may share a client. Must not know what ConfigMaps hold.
"""

from urllib.parse import quote

import urllib3
from kubernetes import client, config

from holdfast.api_answers import NOT_FOUND, WRONG, ApiRefusedError, ApiUnreachableError, api_error, object_in
from holdfast.one_line import one_line
from holdfast.trees import Tree

_TIMEOUT = 15.0
_METHODS = {"get": "GET", "create": "POST", "update": "PUT", "delete": "DELETE"}


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
        return self._call("get", self._named(name))

    def create(self, tree: Tree) -> Tree:
        """Create the ConfigMap; raise `ApiConflictError` if one of that name exists."""
        created = self._call("create", self._path, tree)
        if created is None:
            message = f"ConfigMap {tree['metadata']['name']} can't be made: its namespace does not exist"
            raise ApiRefusedError(message)
        return created

    def replace(self, tree: Tree) -> Tree | None:
        """Replace the version that the tree names; None if it is gone. Raise `ApiConflictError` if it changed."""
        return self._call("update", self._named(tree["metadata"]["name"]), tree)

    def delete(self, name: str, version: str) -> None:
        """Delete this version; nothing if it is gone. Raise `ApiConflictError` if it changed."""
        self._call("delete", self._named(name), {"preconditions": {"resourceVersion": version}})

    def _named(self, name: str) -> str:
        return f"{self._path}/{quote(name, safe='')}"

    def _call(self, verb: str, path: str, body: Tree | None = None) -> Tree | None:
        request = self._api.param_serialize(
            _METHODS[verb],
            path,
            header_params={"Accept": "application/json", "Content-Type": "application/json"},
            body=body,
            auth_settings=["BearerToken"],
        )
        try:
            response = self._api.call_api(*request, _request_timeout=_TIMEOUT)
            content: bytes = response.read()  # type: ignore[no-untyped-call]
        except (urllib3.exceptions.HTTPError, client.ApiException, OSError) as error:
            why = one_line(str(error) or type(error).__name__)
            message = f"{verb} {path}: the API server did not answer: {why}"
            raise ApiUnreachableError(message) from error
        if response.status == NOT_FOUND:
            return None
        if response.status >= WRONG:
            right = f"{verb} configmaps"
            raise api_error(right, response.status, content)
        return object_in(content)
