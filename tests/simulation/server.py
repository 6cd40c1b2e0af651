"""An API server over the objects: HTTP answers, paged lists, and watches with a window that begins somewhere.

Several servers share the objects. Reads and writes are of this moment, as from etcd; what a server's watches tell may
lag behind, and its window begins when it was started, or where it was compacted. Must not know who asks, nor lose or
delay an answer: `network` does.
"""

import asyncio
import itertools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from tests.simulation.objects import Change, DeleteCondition, Objects, RefusedCallError, Tree, labelled

BOOKMARKS_EVERY = 60.0
WatchEvent = tuple[str, Any]
"""Type, and the object: JSON text of an object, or a tree of a bookmark or an error."""
_ALL_KINDS = {
    "streamapps": ("StreamApp", "holdfast.dev/v1alpha1"),
    "pods": ("Pod", "v1"),
    "configmaps": ("ConfigMap", "v1"),
    "secrets": ("Secret", "v1"),
    "persistentvolumeclaims": ("PersistentVolumeClaim", "v1"),
    "statefulsets": ("StatefulSet", "apps/v1"),
    "nodes": ("Node", "v1"),
    "storageclasses": ("StorageClass", "storage.k8s.io/v1"),
    "persistentvolumes": ("PersistentVolume", "v1"),
    "networkpolicies": ("NetworkPolicy", "networking.k8s.io/v1"),
    "events": ("Event", "events.k8s.io/v1"),
    "leases": ("Lease", "coordination.k8s.io/v1"),
}


@dataclass(eq=False, slots=True)
class Watch:
    """An open watch: what it tells goes to `tell`, in order; None: it ends."""

    kind: str
    namespace: str | None
    labels: Mapping[str, str | None]
    tell: Callable[[WatchEvent | None], None]

    def event_of(self, change: Change, text: bytes) -> WatchEvent | None:
        """What this watch says of a change; an object whose labels match no more is gone for it."""
        if change.kind != self.kind or self.namespace not in (None, change.tree["metadata"].get("namespace")):
            return None
        before = change.before is not None and labelled(change.before, self.labels)
        after = change.type != "DELETED" and labelled(change.tree, self.labels)
        if not before and not after:
            return None
        return ("MODIFIED" if before and after else "ADDED" if after else "DELETED"), text


@dataclass(eq=False, slots=True)
class ApiServer:
    """One of the servers."""

    objects: Objects
    served: set[str] = field(default_factory=lambda: set(_ALL_KINDS))
    """Plural names of the kinds, shared by all servers."""
    lag: float = 0.002
    """Seconds after which its watches tell of a change."""
    up: bool = True
    ending: bool = False
    """Whether the namespace is being deleted, in which all is."""
    forbidden: set[str] = field(default_factory=set)
    """Kinds that nobody may read or write for now."""
    full: set[str] = field(default_factory=set)
    """Kinds whose quota is used up, shared by all servers."""
    watches: list[Watch] = field(default_factory=list)
    _begin: int = 0
    """The oldest version that a watch can begin at."""
    _seen: int = 0
    """The version that its watches have told of."""
    _due: bool = False
    _pages: dict[str, tuple[int, list[Tree]]] = field(default_factory=dict)
    _tokens: "itertools.count[int]" = field(default_factory=itertools.count)

    def start(self) -> None:
        """Start it, or start it again: it has seen nothing that was before."""
        self.up, self._begin, self._seen = True, self.objects.version, self.objects.version
        if self._changed not in self.objects.listeners:
            self.objects.listeners.append(self._changed)

    def stop(self) -> None:
        """Its watches end, or, if their connections die with it, nobody tells."""
        self.up = False
        for watch in self.watches:
            watch.tell(None)
        self.watches.clear()

    def compact(self) -> None:
        """Forget what was before: older watches and pages can't go on."""
        self._begin = self._seen
        self._pages.clear()

    def withdraw(self, kind: str) -> None:
        """A kind is served no more: its watches end."""
        for watch in [watch for watch in self.watches if watch.kind == kind]:
            watch.tell(None)
            self.watches.remove(watch)

    def answer(self, method: str, path: str, query: list[tuple[str, str]], body: Any, by: str) -> tuple[int, bytes]:
        """Status and text of the answer."""
        try:
            return self._answered(method, path, dict(query), body, by)
        except RefusedCallError as refused:
            status: Tree = {"kind": "Status", "status": "Failure", "reason": refused.reason, "message": str(refused)}
            status["details"] = {"causes": [{"reason": refused.cause}] if refused.cause else []}
            return refused.status, json.dumps({**status, "code": refused.status}).encode()

    def watch(self, watch: Watch, since: str) -> None:
        """Open a watch; what has happened since is told at once."""
        self._may(watch.kind)
        if int(since) < self._begin:
            message = f"too old resource version: {since} ({self._begin})"
            watch.tell(("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": message}))
            watch.tell(None)
            return
        for change in self.objects.history[int(since) : self._seen]:
            self._tell(watch, change)
        self.watches.append(watch)

    def bookmark(self, watch: Watch) -> None:
        """Say how far it is."""
        if watch in self.watches:
            watch.tell(("BOOKMARK", {"metadata": {"resourceVersion": str(self._seen)}}))

    def close(self, watch: Watch) -> None:
        """The client is gone."""
        if watch in self.watches:
            self.watches.remove(watch)

    def _changed(self, _: Change) -> None:
        if self.up and not self._due:
            self._due = True
            asyncio.get_running_loop().call_later(self.lag, self._advance)

    def _advance(self) -> None:
        self._due = False
        changes, self._seen = self.objects.history[self._seen :], self.objects.version
        for watch in list(self.watches) if self.up else ():
            for change in changes:
                self._tell(watch, change)

    def _tell(self, watch: Watch, change: Change) -> None:
        if watch.kind == change.kind:
            event = watch.event_of(change, self.objects.text(change.tree))
            if event is not None:
                watch.tell(event)

    def _may(self, kind: str) -> None:
        if kind not in self.served:
            raise RefusedCallError(404, "NotFound", "the server could not find the requested resource")
        if kind in self.forbidden:
            raise RefusedCallError(403, "Forbidden", f"{kind} is forbidden")

    def _may_create(self, kind: str, namespace: str | None) -> None:
        if self.ending:
            message = f"unable to create new content in namespace {namespace} because it is being terminated"
            raise RefusedCallError(403, "Forbidden", message, "NamespaceTerminating")
        if kind in self.full:
            raise RefusedCallError(403, "Forbidden", f"{kind} is forbidden: exceeded quota")

    def _answered(self, method: str, path: str, query: dict[str, str], body: Any, by: str) -> tuple[int, bytes]:
        parts = path.strip("/").split("/")
        parts = parts[2:] if parts[0] == "api" else parts[3:]
        if not parts:
            return 200, json.dumps(self._discovered(path)).encode()
        namespace = None
        if parts[0] == "namespaces":
            namespace, parts = unquote(parts[1]), parts[2:]
        kind, name, part = (*map(unquote, parts), "", "")[:3]
        self._may(kind)
        if not name:
            if method == "GET":
                return 200, self._list(kind, namespace, query)
            self._may_create(kind, namespace)
            return 201, self.objects.text(self.objects.create(kind, namespace, _through_json(body), by))
        match method:
            case "GET":
                tree = self.objects.get(kind, namespace, name)
                if tree is None:
                    raise RefusedCallError(404, "NotFound", f'{kind} "{name}" not found')
                return 200, self.objects.text(tree)
            case "PUT":
                written = self.objects.replace(kind, namespace, name, _through_json(body), by, part)
            case "PATCH":
                written = self.objects.patch(kind, namespace, name, _through_json(body), by, part)
            case _:
                options = body or {}
                uid, grace = (options.get("preconditions") or {}).get("uid"), options.get("gracePeriodSeconds")
                version = (options.get("preconditions") or {}).get("resourceVersion")
                written = self.objects.delete(kind, namespace, name, by, DeleteCondition(uid, version, grace))
        return 200, self.objects.text(written)

    def _discovered(self, path: str) -> Tree:
        apis = sorted({api for plural, (_, api) in _ALL_KINDS.items() if "/" in api and plural in self.served})
        if path == "/apis":
            return {"groups": [{"name": api, "versions": [{"groupVersion": api}]} for api in apis]}
        of = path.removeprefix("/apis/")
        return {
            "resources": [{"name": name} for name, (_, api) in _ALL_KINDS.items() if api == of and name in self.served]
        }

    def _list(self, kind: str, namespace: str | None, query: dict[str, str]) -> bytes:
        version = self.objects.version
        if token := query.get("continue"):
            if token not in self._pages:
                raise RefusedCallError(410, "Expired", "The provided continue parameter is too old")
            version, trees = self._pages.pop(token)
        else:
            trees = self.objects.all(kind, namespace, selector(query.get("labelSelector", "")))
        limit = int(query.get("limit", "0")) or len(trees)
        metadata = {"resourceVersion": str(version)}
        if rest := trees[limit:]:
            metadata["continue"] = f"page-{next(self._tokens)}"
            self._pages[metadata["continue"]] = version, rest
        name, api = _ALL_KINDS[kind]
        head = json.dumps({"kind": f"{name}List", "apiVersion": api, "metadata": metadata})[:-1].encode()
        return head + b',"items":[' + b",".join(map(self.objects.text, trees[:limit])) + b"]}"


def selector(text: str) -> dict[str, str | None]:
    """`a=b,c` as labels; None: with any value."""
    pairs = (part.partition("=") for part in text.split(",") if part)
    return {key: value if sign else None for key, sign, value in pairs}


def _through_json(tree: Any) -> Any:
    return json.loads(json.dumps(tree))
