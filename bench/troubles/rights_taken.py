"""All bindings of the operator are deleted, and made again: it does nothing meanwhile, and then what was missed.

Once while its watches live on (the API server asks for rights when a watch begins), once after they were cut, for
longer than a watch may be silent. Must not take rights from anybody else.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.troubles.container import Container, container
from bench.troubles.promises import Promise, figure, within
from bench.troubles.stage import APP_NAMES, IMAGE, all_run, attempts, lonely, probed, settled, stage, well
from tests.api.admin import PODS, Admin
from tests.api.conftest import Site
from tests.api.proxy import Proxy
from tests.chart.rights import OPERATOR
from tests.kafka.broker import free_ports
from tests.waiting import wait_until

_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_SHORT, _LONG = 45.0, 200.0
"""Seconds without rights."""
_MISSED_IN = 75.0
"""Seconds from the rights' return until what was missed is done: a watch is tried every 10, a look every 60."""
_REFUSED = 400


def trouble(directory: Path) -> Iterator[Promise]:
    """Take the rights twice."""
    (port,) = free_ports(1)
    with stage(directory) as site, Proxy(site.plane.port) as proxy:
        lease = f"{site.namespace}/operator"
        with container(lambda: site.operator(lease=lease, who="only", port=port, proxy=proxy)) as running:
            all_run(site)
            short = _Absence(f"bindings deleted for {_SHORT:g} s, watches live", _SHORT, lambda: None)
            yield from _taken(site, running, port, APP_NAMES[:2], short)
            long = _Absence(f"bindings deleted for {_LONG:g} s, watches cut", _LONG, proxy.drop)
            yield from _taken(site, running, port, APP_NAMES[2:], long)


@dataclass(frozen=True, slots=True)
class _Absence:
    """A time without rights."""

    event: str
    seconds: float
    begins: Callable[[], None]
    """Called when the rights are gone."""


def _taken(
    site: Site, running: Container, port: int, touched: tuple[str, ...], absence: "_Absence"
) -> Iterator[Promise]:
    event, (edited, ended), before, exits = absence.event, touched, attempts(site), len(running.exits)
    with _without_rights(site):
        absence.begins()
        began = len(site.plane.asked_by(OPERATOR))
        site.apply(edited, runtime=IMAGE)
        (pod,) = [name for name in site.alive() if name.startswith(f"{ended}-")]
        site.admin.delete(f"{PODS.format(site.namespace)}/{pod}")
        answers = probed(port, absence.seconds)
        calls = site.plane.asked_by(OPERATOR)[began:]
        untouched = attempts(site) == before
    allowed = [call for call in calls if "objectRef" in call and call["responseStatus"].get("code", 0) < _REFUSED]
    yield figure(
        event, f"{len(calls)} calls; probe: {answers}; exits of the operator: {running.exits[exits:] or 'none'}"
    )
    yield Promise(
        event, "no call is allowed, and nothing is begun", not allowed and untouched, f"{len(allowed)} allowed"
    )
    back = time.monotonic()
    yield within(event, "the app edited meanwhile runs by its edit", _MISSED_IN, lambda: settled(site, edited), back)
    again = "the app whose driver was deleted meanwhile runs again"
    yield within(event, again, _MISSED_IN, lambda: settled(site, ended) and attempts(site)[ended] > before[ended], back)
    expected = {name: number + (name in touched) for name, number in before.items()}
    yield Promise(event, "these have one attempt more, the others none", attempts(site) == expected)
    yield lonely(event, site)
    goes_on = running.exits[exits:] == [] and well(port)
    yield Promise(
        event, "the operator is the same process, and well", goes_on, f"exits: {running.exits[exits:] or 'none'}"
    )


@contextmanager
def _without_rights(site: Site) -> Iterator[None]:
    admin, bindings = site.admin, []
    for path in (f"{_RBAC}/namespaces/{site.namespace}/rolebindings", f"{_RBAC}/clusterrolebindings"):
        for tree in admin.items(path):
            if any(subject["name"] == OPERATOR for subject in tree.get("subjects") or ()):
                bindings.append((path, tree))
                admin.delete(f"{path}/{tree['metadata']['name']}")
    wait_until(lambda: not _may_read(admin, site), 20, "the rights are gone")
    yield
    for path, tree in bindings:
        metadata = {key: tree["metadata"][key] for key in ("name", "namespace") if key in tree["metadata"]}
        admin.create(path, {**tree, "metadata": metadata})
    wait_until(lambda: _may_read(admin, site), 20, "the rights are back")


def _may_read(admin: Admin, site: Site) -> bool:
    permission = {"verb": "list", "group": "", "resource": "pods", "namespace": site.namespace}
    review: Any = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
    review["spec"] = {"user": OPERATOR, "resourceAttributes": permission}
    return bool(admin.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)["status"]["allowed"])
