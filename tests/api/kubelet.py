"""Kubelets for an API server that has none: somebody sets the phases of pods on the real objects.

Drivers that run report and have executors as real ones would: by a StatefulSet that belongs to the driver's pod, makes
executors again as often as they go, and goes with that pod, or when the driver ends well. A pod that is to end ends.
Must not know the operator.
"""

import json
import threading
import time
from datetime import UTC, datetime
from typing import Any

from holdfast.placement.config_map_store import ConfigMapStore
from holdfast.placement.record_store import RecordStore
from holdfast.planning.plan import PlanningFacts, plan
from holdfast.protocol.attempt import read_orders
from holdfast.protocol.names import TRIAL_LABEL
from holdfast.spec.kept_state import KeptState
from holdfast.spec.parse import parse_app
from holdfast.tasks.record import PlacementRecord
from holdfast_runtime.coordination.api_config_maps import ApiConfigMaps
from tests.api.admin import CONFIG_MAPS, PODS, SETS, Admin, RefusedError
from tests.waiting import patience

Tree = dict[str, Any]
_EVERY = 0.1
_BEGINS_AFTER = 500
"""Milliseconds from a driver's first report, which only claims it, to the one that says where its tasks are."""


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


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
        self._templates: dict[str, Tree] = {}
        """Uid of a driver that has a StatefulSet -> what its pods are made from."""
        self.healthy = True
        """Whether drivers report."""
        self.trials = 0
        """The exit code of pods that try what the next attempt needs."""
        self.node = "node-a"
        """Where new pods run."""
        self.silent: frozenset[str] = frozenset()
        """Nodes whose kubelet does not answer: what is on them stays as it is."""
        self.homeless: frozenset[str] = frozenset()
        """Names of pods that no node takes."""
        self.failure: Exception | None = None

    def __enter__(self) -> "Kubelet":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(patience(20))

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
                self._control(pods)
            except RefusedError as error:
                if error.status != 409 and error.status < 500:  # somebody else was faster, or the server is in trouble
                    self.failure = error
                    return
            except OSError:
                continue  # the API server is being restarted
            except Exception as error:  # whatever it is, a test must not wait for a kubelet that has gone
                self.failure = error
                raise

    def _count(self, pods: list[Tree]) -> None:
        alive: dict[str, int] = {}
        for pod in pods:
            if not _is_driver(pod):
                continue
            labels = pod["metadata"]["labels"]
            self.drivers.setdefault(pod["metadata"]["uid"], pod["metadata"]["name"])
            if (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed"):
                app = labels["holdfast.dev/app"]
                alive[app] = alive.get(app, 0) + 1
        for app, count in alive.items():
            self.most_alive[app] = max(self.most_alive.get(app, 0), count)

    def _play(self, pod: Tree) -> None:
        name, phase = pod["metadata"]["name"], pod["status"].get("phase")
        if pod["spec"].get("nodeName") in self.silent:
            return
        if "deletionTimestamp" in pod["metadata"]:
            # Also one that goes at once is shown like this for a moment: its name may be another pod's by now.
            self._admin.delete(f"{PODS.format(self._namespace)}/{name}", 0, pod["metadata"]["uid"])
        elif name in self.homeless:
            self._find_no_node(pod)
        elif not pod["spec"].get("nodeName"):
            target = {"apiVersion": "v1", "kind": "Node", "name": self.node}
            binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
            self._admin.create(f"{PODS.format(self._namespace)}/{name}/binding", binding)
        elif phase == "Pending" and TRIAL_LABEL in (pod["metadata"].get("labels") or {}):
            self.end(name, self.trials, "No module named holdfast_runtime" if self.trials else "")
        elif phase == "Pending":
            self._status(name, "Running", {"running": {"startedAt": _now()}})
        elif phase == "Running" and _is_driver(pod) and self._executors(pod) and self.healthy:
            self._report(pod)

    def _find_no_node(self, pod: Tree) -> None:
        conditions = pod["status"].get("conditions") or []
        if not any(one["type"] == "PodScheduled" for one in conditions):
            why = {"reason": "Unschedulable", "message": "volume node affinity conflict"}
            status = {"status": {"conditions": [{"type": "PodScheduled", "status": "False", **why}]}}
            self._admin.patch(f"{PODS.format(self._namespace)}/{pod['metadata']['name']}/status", status)

    def _executors(self, driver: Tree) -> bool:
        """As Spark asks for them, with the template the driver was given; False: that failed, and so did it."""
        name, uid = driver["metadata"]["name"], driver["metadata"]["uid"]
        if uid in self._templates:
            return True
        config_data = self._admin.get(f"{CONFIG_MAPS.format(self._namespace)}/{name}")["data"]
        made = stateful_set(json.loads(config_data["spark.json"]), name, uid)
        existing = self._admin.get(f"{SETS.format(self._namespace)}/{made['metadata']['name']}")
        try:
            if not existing or existing["metadata"]["ownerReferences"] != made["metadata"]["ownerReferences"]:
                self._admin.create(SETS.format(self._namespace), made)  # else the answer to this had not come
        except RefusedError as error:
            if error.status >= 500:
                raise  # it is asked again, as Spark's client would
            self.end(name, 1, json.dumps({"failed": "world", "message": str(error)}))
            return False
        self._templates[uid] = json.loads(config_data["executor.json"])
        return True

    def _control(self, pods: list[Tree]) -> None:
        """What Kubernetes does: sets go with their owner, pods with their set, and those that a set lacks are made."""
        path = SETS.format(self._namespace)
        names = {pod["metadata"]["name"] for pod in pods}
        pod_uids = {pod["metadata"]["uid"] for pod in pods if pod["status"].get("phase") != "Succeeded"}
        sets = set()
        for set_tree in self._admin.items(path):
            uid, owner = set_tree["metadata"]["uid"], set_tree["metadata"]["ownerReferences"][0]["uid"]
            if owner not in pod_uids:
                self._admin.delete(f"{path}/{set_tree['metadata']['name']}")
                continue
            sets.add(uid)
            pod_names = [f"{set_tree['metadata']['name']}-{number}" for number in range(set_tree["spec"]["replicas"])]
            for name in set(pod_names) - names if owner in self._templates else ():
                self._executor(set_tree, name, self._templates[owner])
        for pod in pods:
            above: Tree = next(iter(pod["metadata"].get("ownerReferences") or ()), {})
            if above.get("kind") == "StatefulSet" and above["uid"] not in sets:
                grace = None if pod["spec"].get("nodeName") in self.silent else 0
                name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
                self._admin.delete(f"{PODS.format(self._namespace)}/{name}", grace, uid)

    def _executor(self, of: Tree, name: str, template: Tree) -> None:
        pod = json.loads(json.dumps(template))
        owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "controller": True}
        owner |= {key: of["metadata"][key] for key in ("name", "uid")}
        pod["metadata"] |= {"name": name, "ownerReferences": [owner]}
        pod["metadata"]["labels"]["spark-role"] = "executor"
        pod["spec"]["containers"][0]["image"] = "image"
        claim = {"persistentVolumeClaim": {"claimName": f"state-{name}"}}
        pod["spec"]["volumes"] = [*pod["spec"].get("volumes", []), {"name": "state", **claim}]
        self._admin.create(PODS.format(self._namespace), pod)

    def _record(self, driver: str) -> None:
        """Where tasks run, which a driver writes before it says that it has begun."""
        data = self._admin.get(f"{CONFIG_MAPS.format(self._namespace)}/{driver}")["data"]
        app, orders = parse_app(json.loads(data["app.json"])), read_orders(data["attempt.json"])
        maps = ApiConfigMaps(self._admin.client(), self._namespace)
        owner = {"apiVersion": app.api_version, "kind": app.kind, "name": orders.app, "uid": orders.uid}
        records = RecordStore(ConfigMapStore(maps, orders.app, owner), orders.app)
        planned = plan(app, PlanningFacts(topics=orders.topics, record=records.load(orders.run)))
        tasks = {task.name: task.inputs for task in planned.tasks}
        places = dict.fromkeys(tasks, "state-0"), dict.fromkeys(tasks, "exec-0")
        records.save(PlacementRecord(orders.run, tasks, *places, state=KeptState().after(app.spec, planned.made_by)))

    def _status(self, name: str, phase: str, state: Tree) -> None:
        container = {"name": "driver", "ready": True, "restartCount": 0, "image": "i", "imageID": "i", "state": state}
        patch = {"status": {"phase": phase, "containerStatuses": [container]}}
        self._admin.patch(f"{PODS.format(self._namespace)}/{name}/status", patch)

    def _report(self, pod: Tree) -> None:
        labels = pod["metadata"]["labels"]
        attempt, app = int(labels["holdfast.dev/attempt"]), labels["holdfast.dev/app"]
        name, path = f"{labels['holdfast.dev/app-id']}-report", CONFIG_MAPS.format(self._namespace)
        config_map = self._admin.get(f"{path}/{name}")
        now = time.time_ns() // 1_000_000
        before = json.loads(config_map["data"]["report.json"]) if config_map else {"attempt": 0, "at": 0, "tasks": 0}
        same_attempt, age = before["attempt"] == attempt, now - before["at"]
        if same_attempt and age < (20_000 if before["tasks"] else _BEGINS_AFTER):
            return
        report = {"attempt": attempt, "at": now, "tasks": 0}
        if same_attempt:
            self._record(pod["metadata"]["name"])
            report |= {"progressed": now, "batch": 1, "tasks": 4, "partitions": 4, "placed": 4}
        data = {"report.json": json.dumps(report)}
        if config_map:
            self._admin.patch(f"{path}/{name}", {"data": data})
        else:
            metadata = {"name": name, "labels": {"holdfast.dev/report": app}}
            self._admin.create(path, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})


def _is_driver(pod: Tree) -> bool:
    return (pod["metadata"].get("labels") or {}).get("spark-role") == "driver"


def stateful_set(settings: Tree, driver: str, uid: str) -> Tree:
    """What Spark makes of its settings, as far as it matters here."""
    name = f"spark-s-{settings['spark.app.id']}-0"
    owner = {"apiVersion": "v1", "kind": "Pod", "name": driver, "uid": uid}
    labels = {"set": name}
    pods = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "executor", "image": "image"}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name, "ownerReferences": [owner]},
        "spec": {
            "replicas": int(settings["spark.executor.instances"]),
            "selector": {"matchLabels": labels},
            "template": pods,
        },
    }
