"""The protocol of a subject: what a measure asks of it, and how its driver is taken away from it.

Must not know an engine.
"""

import json
import re
from pathlib import Path
from typing import Any, Protocol

from tests.cluster.cluster import Cluster, Tree
from tests.waiting import wait_until

BLOB_BYTES = 8000
"""What one key adds to the state: two pages of LMDB."""
PARTITIONS = 2
PER_PARTITION = 2000
INTERVAL = "500ms"
_IMAGE = Path(__file__).parents[2] / "images" / "runtime" / "Dockerfile"
NO_ARCHIVE = {"name": "SPARK_SUBMIT_OPTS", "value": " ".join(re.findall(r"-XX:Tier4\w+=\d+", _IMAGE.read_text()))}
"""In a container's environment: Java starts without the image's archive of classes, else as the image has it."""
_ENDS = 90.0


class Subject(Protocol):
    """A query on the cluster. It exists from `apply` on."""

    def apply(self) -> None:
        """As its user does it first."""

    def driver(self) -> Tree:
        """The pod that runs."""

    def kill_driver(self) -> None:
        """Returns when no process of it runs."""

    def suspend(self) -> None:
        """By its user; returns when none of its pods runs."""

    def resume(self) -> None:
        """By its user."""

    def restored(self) -> int | None:
        """How many tasks the latest attempt had to restore; None where all state is, always."""


def killed(cluster: Cluster, pod: Tree) -> None:
    """Delete a pod by force, and wait for the end of its processes, which may write for seconds after it is gone."""
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    statuses: list[dict[str, Any]] = pod["status"]["containerStatuses"]
    containers = {one["containerID"].rpartition("/")[2] for one in statuses}
    cluster.kubectl("delete", "pod", name, f"--namespace={namespace}", "--force", "--grace-period=0")

    def ended() -> bool:
        running = cluster.on_node(pod["spec"]["nodeName"], "ctr", "--namespace=k8s.io", "tasks", "ls", "--quiet")
        return not containers & set(running.split())

    wait_until(ended, _ENDS, f"processes of {name} have ended: {json.dumps(sorted(containers))}")
