"""The kopf watches of apps, their pods, drivers' reports and nodes; each change requests a look at its app.

kopf parses whatever a watch sends, and users control its content. So its HTTP session removes from every response what
can't be parsed safely.

Only kopf's plain events are used: its other handlers, with progress, finalizers and annotations, would be a second
state machine in the same objects. kopf discovers kinds only when it starts. If it started before the CRD is served,
it would never watch apps, so its start waits for the CRD. Must not install the CRD, nor look at apps itself.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import aiohttp
import kopf

from holdfast.bounded_json import WATCHED, ObjectDepth, bounded_objects
from holdfast.protocol.names import APP_LABEL, REPORT_LABEL
from holdfast.protocol.report import DriverReport
from holdfast.spec.app import API_VERSION
from holdfast_operator.cluster import APP, Cluster, ClusterUnreachableError
from holdfast_operator.decide.facts import AppKey, DecisionLimits
from holdfast_operator.observe.cache import WatchCache, whose_pod
from holdfast_operator.service.look_queue import LookQueue

_SERVER_ENDS, _CLIENT_ENDS = 300, 330
"""Seconds after which server and client end a watch. The client's limit is longer: it only ends dead connections."""
_CHUNK = 10
"""Objects per page of a list, as each may have one or two megabytes."""


def registry(cache: WatchCache, looks: LookQueue, *, nodes: bool) -> kopf.OperatorRegistry:
    """Return the watches of an operator; `nodes`: whether it may watch nodes."""
    made, watches, (group, version) = kopf.OperatorRegistry(), _Watches(cache, looks), API_VERSION.split("/")
    kopf.on.login(registry=made)(_login)
    kopf.on.startup(registry=made)(_settle)
    # kopf lists indexed kinds before it calls handlers, so no app is looked at before its pods and reports are known.
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
    settings.scanning.disabled = True  # the watched kinds are fixed, so namespaces and CRDs need not be scanned
    # Watch only labelled objects: all pods of a cluster would not fit into memory.
    settings.watching.label_selectors["pods"] = APP_LABEL
    settings.watching.label_selectors["configmaps"] = REPORT_LABEL
    settings.watching.chunk_size = _CHUNK
    settings.persistence.diffbase_storage = _NoDiffs()
    settings.watching.server_timeout = _SERVER_ENDS
    settings.watching.client_timeout = _CLIENT_ENDS


class _NoDiffs(kopf.DiffBaseStorage):
    """Disables diffs: kopf would copy every object to compute changes that nothing here uses."""

    def build(self, **_: Any) -> kopf.BodyEssence:
        return kopf.BodyEssence()

    def fetch(self, **_: Any) -> kopf.BodyEssence | None:
        return None

    def store(self, **_: Any) -> None:
        pass


@dataclass(frozen=True, slots=True)
class _Watches:
    """The handlers of kopf's events; `type` is None for objects that existed when a watch began.

    They are coroutines, as kopf runs plain functions in threads.
    """

    cache: WatchCache
    looks: LookQueue

    async def app(self, body: Mapping[str, Any], type: str | None, **_: Any) -> None:  # noqa: A002 - kopf's name
        """Handle a changed or deleted app."""
        if type == "DELETED":
            self.looks.forget(self.cache.forget_app(dict(body)))
        else:
            self.looks.soon(self.cache.saw_app(dict(body)))

    async def pod_there(self, body: Mapping[str, Any], **_: Any) -> None:
        """Record an existing or changed pod. kopf calls this before `pod`, except when the pod is deleted."""
        self.cache.saw_pod(dict(body), gone=False)

    async def report_there(self, body: Mapping[str, Any], **_: Any) -> None:
        """Record an existing report; `report` handles changes."""
        self.cache.first_report(dict(body))

    async def pod(self, body: Mapping[str, Any], type: str | None, **_: Any) -> None:  # noqa: A002
        """Request a look after a pod changed. Its new state is already recorded, unless it was deleted."""
        tree = dict(body)
        key = self.cache.saw_pod(tree, gone=True) if type == "DELETED" else whose_pod(tree)
        if key is not None:
            self.looks.soon(key, first=True)

    async def report(self, body: Mapping[str, Any], type: str | None, **_: Any) -> None:  # noqa: A002
        """Handle a driver's report; one that only shows progress postpones the next look."""
        before, after = self.cache.saw_report(dict(body), gone=type == "DELETED")
        key = AppKey(_metadata(body, "namespace"), str(body["metadata"]["labels"][REPORT_LABEL]))
        if before is not None and after is not None and goes_on(before, after):
            self.looks.put_off(key, DecisionLimits().silence / 1000)
        else:
            self.looks.soon(key, first=True)

    async def node(self, body: Mapping[str, Any], type: str | None, **_: Any) -> None:  # noqa: A002
        """Request looks at the apps with pods on a node that started or stopped answering."""
        if self.cache.saw_node(dict(body), gone=type == "DELETED"):
            for key in self.cache.on_node(_metadata(body, "name")):
                self.looks.soon(key, first=True)


def goes_on(before: DriverReport, after: DriverReport) -> bool:
    """Return whether only time and progress have changed, and the driver has made progress if there was work."""
    same = replace(after, at=before.at, batch=before.batch, progressed=before.progressed, lag=before.lag) == before
    worked = after.progressed is not None and (after.lag == 0 or after.progressed != before.progressed)
    return same and worked and before.progressed is not None


def _metadata(body: Mapping[str, Any], name: str) -> str:
    return str(body["metadata"][name])


_LOG = logging.getLogger("holdfast")
_EVERY = 2.0


async def wait_for_crd(cluster: Cluster) -> None:
    """Wait until the CRD is served, so that apps can be watched."""
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


def watch_session(info: kopf.ConnectionInfo) -> kopf.AiohttpSession:
    """Return a session for this connection; kopf closes it."""
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=info.as_ssl_context()),
        headers=info.as_http_headers(),
        proxy=info.proxy_url,
        trust_env=info.trust_env,
        response_class=_Response,
    )
    return kopf.AiohttpSession(
        server=info.server,
        default_namespace=info.default_namespace,
        priority=info.priority,
        expiration=info.expiration,
        aiohttp_session=session,
    )


class _Response(aiohttp.ClientResponse):
    async def start(self, connection: Any) -> aiohttp.ClientResponse:
        """Start reading through the filter."""
        await super().start(connection)
        self.content = _Content(self.content)  # type: ignore[assignment] # it has what kopf and aiohttp call
        return self


class _Content:
    """The filtered content of a response: lists as a whole, watches line by line."""

    def __init__(self, content: aiohttp.StreamReader) -> None:
        self._content = content

    def __getattr__(self, name: str) -> Any:
        return getattr(self._content, name)

    async def read(self) -> bytes:
        return bounded_objects(await self._content.read(), ObjectDepth.LIST, WATCHED)

    async def iter_chunked(self, size: int) -> AsyncIterator[bytes]:
        rest = b""
        async for data in self._content.iter_chunked(size):
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                yield bounded_objects(line, ObjectDepth.EVENT, WATCHED) + b"\n"
        yield bounded_objects(rest, ObjectDepth.EVENT, WATCHED)
