"""What watches tell: after each list the cache has what the list has, in whatever order events come."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any

import kopf
from aiohttp import web
from kopf._cogs.clients.api import iter_jsonlines

from holdfast.protocol.names import APP_LABEL, REPORT_LABEL
from holdfast.protocol.report import REPORT_KEY, DriverReport
from holdfast_operator.cluster import APP, CONFIG_MAP, NODE, POD, ApiKind
from holdfast_operator.decide.decision import LookAgain, NextLook
from holdfast_operator.decide.facts import AppKey
from holdfast_operator.observe.cache import WatchCache
from holdfast_operator.observe.known_versions import CompleteList, NamespacedName
from holdfast_operator.service.look_queue import LookQueue
from holdfast_operator.service.monitoring import WatchSigns
from holdfast_operator.service.watch_handlers import WatchHandlers
from holdfast_operator.service.watches import RetryWaits, WatchResponses, watch_session, watched_scope
from tests.kafka.broker import free_ports

KEY, OTHER = AppKey("apps", "ads"), AppKey("more", "ads")
Tree = dict[str, Any]


def thing(name: str, version: int, namespace: str = "apps", **metadata: Any) -> Tree:
    return {"metadata": {"name": name, "namespace": namespace, "resourceVersion": str(version), **metadata}}


def pod(name: str, version: int, namespace: str = "apps", app: str = "ads") -> Tree:
    return thing(name, version, namespace, uid=f"uid-{version}", labels={APP_LABEL: app})


def report(version: int) -> Tree:
    text = DriverReport(1, version).text()
    return {**thing("ads-report", version, labels={REPORT_LABEL: "ads"}), "data": {REPORT_KEY: text}}


def node(name: str, version: int) -> Tree:
    status = {"conditions": [{"type": "Ready", "status": "True"}]}
    return {"metadata": {"name": name, "resourceVersion": str(version)}, "status": status}


def listing(version: int, *names: NamespacedName, namespace: str | None = None) -> CompleteList:
    return CompleteList(namespace, version, frozenset(names))


def test_what_a_list_lacks_is_gone_whatever_its_kind() -> None:
    cache = WatchCache()
    cache.saw_app(thing("ads", 1, uid="u"))
    cache.saw_pod({**pod("driver", 2), "spec": {"nodeName": "a"}}, deleted=False)
    cache.saw_report(report(3), deleted=False)
    cache.saw_node(node("a", 4), deleted=False)
    assert cache.listed(NODE, listing(9)) == [KEY], "its pod is on this node"
    assert cache.nodes.silent_since("a") is not None
    assert cache.listed(POD, listing(9)) == [KEY]
    assert cache.pods(KEY) == {}
    assert cache.listed(CONFIG_MAP, listing(9)) == [KEY]
    assert cache.reports == {}
    assert cache.listed(APP, listing(9)) == [KEY]
    assert cache.app(KEY) is None
    assert list(cache.figures()) == []


def test_a_list_of_one_namespace_says_nothing_about_others() -> None:
    cache = WatchCache()
    cache.saw_pod(pod("driver", 2), deleted=False)
    cache.saw_pod(pod("driver", 2, "more"), deleted=False)
    assert cache.listed(POD, listing(9, namespace="apps")) == [KEY]
    assert list(cache.pods(OTHER)) == ["driver"]


def test_what_is_newer_than_a_list_stays() -> None:
    cache = WatchCache()
    cache.saw_pod(pod("driver", 12), deleted=False)
    assert cache.listed(POD, listing(9)) == []
    assert list(cache.pods(KEY)) == ["driver"]


def test_an_event_older_than_the_list_brings_nothing_back() -> None:
    cache = WatchCache()
    cache.listed(POD, listing(9, ("apps", "driver")))
    cache.saw_pod(pod("gone", 5), deleted=False)
    assert cache.pods(KEY) == {}
    cache.saw_pod(pod("driver", 5), deleted=False)
    cache.saw_pod(pod("made-later", 11), deleted=False)
    assert set(cache.pods(KEY)) == {"driver", "made-later"}
    cache.listed(POD, listing(20))
    cache.saw_pod(pod("gone", 21), deleted=False)
    assert set(cache.pods(KEY)) == {"gone"}, "made again after the list"


def test_an_event_older_than_a_read_does_not_count() -> None:
    cache = WatchCache()
    cache.saw_pod(pod("old", 2), deleted=False)
    cache.saw_pod(pod("driver", 3), deleted=False)
    cache.listed_pods(KEY, [pod("driver", 8), pod("unheard", 7)], "9")
    assert {name: state.uid for name, state in cache.pods(KEY).items()} == {"driver": "uid-8"}
    cache.saw_pod(pod("driver", 5), deleted=False)
    cache.saw_pod(pod("driver", 6), deleted=True)
    assert cache.pods(KEY)["driver"].uid == "uid-8"
    cache.saw_pod(pod("unheard", 7), deleted=False)
    assert set(cache.pods(KEY)) == {"driver", "unheard"}, "the watch tells of it later"


def test_a_pod_that_changes_apps_leaves_the_first() -> None:
    cache = WatchCache()
    cache.saw_pod(pod("driver", 2), deleted=False)
    cache.saw_pod(pod("driver", 3, app="other"), deleted=False)
    assert cache.pods(KEY) == {}
    assert list(cache.pods(AppKey("apps", "other"))) == ["driver"]


def test_a_requests_path_gives_kind_and_namespace() -> None:
    assert watched_scope("/api/v1/pods") == (POD, None)
    assert watched_scope("/api/v1/namespaces/apps/pods") == (POD, "apps")
    assert watched_scope("/k8s/clusters/c-1/apis/holdfast.dev/v1alpha1/namespaces/a/streamapps") == (APP, "a")
    assert watched_scope("/api/v1/nodes") == (NODE, None)
    assert watched_scope("/apis/metrics.k8s.io/v1beta1/pods") is None
    assert watched_scope("/apis/holdfast.dev/v1alpha1") is None
    assert watched_scope("/api/v1/namespaces") is None


def handlers() -> WatchHandlers:
    async def look(_: AppKey) -> NextLook:
        return LookAgain(1000)

    signs = WatchSigns(lambda: 0.0)
    return WatchHandlers(WatchCache(), LookQueue(look, lambda *_: None), signs)


PAGES: dict[str, Tree] = {
    "": {"metadata": {"resourceVersion": "7", "continue": "more"}, "items": [thing("a", 1), thing("b", 2)]},
    "more": {"metadata": {"resourceVersion": "7"}, "items": [thing("c", 3)]},
}


async def _served(handler: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> AsyncIterator[str]:
    (port,) = free_ports(1)
    app = web.Application()
    app.add_routes([web.get("/{path:.*}", handler)])
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, port=port).start()
    yield f"http://127.0.0.1:{port}"
    await runner.cleanup()


def test_pages_make_one_list_and_every_event_is_heard() -> None:
    calls: list[Any] = []

    class Noted(WatchHandlers):
        def heard(self, kind: ApiKind, namespace: str | None) -> None:
            calls.append((kind, namespace))

        def refused(self, kind: ApiKind, namespace: str | None) -> None:
            calls.append(("refused", kind, namespace))

        def listed(self, kind: ApiKind, namespace: str | None, version: str, names: Any) -> None:
            calls.append((kind, namespace, version, sorted(names)))

    async def answer(request: web.Request) -> web.StreamResponse:
        if "refused" in request.path:
            return web.json_response({"kind": "Status"}, status=403)
        if "watch" not in request.query:
            return web.json_response(PAGES[request.query.get("continue", "")])
        stream = web.StreamResponse()
        await stream.prepare(request)
        await stream.write(json.dumps({"type": "BOOKMARK", "object": thing("", 9)}).encode() + b"\n")
        return stream

    async def story() -> None:
        made = handlers()
        responses = WatchResponses(Noted(made.cache, made.looks, made.signs))
        async for url in _served(answer):
            session = watch_session(kopf.ConnectionInfo(server=url), responses).aiohttp_session
            async with session:
                for token in ("", "&continue=more"):
                    async with session.get(f"{url}/api/v1/namespaces/apps/pods?limit=2{token}") as page:
                        await page.json()
                async with session.get(f"{url}/api/v1/namespaces/apps/pods?watch=true") as watch:
                    assert calls[-1][0] is POD
                    calls.append("accepted")
                    assert len([line async for line in iter_jsonlines(watch.content)]) == 1
                async with session.get(f"{url}/api/v1/namespaces/refused/pods?watch=true") as refused:
                    await refused.json()

    asyncio.run(story())
    scope, all_names = (POD, "apps"), [("apps", "a"), ("apps", "b"), ("apps", "c")]
    assert calls == [scope, (*scope, "7", all_names), scope, "accepted", scope, ("refused", POD, "refused")]


def test_a_failed_watch_is_retried_every_ten_seconds_for_ever() -> None:
    waits = list(itertools.islice(RetryWaits(), 5000))
    assert waits == sorted(waits)
    assert waits[-1] == 10


def test_a_drivers_silence_counts_only_while_looked_at() -> None:
    cache = WatchCache()
    assert [cache.silence(KEY, "first", at) for at in (0, 30_000, 60_000)] == [0, 30_000, 60_000]
    # The API server was away for an hour: drivers could not say anything either.
    assert cache.silence(KEY, "first", 3_660_000) == 120_000
    assert cache.silence(KEY, "second", 3_670_000) == 0
    assert cache.silence(KEY, "second", 3_600_000) == 0, "the clock was put back"


def test_a_refused_watch_is_not_silent_but_hears_no_drivers() -> None:
    times = itertools.chain((0.0, 100.0), itertools.repeat(200.0))
    signs, cache = WatchSigns(lambda: next(times)), WatchCache()
    signs.expect([(POD, "apps"), (POD, None)])
    watch_handlers = replace(handlers(), cache=cache, signs=signs)
    watch_handlers.refused(POD, "apps")
    watch_handlers.refused(POD, None)
    assert signs.silent() == ["the watch of pods has been silent for 200 s"], "nothing else is watched there"
    assert [cache.silence(key, "first", at) for at in (0, 60_000) for key in (KEY, OTHER)] == [0, 0, 60_000, 60_000]
    watch_handlers.refused(POD, "apps")
    assert [cache.silence(key, "first", 70_000) for key in (KEY, OTHER)] == [0, 70_000]
    watch_handlers.refused(POD, None)
    assert cache.silence(OTHER, "first", 80_000) == 0
