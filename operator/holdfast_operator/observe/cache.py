"""The operator's caches: apps, pods, reports and nodes from watches, and values computed about apps.

Cached objects may be slightly out of date, and an object that is not cached may still exist. So no decision that
starts a driver or deletes something rests on the cache alone; the snapshot reads the API server then. Computed values
(a record, an answer about a spec) are kept with the facts they rest on and are valid only as long as these are
unchanged. Both caches are bounded, as an app can be large. Must not call the API server, nor compute values.
"""

import json
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from holdfast.bounded_json import UNREAD
from holdfast.protocol.names import APP_LABEL
from holdfast.protocol.pods import PodState, pod_state
from holdfast.protocol.report import DriverReport, report_in
from holdfast_operator.decide.facts import AppKey
from holdfast_operator.observe.nodes import Nodes

Tree = dict[str, Any]
_MOST_KEPT = 64 << 20
"""Maximum characters of all apps' texts: ten thousand ordinary apps, or a few hundred of the largest size."""


@dataclass(frozen=True, slots=True)
class _CachedApp:
    """An app as JSON text: a tree takes six times the memory, and each garbage collection would scan it."""

    uid: str
    version: int
    ready: tuple[str, str]
    """Status and reason of the condition Ready."""
    text: str | None
    """None: too long to be kept, so it is read from the API server when needed."""


@dataclass(slots=True)
class WatchCache:
    """Apps, their pods, drivers' reports, and the state of nodes, from watches."""

    reports: dict[tuple[str, str], DriverReport] = field(default_factory=dict)
    """(namespace, name of the ConfigMap) -> report."""
    nodes: Nodes = field(default_factory=Nodes)
    seated: dict[AppKey, frozenset[tuple[str, str, bool]]] = field(default_factory=dict)
    """App -> its executors when their assignment was last found to be up to date."""
    _apps: dict[AppKey, _CachedApp] = field(default_factory=dict)
    _kept: int = 0
    """Total length of their texts."""
    _unheard: dict[AppKey, tuple[int, float]] = field(default_factory=dict)
    """App -> the version we wrote last, and since when the watch has not reported it."""
    _pods: dict[AppKey, dict[str, PodState]] = field(default_factory=dict)
    """App -> pod name -> pod."""

    def app(self, key: AppKey) -> Tree | None:
        """Return the cached app; None: not seen or not kept."""
        known = self._apps.get(key)
        return None if known is None or known.text is None else json.loads(known.text)

    def readiness(self) -> Iterable[tuple[str, str]]:
        """Return status and reason of each app's condition Ready."""
        return (known.ready for known in self._apps.values())

    def distrust_app(self, key: AppKey) -> None:
        """Drop an outdated app, so that it is read from the API server next time."""
        self._kept -= _length(self._apps.pop(key, None))

    def saw_app(self, tree: Tree) -> AppKey:
        """Record an app from a watch, unless we wrote a newer version ourselves."""
        key = self._newest(tree)
        waited = self._unheard.get(key)
        if waited is not None and _version(tree) >= waited[0]:
            del self._unheard[key]
        return key

    def wrote_app(self, tree: Tree, now: float) -> None:
        """Record an app that we wrote; ignored if a watch reported this version already, or that the app is gone."""
        known = self._apps.get(_key_of(tree))
        if known is None or known.uid != tree["metadata"]["uid"] or known.version >= _version(tree):
            return
        key = self._newest(tree)
        since = self._unheard[key][1] if key in self._unheard else now
        self._unheard[key] = _version(tree), since

    def unheard(self) -> float | None:
        """Return since when a write of ours has not been reported by the watch; None: all have been."""
        return min((since for _, since in self._unheard.values()), default=None)

    def _newest(self, tree: Tree) -> AppKey:
        key, metadata = _key_of(tree), tree["metadata"]
        known, version = self._apps.get(key), _version(tree)
        if known is None or known.uid != metadata["uid"] or version >= known.version:
            self._keep(key, _CachedApp(metadata["uid"], version, _ready(tree), _text(tree)))
        return key

    def _keep(self, key: AppKey, app: _CachedApp) -> None:
        before = self._apps.pop(key, None)
        self._kept -= _length(before)
        fits = self._kept + _length(app) <= _MOST_KEPT
        self._apps[key] = app if fits else replace(app, text=None)
        self._kept += _length(self._apps[key])

    def forget_app(self, tree: Tree) -> AppKey:
        """Remove a deleted app."""
        key = _key_of(tree)
        known = self._apps.get(key)
        if known is not None and known.uid == tree["metadata"]["uid"]:
            self.distrust_app(key)
            self._unheard.pop(key, None)
            self.seated.pop(key, None)
        return key

    def saw_pod(self, tree: Tree, *, gone: bool) -> AppKey | None:
        """Record a changed or deleted pod; return its app, or None if it belongs to none."""
        key = whose_pod(tree)
        if key is None:
            return None
        name, uid = str(tree["metadata"].get("name")), tree["metadata"].get("uid")
        pods = self._pods.setdefault(key, {})
        if not gone:
            pods[name] = pod_state(tree)
        elif name in pods and pods[name].uid == uid:
            # Don't remove a successor of the same name, which kopf may report first.
            del pods[name]
        if not pods:
            del self._pods[key]
        return key

    def first_report(self, tree: Tree) -> None:
        """Record a report unless one is already known."""
        if _place_of(tree) not in self.reports:
            self.saw_report(tree, gone=False)

    def saw_report(self, tree: Tree, *, gone: bool) -> tuple[DriverReport | None, DriverReport | None]:
        """Record a driver's report; return the previous and the new one."""
        place = _place_of(tree)
        before, after = self.reports.pop(place, None), None if gone else report_in(tree)
        if after is not None:
            self.reports[place] = after
        return before, after

    def saw_node(self, tree: Tree, *, gone: bool) -> bool:
        """Record a node's state; return whether it started or stopped answering."""
        return self.nodes.saw(str((tree.get("metadata") or {}).get("name")), None if gone else tree)

    def on_node(self, node: str) -> list[AppKey]:
        """Return the apps that have pods on this node."""
        return [key for key, pods in self._pods.items() if any(pod.node == node for pod in pods.values())]

    def pods(self, key: AppKey) -> dict[str, PodState]:
        """Return the cached pods of an app, without the state of their nodes."""
        return dict(self._pods.get(key, {}))

    def placed(self, pod: PodState) -> PodState:
        """Return the pod with the current state of its node."""
        since = None if pod.node is None else self.nodes.silent_since(pod.node)
        if pod.node is None or since is None:
            return pod
        return replace(pod, silent_since=since, node_lost=pod.node_lost or self.nodes.lost(pod.node))


def _text(tree: Tree) -> str | None:
    if UNREAD in tree:
        return None
    metadata = tree["metadata"]
    # managedFields is longer than all the rest, and nothing here uses it.
    kept = {**tree, "metadata": {name: metadata[name] for name in metadata if name != "managedFields"}}
    return json.dumps(kept, separators=(",", ":"))


def _length(app: _CachedApp | None) -> int:
    return 0 if app is None or app.text is None else len(app.text)


def whose_pod(tree: Tree) -> AppKey | None:
    """Return the app of a pod; None: it belongs to none."""
    metadata = tree.get("metadata") or {}
    app = (metadata.get("labels") or {}).get(APP_LABEL)
    return AppKey(str(metadata.get("namespace")), app) if isinstance(app, str) else None


def _ready(tree: Tree) -> tuple[str, str]:
    conditions = (tree.get("status") or {}).get("conditions") or []
    found: Tree = next((one for one in conditions if one.get("type") == "Ready"), {})
    return str(found.get("status", "Unknown")), str(found.get("reason", "NotYetKnown"))


def _place_of(tree: Tree) -> tuple[str, str]:
    return str(tree["metadata"]["namespace"]), str(tree["metadata"]["name"])


def _key_of(tree: Tree) -> AppKey:
    return AppKey(*_place_of(tree))


def _version(tree: Tree) -> int:
    """Return the resourceVersion as a number. Versions of an object rise; comparing them is official since 1.35."""
    text = str(tree["metadata"].get("resourceVersion"))
    return int(text) if text.isdigit() else 0


K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class RecentValues(Generic[K, V]):
    """A cache of recently used values."""

    limit: int = 256
    most: int | None = None
    """Maximum total weight of all values."""
    _last: dict[K, tuple[object, V, int]] = field(default_factory=dict)
    """Ordered by use, most recent last."""

    def get(self, key: K, since: object) -> V | None:
        """Return the value of this key if it rests on the same facts; None: it has to be computed."""
        known = self._last.pop(key, None)
        if known is None or known[0] != since:
            return None
        self._last[key] = known
        return known[1]

    def put(self, key: K, since: object, value: V, weight: int = 0) -> V:
        """Keep a value with the facts it rests on. The newest value is always kept, whatever its weight."""
        self._last.pop(key, None)
        self._last[key] = since, value, weight
        while len(self._last) > self.limit or (len(self._last) > 1 and self._too_heavy()):
            del self._last[next(iter(self._last))]
        return value

    def _too_heavy(self) -> bool:
        return self.most is not None and sum(weight for *_, weight in self._last.values()) > self.most
