"""Nodes, their kubelets, and the scheduler: what starts, ends and evicts pods.

A pod's process lives on a node, whatever the API server says of the pod: on a node that is cut off it goes on. What a
process does is told by `drivers`. Must not know the operator.
"""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from holdfast.protocol.names import ROLE_LABEL, TRIAL_LABEL
from tests.simulation.objects import (
    CLAIMS,
    NODES,
    PODS,
    VOLUMES,
    Change,
    DeleteCondition,
    Objects,
    RefusedCallError,
    Tree,
)
from tests.simulation.pod_trees import claims_of, container_status, mounted_objects, sets_of

_GRACE_OF_NODES, _TOLERATED = 40.0, 60.0
"""Seconds until a silent node is not ready, and until its pods are told to go."""
MISSING_IMAGE = "registry/missing"


@dataclass(eq=False, slots=True)
class PodProcess:
    """What runs in a pod."""

    uid: str
    name: str
    namespace: str
    node: "Machine"
    labels: dict[str, str]
    alive: bool = True
    ending: bool = False

    @property
    def is_driver(self) -> bool:
        return self.labels.get(ROLE_LABEL) == "driver"

    @property
    def is_trial(self) -> bool:
        return TRIAL_LABEL in self.labels


@dataclass(eq=False, slots=True)
class Machine:
    """A node."""

    name: str
    up: bool = True
    reachable: bool = True
    """Whether it and the API servers reach each other."""
    clock_error: int = 0
    """Milliseconds that its clock is ahead."""
    silent_since: float | None = None


@dataclass(eq=False, slots=True)
class Machines:
    """All nodes, and what runs on them."""

    objects: Objects
    pick: random.Random
    nodes: list[Machine]
    started: Callable[[PodProcess], None] = lambda _process: None
    """Told of each process that begins."""
    told_to_end: Callable[[PodProcess], None] = lambda _process: None
    processes: dict[str, PodProcess] = field(default_factory=dict)
    """Uid of the pod -> its process; also of pods that are gone while their processes go on."""
    broken_images: frozenset[str] = frozenset({MISSING_IMAGE})
    """Which no registry has."""

    def begin(self) -> None:
        self.objects.listeners.append(self._changed)
        for node in self.nodes:
            made = {"metadata": {"name": node.name, "labels": {"kubernetes.io/hostname": node.name}}}
            self.objects.create(NODES, None, made, "kubelet")
            self._say_ready(node, "True")

    def lose(self, node: Machine, *, power: bool) -> None:
        """Cut a node off, or its power."""
        if node.silent_since is not None:
            return
        node.reachable, node.up, node.silent_since = False, not power, self._now()
        if power:
            for process in self.on(node):
                process.alive = False
        self._after(_GRACE_OF_NODES, self._call_silent, node, node.silent_since)

    def bring_back(self, node: Machine) -> None:
        """It answers again: pods that are to go do, and what runs without a pod ends."""
        if node.silent_since is None:
            return
        node.reachable, node.up, node.silent_since = True, True, None
        self._say_ready(node, "True")
        for process in self.on(node):
            pod = self.objects.of(process.uid)
            if pod is None:
                self._after(self.pick.uniform(0.1, 3.0), self.stop, process)
            elif not process.alive:
                self.end(process, 137, "")
            elif "deletionTimestamp" in pod["metadata"]:
                self._tell_to_end(process)
        for pod in self.objects.all(PODS):
            if pod["spec"].get("nodeName") == node.name and pod["metadata"]["uid"] not in self.processes:
                self._after(0.5, self._run, pod["metadata"]["uid"])

    def on(self, node: Machine) -> list[PodProcess]:
        return [process for process in self.processes.values() if process.node is node]

    def end(self, process: PodProcess, code: int, message: str) -> None:
        """A process ends; its kubelet says so, if it can, and removes a pod that is to go."""
        process.alive = False
        if not process.node.reachable:
            return
        self.processes.pop(process.uid, None)
        pod = self.objects.of(process.uid)
        if pod is None:
            return
        terminated = {"exitCode": code, "reason": "Error" if code else "Completed", "message": message}
        terminated["finishedAt"] = self.objects.stamp()
        ended = container_status(pod, {"terminated": terminated})
        self.set_status(pod, {"phase": "Failed" if code else "Succeeded", **ended})
        if "deletionTimestamp" in pod["metadata"]:
            self._after(self.pick.uniform(0.05, 1.0), self.remove, process.uid)

    def stop(self, process: PodProcess) -> None:
        """It is killed."""
        process.alive = False
        self.processes.pop(process.uid, None)

    def remove(self, uid: str) -> None:
        """A kubelet removes the pod, whose process has ended."""
        pod = self.objects.of(uid)
        if pod is not None:
            self.objects.delete(
                PODS, pod["metadata"]["namespace"], pod["metadata"]["name"], "kubelet", DeleteCondition(uid, grace=0)
            )

    def set_status(self, pod: Tree, status: Tree) -> None:
        metadata = pod["metadata"]
        try:
            self.objects.patch(PODS, metadata["namespace"], metadata["name"], {"status": status}, "kubelet", "status")
        except RefusedCallError:
            return

    def _changed(self, change: Change) -> None:
        if change.kind == "pods":
            self._pod_changed(change)

    def _pod_changed(self, change: Change) -> None:
        metadata, before = change.tree["metadata"], change.before or {"metadata": {}}
        if change.type == "ADDED":
            self._after(self.pick.uniform(0.05, 1.0), self._schedule, metadata["uid"])
        elif change.type == "DELETED":
            process = self.processes.get(metadata["uid"])
            if process is not None and process.node.reachable:
                self._after(self.pick.uniform(0.1, 3.0), self.stop, process)
        elif "deletionTimestamp" in metadata and "deletionTimestamp" not in before["metadata"]:
            process = self.processes.get(metadata["uid"])
            if process is not None:
                self._tell_to_end(process)
            else:
                self._after(0.3, self._remove_unstarted, metadata["uid"])
        elif change.tree["status"].get("phase") in ("Failed", "Succeeded") and sets_of(change.tree):
            self._after(self.pick.uniform(0.1, 1.0), self.remove, metadata["uid"])  # a set replaces what has ended

    def _remove_unstarted(self, uid: str) -> None:
        pod = self.objects.of(uid)
        node = None if pod is None else self._node_of(pod)
        if uid not in self.processes and node is not None and node.reachable:
            self.remove(uid)

    def _tell_to_end(self, process: PodProcess) -> None:
        if process.node.reachable and process.alive and not process.ending:
            process.ending = True
            self.told_to_end(process)

    def _schedule(self, uid: str) -> None:
        pod = self.objects.of(uid)
        if pod is None or pod["spec"].get("nodeName") or "deletionTimestamp" in pod["metadata"]:
            return
        namespace = pod["metadata"]["namespace"]
        fits = [node for node in self.nodes if node.silent_since is None]
        for name in claims_of(pod):
            claim = self.objects.get(CLAIMS, namespace, name)
            if claim is None or "deletionTimestamp" in claim["metadata"]:
                fits = []
            elif bound := (claim.get("spec") or {}).get("volumeName"):
                fits = [node for node in fits if bound.startswith(f"{node.name}.")]
        if not fits:
            if not pod["status"].get("conditions"):
                why = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node fits"}
                self.set_status(pod, {"conditions": [why]})
            self._after(3.0, self._schedule, uid)
            return
        node = self.pick.choice(fits)
        for name in claims_of(pod):
            self._bind(namespace, name, node)
        self.objects.patch(PODS, namespace, pod["metadata"]["name"], {"spec": {"nodeName": node.name}}, "scheduler")
        self._after(self.pick.uniform(0.2, 1.5), self._run, uid)

    def _bind(self, namespace: str, name: str, node: Machine) -> None:
        """A volume on the node's disk, for a claim that has none."""
        claim = self.objects.get(CLAIMS, namespace, name)
        if claim is None or claim["spec"].get("volumeName"):
            return
        volume = f"{node.name}.{claim['metadata']['uid']}"
        term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node.name]}]}
        spec = {"nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}}
        self.objects.create(VOLUMES, None, {"metadata": {"name": volume}, "spec": spec}, "provisioner")
        self.objects.patch(CLAIMS, namespace, name, {"spec": {"volumeName": volume}}, "provisioner")

    def _run(self, uid: str) -> None:
        """The kubelet starts a pod."""
        pod = self.objects.of(uid)
        node = None if pod is None else self._node_of(pod)
        if pod is None or node is None or not node.reachable or uid in self.processes:
            return
        if pod["status"].get("phase") != "Pending":
            if pod["status"].get("phase") == "Running":
                self.set_status(pod, {"phase": "Failed", **container_status(pod, {"terminated": {"exitCode": 137}})})
            return
        if "deletionTimestamp" in pod["metadata"]:
            self.remove(uid)
            return
        metadata, image = pod["metadata"], pod["spec"]["containers"][0].get("image")
        if image in self.broken_images:
            waiting = {"waiting": {"reason": "ImagePullBackOff", "message": f"Back-off pulling image {image}"}}
            self.set_status(pod, container_status(pod, waiting))
            self._after(10.0, self._run, uid)
            return
        if any(self.objects.get(kind, metadata["namespace"], name) is None for kind, name in mounted_objects(pod)):
            self._after(3.0, self._run, uid)
            return
        process = PodProcess(uid, metadata["name"], metadata["namespace"], node, metadata.get("labels") or {})
        self.processes[uid] = process
        self.set_status(
            pod, {"phase": "Running", **container_status(pod, {"running": {"startedAt": self.objects.stamp()}})}
        )
        if process.is_trial:
            self._after(self.pick.uniform(0.2, 3.0), self._end_trial, process)
        self.started(process)

    def _end_trial(self, process: PodProcess) -> None:
        """What it tries can be imported."""
        if process.alive:
            self.end(process, 0, "")

    def _node_of(self, pod: Tree) -> Machine | None:
        return next((node for node in self.nodes if node.name == pod["spec"].get("nodeName")), None)

    def _call_silent(self, node: Machine, since: float) -> None:
        if node.silent_since == since:
            self._say_ready(node, "Unknown")
            self._after(_TOLERATED, self._evict, node, since)

    def _evict(self, node: Machine, since: float) -> None:
        if node.silent_since != since:
            return
        for pod in self.objects.all(PODS):
            if pod["spec"].get("nodeName") == node.name and "deletionTimestamp" not in pod["metadata"]:
                metadata = pod["metadata"]
                self.objects.delete(
                    PODS, metadata["namespace"], metadata["name"], "nodes", DeleteCondition(metadata["uid"])
                )

    def _say_ready(self, node: Machine, status: str) -> None:
        ready = {"type": "Ready", "status": status, "lastTransitionTime": self.objects.stamp()}
        self.objects.patch(NODES, None, node.name, {"status": {"conditions": [ready]}}, "nodes", "status")

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _after(self, seconds: float, act: Callable[..., None], *arguments: Any) -> None:
        asyncio.get_running_loop().call_later(seconds, act, *arguments)
