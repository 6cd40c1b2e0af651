"""The operator asks for nothing that the chart does not give it, and the chart gives nothing that it does not use."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.protocol.names import app_id, attempt_name, executor_set
from tests.api.admin import APPS, PODS, Admin, default_storage, install_crd
from tests.api.conftest import NAMESPACE, RESTRICTED, Site
from tests.api.kubelet import Kubelet
from tests.api.plane import Plane
from tests.api.test_leader import holder
from tests.chart import child
from tests.chart.rendered import rendered
from tests.chart.rights import OPERATOR, Right, grant, granted
from tests.waiting import wait_until

NOT_CALLED = {
    # What becomes of executors: a newer assignment takes the place of an older one (not in every life: an attempt may
    # end before it is due), and on real clusters their claims and the labels of their nodes are looked at.
    Right("", "configmaps", "update"),
    Right("", "persistentvolumeclaims", "get"),
    Right("", "nodes", "get"),
    # Which nodes reach the volume of a claim.
    Right("", "persistentvolumes", "get"),
}
SECRET = {"bootstrapServers": "kafka:9092", "secretName": "kafka-auth"}
SYSTEMS: Any = [{"name": "events", "kafka": SECRET}]
RESTART: Any = {"backoff": {"initial": "1s", "max": "2s"}}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A namespace, and a node that answers, on an API server of its own: all that is asked for there is looked at."""
    namespace = "hold-system"
    with Plane() as plane:
        admin = Admin(plane)
        install_crd(admin)
        admin.create("/api/v1/namespaces", NAMESPACE | {"metadata": {"name": namespace, "labels": RESTRICTED}})
        default_storage(admin)
        admin.create("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a"}})
        admin.patch("/api/v1/nodes/node-a/status", {"status": {"conditions": [{"type": "Ready", "status": "True"}]}})
        with Kubelet(admin, namespace) as kubelet:
            made = Site(plane, admin, namespace, kubelet, tmp_path / "topics.json", child.run)
            made.topics(clicks=4, out=4)
            yield made
        assert kubelet.failure is None


def test_the_operator_uses_exactly_what_the_chart_gives(site: Site) -> None:
    chart = rendered("fullnameOverride=operator", namespace=site.namespace)
    grant(site.admin, chart, "operator", OPERATOR)
    live(site)
    calls = site.plane.asked_by(OPERATOR)
    denied = {f"{right_of(call)}: {call['responseStatus'].get('message')}" for call in calls if refused(call)}
    assert denied == set()
    used = {right_of(call) for call in calls if "objectRef" in call}
    gave = granted(chart, "operator")
    assert sorted(map(str, used - gave)) == []
    assert sorted(map(str, gave - used - NOT_CALLED)) == []


def right_of(call: dict[str, Any]) -> Right:
    what = call.get("objectRef") or {}
    part = what.get("subresource")
    return Right(what.get("apiGroup", ""), what.get("resource", "") + (f"/{part}" if part else ""), call["verb"])


def refused(call: dict[str, Any]) -> bool:
    return (call.get("responseStatus") or {}).get("code") in (401, 403)


def live(site: Site) -> None:
    """A whole life, in which everything happens that makes an operator ask for something."""
    lease = f"{site.namespace}/operator"
    with site.operator(lease=lease, who="first") as first:
        begin(site)
        attempts(site)
        with site.operator(lease=lease, who="second"):
            first.kill()
            wait_until(lambda: holder(site) == "second", 30, "the second operator leads")
            site.admin.delete(f"{APPS.format(site.namespace)}/ads")
            wait_until(lambda: not site.app(), 30, "the app is gone")


def begin(site: Site) -> None:
    """Somebody else has a pod of the driver's name at first, and the Secret is missing."""
    site.kubelet.healthy = False
    name = attempt_name("ads", "1", 1)
    site.admin.create(PODS.format(site.namespace), stranger(name))
    site.apply(systems=SYSTEMS, restart=RESTART)
    site.until("Ready", "False", "ObjectMissing")
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "kafka-auth"},
        "stringData": {"client.id": "a"},
    }
    site.admin.create(f"/api/v1/namespaces/{site.namespace}/secrets", secret)
    site.until("Ready", "False", "CreateRefused", 60)
    site.admin.delete(f"{PODS.format(site.namespace)}/{name}", grace=0)
    site.kubelet.healthy = True


def attempts(site: Site) -> None:
    """Run, fail, change, rest, go on, be deleted, begin anew."""
    common: Any = {"systems": SYSTEMS, "restart": RESTART}
    runs(site, 1)
    site.kubelet.end(site.alive()[0], 1)
    runs(site, 2)
    changed: Any = common | {"runtime": {"checkpoint": {"location": "s3a://bucket/ads"}, "image": "other"}}
    site.apply(**changed)
    runs(site, 3)
    site.apply(suspend=True, **changed)
    site.until("Ready", "False", "Suspended")
    site.apply(**changed)
    runs(site, 4)
    site.admin.delete(f"{PODS.format(site.namespace)}/{site.alive()[0]}")
    runs(site, 5)
    claims = f"/api/v1/namespaces/{site.namespace}/persistentvolumeclaims"
    site.admin.create(claims, claim(f"state-{executor_set('ads', '1')}-0", app_id("ads", "1")))
    site.apply(runId="2", **changed)
    runs(site, 1, "2")
    wait_until(lambda: not given_up(site, claims), 30, "the claims of the last run are given up")


def runs(site: Site, attempt: int, run: str = "1") -> None:
    def reached() -> bool:
        status = site.app().get("status") or {}
        started = status.get("runId") == run and status.get("attempt") == attempt and len(site.alive()) == 1
        return started and site.condition("Ready") == ("True", "Running")

    wait_until(reached, 60, f"attempt {attempt} of run {run} runs")


def given_up(site: Site, claims: str) -> list[dict[str, Any]]:
    # Nobody here takes off the finalizer by which Kubernetes protects claims that are in use.
    return [one for one in site.admin.items(claims) if "deletionTimestamp" not in one["metadata"]]


def stranger(name: str) -> dict[str, Any]:
    closed = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    spec = {
        "securityContext": {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [{"name": "driver", "image": "other", "securityContext": closed}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def claim(name: str, selector: str) -> dict[str, Any]:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    metadata = {"name": name, "labels": {"spark-app-selector": selector}}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}
