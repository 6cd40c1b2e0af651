"""A node that does not answer any more, on a real API server: what was on it is let go, and nothing else is."""

from datetime import UTC, datetime, timedelta
from typing import Any

from holdfast.protocol.names import app_id, attempt_name, executor_set
from tests.api.admin import Admin
from tests.api.conftest import Site
from tests.chart.rendered import rendered
from tests.chart.rights import OPERATOR, grant
from tests.chart.test_rights import runs, site
from tests.waiting import wait_until

__all__ = ["site"]
SYSTEMS: Any = [{"name": "events", "kafka": {"bootstrapServers": "kafka:9092"}}]
EXECUTORS: Any = {"checkpoint": {"location": "s3a://bucket/ads"}, "executors": {"count": 2}}
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


def say(admin: Admin, node: str, ready: str, since: timedelta = timedelta()) -> None:
    stamp = (datetime.now(UTC) - since).strftime("%Y-%m-%dT%H:%M:%SZ")
    condition = {"type": "Ready", "status": ready, "lastTransitionTime": stamp}
    admin.patch(f"/api/v1/nodes/{node}/status", {"status": {"conditions": [condition]}})


def bound(site: Site, claim: str, key: str, value: str) -> None:
    """A claim of the run, and its volume, which is where this label of nodes says."""
    size, modes = {"storage": "1Gi"}, ["ReadWriteOnce"]
    terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}]
    volume: Any = {
        "capacity": size,
        "accessModes": modes,
        "csi": {"driver": "none", "volumeHandle": claim},
        "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
    }
    metadata = {"name": f"pv-{key.rpartition('/')[2]}"}
    site.admin.create(
        "/api/v1/persistentvolumes",
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": volume},
    )
    spec = {"accessModes": modes, "resources": {"requests": size}, "volumeName": metadata["name"]}
    labels = {"spark-app-selector": app_id("ads", "1")}
    site.admin.create(
        claims(site),
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": claim, "labels": labels},
            "spec": spec,
        },
    )


def works(site: Site, name: str) -> bool:
    return any(pod["metadata"]["name"] == name and pod["status"]["phase"] == "Running" for pod in site.pods())


def claims(site: Site) -> str:
    return f"/api/v1/namespaces/{site.namespace}/persistentvolumeclaims"


def let_go(site: Site) -> list[str]:
    # Nobody here takes off the finalizer by which Kubernetes protects claims that are in use.
    return [one["metadata"]["name"] for one in site.admin.items(claims(site)) if "deletionTimestamp" in one["metadata"]]


def test_a_lost_node_takes_driver_executors_and_volumes_with_it(site: Site) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-b"}}
    site.admin.create("/api/v1/nodes", node)
    say(site.admin, "node-b", "True")
    grant(site.admin, rendered("fullnameOverride=operator", namespace=site.namespace), "operator", OPERATOR)
    first, second = (f"{executor_set('ads', '1')}-{number}" for number in (0, 1))
    bound(site, f"state-{first}", HOST, "node-a")
    bound(site, f"state-{second}", ZONE, "one")
    with site.operator(lease=f"{site.namespace}/operator", who="first"):
        site.apply(systems=SYSTEMS, runtime=EXECUTORS)
        runs(site, 1)
        wait_until(lambda: len(site.alive("executor")) == 2, 30, "executors run")
        site.kubelet.silent, site.kubelet.node = frozenset({"node-a"}), "node-b"
        site.kubelet.homeless = frozenset({first, second})
        say(site.admin, "node-a", "Unknown", timedelta(seconds=58))
        runs(site, 2)
        assert attempt_name("ads", "1", 1) not in {pod["metadata"]["name"] for pod in site.pods()}
        wait_until(lambda: let_go(site) == [f"state-{first}"], 60, "the claim of the lost node is given up")
        site.told("NodeLost", "ClaimGivenUp")
        site.kubelet.silent = site.kubelet.homeless = frozenset()
        say(site.admin, "node-a", "True")
        # The double of Spark makes no executor anew: of the two, the one whose volume is of the zone goes on.
        wait_until(lambda: works(site, second), 60, "the other executor runs")
        runs(site, 2)
        assert let_go(site) == [f"state-{first}"]
