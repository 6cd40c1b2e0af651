"""The watches that kopf keeps: apps, their pods, drivers' reports and nodes, and which app a change concerns.

Only kopf's plain events are used: its handlers with progress, finalizers and annotations would be a second state
machine in the same objects. kopf asks once, as it starts, which kinds there are: started before the CRD is served,
it would never watch an app, so its start waits for the CRD, which may be installed later. Must not install the CRD,
nor look at apps, only ask for a look.
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import kopf

from holdfast.protocol.labels import APP_LABEL, REPORT_LABEL
from holdfast.protocol.report import DriverReport
from holdfast.spec.app import API_VERSION
from holdfast_operator.cluster.client import APP, Cluster, ClusterUnreachableError
from holdfast_operator.cluster.watch_session import watch_session
from holdfast_operator.decide.decision import DecisionLimits
from holdfast_operator.decide.facts import AppKey
from holdfast_operator.observe.cache import WatchCache, whose_pod
from holdfast_operator.service.look_queue import LookQueue

_SERVER_ENDS, _CLIENT_ENDS = 300, 330
"""Seconds: a watch that says nothing for longer than the server lets it live is dead, whatever its connection says."""
_CHUNK = 10
"""Objects of a list at once: each may have a megabyte or two."""


def registry(cache: WatchCache, looks: LookQueue, *, nodes: bool) -> kopf.OperatorRegistry:
    """The watches of an operator; `nodes`: whether it may see nodes."""
    made, watches, (group, version) = kopf.OperatorRegistry(), _Watches(cache, looks), API_VERSION.split("/")
    kopf.on.login(registry=made)(_login)
    kopf.on.startup(registry=made)(_settle)
    # Indexed kinds are listed before any handler is called: no app is looked at while its pods or reports are unknown.
    kopf.index("pods", labels={APP_LABEL: kopf.PRESENT}, registry=made)(watches.pod_there)
    kopf.index("configmaps", labels={REPORT_LABEL: kopf.PRESENT}, registry=made)(watches.report_there)
    kopf.on.event(group, version, APP.plural, registry=made)(watches.app)
    kopf.on.event("pods", labels={APP_LABEL: kopf.PRESENT}, registry=made)(watches.pod)
    kopf.on.event("configmaps", labels={REPORT_LABEL: kopf.PRESENT}, registry=made)(watches.report)
    if nodes:
        kopf.on.event("nodes", registry=made)(watches.node)
    return made


async def _login(**given: Any) -> kopf.AiohttpSession | None:
    info = kopf.login_with_service_account(**given) or kopf.login_with_kubeconfig(**given)
    return None if info is None else watch_session(info)


def _settle(settings: kopf.OperatorSettings, **_: Any) -> None:
    settings.posting.enabled = False
    settings.scanning.disabled = True  # what is watched is known; namespaces and CRDs need not be seen for it
    # Each watch asks for what it needs: all pods of a cluster are none of our business, nor could we hold them.
    settings.watching.label_selectors["pods"] = APP_LABEL
    settings.watching.label_selectors["configmaps"] = REPORT_LABEL
    settings.watching.chunk_size = _CHUNK
    settings.persistence.diffbase_storage, settings.persistence.progress_storage = _NoDiffs(), _NoProgress()
    settings.watching.server_timeout = _SERVER_ENDS
    settings.watching.client_timeout = _CLIENT_ENDS


class _NoDiffs(kopf.DiffBaseStorage):
    """kopf would copy every object to find what changed of it, which nobody here asks."""

    def build(self, **_: Any) -> kopf.BodyEssence:
        return kopf.BodyEssence()

    def fetch(self, **_: Any) -> kopf.BodyEssence | None:
        return None

    def store(self, **_: Any) -> None:
        pass


class _NoProgress(kopf.ProgressStorage):
    """Nor does any handler leave its progress in an object."""

    def fetch(self, **_: Any) -> None:
        return None

    def store(self, **_: Any) -> None:
        pass

    def purge(self, **_: Any) -> None:
        pass

    def touch(self, **_: Any) -> None:
        pass

    def clear(self, *, essence: kopf.BodyEssence) -> kopf.BodyEssence:
        return essence


@dataclass(frozen=True, slots=True)
class _Watches:
    """What is done with what kopf tells; `type` is None for what was there when a watch began.

    Coroutines, as kopf runs plain functions in threads.
    """

    cache: WatchCache
    looks: LookQueue

    async def app(self, body: Mapping[str, Any], type: str | None, **_: Any) -> None:  # noqa: A002 - kopf's name
        """An app changed."""
        if type == "DELETED":
            self.looks.forget(self.cache.forget_app(dict(body)))
        else:
            self.looks.soon(self.cache.saw_app(dict(body)))

    async def pod_there(self, body: Mapping[str, Any], **_: Any) -> None:
        """A pod of an app is there, or has changed: kopf tells this before `pod`, of each event but the last."""
        self.cache.saw_pod(dict(body), gone=False)

    async def report_there(self, body: Mapping[str, Any], **_: Any) -> None:
        """A report is there; what changed of it is the event's business."""
        self.cache.first_report(dict(body))

    async def pod(self, body: Mapping[str, Any], type: str | None, **_: Any) -> None:  # noqa: A002
        """A pod of an app changed; what it is now is known already, unless it is gone."""
        tree = dict(body)
        key = self.cache.saw_pod(tree, gone=True) if type == "DELETED" else whose_pod(tree)
        if key is not None:
            self.looks.soon(key, first=True)

    async def report(self, body: Mapping[str, Any], type: str | None, **_: Any) -> None:  # noqa: A002
        """A driver reported; one that only says that it goes on well makes a look unnecessary for a while."""
        before, after = self.cache.saw_report(dict(body), gone=type == "DELETED")
        key = AppKey(_metadata(body, "namespace"), str(body["metadata"]["labels"][REPORT_LABEL]))
        if before is not None and after is not None and goes_on(before, after):
            self.looks.put_off(key, DecisionLimits().silence / 1000)
        else:
            self.looks.soon(key, first=True)

    async def node(self, body: Mapping[str, Any], type: str | None, **_: Any) -> None:  # noqa: A002
        """A node changed: who has pods there is looked at if it answers differently."""
        if self.cache.saw_node(dict(body), gone=type == "DELETED"):
            for key in self.cache.on_node(_metadata(body, "name")):
                self.looks.soon(key, first=True)


def goes_on(before: DriverReport, after: DriverReport) -> bool:
    """Whether nothing has changed but that time has passed, and the driver has worked if there was work."""
    same = replace(after, at=before.at, batch=before.batch, progressed=before.progressed, lag=before.lag) == before
    worked = after.progressed is not None and (after.lag == 0 or after.progressed != before.progressed)
    return same and worked and before.progressed is not None


def _metadata(body: Mapping[str, Any], name: str) -> str:
    return str(body["metadata"][name])


_LOG = logging.getLogger("holdfast")
_EVERY = 2.0


async def wait_for_crd(cluster: Cluster) -> None:
    """Return as soon as apps can be watched."""
    served = await _served(cluster)
    if not served:
        _LOG.warning("waiting for the CRD %s.%s", APP.plural, APP.api.partition("/")[0])
    while not served:
        await asyncio.sleep(_EVERY)
        served = await _served(cluster)


async def _served(cluster: Cluster) -> bool:
    try:
        return await cluster.serves(APP)
    except ClusterUnreachableError:
        return False
