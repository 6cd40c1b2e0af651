"""The facts one wants to read after a test has failed, when the cluster may be gone: saved as files of a folder.

Takes what it can get: what can't be had is told in its file.
"""

import json
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster.config import NODES
from tests.cluster.folders import kubeconfig
from tests.cluster.programs import KUBECTL
from tests.go_programs import built

MACHINE = "machine.txt"
_TOP = ("top", "-b", "-H", "-n", "2", "-d", "1", "-w", "120")
_BUSIEST = 14
_LIMIT = 20.0
_LINES = 2000
_EVERYWHERE = "--all-namespaces"
_OBJECTS = "pods,statefulsets,deployments,services,configmaps,persistentvolumeclaims,persistentvolumes,leases"
_FILES = {
    "events.txt": ("get", "events", _EVERYWHERE, "--sort-by=.metadata.creationTimestamp", "--output=wide"),
    "nodes.txt": ("describe", "nodes"),
    "objects.txt": ("get", _OBJECTS, _EVERYWHERE, "--output=wide"),
    "pods.txt": ("describe", "pods", _EVERYWHERE),
    "pods.yaml": ("get", "pods", _EVERYWHERE, "--output=yaml"),
    "apps.txt": ("describe", "streamapps.holdfast.dev", _EVERYWHERE),
    "apps.yaml": ("get", "streamapps.holdfast.dev", _EVERYWHERE, "--output=yaml"),
    "config-maps.yaml": ("get", "configmaps", _EVERYWHERE, "--output=yaml"),
}


@dataclass(frozen=True, slots=True)
class Container:
    """One that has a log."""

    namespace: str
    pod: str
    name: str
    restarted: bool
    """Whether an earlier life has a log too."""


def diagnose(folder: Path) -> None:
    """Save all of it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MACHINE).write_text(busiest(_said(_TOP)))
    for name, words in _FILES.items():
        (folder / name).write_text(_kubectl(*words))
    for container in containers(_pods()):
        name = f"{container.namespace}.{container.pod}.{container.name}"
        words = (
            "logs",
            f"--namespace={container.namespace}",
            container.pod,
            f"--container={container.name}",
            "--timestamps",
        )
        (folder / f"{name}.log").write_text(_kubectl(*words))
        if container.restarted:
            (folder / f"{name}.previous.log").write_text(_kubectl(*words, "--previous"))
    for node in NODES:
        journal = ("docker", "exec", node, "journalctl", "--no-pager", f"--lines={_LINES}")
        (folder / f"{node}.journal").write_text(_said(journal))


def busiest(looks: str) -> str:
    """Of several looks of `top`, the beginning of the last: the first one counts from the machine's start."""
    last = looks[looks.rfind("top - ") :] if "top - " in looks else looks
    return "\n".join(last.splitlines()[:_BUSIEST])


def containers(pods: Sequence[dict[str, Any]]) -> Iterator[Container]:
    """Of all pods, those that run before the others too."""
    for pod in pods:
        status = pod.get("status", {})
        for container in [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]:
            metadata = pod["metadata"]
            yield Container(metadata["namespace"], metadata["name"], container["name"], container["restartCount"] > 0)


def _pods() -> list[dict[str, Any]]:
    try:
        listed: list[dict[str, Any]] = json.loads(_kubectl("get", "pods", _EVERYWHERE, "--output=json"))["items"]
    except json.JSONDecodeError:
        return []
    return listed


def _kubectl(*words: str) -> str:
    return _said((str(built(KUBECTL)), f"--kubeconfig={kubeconfig()}", "--request-timeout=10s", *words))


def _said(command: Sequence[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, timeout=_LIMIT)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{error}\n"
    return done.stdout if not done.returncode else f"{done.stdout}{done.stderr}"
