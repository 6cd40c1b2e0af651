"""The client of the API server: reads and writes objects; errors are typed by what to do next.

A missing object is `None`, never an error; a failed call is an error, never `None`. Every call has a deadline, a write
none after that of the lease, and no object that a user wrote can break the parser. Of the Kubernetes client only login
and transport are used: its typed calls and models would fail on what they do not know. Apart from kopf's watches,
nothing else talks to the API server. Must not know apps.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import quote

import aiohttp
from kubernetes.aio.client import ApiClient

from holdfast.api_answers import (
    NOT_FOUND,
    WRONG,
    ApiConflictError,
    ApiRefusedError,
    ApiUnreachableError,
    api_error,
    object_in,
)
from holdfast.bounded_json import ObjectDepth
from holdfast.errors import RetrySoonError
from holdfast.one_line import one_line
from holdfast.trees import Tree

CallListener = Callable[[str, str, int], None]
"""Called with verb, kind and HTTP status of each call; 0: no answer."""
_TIMEOUT = 15.0
_PAGE = 500
_READS = ("get", "list")
_METHODS = {"get": "GET", "list": "GET", "create": "POST", "update": "PUT", "patch": "PATCH", "delete": "DELETE"}


@dataclass(frozen=True, slots=True)
class ApiKind:
    """A kind of Kubernetes object."""

    name: str
    plural: str
    api: str
    namespaced: bool = True

    @property
    def resource(self) -> str:
        """What RBAC calls it."""
        group, _, _ = self.api.rpartition("/")
        return f"{self.plural}.{group}" if group else self.plural

    def path(self, namespace: str | None, name: str | None = None, part: str | None = None) -> str:
        """Return the URL path of a list, an object or a subresource."""
        base = f"/api/{self.api}" if "/" not in self.api else f"/apis/{self.api}"
        within = f"/namespaces/{quote(namespace or '', safe='')}" if self.namespaced and namespace is not None else ""
        rest = "".join(f"/{quote(one, safe='')}" for one in (name, part) if one is not None)
        return f"{base}{within}/{self.plural}{rest}"


APP = ApiKind("StreamApp", "streamapps", "holdfast.dev/v1alpha1")
POD = ApiKind("Pod", "pods", "v1")
CONFIG_MAP = ApiKind("ConfigMap", "configmaps", "v1")
SECRET = ApiKind("Secret", "secrets", "v1")
CLAIM = ApiKind("PersistentVolumeClaim", "persistentvolumeclaims", "v1")
STATEFUL_SET = ApiKind("StatefulSet", "statefulsets", "apps/v1")
NODE = ApiKind("Node", "nodes", "v1", namespaced=False)
STORAGE_CLASS = ApiKind("StorageClass", "storageclasses", "storage.k8s.io/v1", namespaced=False)
VOLUME = ApiKind("PersistentVolume", "persistentvolumes", "v1", namespaced=False)
NETWORK_POLICY = ApiKind("NetworkPolicy", "networkpolicies", "networking.k8s.io/v1")
EVENT = ApiKind("Event", "events", "events.k8s.io/v1")
LEASE = ApiKind("Lease", "leases", "coordination.k8s.io/v1")
_DISCOVERY = ApiKind("Discovery", "apis", "")
"""The API server's discovery documents."""


@dataclass(frozen=True, slots=True)
class ObjectList:
    """The objects of a list."""

    items: list[Tree]
    version: str
    """Its resourceVersion."""


class NotLeadingError(RetrySoonError):
    """Nothing may be written now, as another operator may be about to act."""


class Cluster:
    """The API server, for one operator."""

    def __init__(
        self,
        client: ApiClient,
        called: CallListener = lambda *_: None,
        left: Callable[[], float] = lambda: math.inf,
        left_in: Callable[[str | None], float] = lambda _: math.inf,
    ) -> None:
        """`left` returns for how many seconds more writes are allowed, `left_in` those in a namespace."""
        self._client, self._called, self._left, self._left_in = client, called, left, left_in

    def limited(self, left_in: Callable[[str | None], float]) -> "Cluster":
        """Return the same API server for writes that are allowed by namespace, too."""
        return Cluster(self._client, self._called, self._left, left_in)

    async def get(self, kind: ApiKind, namespace: str | None, name: str) -> Tree | None:
        """Return the object's current state; None: it does not exist."""
        return await self._call("get", kind, kind.path(namespace, name))

    async def serves(self, kind: ApiKind) -> bool:
        """Return whether this kind is served. A new CRD appears in the two discovery lists at different times."""
        groups = await self._call("get", _DISCOVERY, "/apis") or {}
        version = await self._call("get", _DISCOVERY, f"/apis/{kind.api}") or {}
        versions = (
            group_version.get("groupVersion")
            for group in groups.get("groups") or []
            for group_version in group["versions"]
        )
        return kind.api in versions and any(one.get("name") == kind.plural for one in version.get("resources") or [])

    async def find(self, kind: ApiKind, namespace: str | None, labels: Mapping[str, str]) -> list[Tree]:
        """Return all objects with these labels."""
        return (await self.listing(kind, namespace, labels)).items

    async def listing(self, kind: ApiKind, namespace: str | None, labels: Mapping[str, str]) -> ObjectList:
        """Return all objects with these labels, and the version at which these were all."""
        objects: list[Tree] = []
        query = [("limit", str(_PAGE)), ("labelSelector", ",".join(f"{key}={value}" for key, value in labels.items()))]
        after, version = "", ""
        while True:
            more = [("continue", after)] if after else []
            page = await self._call("list", kind, kind.path(namespace), query + more) or {}
            objects += page.get("items") or []
            metadata = page.get("metadata") or {}
            after, version = metadata.get("continue") or "", version or str(metadata.get("resourceVersion"))
            if not after:
                return ObjectList(objects, version)

    async def create(self, kind: ApiKind, namespace: str | None, tree: Tree) -> Tree:
        """Create the object; `ApiConflictError` if one of this name exists."""
        made = await self._call("create", kind, kind.path(namespace), body=tree, namespace=namespace)
        if made is None:
            message = f"{kind.name} {tree['metadata']['name']}: namespace {namespace} does not exist"
            raise ApiRefusedError(message)
        return made

    async def replace(self, kind: ApiKind, namespace: str | None, tree: Tree) -> Tree | None:
        """Replace the version that `tree` names; None: the object is gone."""
        path = kind.path(namespace, tree["metadata"]["name"])
        return await self._call("update", kind, path, body=tree, namespace=namespace)

    async def patch(
        self, kind: ApiKind, namespace: str | None, name: str, patch: Tree, part: str | None = None
    ) -> Tree | None:
        """Apply a merge patch; with `metadata.resourceVersion`, only to that version. None: the object is gone."""
        return await self._call("patch", kind, kind.path(namespace, name, part), body=patch, namespace=namespace)

    async def delete(
        self, kind: ApiKind, namespace: str | None, name: str, uid: str | None = None, grace: int | None = None
    ) -> None:
        """Delete the object if it still has this uid; succeed if it is already gone. `grace` is in seconds."""
        body: Tree = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        if uid is not None:
            body["preconditions"] = {"uid": uid}
        if grace is not None:
            body["gracePeriodSeconds"] = grace
        try:
            await self._call("delete", kind, kind.path(namespace, name), body=body, namespace=namespace)
        except ApiConflictError:
            if uid is None:
                raise
            # Another object has the name now: the one to delete is gone.

    async def _call(
        self,
        verb: str,
        kind: ApiKind,
        path: str,
        query: list[tuple[str, str]] | None = None,
        body: Tree | None = None,
        namespace: str | None = None,
    ) -> Tree | None:
        """`namespace`: of a write."""
        timeout = _TIMEOUT
        if verb not in _READS:
            timeout = min(_TIMEOUT, self._left(), self._left_in(namespace))
            if timeout <= 0:
                message = f"{verb} {kind.name}: the lease could not be renewed, so another operator may be about to act"
                raise NotLeadingError(message)
        content = "application/merge-patch+json" if verb == "patch" else "application/json"
        try:
            request = await self._client.param_serialize(
                _METHODS[verb],
                path,
                query_params=query or [],
                header_params={"Accept": "application/json", "Content-Type": content},
                body=body,
                auth_settings=["BearerToken"],
            )
            response = await self._client.call_api(*request, _request_timeout=timeout)
            text: bytes = await response.read()  # type: ignore[no-untyped-call]
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            self._called(verb, kind.name, 0)
            why = one_line(str(error) or type(error).__name__)
            message = f"{verb} {kind.name}: the API server did not answer: {why}"
            raise ApiUnreachableError(message) from error
        self._called(verb, kind.name, response.status)
        if response.status == NOT_FOUND:
            return None
        if response.status >= WRONG:
            right = f"{verb} {kind.resource}"
            raise api_error(right, response.status, text)
        return object_in(text, ObjectDepth.LIST if verb == "list" else ObjectDepth.OBJECT)
