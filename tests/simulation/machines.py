"""Nodes, their kubelets, the scheduler and the controllers of Kubernetes: what moves pods, claims and sets.

A pod's process lives on a node, whatever the API server says of the pod: on a node that is cut off it goes on. What a
process does is told by `drivers`. Must not know the operator.
"""

import asyncio
import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from holdfast.protocol.names import APP_ID_LABEL, ROLE_LABEL, SPARK_APP_LABEL, TRIAL_LABEL
from holdfast.protocol.pods import MAIN
from tests.simulation.objects import (
    CLAIMS,
    MAPS,
    NODES,
    PODS,
    POLICIES,
    SECRETS,
    SETS,
    VOLUMES,
    Change,
    DeleteCondition,
    Objects,
    RefusedCallError,
    Tree,
    owners,
)

_GRACE_OF_NODES, _TOLERATED = 40.0, 60.0
"""Seconds until a silent node is not ready, and until its pods are told to go."""
MISSING_IMAGE = "registry/missing"
_PROTECTED = "kubernetes.io/pvc-protection"


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
        ended = _container(pod, {"terminated": terminated})
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
        match change.kind:
            case "pods":
                self._pod_changed(change)
            case "statefulsets":
                if change.type == "ADDED":
                    self._after(self.pick.uniform(0.1, 1.0), self._fill_set, change.tree["metadata"]["uid"])
            case "persistentvolumeclaims":
                if change.type == "ADDED":
                    self._after(0.0, self._protect, change.tree["metadata"]["uid"])
                elif change.type == "MODIFIED" and "deletionTimestamp" in change.tree["metadata"]:
                    self._after(self.pick.uniform(0.05, 0.5), self._release, change.tree["metadata"]["uid"])
        if change.type == "DELETED":
            self._after(self.pick.uniform(0.05, 2.0), self._collect, change.tree["metadata"]["uid"])
        elif change.type == "ADDED" and any(owner["uid"] not in self.objects.uids for owner in owners(change.tree)):
            self._after(self.pick.uniform(1.0, 5.0), self._collect, next(iter(owners(change.tree)))["uid"])

    def _pod_changed(self, change: Change) -> None:
        metadata, before = change.tree["metadata"], change.before or {"metadata": {}}
        if change.type == "ADDED":
            self._after(self.pick.uniform(0.05, 1.0), self._schedule, metadata["uid"])
        elif change.type == "DELETED":
            self._pod_deleted(change.tree)
        elif "deletionTimestamp" in metadata and "deletionTimestamp" not in before["metadata"]:
            process = self.processes.get(metadata["uid"])
            if process is not None:
                self._tell_to_end(process)
            else:
                self._after(0.3, self._remove_unstarted, metadata["uid"])
        elif change.tree["status"].get("phase") in ("Failed", "Succeeded") and _sets(change.tree):
            self._after(self.pick.uniform(0.1, 1.0), self.remove, metadata["uid"])  # a set replaces what has ended

    def _pod_deleted(self, pod: Tree) -> None:
        """Its process ends, its set makes another, and claims that are to go can."""
        process = self.processes.get(pod["metadata"]["uid"])
        if process is not None and process.node.reachable:
            self._after(self.pick.uniform(0.1, 3.0), self.stop, process)
        for uid in _sets(pod):
            self._after(self.pick.uniform(0.1, 1.0), self._fill_set, uid)
        for claim in _claims(pod):
            claim_tree = self.objects.get(CLAIMS, pod["metadata"]["namespace"], claim)
            if claim_tree is not None and "deletionTimestamp" in claim_tree["metadata"]:
                self._after(0.1, self._release, claim_tree["metadata"]["uid"])

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
        for name in _claims(pod):
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
        for name in _claims(pod):
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
                self.set_status(pod, {"phase": "Failed", **_container(pod, {"terminated": {"exitCode": 137}})})
            return
        if "deletionTimestamp" in pod["metadata"]:
            self.remove(uid)
            return
        metadata, image = pod["metadata"], pod["spec"]["containers"][0].get("image")
        if image in self.broken_images:
            waiting = {"waiting": {"reason": "ImagePullBackOff", "message": f"Back-off pulling image {image}"}}
            self.set_status(pod, _container(pod, waiting))
            self._after(10.0, self._run, uid)
            return
        if any(self.objects.get(kind, metadata["namespace"], name) is None for kind, name in _mounted(pod)):
            self._after(3.0, self._run, uid)
            return
        process = PodProcess(uid, metadata["name"], metadata["namespace"], node, metadata.get("labels") or {})
        self.processes[uid] = process
        self.set_status(pod, {"phase": "Running", **_container(pod, {"running": {"startedAt": self.objects.stamp()}})})
        if process.is_trial:
            self._after(self.pick.uniform(0.2, 3.0), self._end_trial, process)
        self.started(process)

    def _end_trial(self, process: PodProcess) -> None:
        """What it tries can be imported."""
        if process.alive:
            self.end(process, 0, "")

    def _node_of(self, pod: Tree) -> Machine | None:
        return next((node for node in self.nodes if node.name == pod["spec"].get("nodeName")), None)

    def _fill_set(self, uid: str) -> None:
        """A set makes the pods that it lacks, and their claims."""
        of = self.objects.of(uid)
        if of is None or not any(owner["uid"] in self.objects.uids for owner in owners(of)):
            return
        metadata, template = of["metadata"], of["spec"]["template"]
        for number in range(of["spec"]["replicas"]):
            name = f"{metadata['name']}-{number}"
            if self.objects.get(PODS, metadata["namespace"], name) is not None:
                continue
            labels = template["metadata"]["labels"]
            for claim in of["spec"].get("volumeClaimTemplates") or ():
                if self.objects.get(CLAIMS, metadata["namespace"], f"state-{name}") is None:
                    made = {"metadata": {"name": f"state-{name}", "labels": claim["metadata"]["labels"]}, "spec": {}}
                    self.objects.create(CLAIMS, metadata["namespace"], made, "sets")
            owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "controller": True}
            owner |= {"name": metadata["name"], "uid": uid}
            spec: dict[str, Any] = {**template["spec"]}
            if of["spec"].get("volumeClaimTemplates"):
                claimed = {"name": "state", "persistentVolumeClaim": {"claimName": f"state-{name}"}}
                spec["volumes"] = [*spec.get("volumes", []), claimed]
            pod = {"metadata": {"name": name, "labels": labels, "ownerReferences": [owner]}, "spec": spec}
            self.objects.create(PODS, metadata["namespace"], pod, "sets")

    def _collect(self, uid: str) -> None:
        """What belonged to an object that is gone goes too."""
        if uid in self.objects.uids:
            return
        for kind in (PODS, MAPS, SETS, CLAIMS, POLICIES):
            for tree in self.objects.all(kind):
                above = list(owners(tree))
                if above and all(owner["uid"] not in self.objects.uids for owner in above):
                    metadata = tree["metadata"]
                    self.objects.delete(
                        kind, metadata["namespace"], metadata["name"], "collector", DeleteCondition(metadata["uid"])
                    )

    def _protect(self, uid: str) -> None:
        claim = self.objects.of(uid)
        if claim is not None and "deletionTimestamp" not in claim["metadata"]:
            metadata = claim["metadata"]
            patch = {"metadata": {"finalizers": [_PROTECTED]}}
            self.objects.patch(CLAIMS, metadata["namespace"], metadata["name"], patch, "protection")

    def _release(self, uid: str) -> None:
        """A claim goes when no pod uses it."""
        claim = self.objects.of(uid)
        if claim is None:
            return
        namespace, name = claim["metadata"]["namespace"], claim["metadata"]["name"]
        if not any(name in _claims(pod) for pod in self.objects.all(PODS, namespace)):
            patch = {"metadata": {"finalizers": None}}
            self.objects.patch(CLAIMS, namespace, name, patch, "protection")

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


def executor_set(settings: dict[str, str], template: Tree, driver: str, uid: str) -> Tree:
    """The StatefulSet that Spark makes of its settings and of the template of executors."""
    run = settings["spark.app.id"]
    labels = {**template["metadata"]["labels"], ROLE_LABEL: "executor", SPARK_APP_LABEL: run, APP_ID_LABEL: run}
    spec = {
        **template["spec"],
        "containers": [{"name": "executor", "image": settings["spark.kubernetes.container.image"]}],
    }
    claims = [{"metadata": {"name": "state", "labels": {SPARK_APP_LABEL: run}}}]
    claimed = any(name.endswith("state.options.claimName") for name in settings)
    return {
        "metadata": {
            "name": f"spark-s-{run}-0",
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": driver, "uid": uid}],
        },
        "spec": {
            "replicas": int(settings["spark.executor.instances"]),
            "template": {"metadata": {"labels": labels}, "spec": spec},
            **({"volumeClaimTemplates": claims} if claimed else {}),
        },
    }


def told(maps: Tree, key: str) -> Any:
    """What is in a ConfigMap under a key."""
    return json.loads(maps["data"][key])


def _sets(pod: Tree) -> list[str]:
    """Uids of the sets that it belongs to."""
    return [owner["uid"] for owner in owners(pod) if owner["kind"] == "StatefulSet"]


def _claims(pod: Tree) -> list[str]:
    volumes = pod["spec"].get("volumes") or ()
    return [one["persistentVolumeClaim"]["claimName"] for one in volumes if "persistentVolumeClaim" in one]


def _mounted(pod: Tree) -> list[tuple[str, str]]:
    """What has to be there before it can start: kinds and names."""
    volumes = pod["spec"].get("volumes") or ()
    maps = [(MAPS, one["configMap"]["name"]) for one in volumes if "configMap" in one]
    return maps + [(SECRETS, one["secret"]["secretName"]) for one in volumes if "secret" in one]


def _container(pod: Tree, state: Tree) -> Tree:
    role = (pod["metadata"].get("labels") or {}).get(ROLE_LABEL)
    return {"containerStatuses": [{"name": MAIN["driver" if role == "driver" else "executors"], "state": state}]}
