"""A namespace is deleted with apps in it: it goes, nothing holds it up, and nothing is made anew in it.

The namespace's controller and the garbage collector are Kubernetes' own, in a real kube-controller-manager. Once with
an operator that watches all namespaces, once with one that is away until half of it is deleted, once with one whose
rights are in the namespace and go with it. Must not take off finalizers itself.
"""

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from bench.troubles.container import container
from bench.troubles.promises import Promise, figure, within
from bench.troubles.stage import APP_NAMES, IMAGE, all_run, settled, stage
from holdfast.protocol.names import app_id
from tests.api import child
from tests.api.admin import APPS
from tests.api.conftest import NAMESPACE, Site, opened
from tests.api.plane import Plane
from tests.api.programs import kubernetes
from tests.api.proxy import Proxy
from tests.chart import child as everywhere_child
from tests.chart.rendered import rendered
from tests.chart.rights import OPERATOR, grant
from tests.go_programs import built
from tests.waiting import wait_until

_CONTROLLERS = ("namespace-controller", "garbage-collector-controller", "persistentvolumeclaim-protection-controller")
_KNOWN_IN, _REFUSED = timedelta(seconds=1), 400
"""Until the API server's own admission has heard of it."""
_CLAIMS = "/api/v1/namespaces/{}/persistentvolumeclaims"
_GONE_IN, _LOOK, _LONG = 60.0, 30.0, 150.0
"""Seconds; the last is longer than a watch may be silent."""
SYSTEM = "holdfast-system"
_SUSPENDED = "suspended"


def trouble(directory: Path) -> Iterator[Promise]:
    """Delete three namespaces."""
    with stage(directory) as site, _controllers(site.plane, directory):
        with _another(site, directory / "own-rights") as doomed:
            yield from _with_its_rights(site, doomed)
        admin = site.admin
        admin.create("/api/v1/namespaces", NAMESPACE | {"metadata": {"name": SYSTEM}})
        grant(admin, rendered("fullnameOverride=operator", namespace=SYSTEM), "operator", OPERATOR)
        with _another(site, directory / "there") as doomed:
            yield from _with_operator(doomed)
        with _another(site, directory / "away") as doomed:
            yield from _without_operator(doomed)


def _with_its_rights(site: Site, doomed: Site) -> Iterator[Promise]:
    """The operator watches both namespaces by their names, so that its rights in one go with it."""
    both_sites, lease = replace(doomed, run=partial(_both, site.namespace)), f"{site.namespace}/operator"
    with (
        Proxy(site.plane.port) as proxy,
        container(lambda: both_sites.operator(lease=lease, who="only", proxy=proxy)) as running,
    ):
        all_run(site)
        _filled(doomed)
        yield from _deleted(doomed, "the operator's rights in it go with it")
        proxy.drop()  # the API server asks for rights when watches begin
        began = time.monotonic()
        site.apply(APP_NAMES[0], runtime=IMAGE)
        event, text = "then all its watches are cut", "an edited app of another watched namespace runs by its edit"
        yield within(event, text, _LOOK, lambda: settled(site, APP_NAMES[0]))
        wait_until(lambda: time.monotonic() - began > _LONG, _LONG + 1, "it is long ago")
        goes_on = not running.exits
        yield Promise(event, f"the operator goes on for {_LONG:g} s", goes_on, f"exits: {running.exits or 'none'}")


def _both(other: str, namespace: str, when: str) -> None:
    child.run(f"{namespace},{other}", when)


def _with_operator(doomed: Site) -> Iterator[Promise]:
    everywhere = replace(doomed, run=everywhere_child.run)
    with everywhere.operator(lease=f"{SYSTEM}/operator", who="only") as operator:
        _filled(doomed)
        yield from _deleted(doomed, "an operator of all namespaces")
        yield Promise("the namespace is gone", "the operator goes on", operator.poll() is None)


def _without_operator(doomed: Site) -> Iterator[Promise]:
    everywhere = replace(doomed, run=everywhere_child.run)
    with everywhere.operator(lease=f"{SYSTEM}/operator", who="only"):
        _filled(doomed)
    path = _path(doomed)
    doomed.admin.delete(path)
    wait_until(lambda: not doomed.pods(), 60, "its pods are gone")
    event = f"a namespace with {len(APP_NAMES)} running apps and one at rest deleted while no operator is there"
    left = [app["metadata"]["name"] for app in doomed.admin.items(APPS.format(doomed.namespace))]
    yield figure(event, f"when its pods are gone {len(left)} apps are left")
    began, since = time.monotonic(), datetime.now(UTC)
    with everywhere.operator(lease=f"{SYSTEM}/operator", who="only"):
        yield within(
            event,
            "the namespace is gone, from the operator's return",
            _GONE_IN,
            lambda: not doomed.admin.get(path),
            began,
        )
        yield from _nothing_made(doomed, event, since, len(doomed.kubelet.drivers))


@contextmanager
def _another(site: Site, directory: Path) -> Iterator[Site]:
    directory.mkdir()
    with opened(site.plane, directory) as made:
        yield made


def _filled(site: Site) -> None:
    """Apps that run, with the claims of their executors, and one that is suspended."""
    site.apply(_SUSPENDED, suspend=True)
    all_run(site)
    wait_until(lambda: site.condition("Ready", _SUSPENDED)[1] == "Suspended", 30, "it is suspended")
    wait_until(lambda: len(site.alive("executor")) >= len(APP_NAMES), 60, "executors run")
    for name in APP_NAMES:
        metadata = {"name": f"state-{name}", "labels": {"spark-app-selector": app_id(name, "1")}}
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        site.admin.create(_CLAIMS.format(site.namespace), {"metadata": metadata, "spec": spec})


def _deleted(doomed: Site, who: str) -> Iterator[Promise]:
    event, path = f"a namespace with {len(APP_NAMES)} running apps and one at rest deleted; {who}", _path(doomed)
    doomed.admin.delete(path)
    began, since, drivers = time.monotonic(), datetime.now(UTC), len(doomed.kubelet.drivers)
    yield within(event, "the namespace is gone", _GONE_IN, lambda: not doomed.admin.get(path), began)
    yield from _nothing_made(doomed, event, since, drivers)


def _nothing_made(doomed: Site, event: str, since: datetime, drivers: int) -> Iterator[Promise]:
    """`drivers` is how many there had been by then."""
    calls = [call for call in doomed.plane.asked_by(OPERATOR) if _in(doomed, call) and _at(call) > since + _KNOWN_IN]
    creates = [call for call in calls if call["verb"] == "create"]
    made = [call["objectRef"]["resource"] for call in creates if call["responseStatus"]["code"] < _REFUSED]
    refused = len(creates) - len(made)
    yield figure(event, f"{len(calls)} calls of the operator in it; {refused} to make something were refused")
    nothing = not made and len(doomed.kubelet.drivers) == drivers
    yield Promise(event, "nothing is made anew", nothing, f"{', '.join(made) or 'none'}")


def _in(site: Site, call: dict[str, Any]) -> bool:
    return bool(call.get("objectRef", {}).get("namespace") == site.namespace)


def _at(call: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(call["requestReceivedTimestamp"]).astimezone(UTC)


def _path(site: Site) -> str:
    return f"/api/v1/namespaces/{site.namespace}"


@contextmanager
def _controllers(plane: Plane, directory: Path) -> Iterator[None]:
    program = built(kubernetes("kube-controller-manager"))
    switches = (f"--controllers={','.join(_CONTROLLERS)}", "--leader-elect=false", "--secure-port=0")
    command: list[str | Path] = [program, f"--kubeconfig={plane.kubeconfig()}", *switches]
    with (directory / "controllers.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)  # noqa: S603 - ours
    try:
        yield
    finally:
        process.kill()
        process.wait(20)
