"""What each event of a watch means: it is recorded in the cache, and requests a look at its app.

Whoever watches calls these: kopf on a cluster, for events; what reads the watches' responses, for lists and signs of
life, of which kopf does not tell. Must not know how objects are watched, nor look at apps itself.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from holdfast.protocol.report import DriverReport
from holdfast_operator.cluster import APP, ApiKind
from holdfast_operator.decide.facts import DecisionLimits
from holdfast_operator.observe.cache import WatchCache, whose_pod, whose_report
from holdfast_operator.observe.known_versions import CompleteList, NamespacedName, version_number
from holdfast_operator.service.look_queue import LookQueue
from holdfast_operator.service.monitoring import WatchSigns


@dataclass(frozen=True, slots=True)
class WatchHandlers:
    """The handlers of kopf's events; `type` is None for objects that existed when a watch began.

    They are coroutines, as kopf runs plain functions in threads.
    """

    cache: WatchCache
    looks: LookQueue
    signs: WatchSigns

    def heard(self, kind: ApiKind, namespace: str | None) -> None:
        """Record that the watch of this kind lives: an event, a bookmark, or any other answer has come.

        `namespace` is the one that is watched; None: all.
        """
        self.signs.heard(kind, namespace)

    def refused(self, kind: ApiKind, namespace: str | None) -> None:
        """Record that the right to this watch is missing: the API server answers, but nobody can be heard.

        In one of the namespaces that are watched by name this is no silence: the others must be looked after.
        """
        if namespace is not None:
            self.signs.heard(kind, namespace)
        self.cache.deaf(namespace)

    def listed(self, kind: ApiKind, namespace: str | None, version: str, names: Collection[NamespacedName]) -> None:
        """Handle a complete list, of all its pages: watched objects that it does not have are deleted.

        `version` is the list's resourceVersion; names are pairs of namespace (empty for nodes) and name. Called before
        the events of the objects in the list.
        """
        self.signs.heard(kind, namespace)
        listed = CompleteList(namespace, version_number(version), frozenset(names))
        for key in self.cache.listed(kind, listed):
            if kind is APP:
                self.looks.forget(key)
            else:
                self.looks.soon(key, first=True)

    async def app(self, body: Mapping[str, Any], type: str | None, **_: Any) -> None:  # noqa: A002 - kopf's name
        """Handle a changed or deleted app."""
        if type == "DELETED":
            key = self.cache.forget_app(dict(body))
            if key is not None:
                self.looks.forget(key)
        else:
            self.looks.soon(self.cache.saw_app(dict(body)))

    async def pod_there(self, body: Mapping[str, Any], **_: Any) -> None:
        """Record an existing or changed pod. kopf calls this before `pod`, except when the pod is deleted."""
        self.cache.saw_pod(dict(body), deleted=False)

    async def report_there(self, body: Mapping[str, Any], **_: Any) -> None:
        """Record an existing report; `report` handles changes."""
        self.cache.first_report(dict(body))

    async def pod(self, body: Mapping[str, Any], type: str | None, **_: Any) -> None:  # noqa: A002
        """Request a look after a pod changed. Its new state is already recorded, unless it was deleted."""
        tree = dict(body)
        key = self.cache.saw_pod(tree, deleted=True) if type == "DELETED" else whose_pod(tree)
        if key is not None:
            self.looks.soon(key, first=True)

    async def report(self, body: Mapping[str, Any], type: str | None, **_: Any) -> None:  # noqa: A002
        """Handle a driver's report; one that only shows progress postpones the next look."""
        before, after = self.cache.saw_report(dict(body), deleted=type == "DELETED")
        key = whose_report(dict(body))
        if before is not None and after is not None and goes_on(before, after):
            self.looks.put_off(key, DecisionLimits().quiet / 1000)
        else:
            self.looks.soon(key, first=True)

    async def node(self, body: Mapping[str, Any], type: str | None, **_: Any) -> None:  # noqa: A002
        """Request looks at the apps with pods on a node that started or stopped answering."""
        if self.cache.saw_node(dict(body), deleted=type == "DELETED"):
            for key in self.cache.on_node(_metadata(body, "name")):
                self.looks.soon(key, first=True)


def goes_on(before: DriverReport, after: DriverReport) -> bool:
    """Return whether only time and progress have changed, and the driver has made progress if there was work."""
    same = replace(after, at=before.at, batch=before.batch, progressed=before.progressed, lag=before.lag) == before
    worked = after.progressed is not None and (after.lag == 0 or after.progressed != before.progressed)
    return same and worked and before.progressed is not None


def _metadata(body: Mapping[str, Any], name: str) -> str:
    return str(body["metadata"][name])
