"""The leader of two operators is cut off from the API server: the other leads, and never do two act.

As a partition of the network does it: connections stay open and nothing passes; when it heals, what was under way
arrives. The API server's audit log tells the calls of both apart by the address they come from. Must not end the one
that is cut off.
"""

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.troubles.container import container
from bench.troubles.promises import Promise, figure, within
from bench.troubles.stage import APP_NAMES, IMAGE, all_run, attempts, health, lonely, settled, stage, well
from tests.api.admin import APPS
from tests.api.conftest import Site
from tests.api.proxy import Proxy
from tests.chart.rights import OPERATOR
from tests.kafka.broker import free_ports
from tests.waiting import wait_until

_SOURCE = "127.0.0.2"
_HAND_OVER = 17.0
"""Seconds: a lease, and a try to take it."""
_LOOK = 10.0
_CUT = 40.0
_FOLLOWS = 30.0
_UNDER_WAY = 20
_WRITES = ("create", "update", "patch", "delete")
Call = dict[str, Any]


def trouble(directory: Path) -> Iterator[Promise]:
    """Cut the leader off, and let it come back."""
    ports = free_ports(2)
    with stage(directory) as site, Proxy(site.plane.port, _SOURCE) as proxy:
        lease = f"{site.namespace}/operator"
        with container(lambda: site.operator(lease=lease, who="first", port=ports[0], proxy=proxy)) as first:
            wait_until(lambda: _holder(site) == "first", 30, "the first operator leads")
            with site.operator(lease=lease, who="second", port=ports[1]):
                all_run(site)
                yield from _cut(site, proxy, ports[0])
                yield from _comes_back(site, proxy, first, ports[0])


def _cut(site: Site, proxy: Proxy, port: int) -> Iterator[Promise]:
    event, before = "the leader is cut off, two apps edited", attempts(site)
    for number in range(_UNDER_WAY):  # what it does about these is cut in the middle
        patch = {"spec": {"restart": {"resetAfter": f"{number + 1}s"}}}
        site.admin.patch(f"{APPS.format(site.namespace)}/{APP_NAMES[number % len(APP_NAMES)]}", patch)
    site.apply(APP_NAMES[0], runtime=IMAGE)
    proxy.hold()
    began = time.monotonic()
    site.apply(APP_NAMES[1], runtime=IMAGE)
    yield within(event, "the other operator holds the lease", _HAND_OVER, lambda: _holder(site) == "second", began)
    edited = APP_NAMES[:2]
    yield within(
        event, "both apps run by their edits", _HAND_OVER + _LOOK, lambda: all(settled(site, n) for n in edited), began
    )
    wait_until(lambda: time.monotonic() - began > _CUT, _CUT + 1, "it has been cut off for long")
    expected = {name: number + (name in edited) for name, number in before.items()}
    yield Promise(event, "these have one attempt more, the others none", attempts(site) == expected)
    yield figure(event, f"probe of the one cut off: {health(port)[:2]}")


def _comes_back(site: Site, proxy: Proxy, first: Any, port: int) -> Iterator[Promise]:
    event, took, before = f"it is connected again after {_CUT:g} s", _acquired(site), attempts(site)
    proxy.release()
    back = time.monotonic()
    yield within(event, "the former leader ends, as another one holds the lease", 30, lambda: first.exits == [1], back)
    late = [call for call in _calls(site) if _at(call) > took and call["verb"] in _WRITES]
    done = [call for call in late if call["responseStatus"]["code"] < 300]
    yield figure(event, f"its writes that arrived since the other leads: {_words(late) or 'none'}")
    yield Promise(event, "none of these succeeds", not done, _words(done))
    started = len(_calls(site))
    yield within(event, "it is started again, and its probe is well", 30, lambda: first.pid is not None and well(port))
    wait_until(lambda: time.monotonic() - back > _FOLLOWS, _FOLLOWS + 10, "it has followed for a while")
    reads = [call for call in _calls(site)[started:] if call.get("objectRef", {}).get("resource") != "leases"]
    acted = [call for call in _calls(site)[started:] if call["verb"] in _WRITES]
    yield Promise(
        event,
        "it follows: it writes nothing, and reads the lease alone",
        not acted and not reads,
        _words(acted + reads),
    )
    yield Promise(
        event,
        "the other leads on, and no app has another attempt",
        _holder(site) == "second" and attempts(site) == before,
    )
    yield lonely(event, site)


def _lease(site: Site) -> dict[str, Any]:
    tree = site.admin.get(f"/apis/coordination.k8s.io/v1/namespaces/{site.namespace}/leases/operator")
    return dict(tree.get("spec") or {})


def _holder(site: Site) -> str:
    return str(_lease(site).get("holderIdentity") or "")


def _acquired(site: Site) -> datetime:
    return datetime.fromisoformat(_lease(site)["acquireTime"])


def _calls(site: Site) -> list[Call]:
    """What the one behind the proxy asked."""
    return [call for call in site.plane.asked_by(OPERATOR) if _SOURCE in call["sourceIPs"]]


def _at(call: Call) -> datetime:
    return datetime.fromisoformat(call["requestReceivedTimestamp"]).astimezone(UTC)


def _words(calls: list[Call]) -> str:
    return ", ".join(f"{one['verb']} {one['objectRef']['resource']}: {one['responseStatus']['code']}" for one in calls)
