"""The cluster as tests use it: ask it as its admin, give it images, and take nodes away.

Must not make it: that takes minutes, and people want to keep it between runs.
"""

import itertools
import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from kubernetes import client, config

from tests.cluster import docker, folders
from tests.cluster.config import WORKERS
from tests.cluster.loading import load_image
from tests.cluster.nodes import ready
from tests.cluster.programs import KUBECTL
from tests.cluster.steps import ClusterError
from tests.go_programs import built
from tests.waiting import wait_until

Tree = dict[str, Any]
_LIMIT = 120.0
_BACK = 90.0
_AWAY = 20.0
"""Seconds for which the API server may be away, as when it is started again."""
_UNREACHABLE = re.compile(
    "Unable to connect to the server|TLS handshake timeout|connection reset|failed to download openapi|etcdserver:"
)
_INSIDE = "command terminated with exit code"
_NUMBERS = itertools.count()


def _shared() -> Path:
    made = json.loads((folders.home() / "kind.json").read_text())
    return Path(made["nodes"][0]["extraMounts"][0]["hostPath"])


def unreachable(errors: str) -> bool:
    """Whether kubectl, which ended with these words, had no answer; a command that it ran in a pod may say the same."""
    return bool(_UNREACHABLE.search(errors)) and _INSIDE not in errors


@dataclass(frozen=True)
class Cluster:
    """The one that `make cluster` made."""

    kubeconfig: Path = field(default_factory=folders.kubeconfig)
    workers: tuple[str, ...] = WORKERS
    shared: Path = field(default_factory=_shared)
    """The folder of this machine that all nodes have at `config.SHARED`."""

    def client(self) -> client.ApiClient:
        """All rights, for code that takes a client of Kubernetes' own library."""
        return cast("client.ApiClient", config.new_client_from_config(str(self.kubeconfig)))  # type: ignore[no-untyped-call]

    def kubectl(self, *words: str, stdin: str | None = None, seconds: float = _LIMIT) -> str:
        """What it prints; `stdin` is its standard input. Asked again while the API server can't be reached."""
        command = [str(built(KUBECTL)), f"--kubeconfig={self.kubeconfig}", *words]
        answers = list[subprocess.CompletedProcess[str]]()

        def answered() -> bool:
            done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, timeout=seconds)
            answers.append(done)
            return not done.returncode or not unreachable(done.stderr)

        with suppress(TimeoutError):
            wait_until(answered, _AWAY, "the API server answers")
        if answers[-1].returncode:
            message = f"kubectl {' '.join(words)}: {answers[-1].stderr.strip()}"
            raise ClusterError(message)
        return answers[-1].stdout

    def tree(self, *words: str) -> Tree:
        """An object, or a list, as kubectl's `get` has it."""
        tree: Tree = json.loads(self.kubectl("get", *words, "--output=json"))
        return tree

    def apply(self, *trees: Tree, namespace: str) -> None:
        """As `kubectl apply` does."""
        many = {"apiVersion": "v1", "kind": "List", "items": list(trees)}
        self.kubectl("apply", f"--namespace={namespace}", "--filename=-", stdin=json.dumps(many))

    def load_image(self, image: str, nodes: Sequence[str] = WORKERS) -> None:
        """Docker's image of this name, on these nodes."""
        load_image(image, nodes)

    def on_node(self, node: str, *command: str) -> str:
        """What a program says that runs on the node itself."""
        return docker.ask("exec", node, *command)

    def address(self, node: str) -> str:
        """Where the node is reached, by pods and from this machine."""
        return docker.ask("inspect", "--format", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}", node)

    def outside(self) -> str:
        """Where pods reach this machine."""
        gateways = docker.ask("network", "inspect", "kind", "--format", "{{range .IPAM.Config}}{{.Gateway}} {{end}}")
        return next(one for one in gateways.split() if "." in one)

    @contextmanager
    def namespace(self, labels: Mapping[str, str] | None = None) -> Iterator[str]:
        """A namespace of its own; nothing waits until it is gone."""
        name = f"test-{os.getpid()}-{next(_NUMBERS)}"
        made = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": dict(labels or {})}}
        self.kubectl("apply", "--filename=-", stdin=json.dumps(made))
        try:
            yield name
        finally:
            self.kubectl("delete", "namespace", name, "--wait=false", "--ignore-not-found")

    def ready(self, node: str) -> bool:
        """Whether the control plane takes the node for well; it notices after 15 s that one is not."""
        return ready(self.tree("node", node))

    def running(self, node: str) -> bool:
        """Whether the node's container runs."""
        return docker.ask("inspect", "--format", "{{.State.Running}}", node) == "true"

    def stop_node(self, node: str) -> None:
        """As when the power fails: nothing on it ends in order."""
        docker.ask("kill", node)

    def start_node(self, node: str) -> None:
        """Power again; returns when the node has told so itself."""
        began = datetime.now(UTC)
        docker.ask("start", node)

        def back() -> bool:
            try:
                lease = self.tree("lease", node, "--namespace=kube-node-lease")
                return datetime.fromisoformat(lease["spec"]["renewTime"]) > began and self.ready(node)
            except ClusterError:
                return False  # it may be the node that answers

        wait_until(back, _BACK, f"{node} is Ready again")
