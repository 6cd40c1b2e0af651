"""The client of the API server: objects in, objects out, and errors typed by the way out.

"Not there" is `None`, never an error; what could not be asked is an error, never `None`. Every call has a deadline.
Nothing else speaks to the API server, apart from kopf's watches. Must not know an app.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import aiohttp
from kubernetes.aio.client import ApiClient

from holdfast.bounded_json import ObjectDepth, bounded_objects
from holdfast.errors import HoldfastError, RetrySoonError, WorldChangeError

Tree = dict[str, Any]
CallListener = Callable[[str, str, int], None]
"""Told verb, kind and answer of each call; 0: there was no answer."""
_TIMEOUT = 15.0
_PAGE = 500
_WRONG, _NOT_FOUND, _CONFLICT, _TOO_MANY, _SERVER = 300, 404, 409, 429, 500
_METHODS = {"get": "GET", "list": "GET", "create": "POST", "update": "PUT", "patch": "PATCH", "delete": "DELETE"}


@dataclass(frozen=True, slots=True)
class ApiKind:
    """A kind of object, as the API server knows it."""

    name: str
    plural: str
    api: str
    namespaced: bool = True

    def path(self, namespace: str | None, name: str | None = None, part: str | None = None) -> str:
        """Where it is."""
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
_DISCOVERY = ApiKind("Discovery", "", "")
"""What the API server itself says of its kinds."""


class ClusterUnreachableError(RetrySoonError):
    """The API server did not answer, or not now."""


class ConflictError(RetrySoonError):
    """Somebody else wrote first, or it is there already."""


class ClusterRefusedError(WorldChangeError):
    """The API server understood and said no: rights, quota, admission, or a field."""


class Cluster:
    """The API server, for one operator."""

    def __init__(self, client: ApiClient, called: CallListener = lambda *_: None) -> None:
        self._client, self._called = client, called

    async def get(self, kind: ApiKind, namespace: str | None, name: str) -> Tree | None:
        """As it is now; None: it is not there."""
        return await self._call("get", kind, kind.path(namespace, name))

    async def serves(self, kind: ApiKind) -> bool:
        """Whether it has this kind of a group. Both lists are asked: what a CRD brings is not in both at once."""
        groups = await self._call("get", _DISCOVERY, "/apis") or {}
        version = await self._call("get", _DISCOVERY, f"/apis/{kind.api}") or {}
        versions = (one.get("groupVersion") for group in groups.get("groups") or [] for one in group["versions"])
        return kind.api in versions and any(one.get("name") == kind.plural for one in version.get("resources") or [])

    async def find(self, kind: ApiKind, namespace: str | None, labels: Mapping[str, str]) -> list[Tree]:
        """All that carry these labels."""
        found: list[Tree] = []
        query = [("limit", str(_PAGE)), ("labelSelector", ",".join(f"{key}={value}" for key, value in labels.items()))]
        after = ""
        while True:
            more = [("continue", after)] if after else []
            page = await self._call("list", kind, kind.path(namespace), query + more) or {}
            found += page.get("items") or []
            after = (page.get("metadata") or {}).get("continue") or ""
            if not after:
                return found

    async def create(self, kind: ApiKind, namespace: str | None, tree: Tree) -> Tree:
        """Make it; `ConflictError` where one of its name is there."""
        made = await self._call("create", kind, kind.path(namespace), body=tree)
        if made is None:
            message = f"{kind.name} {tree['metadata']['name']}: namespace {namespace} does not exist"
            raise ClusterRefusedError(message)
        return made

    async def replace(self, kind: ApiKind, namespace: str | None, tree: Tree) -> Tree | None:
        """Write it over the version in it; None where it is gone."""
        path = kind.path(namespace, tree["metadata"]["name"])
        return await self._call("update", kind, path, body=tree)

    async def patch(
        self, kind: ApiKind, namespace: str | None, name: str, patch: Tree, part: str | None = None
    ) -> Tree | None:
        """Merge this into it; with `metadata.resourceVersion` in it only over that version. None where it is gone."""
        return await self._call("patch", kind, kind.path(namespace, name, part), body=patch)

    async def delete(
        self, kind: ApiKind, namespace: str | None, name: str, uid: str | None = None, grace: int | None = None
    ) -> None:
        """Let it go, if it still is the one with this uid; gone already is as well. `grace` in seconds."""
        try:
            await self.delete_as(kind, namespace, name, {} if uid is None else {"uid": uid}, grace)
        except ConflictError:
            if uid is None:
                raise
            # Another one of the same name: the one that was meant is gone.

    async def delete_as(
        self,
        kind: ApiKind,
        namespace: str | None,
        name: str,
        preconditions: Mapping[str, str],
        grace: int | None = None,
    ) -> None:
        """Let it go, if it still is exactly this one; `ConflictError` where it is not."""
        body: Tree = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        if preconditions:
            body["preconditions"] = dict(preconditions)
        if grace is not None:
            body["gracePeriodSeconds"] = grace
        await self._call("delete", kind, kind.path(namespace, name), body=body)

    async def _call(
        self, verb: str, kind: ApiKind, path: str, query: list[tuple[str, str]] | None = None, body: Tree | None = None
    ) -> Tree | None:
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
            response = await self._client.call_api(*request, _request_timeout=_TIMEOUT)
            text: bytes = await response.read()  # type: ignore[no-untyped-call]
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            self._called(verb, kind.name, 0)
            message = f"{verb} {kind.name}: the API server did not answer: {error or type(error).__name__}"
            raise ClusterUnreachableError(message) from error
        self._called(verb, kind.name, response.status)
        if response.status == _NOT_FOUND:
            return None
        answer = _tree(bounded_objects(text, ObjectDepth.LIST if verb == "list" else ObjectDepth.OBJECT))
        if response.status >= _WRONG:
            raise _error(verb, kind, response.status, str(answer.get("message") or text[:500].decode(errors="replace")))
        return answer


def _tree(text: bytes) -> Tree:
    try:
        tree = json.loads(text)
    except ValueError:
        return {}
    return tree if isinstance(tree, dict) else {}


def _error(verb: str, kind: ApiKind, status: int, said: str) -> HoldfastError:
    message = f"{verb} {kind.name}: {said}"
    if status == _CONFLICT:
        return ConflictError(message)
    if status == _TOO_MANY or status >= _SERVER:
        return ClusterUnreachableError(message)
    return ClusterRefusedError(message)
