"""Deployments and nodes for an API server that has neither: somebody makes and runs their pods, so that Helm can wait.

Pods are real objects, so the namespace's pod security has its say, and what they run is run for real: as a process of
this machine, with a token of the pod's service account. Of several pods of one Deployment the old one ends first. Must
not know what the chart holds.
"""

import json
import os
import re
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

from tests.api.admin import PODS, Admin, RefusedError
from tests.api.plane import Plane
from tests.waiting import patience

Tree = dict[str, Any]
ROOT = Path(__file__).parents[2]
_EVERY = 0.1
_DEPLOYMENTS = "/apis/apps/v1/namespaces/{}/deployments"
_SETS = "/apis/apps/v1/namespaces/{}/replicasets"
_TOKENS = "/var/run/secrets/kubernetes.io/serviceaccount"
"""Where pods find theirs."""
_ENTRYPOINT = (sys.executable, "-m", "holdfast_operator")
"""Of the operator's image."""


@dataclass(frozen=True)
class _Running:
    process: subprocess.Popen[bytes]
    log: Path


class Node:
    """Plays deployment controller, scheduler and kubelet of a namespace: `with Node(plane, "apps", directory): ...`."""

    def __init__(self, plane: Plane, namespace: str, directory: Path) -> None:
        self._plane, self._admin, self._namespace, self._directory = plane, Admin(plane), namespace, directory
        self._stop, self._thread = threading.Event(), threading.Thread(target=self._run, name="node", daemon=True)
        self._running: dict[str, _Running] = {}
        """By uid of the pod."""
        self._session = requests.Session()
        self._session.trust_env = False
        self.failure: Exception | None = None

    def __enter__(self) -> "Node":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(patience(30))
        for uid in list(self._running):
            self._end(uid)

    def logs(self) -> str:
        """What all pods have said."""
        return "\n".join(f"{path.name}: {path.read_text()[-3000:]}" for path in self._directory.glob("*.log"))

    def _run(self) -> None:
        while not self._stop.wait(_EVERY):
            try:
                pods = self._admin.items(PODS.format(self._namespace))
                self._deploy(pods)
                for pod in pods:
                    self._play(pod)
                for uid in set(self._running) - {pod["metadata"]["uid"] for pod in pods}:
                    self._end(uid)
            except RefusedError as error:
                if error.status != 409:
                    self.failure = error
                    return
            except Exception as error:  # noqa: BLE001 - whatever it is, the test must hear of it
                self.failure = error
                return

    def _deploy(self, pods: list[Tree]) -> None:
        deployments = self._admin.items(_DEPLOYMENTS.format(self._namespace))
        deployment_of = {f"{one['metadata']['name']}-{one['metadata']['generation']}": one for one in deployments}
        sets = {one["metadata"]["name"]: one for one in self._admin.items(_SETS.format(self._namespace))}
        for name in sets.keys() - deployment_of.keys():
            self._admin.delete(f"{_SETS.format(self._namespace)}/{name}")
        made = {pod["metadata"]["name"]: pod for pod in pods}
        for name in made.keys() - deployment_of.keys():
            if "pod-template-hash" in (made[name]["metadata"].get("labels") or {}):
                self._admin.delete(f"{PODS.format(self._namespace)}/{name}", grace=0)
        for name, deployment in deployment_of.items():
            if name not in sets:
                self._admin.create(_SETS.format(self._namespace), _replica_set(name, deployment))
            elif name not in made:
                self._admin.create(PODS.format(self._namespace), {**_template(name, deployment), "kind": "Pod"})
            elif not _said(deployment) and self._is_ready(made[name]):
                self._say_ready(name, deployment)

    def _say_ready(self, name: str, deployment: Tree) -> None:
        """As Helm 3 (the ReplicaSet's) and Helm 4 (the conditions) want to see it."""
        generation = deployment["metadata"]["generation"]
        counts = {"replicas": 1, "readyReplicas": 1, "availableReplicas": 1}
        conditions = [
            {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable"},
            {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"},
        ]
        status = {**counts, "updatedReplicas": 1, "observedGeneration": generation, "conditions": conditions}
        self._admin.patch(
            f"{_SETS.format(self._namespace)}/{name}/status", {"status": counts | {"observedGeneration": 1}}
        )
        path = f"{_DEPLOYMENTS.format(self._namespace)}/{deployment['metadata']['name']}/status"
        self._admin.patch(path, {"status": status})

    def _play(self, pod: Tree) -> None:
        path, phase = f"{PODS.format(self._namespace)}/{pod['metadata']['name']}", pod["status"].get("phase")
        running = self._running.get(pod["metadata"]["uid"])
        if "deletionTimestamp" in pod["metadata"]:
            self._admin.delete(path, grace=0)
        elif not pod["spec"].get("nodeName"):
            target = {"apiVersion": "v1", "kind": "Node", "name": "node-a"}
            metadata = {"name": pod["metadata"]["name"]}
            binding = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
            self._admin.create(f"{path}/binding", binding)
        elif running is None and phase == "Pending":
            self._running[pod["metadata"]["uid"]] = self._started(pod)
            self._admin.patch(f"{path}/status", _status(pod, "Running", {"running": {}}))
        elif running is not None and phase == "Running" and running.process.poll() is not None:
            code = running.process.returncode
            ended = {"terminated": {"exitCode": code, "message": running.log.read_text()[-2000:]}}
            self._admin.patch(f"{path}/status", _status(pod, "Failed" if code else "Succeeded", ended))

    def _started(self, pod: Tree) -> _Running:
        (container,) = pod["spec"]["containers"]
        name, tokens = pod["metadata"]["name"], self._tokens(pod)
        environment = {entry["name"]: self._namespace for entry in container.get("env") or ()}
        known = {f"$({key})": value for key, value in environment.items()} | {_TOKENS: str(tokens)}
        command = list(container.get("command") or _ENTRYPOINT)
        command[0] = sys.executable
        log = self._directory / f"{name}.log"
        with log.open("ab") as file:
            process = subprocess.Popen(
                command + [_filled(text, known) for text in container.get("args") or ()],
                env={**self._environment(tokens), **environment, "HOSTNAME": name},
                cwd=self._directory,
                stdout=file,
                stderr=file,
            )
        return _Running(process, log)

    def _environment(self, tokens: Path) -> dict[str, str]:
        host, _, port = self._plane.url.removeprefix("https://").partition(":")
        return {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT),
            "KUBECONFIG": str(tokens / "kubeconfig"),
            "KUBERNETES_SERVICE_HOST": host,
            "KUBERNETES_SERVICE_PORT": port,
        }

    def _tokens(self, pod: Tree) -> Path:
        """What a pod has under its well-known path; and a kubeconfig, as that path is not ours."""
        folder = self._directory / str(pod["metadata"]["uid"])
        folder.mkdir()
        account = f"/api/v1/namespaces/{self._namespace}/serviceaccounts/{pod['spec']['serviceAccountName']}"
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        token = self._admin.create(f"{account}/token", request)["status"]["token"]
        (folder / "token").write_text(token)
        (folder / "ca.crt").write_text((self._plane.directory / "ca.crt").read_text())
        cluster = {"server": self._plane.url, "certificate-authority": str(folder / "ca.crt")}
        (folder / "kubeconfig").write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "here",
            "clusters": [{"name": "here", "cluster": cluster}],
            "users": [{"name": "here", "user": {"token": token}}],
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "here"}}],
        }))  # fmt: skip
        return folder

    def _is_ready(self, pod: Tree) -> bool:
        (container,) = pod["spec"]["containers"]
        probe = container["readinessProbe"]["httpGet"]
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        try:
            return self._session.get(f"http://127.0.0.1:{ports[probe['port']]}{probe['path']}", timeout=patience(5)).ok
        except requests.ConnectionError:
            return False

    def _end(self, uid: str) -> None:
        process = self._running.pop(uid).process
        process.kill()
        process.wait(patience(20))


def _said(deployment: Tree) -> bool:
    return bool((deployment.get("status") or {}).get("observedGeneration") == deployment["metadata"]["generation"])


def _replica_set(name: str, deployment: Tree) -> Tree:
    metadata = deployment["metadata"]
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": metadata["name"], "uid": metadata["uid"]}
    template = _template(name, deployment)
    template["metadata"].pop("name")
    labels = template["metadata"]["labels"]
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": name, "labels": labels, "ownerReferences": [{**owner, "controller": True}]},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template},
    }


def _template(name: str, deployment: Tree) -> Tree:
    template: Tree = deployment["spec"]["template"]
    labels = {**template["metadata"]["labels"], "pod-template-hash": name}
    return {**template, "apiVersion": "v1", "metadata": {**template["metadata"], "name": name, "labels": labels}}


def _status(pod: Tree, phase: str, state: Tree) -> Tree:
    (container,) = pod["spec"]["containers"]
    status = {"name": container["name"], "ready": True, "restartCount": 0, "image": "i", "imageID": "i", "state": state}
    return {"status": {"phase": phase, "containerStatuses": [status]}}


def _filled(text: str, known: dict[str, str]) -> str:
    """As in a pod; there is no DNS of a cluster, but every Service is here."""
    for name, value in known.items():
        text = text.replace(name, value)
    return re.sub(r"^http://[^:/]+\.[^:/]+:", "http://127.0.0.1:", text)
