"""The cluster's nodes: containers, made and deleted by kind, and used as they are only if all are well.

Must not know what an image is made of.
"""

import json
import subprocess
from collections.abc import Iterable
from typing import Any

from tests.cluster import docker
from tests.cluster.config import CONTROL_PLANE, MARK, NODES, made_as
from tests.cluster.folders import NAME, home, kubeconfig
from tests.cluster.programs import KIND, KUBECTL, compiled
from tests.cluster.steps import ClusterError, Step, step
from tests.waiting import patience

_CONTROL_PLANE_SHARES = 8192
"""Of the processor, where each of the other nodes has 1024."""
_CREATED = "300s"
_READY = "300s"
_ANSWER = patience(30)


def ensure_cluster(config: dict[str, Any]) -> None:
    """A whole cluster of this making: the one that is there, or a new one."""
    if _containers("running") != set(NODES) or not _is_well(made_as(config)):
        delete_cluster()
        with step("create the cluster") as work:
            _create(work, config)
        with step("wait for nodes and DNS") as work:
            _wait(work)
    # Elsewhere it has a machine of its own. Here pods that start would starve it, and kubelet restarts what is starved.
    docker.ask("update", f"--cpu-shares={_CONTROL_PLANE_SHARES}", CONTROL_PLANE)


def delete_cluster() -> None:
    """Its nodes, with all that is on them, if there are any."""
    if not _containers():
        return
    with step("delete the cluster") as work:
        work.run(compiled(KIND), "delete", "cluster", "--name", NAME, "--kubeconfig", kubeconfig())


def whole(nodes: Iterable[dict[str, Any]], made: str) -> bool:
    """Whether these are all the nodes, each of this making, and ready."""
    listed = list(nodes)
    return sorted(node["metadata"]["name"] for node in listed) == sorted(NODES) and all(
        node["metadata"].get("labels", {}).get(MARK) == made and ready(node) for node in listed
    )


def ready(node: dict[str, Any]) -> bool:
    """Whether the node says so."""
    conditions = node.get("status", {}).get("conditions", [])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _is_well(made: str) -> bool:
    with step("look at the cluster") as work:
        try:
            work.run(compiled(KIND), "export", "kubeconfig", "--name", NAME, "--kubeconfig", kubeconfig())
        except ClusterError:
            return False  # kind was interrupted before there was one
        return whole(_nodes(), made) and _names_resolve()


def _containers(state: str | None = None) -> set[str]:
    """Names; a node that is paused does not count as running."""
    filters = [f"label=io.x-k8s.kind.cluster={NAME}", *([f"status={state}"] if state else [])]
    words = [word for condition in filters for word in ("--filter", condition)]
    return set(docker.ask("ps", "--all", "--format", "{{.Names}}", *words).split())


def _create(work: Step, config: dict[str, Any]) -> None:
    path = home() / "kind.json"
    path.write_text(json.dumps(config, indent=1))
    kind = str(compiled(KIND))
    work.run(kind, "create", "cluster", "--config", path, "--kubeconfig", kubeconfig(), "--wait", _CREATED)


def _wait(work: Step) -> None:
    """For what kind does not wait for."""
    command = [str(compiled(KUBECTL)), f"--kubeconfig={kubeconfig()}"]
    work.run(*command, "wait", "--for=condition=Ready", "node", "--all", f"--timeout={_READY}")
    work.run(*command, "--namespace=kube-system", "rollout", "status", "deployment/coredns", f"--timeout={_READY}")


def _nodes() -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = _answer("get", "nodes").get("items", [])
    return listed


def _names_resolve() -> bool:
    deployment = _answer("--namespace=kube-system", "get", "deployment", "coredns")
    return bool(deployment.get("status", {}).get("availableReplicas"))


def _answer(*words: str) -> dict[str, Any]:
    """Empty where the API server does not answer."""
    command = [str(compiled(KUBECTL)), f"--kubeconfig={kubeconfig()}", "--request-timeout=15s", *words, "--output=json"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=_ANSWER)
    except subprocess.SubprocessError:
        return {}
    tree: dict[str, Any] = json.loads(done.stdout)
    return tree
