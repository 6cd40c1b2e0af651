"""A pod that requests all the CPU that a node has left, and uses whatever it can get.

Its processes are simulated lives of the operator. They are started on this machine, which has what they need, and put
into the pod's cgroup: the node's cores are shared as the kubelet has told the kernel. Must not judge.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import IO

from kubernetes.utils.quantity import parse_quantity

from tests.cluster.cluster import Cluster, Tree
from tests.waiting import wait_until

_CGROUPS = Path("/sys/fs/cgroup/cpu")
_NAME, _NAMESPACE = "neighbour", "default"
_STARTS, _ENDS = 120.0, 1200.0


class Lives:
    """Simulated lives of so many processes, in a cgroup."""

    def __init__(self, folder: Path, processes: int, minutes: float, first_seed: int) -> None:
        self._output: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the lives
        words = ("--workers", str(processes), "--minutes", str(minutes), "--first", str(first_seed))
        joined = 'echo $$ > "$0/cgroup.procs" && exec "$@"'
        program = ("/bin/sh", "-c", joined, str(folder), sys.executable, "-m", "tests.simulation", *words)
        self._process = subprocess.Popen(program, stdout=self._output)  # noqa: S603 - all of it is ours

    def failed(self) -> bool:
        """Wait for the last of them, print what they said, and return whether any has failed."""
        failed = bool(self._process.wait(_ENDS))
        self._output.seek(0)
        print(self._output.read().decode(), flush=True)
        return failed

    def end(self) -> None:
        """If they run still."""
        self._process.terminate()
        self._process.wait(_ENDS)


@contextmanager
def neighbour(
    cluster: Cluster, node: str, image: str, processes: int, minutes: float, first_seed: int
) -> Iterator[Lives]:
    """It is on this node, and busy."""
    cluster.apply(_pod(cluster, node, image), namespace=_NAMESPACE)
    try:
        wait_until(lambda: _there(cluster)["status"]["phase"] == "Running", _STARTS, "the neighbour runs")
        lives = Lives(_cgroup(_there(cluster)["metadata"]["uid"]), processes, minutes, first_seed)
        try:
            yield lives
        finally:
            lives.end()
    finally:
        cluster.kubectl("delete", "pod", _NAME, f"--namespace={_NAMESPACE}", "--force", "--grace-period=0")


def _there(cluster: Cluster) -> Tree:
    return cluster.tree("pod", _NAME, f"--namespace={_NAMESPACE}")


def _pod(cluster: Cluster, node: str, image: str) -> Tree:
    left = _cores(cluster.tree("node", node)["status"]["allocatable"])
    pods = cluster.tree("pods", "--all-namespaces", f"--field-selector=spec.nodeName={node}")["items"]
    for pod in pods:
        for pods_container in pod["spec"]["containers"]:
            left -= _cores(pods_container.get("resources", {}).get("requests", {}))
    resources = {"requests": {"cpu": f"{int(left * 1000)}m"}}
    container = {"name": _NAME, "image": image, "command": ["sleep", "infinity"], "resources": resources}
    spec = {"nodeName": node, "containers": [container], "terminationGracePeriodSeconds": 0}
    print(f"neighbour on {node}: {json.dumps(resources)}", flush=True)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": _NAME}, "spec": spec}


def _cores(resources: Tree) -> Decimal:
    cores: Decimal = parse_quantity(resources.get("cpu", "0"))  # type: ignore[no-untyped-call]
    return cores


def _cgroup(uid: str) -> Path:
    """Return the folder by which the kernel shares cores with the pod of this uid."""
    folders = (folder for folder in _CGROUPS.rglob("*pod*") if uid in folder.name.replace("_", "-"))
    folder = next(folders, None)
    if folder is None:
        sys.exit(
            f"{_CGROUPS} has no folder of the pod {uid}: this needs cgroups of version 1, as Docker's on this host"
        )
    return folder
