"""The cluster itself: whatever else fails on it, this is what it must be able to do."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client import CoreV1Api

from tests.cluster.base import BASE
from tests.cluster.cluster import Cluster
from tests.cluster.config import NODES
from tests.cluster.diagnosis import diagnose
from tests.kind.storage import SHARED_CLAIM, shared_folder
from tests.waiting import wait_until

_USER = 1000


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    with cluster.namespace() as name:
        yield name


@pytest.fixture
def claim(cluster: Cluster, namespace: str) -> Iterator[str]:
    """Of a folder on this machine, which pods on all nodes write."""
    with shared_folder(cluster, namespace):
        yield SHARED_CLAIM


def test_all_nodes_are_ready(cluster: Cluster) -> None:
    with cluster.client() as client:
        nodes = CoreV1Api(client).list_node().to_dict()["items"]
    assert sorted(node["metadata"]["name"] for node in nodes) == sorted(NODES)
    assert all(cluster.ready(node) for node in NODES)


def test_pods_on_both_workers_share_a_folder_and_find_names(cluster: Cluster, namespace: str, claim: str) -> None:
    cluster.load_image(BASE)
    first, second = cluster.workers
    cluster.apply(_pod(first, claim, awaits=second), _pod(second, claim, awaits=first), namespace=namespace)

    def over() -> bool:
        return {_phase(cluster, namespace, name) for name in cluster.workers} == {"Succeeded"}

    wait_until(over, 90, f"both pods have ended well: {cluster.kubectl('get', 'pods', '-n', namespace)}")
    for name in cluster.workers:
        pod = cluster.tree("pod", name, f"--namespace={namespace}")
        assert pod["spec"]["nodeName"] == name
        assert (cluster.shared / namespace / name).read_text() == f"by {name}\n"


def test_an_image_that_is_there_is_not_carried_again(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.load_image(BASE)
    capsys.readouterr()
    cluster.load_image(BASE)
    assert capsys.readouterr().out == ""


def test_a_lost_node_is_noticed_soon_and_comes_back(cluster: Cluster) -> None:
    lost, survivor = cluster.workers
    began = time.monotonic()
    cluster.stop_node(lost)
    wait_until(lambda: not cluster.ready(lost), 30, f"{lost} is not Ready")
    assert time.monotonic() - began > 5, "it was not well before"
    assert cluster.ready(survivor)
    cluster.start_node(lost)
    assert cluster.ready(lost)


def test_what_the_cluster_says_can_be_saved(cluster: Cluster, tmp_path: Path) -> None:
    names = cluster.kubectl("get", "pods", "--namespace=kube-system", "--selector=k8s-app=kube-dns", "--output=name")
    diagnose(tmp_path)
    for name in names.split():
        pod = name.removeprefix("pod/")
        assert pod in (tmp_path / "objects.txt").read_text()
        assert pod in (tmp_path / "pods.txt").read_text()
        assert "CoreDNS" in (tmp_path / f"kube-system.{pod}.coredns.log").read_text()
    for node in NODES:
        assert "kubelet" in (tmp_path / f"{node}.journal").read_text()


def _phase(cluster: Cluster, namespace: str, pod: str) -> str:
    phase: str = cluster.tree("pod", pod, f"--namespace={namespace}")["status"]["phase"]
    return phase


def _pod(node: str, claim: str, awaits: str) -> dict[str, Any]:
    """It finds a service, writes its file, and ends when it sees the other's."""
    script = (
        f"getent hosts kubernetes.default.svc.cluster.local && echo by {node} > /shared/{node}"
        f" && until grep -q by /shared/{awaits}; do sleep 0.1; done"
    )
    container = {
        "name": "writer",
        "image": BASE,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", script],
        "volumeMounts": [{"name": "shared", "mountPath": "/shared"}],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": node},
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": node},
            "restartPolicy": "Never",
            "securityContext": {"runAsUser": _USER, "runAsGroup": _USER},
            "containers": [container],
            "volumes": [{"name": "shared", "persistentVolumeClaim": {"claimName": claim}}],
        },
    }
