"""The storage of an app's pods: a folder that all nodes share, and disks that belong to one node each.

The disks are volumes made in advance, as administrators make them of real disks: a claim gets one where its pod is put.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.cluster.cluster import Cluster
from tests.cluster.config import SHARED

SHARED_CLAIM = "shared"
_DISKS = "/var/lib/test-disks"
_SIZE = "1Gi"


@contextmanager
def shared_folder(cluster: Cluster, namespace: str) -> Iterator[None]:
    """The claim SHARED_CLAIM in this namespace, of a folder that pods on all nodes write."""
    folder = cluster.shared / namespace
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    either = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    source = {"hostPath": {"path": f"{SHARED}/{namespace}"}}
    claim: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": SHARED_CLAIM},
        "spec": {**either, "volumeName": namespace, "resources": {"requests": {"storage": _SIZE}}},
    }
    cluster.apply(_volume(namespace, {**either, **source}), claim, namespace=namespace)
    try:
        yield
    finally:
        cluster.kubectl("delete", "persistentvolume", namespace, "--wait=false")


def disk(name: str, number: int) -> str:
    """Where each worker has this disk of a storage class."""
    return f"{_DISKS}/{name}/{number}"


@contextmanager
def local_disks(cluster: Cluster, name: str, disks: int, limit: str | None = None) -> Iterator[str]:
    """A storage class of so many disks on each worker; `limit`: each holds no more than this, e.g. `64m`."""
    storage = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    made = []
    for node in cluster.workers:
        for number in range(disks):
            path = disk(name, number)
            cluster.on_node(node, "mkdir", "-p", path)
            if limit is not None:
                cluster.on_node(node, "mount", "-t", "tmpfs", "-o", f"size={limit}", "tmpfs", path)
            cluster.on_node(node, "chmod", "777", path)
            spec = {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": name,
                "persistentVolumeReclaimPolicy": "Retain",
                "local": {"path": path},
                "nodeAffinity": _only_on(node),
            }
            made.append(_volume(f"{name}-{node}-{number}", spec))
    cluster.apply(storage, *made, namespace="default")
    try:
        yield name
    finally:
        names = [one["metadata"]["name"] for one in made]
        cluster.kubectl("delete", "persistentvolume", *names, "--wait=false")
        cluster.kubectl("delete", "storageclass", name)


def _volume(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {"capacity": {"storage": _SIZE}, **spec},
    }


def _only_on(node: str) -> dict[str, Any]:
    requirement = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}}
