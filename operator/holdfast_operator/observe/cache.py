"""The operator's memory: apps, pods, reports and nodes as watches told of them, and values found out about apps.

What is cached was so a moment ago. What is not cached may be there all the same: no decision that starts a driver,
or lets something go, rests on the cache alone; the snapshot asks then. Values that were found out (a record, the
answer to a spec) are kept with what they rest on and count no longer than that does. Both are bounded, as each app
can be large. Must not call the API server, nor find anything out itself.
"""

import json
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from holdfast.bounded_json import UNREAD
from holdfast.protocol.labels import APP_LABEL
from holdfast.protocol.pods import PodState, pod_state
from holdfast.protocol.report import DriverReport, report_in
from holdfast_operator.cluster.nodes import Nodes
from holdfast_operator.decide.facts import AppKey

Tree = dict[str, Any]
_MOST_KEPT = 64 << 20
"""Letters of the texts of all apps: ten thousand of ordinary size, or a few hundred as large as somebody likes."""


@dataclass(frozen=True, slots=True)
class _CachedApp:
    """An app as its text: a tree takes six times the memory, all of it looked through for garbage again and again."""

    uid: str
    version: int
    ready: tuple[str, str]
    """Status and reason of that condition."""
    text: str | None
    """None: it is too long to be kept, and asked for when somebody wants it."""


@dataclass(slots=True)
class WatchCache:
    """Apps, their pods, what drivers reported, which nodes answer."""

    reports: dict[tuple[str, str], DriverReport] = field(default_factory=dict)
    """By namespace and name of the ConfigMap."""
    nodes: Nodes = field(default_factory=Nodes)
    seated: dict[AppKey, frozenset[tuple[str, str, bool]]] = field(default_factory=dict)
    """App -> its executors when their assignment was found to be right."""
    _apps: dict[AppKey, _CachedApp] = field(default_factory=dict)
    _kept: int = 0
    """How long their texts are in all."""
    _unheard: dict[AppKey, tuple[int, float]] = field(default_factory=dict)
    """App -> the version we wrote last, and since when a watch has been silent about it."""
    _pods: dict[AppKey, dict[str, PodState]] = field(default_factory=dict)
    """App -> name -> pod."""

    def app(self, key: AppKey) -> Tree | None:
        """An app as it was told of; None: it was not, or is not kept."""
        known = self._apps.get(key)
        return None if known is None or known.text is None else json.loads(known.text)

    def readiness(self) -> Iterable[tuple[str, str]]:
        """Of each app, status and reason of its condition Ready."""
        return (known.ready for known in self._apps.values())

    def distrust_app(self, key: AppKey) -> None:
        """What was believed of an app is not so any more: whoever wants to know it asks."""
        self._kept -= _length(self._apps.pop(key, None))

    def saw_app(self, tree: Tree) -> AppKey:
        """A watch told of an app: it is so, unless we wrote something newer ourselves."""
        key = self._newest(tree)
        waited = self._unheard.get(key)
        if waited is not None and _version(tree) >= waited[0]:
            del self._unheard[key]
        return key

    def wrote_app(self, tree: Tree, now: float) -> None:
        """We wrote an app, which is known here before a watch tells of it; unless it has told that the app is gone."""
        known = self._apps.get(_key_of(tree))
        if known is None or known.uid != tree["metadata"]["uid"]:
            return
        key = self._newest(tree)
        since = self._unheard[key][1] if key in self._unheard else now
        self._unheard[key] = _version(tree), since

    def unheard(self) -> float | None:
        """Since when a watch has not told of what we wrote; None: it has told of everything."""
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
        """An app is gone."""
        key = _key_of(tree)
        known = self._apps.get(key)
        if known is not None and known.uid == tree["metadata"]["uid"]:
            self.distrust_app(key)
            self._unheard.pop(key, None)
            self.seated.pop(key, None)
        return key

    def saw_pod(self, tree: Tree, *, gone: bool) -> AppKey | None:
        """A pod changed; whose it is."""
        key = whose_pod(tree)
        if key is None:
            return None
        name, uid = str(tree["metadata"].get("name")), tree["metadata"].get("uid")
        pods = self._pods.setdefault(key, {})
        if not gone:
            pods[name] = pod_state(tree)
        elif name in pods and pods[name].uid == uid:
            # Not its successor of the same name, of which kopf may tell before.
            del pods[name]
        if not pods:
            del self._pods[key]
        return key

    def first_report(self, tree: Tree) -> None:
        """A report is there; if nothing is known of it yet, it counts."""
        if _place_of(tree) not in self.reports:
            self.saw_report(tree, gone=False)

    def saw_report(self, tree: Tree, *, gone: bool) -> tuple[DriverReport | None, DriverReport | None]:
        """A driver reported; what it had said before, and what it says now."""
        place = _place_of(tree)
        before, after = self.reports.pop(place, None), None if gone else report_in(tree)
        if after is not None:
            self.reports[place] = after
        return before, after

    def saw_node(self, tree: Tree, *, gone: bool) -> bool:
        """A node changed; whether it answers differently from before."""
        return self.nodes.saw(str((tree.get("metadata") or {}).get("name")), None if gone else tree)

    def on_node(self, node: str) -> list[AppKey]:
        """Apps with pods there."""
        return [key for key, pods in self._pods.items() if any(pod.node == node for pod in pods.values())]

    def pods(self, key: AppKey) -> dict[str, PodState]:
        """The pods of an app that were told of, without what is known of their nodes."""
        return dict(self._pods.get(key, {}))

    def placed(self, pod: PodState) -> PodState:
        """A pod with what is known of its node now."""
        since = None if pod.node is None else self.nodes.silent_since(pod.node)
        if pod.node is None or since is None:
            return pod
        return replace(pod, silent_since=since, node_lost=pod.node_lost or self.nodes.lost(pod.node))


def _text(tree: Tree) -> str | None:
    if UNREAD in tree:
        return None
    metadata = tree["metadata"]
    # Who managed which field is longer than all the rest, and nobody here asks.
    kept = {**tree, "metadata": {name: metadata[name] for name in metadata if name != "managedFields"}}
    return json.dumps(kept, separators=(",", ":"))


def _length(app: _CachedApp | None) -> int:
    return 0 if app is None or app.text is None else len(app.text)


def whose_pod(tree: Tree) -> AppKey | None:
    """The app of a pod; None: it is nobody's."""
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
    """Versions of one object rise; Kubernetes says since 1.35 that they may be compared as numbers."""
    text = str(tree["metadata"].get("resourceVersion"))
    return int(text) if text.isdigit() else 0


K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class RecentValues(Generic[K, V]):
    """The values that were used last."""

    limit: int = 256
    most: int | None = None
    """Of the weights of all values."""
    _last: dict[K, tuple[object, V, int]] = field(default_factory=dict)
    """The one used last is the last."""

    def get(self, key: K, since: object) -> V | None:
        """What was put for this key, if it rests on the same; None: find it out."""
        known = self._last.pop(key, None)
        if known is None or known[0] != since:
            return None
        self._last[key] = known
        return known[1]

    def put(self, key: K, since: object, value: V, weight: int = 0) -> V:
        """Keep it, together with what it rests on; the last one always, whatever its weight."""
        self._last.pop(key, None)
        self._last[key] = since, value, weight
        while len(self._last) > self.limit or (len(self._last) > 1 and self._too_heavy()):
            del self._last[next(iter(self._last))]
        return value

    def _too_heavy(self) -> bool:
        return self.most is not None and sum(weight for *_, weight in self._last.values()) > self.most
