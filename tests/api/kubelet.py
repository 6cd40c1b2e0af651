"""Why: pods on an API server without kubelets stand still; here somebody sets their phases on the real objects.

Drivers that run report as a real one would; a pod that is to end ends. Must not know the operator.
"""

import json
import threading
import time
from typing import Any

from tests.api.admin import CONFIG_MAPS, PODS, Admin, RefusedError

Tree = dict[str, Any]
_EVERY = 0.02


class Kubelet:
    """Plays all kubelets and drivers of a namespace: `with Kubelet(admin, "apps") as kubelet: ...`."""

    def __init__(self, admin: Admin, namespace: str) -> None:
        self._admin, self._namespace = admin, namespace
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kubelet", daemon=True)
        self.drivers: dict[str, str] = {}
        """Uid -> name of every driver pod ever seen."""
        self.most_alive: dict[str, int] = {}
        """App -> the largest number of drivers that were alive at once."""
        self.healthy = True
        """Whether drivers report."""
        self.failure: Exception | None = None

    def __enter__(self) -> "Kubelet":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(20)

    def end(self, name: str, code: int, message: str = "") -> None:
        """A driver ends by itself."""
        ended = {"exitCode": code, "reason": "Error" if code else "Completed", "message": message}
        self._status(name, "Failed" if code else "Succeeded", {"terminated": ended})

    def _run(self) -> None:
        while not self._stop.wait(_EVERY):
            try:
                pods = self._admin.items(PODS.format(self._namespace))
                self._count(pods)
                for pod in pods:
                    self._play(pod)
            except RefusedError as error:
                if error.status != 409:
                    self.failure = error
                    return
            except OSError:
                continue  # the API server is being restarted

    def _count(self, pods: list[Tree]) -> None:
        alive: dict[str, int] = {}
        for pod in pods:
            labels = pod["metadata"].get("labels") or {}
            if labels.get("spark-role") != "driver":
                continue
            self.drivers.setdefault(pod["metadata"]["uid"], pod["metadata"]["name"])
            if (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed"):
                app = labels["holdfast.dev/app"]
                alive[app] = alive.get(app, 0) + 1
        for app, count in alive.items():
            self.most_alive[app] = max(self.most_alive.get(app, 0), count)

    def _play(self, pod: Tree) -> None:
        name, phase = pod["metadata"]["name"], pod["status"].get("phase")
        if "deletionTimestamp" in pod["metadata"]:
            self._admin.delete(f"{PODS.format(self._namespace)}/{name}", grace=0)
        elif not pod["spec"].get("nodeName"):
            target = {"apiVersion": "v1", "kind": "Node", "name": "node-a"}
            binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
            self._admin.create(f"{PODS.format(self._namespace)}/{name}/binding", binding)
        elif phase == "Pending":
            self._status(name, "Running", {"running": {}})
        elif phase == "Running" and self.healthy:
            self._report(pod)

    def _status(self, name: str, phase: str, state: Tree) -> None:
        container = {"name": "driver", "ready": True, "restartCount": 0, "image": "i", "imageID": "i", "state": state}
        patch = {"status": {"phase": phase, "containerStatuses": [container]}}
        self._admin.patch(f"{PODS.format(self._namespace)}/{name}/status", patch)

    def _report(self, pod: Tree) -> None:
        labels = pod["metadata"]["labels"]
        attempt, app = int(labels["holdfast.dev/attempt"]), labels["holdfast.dev/app"]
        name, path = f"{labels['holdfast.dev/app-id']}-report", CONFIG_MAPS.format(self._namespace)
        there = self._admin.get(f"{path}/{name}")
        now = time.time_ns() // 1_000_000
        said = json.loads(there["data"]["report.json"]) if there else {"attempt": 0, "at": 0}
        if said["attempt"] == attempt and now - said["at"] < 20_000:
            return
        said = {"attempt": attempt, "at": now, "progressed": now, "batch": 1, "tasks": 4, "partitions": 4, "placed": 4}
        data = {"report.json": json.dumps(said)}
        if there:
            self._admin.patch(f"{path}/{name}", {"data": data})
        else:
            metadata = {"name": name, "labels": {"holdfast.dev/report": app}}
            self._admin.create(path, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
