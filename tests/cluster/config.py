"""The cluster's shape, as kind is told: three nodes, a folder they share, and losses that are noticed soon."""

import hashlib
import json
from pathlib import Path
from typing import Any

from tests.cluster.components import REPOSITORY
from tests.cluster.folders import NAME

MARK = "holdfast.test/made-as"
"""The label of each node: the fingerprint of what the cluster was made of, to tell one of another making."""
SHARED = "/var/holdfast-shared"
"""Where nodes have the shared folder."""
WORKERS = (f"{NAME}-worker", f"{NAME}-worker2")
CONTROL_PLANE = f"{NAME}-control-plane"
NODES = (CONTROL_PLANE, *WORKERS)

# A lost node is noticed in 15 s, and pods that say nothing else leave it after 10 s more. A lease is renewed each
# quarter of its time, which must fit into the grace period a few times: else healthy nodes are taken for lost.
_NOTICED_SOON = [
    {
        "kind": "ClusterConfiguration",
        "controllerManager": {
            "extraArgs": {"node-monitor-period": "2s", "node-monitor-grace-period": "16s"},
        },
        "apiServer": {
            "extraArgs": {
                "default-not-ready-toleration-seconds": "10",
                "default-unreachable-toleration-seconds": "10",
            },
        },
    },
    {
        "kind": "KubeletConfiguration",
        "nodeStatusUpdateFrequency": "4s",
        "nodeStatusReportFrequency": "60s",
        "nodeLeaseDurationSeconds": 20,
    },
]
_OUR_IMAGES = {"kind": "ClusterConfiguration", "imageRepository": REPOSITORY}


def kind_config(image: str, shared: Path, *, ours: bool) -> dict[str, Any]:
    """The cluster on nodes of this image; `ours`: the image holds images of our own names."""
    patches = [*_NOTICED_SOON, *([_OUR_IMAGES] if ours else [])]
    mounts = [{"hostPath": str(shared), "containerPath": SHARED}]
    made: dict[str, Any] = {
        "kind": "Cluster",
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "name": NAME,
        "nodes": [
            {"role": role, "image": image, "extraMounts": mounts} for role in ("control-plane", "worker", "worker")
        ],
        "kubeadmConfigPatches": [json.dumps(patch) for patch in patches],
    }
    fingerprint = hashlib.sha256(json.dumps(made).encode()).hexdigest()[:16]
    return {**made, "nodes": [{**node, "labels": {MARK: fingerprint}} for node in made["nodes"]]}


def made_as(config: dict[str, Any]) -> str:
    """What its nodes say they are made as."""
    mark: str = config["nodes"][0]["labels"][MARK]
    return mark
