"""The operator's caches: apps, pods, reports and nodes from watches, and values computed about apps.

Cached objects may be out of date, and an object that is not cached may still exist. So no decision that starts a driver
or deletes something rests on the cache alone; the snapshot reads the API server then. After each list of a watch the
cache has what the list has. Computed values
(a record, an answer about a spec) are kept with the facts they rest on and are valid only as long as these are
unchanged. Both caches are bounded, as an app can be large. Must not call the API server, nor compute values.
"""

import json
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from holdfast.bounded_json import UNREAD
from holdfast.protocol.names import APP_LABEL, REPORT_LABEL
from holdfast.protocol.pods import PodState, pod_state
from holdfast.protocol.report import DriverReport, report_in
from holdfast.trees import Tree
from holdfast_operator.cluster import APP, CONFIG_MAP, NODE, POD, ApiKind
from holdfast_operator.decide.facts import AppKey
from holdfast_operator.observe.app_figures import AppFigures, app_figures
from holdfast_operator.observe.known_versions import CompleteList, KnownVersions, NamespacedName, version_number
from holdfast_operator.observe.nodes import Nodes

_MOST_KEPT = 64 << 20
"""Maximum characters of all apps' texts: ten thousand ordinary apps, or a few hundred of the largest size."""


@dataclass(frozen=True, slots=True)
class _CachedApp:
    """An app as JSON text: a tree takes six times the memory, and each garbage collection would scan it."""

    figures: AppFigures
    text: str | None
    """None: too long to be kept, so it is read from the API server when needed."""


@dataclass(frozen=True, slots=True)
class _Silence:
    """How long these were the last news of an app's driver, as far as looks can tell."""

    news: Hashable
    last_look: int
    length: int = 0


_BETWEEN_LOOKS = 60_000
"""Milliseconds that count between two looks at most: nothing can be heard while the API server does not answer."""


@dataclass(slots=True)
class WatchCache:
    """Apps, their pods, drivers' reports, and the state of nodes, from watches."""

    reports: dict[tuple[str, str], DriverReport] = field(default_factory=dict)
    """(namespace, name of the ConfigMap) -> report."""
    nodes: Nodes = field(default_factory=Nodes)
    assigned: dict[AppKey, frozenset[tuple[str, str, bool]]] = field(default_factory=dict)
    """App -> its executors when their assignment was last found to be up to date."""
    checked: dict[AppKey, int] = field(default_factory=dict)
    """App -> when all was last read from the API server, in milliseconds since 1970."""
    _apps: dict[AppKey, _CachedApp] = field(default_factory=dict)
    _kept: int = 0
    """Total length of their texts."""
    _pods: dict[AppKey, dict[str, PodState]] = field(default_factory=dict)
    """App -> pod name -> pod."""
    _silences: dict[AppKey, _Silence] = field(default_factory=dict)
    """App -> how long its driver has said nothing."""
    _versions: dict[ApiKind, KnownVersions] = field(
        default_factory=lambda: {kind: KnownVersions() for kind in (APP, POD, CONFIG_MAP, NODE)}
    )

    def app(self, key: AppKey) -> Tree | None:
        """Return the cached app; None: not seen or not kept."""
        cached_app = self._apps.get(key)
        return None if cached_app is None or cached_app.text is None else json.loads(cached_app.text)

    def apps_in(self, namespace: str) -> dict[AppKey, str]:
        """Return the cached apps of a namespace, with their uids."""
        trees = {key: self.app(key) for key in self._apps if key.namespace == namespace}
        return {key: str(tree["metadata"]["uid"]) for key, tree in trees.items() if tree is not None}

    def has_apps(self, namespace: str) -> bool:
        """Return whether any app of a namespace is cached."""
        return any(key.namespace == namespace for key in self._apps)

    def figures(self) -> Iterable[tuple[AppKey, AppFigures]]:
        """Return the figures of each app."""
        return ((key, cached_app.figures) for key, cached_app in self._apps.items())

    def distrust_app(self, key: AppKey) -> None:
        """Drop an outdated app, so that it is read from the API server next time."""
        self._kept -= _length(self._apps.pop(key, None))

    def saw_app(self, tree: Tree) -> AppKey:
        """Record an app from a watch, unless a newer version is known."""
        key = _key_of(tree)
        if self._versions[APP].update(_full_name(tree), _version(tree), key):
            self._keep(key, _CachedApp(app_figures(tree), _text(tree)))
        return key

    def read_app(self, tree: Tree) -> None:
        """Record an app that was read or written; ignored if no watch knows it, as it may be gone by now."""
        if _full_name(tree) in self._versions[APP]:
            self.saw_app(tree)

    def _keep(self, key: AppKey, app: _CachedApp) -> None:
        before = self._apps.pop(key, None)
        self._kept -= _length(before)
        fits = self._kept + _length(app) <= _MOST_KEPT
        self._apps[key] = app if fits else replace(app, text=None)
        self._kept += _length(self._apps[key])

    def forget_app(self, tree: Tree) -> AppKey | None:
        """Remove a deleted app; return None if another one has its name."""
        key = _key_of(tree)
        if not self._versions[APP].end(_full_name(tree), _version(tree)):
            return None
        self._forget_app(key)
        return key

    def _forget_app(self, key: AppKey) -> None:
        self.distrust_app(key)
        self.assigned.pop(key, None)
        self.checked.pop(key, None)
        self._silences.pop(key, None)

    def saw_pod(self, tree: Tree, *, deleted: bool) -> AppKey | None:
        """Record a changed or deleted pod; return its app, or None if it belongs to none."""
        key = whose_pod(tree)
        if key is None:
            return None
        full_name, version, versions = _full_name(tree), _version(tree), self._versions[POD]
        before = versions.app_of(full_name)
        if deleted:
            # A successor of the same name, which kopf may report first, stays.
            if versions.end(full_name, version):
                self._drop_pod(before, full_name)
        elif versions.update(full_name, version, key):
            self._drop_pod(before, full_name)
            self._pods.setdefault(key, {})[full_name[1]] = pod_state(tree)
        return key

    def _drop_pod(self, key: AppKey | None, full_name: NamespacedName) -> None:
        pods = self._pods.get(key) if key is not None else None
        if key is not None and pods is not None:
            pods.pop(full_name[1], None)
            if not pods:
                del self._pods[key]

    def listed_pods(self, key: AppKey, trees: Sequence[Tree], version: str) -> None:
        """Record that these were all pods of an app; one that no watch has told of is not added, it may be gone."""
        versions = self._versions[POD]
        for tree in trees:
            if _full_name(tree) in versions:
                self.saw_pod(tree, deleted=False)
        listed = CompleteList(key.namespace, version_number(version), frozenset(map(_full_name, trees)), key)
        for full_name in versions.missing(listed):
            self._drop_pod(key, full_name)

    def silence(self, key: AppKey, news: Hashable, now: int) -> int:
        """Return for how many milliseconds these have been the last news of an app's driver, while it was looked at.

        Clocks of drivers are never compared with ours.
        """
        before = self._silences.get(key)
        if before is None or before.news != news:
            before = _Silence(news, now)
        passed = min(max(0, now - before.last_look), _BETWEEN_LOOKS)
        self._silences[key] = _Silence(news, now, before.length + passed)
        return before.length + passed

    def deaf(self, namespace: str | None) -> None:
        """Count silences in this namespace (None: in all) from the next look: drivers could not be heard until now."""
        for key in [key for key in self._silences if namespace in (None, key.namespace)]:
            del self._silences[key]

    def first_report(self, tree: Tree) -> None:
        """Record a report unless one is already known."""
        if _full_name(tree) not in self.reports:
            self.saw_report(tree, deleted=False)

    def read_report(self, tree: Tree) -> None:
        """Record a report that was read; ignored if no watch knows it, as it may be gone by now."""
        if _full_name(tree) in self._versions[CONFIG_MAP]:
            self.saw_report(tree, deleted=False)

    def saw_report(self, tree: Tree, *, deleted: bool) -> tuple[DriverReport | None, DriverReport | None]:
        """Record a driver's report; return the previous and the new one."""
        full_name, version, versions = _full_name(tree), _version(tree), self._versions[CONFIG_MAP]
        before = self.reports.get(full_name)
        news = versions.end(full_name, version) if deleted else versions.update(full_name, version, whose_report(tree))
        if not news:
            return before, before
        self.reports.pop(full_name, None)
        after = None if deleted else report_in(tree)
        if after is not None:
            self.reports[full_name] = after
        return before, after

    def saw_node(self, tree: Tree, *, deleted: bool) -> bool:
        """Record a node's state; return whether it started or stopped answering."""
        full_name, version, versions = _full_name(tree), _version(tree), self._versions[NODE]
        news = versions.end(full_name, version) if deleted else versions.update(full_name, version, None)
        return news and self.nodes.saw(full_name[1], None if deleted else tree)

    def listed(self, kind: ApiKind, listed: CompleteList) -> list[AppKey]:
        """Remove the objects that a watch's list does not have; return the apps concerned."""
        missing = self._versions[kind].missing(listed)
        apps = {key: None for key in missing.values() if key is not None}
        for full_name, key in missing.items():
            if kind is APP and key is not None:
                self._forget_app(key)
            elif kind is POD:
                self._drop_pod(key, full_name)
            elif kind is CONFIG_MAP:
                self.reports.pop(full_name, None)
            elif kind is NODE and self.nodes.saw(full_name[1], None):
                apps |= dict.fromkeys(self.on_node(full_name[1]))
        return list(apps)

    def on_node(self, node: str) -> list[AppKey]:
        """Return the apps that have pods on this node."""
        return [key for key, pods in self._pods.items() if any(pod.node == node for pod in pods.values())]

    def pods(self, key: AppKey) -> dict[str, PodState]:
        """Return the cached pods of an app, without the state of their nodes."""
        return dict(self._pods.get(key, {}))

    def with_node_state(self, pod: PodState) -> PodState:
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
    shortened_tree = {**tree, "metadata": {name: metadata[name] for name in metadata if name != "managedFields"}}
    return json.dumps(shortened_tree, separators=(",", ":"))


def _length(app: _CachedApp | None) -> int:
    return 0 if app is None or app.text is None else len(app.text)


def whose_pod(tree: Tree) -> AppKey | None:
    """Return the app of a pod; None: it belongs to none."""
    metadata = tree.get("metadata") or {}
    app = (metadata.get("labels") or {}).get(APP_LABEL)
    return AppKey(str(metadata.get("namespace")), app) if isinstance(app, str) else None


def whose_report(tree: Tree) -> AppKey:
    """Return the app of a report."""
    metadata = tree["metadata"]
    return AppKey(str(metadata["namespace"]), str((metadata.get("labels") or {}).get(REPORT_LABEL)))


def _full_name(tree: Tree) -> NamespacedName:
    metadata = tree.get("metadata") or {}
    return str(metadata.get("namespace") or ""), str(metadata.get("name"))


def _version(tree: Tree) -> int:
    return version_number(str((tree.get("metadata") or {}).get("resourceVersion")))


def _key_of(tree: Tree) -> AppKey:
    return AppKey(*_full_name(tree))


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
        cached_value = self._last.pop(key, None)
        if cached_value is None or cached_value[0] != since:
            return None
        self._last[key] = cached_value
        return cached_value[1]

    def put(self, key: K, since: object, value: V, weight: int = 0) -> V:
        """Keep a value with the facts it rests on. The newest value is always kept, whatever its weight."""
        self._last.pop(key, None)
        self._last[key] = since, value, weight
        while len(self._last) > self.limit or (len(self._last) > 1 and self._too_heavy()):
            del self._last[next(iter(self._last))]
        return value

    def _too_heavy(self) -> bool:
        return self.most is not None and sum(weight for *_, weight in self._last.values()) > self.most
