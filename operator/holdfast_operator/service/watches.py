"""The kopf watches of apps, their pods, drivers' reports and nodes; each change requests a look at its app.

kopf parses whatever a watch sends, and users control its content. So its HTTP session removes from every response what
can't be parsed safely. The session also tells the handlers what kopf does not: which objects a list has, so that what
was deleted while no watch lived is found, and that a watch lives. One that is refused is asked for until the right to
it is back: a new process would be refused too, and the watches of other namespaces need this one meanwhile.

Only kopf's plain events are used: its other handlers, with progress, finalizers and annotations, would be a second
state machine in the same objects. kopf discovers kinds only when it starts. If it started before the CRD is served,
it would never watch apps, so its start waits for the CRD. Must not install the CRD, nor look at apps itself.
"""

import asyncio
import functools
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import aiohttp
import kopf

from holdfast.api_answers import ApiUnreachableError
from holdfast.bounded_json import WATCHED, ObjectDepth, bounded_objects
from holdfast.protocol.names import APP_LABEL, REPORT_LABEL
from holdfast.spec.app import API_VERSION
from holdfast_operator.cluster import APP, CONFIG_MAP, NODE, POD, Cluster
from holdfast_operator.observe.known_versions import NamespacedName
from holdfast_operator.service.monitoring import WatchScope
from holdfast_operator.service.watch_handlers import WatchHandlers

_SERVER_ENDS, _CLIENT_ENDS = 300, 330
"""Seconds after which server and client end a watch. The client's limit is longer: it only ends dead connections."""
_CHUNK = 10
"""Objects per page of a list, as each may have one or two megabytes."""
_FORBIDDEN = 403


class RetryWaits:
    """Seconds between tries of a request of a watch, without end: kopf gives up a watch after the last of its own."""

    def __iter__(self) -> Iterator[float]:
        yield from (1, 1, 2, 3, 5, 8)
        while True:
            yield 10


def registry(handlers: WatchHandlers, *, nodes: bool) -> kopf.OperatorRegistry:
    """Return kopf's watches, which tell these handlers; `nodes`: whether it may watch nodes."""
    made, (group, version) = kopf.OperatorRegistry(), API_VERSION.split("/")
    kopf.on.login(registry=made)(functools.partial(_login, WatchResponses(handlers)))
    kopf.on.startup(registry=made)(_settle)
    # kopf lists indexed kinds before it calls handlers, so no app is looked at before its pods and reports are known.
    kopf.index("pods", labels={APP_LABEL: kopf.PRESENT}, registry=made)(handlers.pod_there)
    kopf.index("configmaps", labels={REPORT_LABEL: kopf.PRESENT}, registry=made)(handlers.report_there)
    kopf.on.event(group, version, APP.plural, registry=made)(handlers.app)
    kopf.on.event("pods", labels={APP_LABEL: kopf.PRESENT}, registry=made)(handlers.pod)
    kopf.on.event("configmaps", labels={REPORT_LABEL: kopf.PRESENT}, registry=made)(handlers.report)
    if nodes:
        kopf.on.event("nodes", registry=made)(handlers.node)
    return made


async def _login(responses: "WatchResponses", **arguments: Any) -> kopf.AiohttpSession | None:
    info = kopf.login_with_service_account(**arguments) or kopf.login_with_kubeconfig(**arguments)
    return None if info is None else watch_session(info, responses)


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
    settings.networking.error_backoffs = RetryWaits()


class _NoDiffs(kopf.DiffBaseStorage):
    """Disables diffs: kopf would copy every object to compute changes that nothing here uses."""

    def build(self, **_: Any) -> kopf.BodyEssence:
        return kopf.BodyEssence()

    def fetch(self, **_: Any) -> kopf.BodyEssence | None:
        return None

    def store(self, **_: Any) -> None:
        pass


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
    except ApiUnreachableError:
        return False


_WATCHED = {kind.plural: kind for kind in (APP, POD, CONFIG_MAP, NODE)}


@dataclass(slots=True)
class WatchResponses:
    """What the responses to kopf say about its watches."""

    handlers: WatchHandlers
    _pages: dict[WatchScope, tuple[str, set[NamespacedName]]] = field(default_factory=dict)
    """The lists under way: version, and the objects of the pages that have come."""

    def heard(self, scope: WatchScope) -> None:
        """Handle a sign of life."""
        self.handlers.heard(*scope)

    def refused(self, scope: WatchScope) -> None:
        """Handle a watch that may not be."""
        self.handlers.refused(*scope)

    def page(self, scope: WatchScope, tree: Any, *, first: bool) -> None:
        """Handle a page of a list; the last one completes it."""
        metadata = tree["metadata"]
        version, names = (str(metadata["resourceVersion"]), set[NamespacedName]()) if first else self._pages.pop(scope)
        of = (item["metadata"] for item in tree["items"])
        names |= {(str(metadata.get("namespace") or ""), str(metadata["name"])) for metadata in of}
        if metadata.get("continue"):
            self._pages[scope] = version, names
            self.handlers.heard(*scope)
        else:
            self.handlers.listed(*scope, version, names)


def watched_scope(path: str) -> WatchScope | None:
    """Return which watch has this URL path; None: it is of something else."""
    *before, plural = path.split("/")
    kind, namespace = _WATCHED.get(plural), before[-1] if before[-2:-1] == ["namespaces"] else None
    return None if kind is None or not path.endswith(kind.path(namespace)) else (kind, namespace)


def watch_session(info: kopf.ConnectionInfo, responses: WatchResponses) -> kopf.AiohttpSession:
    """Return a session for this connection; kopf closes it."""

    class Response(_Response):
        listener = responses

    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=info.as_ssl_context()),
        headers=info.as_http_headers(),
        proxy=info.proxy_url,
        trust_env=info.trust_env,
        response_class=Response,
    )
    return kopf.AiohttpSession(
        server=info.server,
        default_namespace=info.default_namespace,
        priority=info.priority,
        expiration=info.expiration,
        aiohttp_session=session,
    )


class _Response(aiohttp.ClientResponse):
    listener: ClassVar[WatchResponses]

    async def start(self, connection: Any) -> aiohttp.ClientResponse:
        """Start reading through the filter."""
        await super().start(connection)
        self.content = _Content(self.content, self._heard)  # type: ignore[assignment] # it has what kopf and aiohttp call
        if "watch" in self.url.query:
            self._heard()  # it was accepted: from now on it will tell
        if self.status == _FORBIDDEN and (scope := watched_scope(self.url.path)) is not None:
            self.listener.refused(scope)
        return self

    async def json(self, **options: Any) -> Any:
        """Return the parsed content; a page of a list is also told to the listener."""
        tree, scope = await super().json(**options), self._scope()
        if scope is not None:
            self.listener.page(scope, tree, first="continue" not in self.url.query)
        return tree

    def _heard(self) -> None:
        if (scope := self._scope()) is not None:
            self.listener.heard(scope)

    def _scope(self) -> WatchScope | None:
        """Return the watch that this answers, well; None: it answers something else."""
        return watched_scope(self.url.path) if self.ok else None


class _Content:
    """The filtered content of a response: lists as a whole, watches line by line."""

    def __init__(self, content: aiohttp.StreamReader, heard: Callable[[], None]) -> None:
        self._content, self._heard = content, heard

    def __getattr__(self, name: str) -> Any:
        return getattr(self._content, name)

    async def read(self) -> bytes:
        return bounded_objects(await self._content.read(), ObjectDepth.LIST, WATCHED)

    async def iter_chunked(self, size: int) -> AsyncIterator[bytes]:
        rest = b""
        async for data in self._content.iter_chunked(size):
            self._heard()
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                yield bounded_objects(line, ObjectDepth.EVENT, WATCHED) + b"\n"
        yield bounded_objects(rest, ObjectDepth.EVENT, WATCHED)
