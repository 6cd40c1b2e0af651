"""The objects of a cluster as its API servers keep them: versions, uids, finalizers, owners, and each change in order.

A tree is never changed once it is kept, so trees share what they have in common. What calls get here is what
kube-apiserver answers. Must not know time but by its clock, nor apps.
"""

import itertools
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

Tree = dict[str, Any]
ObjectPlace = tuple[str, str | None, str]
"""Plural name of the kind, namespace, name."""
APPS, PODS, MAPS, CLAIMS, SETS = "streamapps", "pods", "configmaps", "persistentvolumeclaims", "statefulsets"
NODES, CLASSES, VOLUMES, EVENTS, LEASES = "nodes", "storageclasses", "persistentvolumes", "events", "leases"
SECRETS, POLICIES = "secrets", "networkpolicies"
_WITH_STATUS = frozenset({APPS, PODS, NODES, SETS})
_WITHOUT_GENERATION = frozenset({MAPS, SECRETS, EVENTS, LEASES, NODES, CLAIMS, VOLUMES, CLASSES})
_FIXED = (
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
)
_LARGEST = 2**63 - 1
_GRACE = 30


class RefusedCallError(Exception):
    """What a call is refused with."""

    def __init__(self, status: int, reason: str, message: str, cause: str = "") -> None:
        super().__init__(message)
        self.status, self.reason, self.cause = status, reason, cause


def _missing(kind: str, name: str) -> RefusedCallError:
    return RefusedCallError(404, "NotFound", f'{kind} "{name}" not found')


def _conflict(kind: str, name: str, why: str) -> RefusedCallError:
    return RefusedCallError(409, "Conflict", f'Operation cannot be fulfilled on {kind} "{name}": {why}')


@dataclass(frozen=True, slots=True)
class DeleteCondition:
    """What is deleted only if it still is this, and in how many seconds."""

    uid: str | None = None
    version: str | None = None
    grace: int | None = None


@dataclass(slots=True)
class Change:
    """One change of one object."""

    version: int
    type: str
    """ADDED, MODIFIED or DELETED."""
    kind: str
    tree: Tree
    before: Tree | None
    by: str
    """Who made it."""


@dataclass(slots=True)
class Objects:
    """All objects, and the history of their changes."""

    clock: Callable[[], int]
    """Milliseconds since 1970."""
    checked: Callable[[str, Tree], str | None] = lambda _kind, _tree: None
    """Returns what a schema has against an object."""
    listeners: list[Callable[[Change], None]] = field(default_factory=list)
    version: int = 0
    history: list[Change] = field(default_factory=list)
    _kept: dict[str, dict[tuple[str | None, str], Tree]] = field(default_factory=dict)
    _texts: dict[tuple[str, str], bytes] = field(default_factory=dict)
    _uids: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))
    uids: dict[str, ObjectPlace] = field(default_factory=dict)
    """Uid -> where the object is; only of what exists."""

    def get(self, kind: str, namespace: str | None, name: str) -> Tree | None:
        return self._kept.get(kind, {}).get((namespace, name))

    def of(self, uid: str) -> Tree | None:
        """The object with this uid."""
        place = self.uids.get(uid)
        return None if place is None else self.get(*place)

    def all(
        self, kind: str, namespace: str | None = None, labels: Mapping[str, str | None] | None = None
    ) -> list[Tree]:
        """Those with these labels (None: any value), ordered by name as in etcd."""
        objects = self._kept.get(kind, {})
        return [
            objects[key]
            for key in sorted(objects, key=lambda key: (key[0] or "", key[1]))
            if (namespace is None or key[0] == namespace) and labelled(objects[key], labels or {})
        ]

    def text(self, tree: Tree) -> bytes:
        """The JSON of a kept tree."""
        metadata = tree["metadata"]
        key = metadata["uid"], metadata["resourceVersion"]
        if key not in self._texts:
            self._texts[key] = json.dumps(tree, separators=(",", ":")).encode()
        return self._texts[key]

    def create(self, kind: str, namespace: str | None, tree: Tree, by: str) -> Tree:
        name = tree["metadata"]["name"]
        if self.get(kind, namespace, name) is not None:
            raise RefusedCallError(409, "AlreadyExists", f'{kind} "{name}" already exists')
        metadata = {key: value for key, value in tree["metadata"].items() if key not in ("resourceVersion", *_FIXED)}
        metadata |= {"name": name, "uid": f"uid-{next(self._uids)}", "creationTimestamp": self.stamp()}
        if namespace is not None:
            metadata["namespace"] = namespace
        if kind not in _WITHOUT_GENERATION:
            metadata["generation"] = 1
        made = {**tree, "metadata": metadata}
        if kind in _WITH_STATUS:
            made.pop("status", None)
        if kind == PODS:
            made["status"] = {"phase": "Pending"}
        self._check(kind, made)
        return self._commit("ADDED", kind, made, None, by)

    def replace(self, kind: str, namespace: str | None, name: str, tree: Tree, by: str, part: str = "") -> Tree:
        """Replace it by this one; with a version, only that version."""
        before = self._there(kind, namespace, name)
        return self._write(kind, before, tree, by, part)

    def patch(self, kind: str, namespace: str | None, name: str, patch: Tree, by: str, part: str = "") -> Tree:
        """Apply a merge patch; with a version, only to that version."""
        before = self._there(kind, namespace, name)
        return self._write(kind, before, merged(before, patch), by, part)

    def delete(
        self,
        kind: str,
        namespace: str | None,
        name: str,
        by: str,
        condition: "DeleteCondition | None" = None,
    ) -> Tree:
        """Delete it, or mark it as going if it has finalizers or is a pod that runs somewhere."""
        before = self._there(kind, namespace, name)
        metadata, only = before["metadata"], condition or DeleteCondition()
        for what, expected in (("uid", only.uid), ("resourceVersion", only.version)):
            if expected is not None and metadata[what] != expected:
                raise _conflict(
                    kind, name, f"the {what} in the precondition ({expected}) does not match {metadata[what]}"
                )
        seconds = self._grace(before, only.grace) if kind == PODS else 0
        going = "deletionTimestamp" in metadata
        if going and (kind != PODS or seconds >= metadata["deletionGracePeriodSeconds"]):
            return before
        if not seconds and not metadata.get("finalizers"):
            return self._commit("DELETED", kind, before, before, by)
        now = self.clock()
        marks = {"deletionTimestamp": stamp(now + 1000 * seconds), "deletionGracePeriodSeconds": seconds}
        if "generation" in metadata:
            marks["generation"] = metadata["generation"] + 1
        return self._commit("MODIFIED", kind, {**before, "metadata": {**metadata, **marks}}, before, by)

    def stamp(self) -> str:
        return stamp(self.clock())

    def _grace(self, pod: Tree, grace: int | None) -> int:
        if not pod["spec"].get("nodeName") or pod["status"].get("phase") in ("Succeeded", "Failed"):
            return 0
        return int(pod["spec"].get("terminationGracePeriodSeconds", _GRACE)) if grace is None else grace

    def _there(self, kind: str, namespace: str | None, name: str) -> Tree:
        before = self.get(kind, namespace, name)
        if before is None:
            raise _missing(kind, name)
        return before

    def _write(self, kind: str, before: Tree, tree: Tree, by: str, part: str) -> Tree:
        old, new = before["metadata"], tree.get("metadata") or {}
        if new.get("resourceVersion") not in (None, "", old["resourceVersion"]):
            raise _conflict(kind, old["name"], "the object has been modified; please apply your changes to the latest")
        if part == "status":
            written = {**before, "status": tree.get("status") or {}}
        else:
            metadata = {key: value for key, value in new.items() if key not in _FIXED}
            metadata |= {key: old[key] for key in _FIXED if key in old}
            written = {**tree, "metadata": {**metadata, "resourceVersion": old["resourceVersion"]}}
            if kind in _WITH_STATUS:
                written.pop("status", None)
                written |= {"status": before["status"]} if "status" in before else {}
        if written == before:
            return before
        if "deletionTimestamp" in old and set(new.get("finalizers") or ()) - set(old.get("finalizers") or ()):
            raise RefusedCallError(422, "Invalid", "no new finalizers can be added if the object is being deleted")
        self._check(kind, written)
        if "generation" in old and written.get("spec") != before.get("spec"):
            written["metadata"]["generation"] = old["generation"] + 1
        removed = "deletionTimestamp" in old and not written["metadata"].get("finalizers") and kind != PODS
        return self._commit("DELETED" if removed else "MODIFIED", kind, written, before, by)

    def _check(self, kind: str, tree: Tree) -> None:
        wrong = self.checked(kind, tree)
        if wrong is not None:
            raise RefusedCallError(422, "Invalid", f'{kind} "{tree["metadata"]["name"]}" is invalid: {wrong}')

    def _commit(self, change: str, kind: str, tree: Tree, before: Tree | None, by: str) -> Tree:
        self.version += 1
        tree = {**tree, "metadata": {**tree["metadata"], "resourceVersion": str(self.version)}}
        metadata = tree["metadata"]
        place = metadata.get("namespace"), metadata["name"]
        if change == "DELETED":
            del self._kept[kind][place]
            del self.uids[metadata["uid"]]
        else:
            self._kept.setdefault(kind, {})[place] = tree
            self.uids[metadata["uid"]] = (kind, *place)
        made = Change(self.version, change, kind, tree, before, by)
        self.history.append(made)
        for listener in self.listeners:
            listener(made)
        return tree


def labelled(tree: Tree, labels: Mapping[str, str | None]) -> bool:
    """Whether it has these labels; None: with any value."""
    if not labels:
        return True
    has = tree["metadata"].get("labels") or {}
    return all(key in has and expected in (None, has[key]) for key, expected in labels.items())


def merged(tree: Any, patch: Any) -> Any:
    """A merge patch (RFC 7396), without touching what was there."""
    if not isinstance(patch, dict):
        return patch
    made = dict(tree) if isinstance(tree, dict) else {}
    for key, value in patch.items():
        if value is None:
            made.pop(key, None)
        else:
            made[key] = merged(made.get(key), value)
    return made


def stamp(millis: int) -> str:
    """A moment as Kubernetes writes it, in whole seconds."""
    return datetime.fromtimestamp(millis // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def owners(tree: Tree) -> Iterable[Tree]:
    """What it belongs to."""
    return tree["metadata"].get("ownerReferences") or ()


def whole_numbers(tree: object) -> str | None:
    """What 64 bits can't hold, if anything: kube-apiserver takes such a number for one with a fraction."""
    if isinstance(tree, dict):
        return next(filter(None, map(whole_numbers, tree.values())), None)
    if isinstance(tree, list):
        return next(filter(None, map(whole_numbers, tree)), None)
    if type(tree) is int and abs(tree) > _LARGEST:
        return f"{tree} must be of type integer: number"
    return None
