"""The controllers of Kubernetes: sets make their pods, claims go with their last pod, and objects with their owner.

Must not know the nodes, nor the operator.
"""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.simulation.objects import CLAIMS, MAPS, PODS, POLICIES, SETS, Change, DeleteCondition, Objects, Tree, owners
from tests.simulation.pod_trees import claims_of, sets_of

_PROTECTED = "kubernetes.io/pvc-protection"


@dataclass(eq=False, slots=True)
class Controllers:
    """Those of sets and claims, and the collector of what has lost its owner."""

    objects: Objects
    pick: random.Random

    def begin(self) -> None:
        self.objects.listeners.append(self._changed)

    def _changed(self, change: Change) -> None:
        match change.kind:
            case "pods":
                if change.type == "DELETED":
                    self._pod_deleted(change.tree)
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

    def _pod_deleted(self, pod: Tree) -> None:
        """Its set makes another, and claims that are to go can."""
        for uid in sets_of(pod):
            self._after(self.pick.uniform(0.1, 1.0), self._fill_set, uid)
        for claim in claims_of(pod):
            claim_tree = self.objects.get(CLAIMS, pod["metadata"]["namespace"], claim)
            if claim_tree is not None and "deletionTimestamp" in claim_tree["metadata"]:
                self._after(0.1, self._release, claim_tree["metadata"]["uid"])

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
        if not any(name in claims_of(pod) for pod in self.objects.all(PODS, namespace)):
            patch = {"metadata": {"finalizers": None}}
            self.objects.patch(CLAIMS, namespace, name, patch, "protection")

    def _after(self, seconds: float, act: Callable[..., None], *arguments: Any) -> None:
        asyncio.get_running_loop().call_later(seconds, act, *arguments)
