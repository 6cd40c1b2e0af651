"""The counted app on the cluster: applied as users do, looked at as users do, and harmed where its pods are."""

import json
import re
from dataclasses import dataclass, field
from typing import Any

from ruamel.yaml import YAML

from holdfast.protocol.names import APP_LABEL, ATTEMPT_LABEL, REPORT_LABEL, ROLE_LABEL
from holdfast.protocol.report import report_in
from tests.cluster.cluster import Cluster, Tree
from tests.cluster.steps import ClusterError
from tests.kafka.counted import Counted
from tests.kind.installed import Team
from tests.kind.storage import SHARED_CLAIM
from tests.waiting import wait_until

CHECKPOINTS = "/checkpoints"
READY = 180.0
JAVA, PYTHON = "org.apache.spark.deploy.SparkSubmit", "holdfast_runtime.driver"
"""The processes of a driver, by their command lines."""
_TOO_EARLY = "no relationship found between node"
"""What a FailedMount says then."""
_GRACE = ("--force", "--grace-period=0")
_SPARK = {"spark.ui.enabled": "false"}
_SMALL = {"requests": {"cpu": "200m"}}
"""Two cores carry three nodes."""


@dataclass
class App:
    """One app object and what belongs to it."""

    cluster: Cluster
    namespace: str
    tree: Tree
    """As it was applied last."""
    name: str = field(init=False)

    def __post_init__(self) -> None:
        self.name = self.tree["metadata"]["name"]

    def apply(self, **spec: Any) -> None:
        """As it is, with these parts of the spec changed."""
        self.tree = {**self.tree, "spec": {**self.tree["spec"], **spec}}
        self.cluster.apply(self.tree, namespace=self.namespace)

    def delete(self, *, wait: bool = True) -> None:
        """It goes, after a drain."""
        self._kubectl("delete", "streamapp", self.name, f"--wait={json.dumps(wait)}", "--timeout=180s", seconds=190)

    def status(self) -> Tree:
        """What the operator says of it."""
        status: Tree = self._tree("streamapp", self.name).get("status") or {}
        return status

    def condition(self, kind: str) -> tuple[str, str]:
        """Status and reason, of this generation."""
        app = self._tree("streamapp", self.name)
        conditions = {one["type"]: one for one in (app.get("status") or {}).get("conditions", [])}
        condition = conditions.get(kind)
        if condition is None or condition.get("observedGeneration") != app["metadata"]["generation"]:
            return "Unknown", "NotYetKnown"
        return condition["status"], condition["reason"]

    def message(self, kind: str) -> str:
        """What the condition says."""
        (text,) = [one["message"] for one in self.status()["conditions"] if one["type"] == kind]
        return str(text)

    def until(self, kind: str, status: str, reason: str | None = None, seconds: float = READY) -> None:
        """Wait for a condition."""

        def said() -> bool:
            condition = self.condition(kind)
            return condition[0] == status and reason in (None, condition[1])

        try:
            wait_until(said, seconds, f"{self.name}: {kind}={status} {reason or ''}")
        except TimeoutError as error:
            message = f"{error}\n{json.dumps(self.status(), indent=1)}\n{self.driver_log()[-3000:]}"
            raise TimeoutError(message) from error

    def ready(self) -> None:
        """Wait as people do."""
        resource = f"streamapp/{self.name}"
        self._kubectl("wait", "--for=condition=Ready", resource, f"--timeout={READY:g}s", seconds=READY + 10)

    def attempt(self) -> int:
        """The number of its latest attempt."""
        return int(self.status().get("attempt") or 0)

    def batch(self) -> int:
        """The last one that its driver has told of."""
        config_maps = self._tree("configmaps", f"--selector={REPORT_LABEL}={self.name}")["items"]
        reports = [report for one in config_maps if (report := report_in(one)) is not None]
        return max((one.batch for one in reports), default=0)

    def driver(self) -> Tree:
        """The pod of its latest attempt."""
        (pod,) = [one for one in self.pods("driver") if one["metadata"]["labels"][ATTEMPT_LABEL] == str(self.attempt())]
        return pod

    def driven(self) -> bool:
        """Whether its latest attempt has a driver that runs."""
        try:
            return bool(self.driver()["status"]["phase"] == "Running")
        except ValueError:
            return False

    def executors(self) -> dict[str, Tree]:
        """Those that run, by name."""
        return {one["metadata"]["name"]: one for one in self.pods("executor") if one["status"]["phase"] == "Running"}

    def pods(self, role: str | None = None) -> list[Tree]:
        """All of its pods, or those that are driver, or executor."""
        labels = f"{APP_LABEL}={self.name}" if role is None else f"{APP_LABEL}={self.name},{ROLE_LABEL}={role}"
        items: list[Tree] = self._tree("pods", f"--selector={labels}")["items"]
        return items

    def where(self) -> dict[str, str]:
        """Task -> the location it was given last."""
        (handed,) = self._tree("configmaps", f"--selector=holdfast.dev/assignment={self.name}")["items"]
        assignment = json.loads(handed["data"]["assignment.json"])
        return {
            task: assignment["processors"][pod] for pod, tasks in assignment["assignment"].items() for task in tasks
        }

    def disks(self) -> dict[str, str]:
        """Location -> the node whose disk it is on."""
        volumes = {one["metadata"]["name"]: one for one in self.cluster.tree("persistentvolumes")["items"]}
        claims = self._tree("persistentvolumeclaims")["items"]
        bound = {one["metadata"]["name"]: volumes.get(one["spec"].get("volumeName")) for one in claims}
        return {name: _node_of(volume) for name, volume in bound.items() if volume is not None and _is_local(volume)}

    def nodes(self) -> dict[str, str]:
        """Task -> node."""
        disks = self.disks()
        return {task: disks.get(location, location) for task, location in self.where().items()}

    def driver_log(self) -> str:
        """Of its latest attempt, as far as there is one."""
        try:
            return self._kubectl("logs", self.driver()["metadata"]["name"])
        except (ClusterError, ValueError):
            return ""

    def restored(self) -> list[str]:
        """Tasks that the latest attempt had to restore."""
        return re.findall("holdfast: restored ([^ :]+)", self.driver_log())

    def restored_without_need(self) -> list[str]:
        """The same, none if a volume came late.

        A node may know of a pod before the API server lets it read the pod's claim, and tries again a quarter of a
        minute later. Others have the tasks by then.
        """
        return [] if _TOO_EARLY in self.events() else self.restored()

    def kill(self, pod: str) -> None:
        """End a pod as a power cut would; one that the operator has ended meanwhile is gone as well."""
        self._kubectl("delete", "pod", pod, "--ignore-not-found", *_GRACE)

    def kill_driver(self) -> None:
        """The latest attempt's."""
        self.kill(self.driver()["metadata"]["name"])

    def crash_driver(self, process: str) -> None:
        """Its process of this command line is killed; the pod stays. No other app may have one on that node."""
        node: str = self.driver()["spec"]["nodeName"]

        def killed() -> bool:
            try:
                self.cluster.on_node(node, "pkill", "-KILL", "-f", process)
            except ClusterError:
                return False
            return True

        wait_until(killed, READY, f"{process} runs on {node}")

    def events(self) -> str:
        """Everything that happened in its namespace."""
        return self._kubectl("get", "events", "--output=yaml")

    def _tree(self, *words: str) -> Tree:
        return self.cluster.tree(*words, f"--namespace={self.namespace}")

    def _kubectl(self, *words: str, seconds: float = 120.0) -> str:
        return self.cluster.kubectl(*words, f"--namespace={self.namespace}", seconds=seconds)


def counted_app(cluster: Cluster, team: Team, counted: Counted, **spec: Any) -> App:
    """The app of `Counted`, for a team's namespace; nothing is applied yet."""
    tree: Tree = json.loads(json.dumps(YAML(typ="safe").load(counted.text())))
    runtime = {**tree["spec"]["runtime"], **small_runtime()}
    runtime["trigger"] = {"interval": "500ms", "maxRecordsPerPartition": 4000}
    state = {"location": "Claim", "storageClass": team.storage_class, "size": "512Mi"}
    tree["spec"] |= {"runtime": runtime, "state": state, **spec}
    return App(cluster, team.namespace, tree)


def small_runtime() -> Tree:
    """Small pods that share the folder of their namespace."""
    return {
        "checkpoint": {"claim": SHARED_CLAIM},
        "driver": {"memory": "768m", "resources": _SMALL},
        "executors": {"count": 2, "cores": 1, "memory": "768m", "resources": _SMALL},
        "sparkConf": _SPARK,
    }


def with_secret(container: str, secret: str) -> Tree:
    """A pod template by which a container has a Secret's entries in its environment."""
    return {"spec": {"containers": [{"name": container, "envFrom": [{"secretRef": {"name": secret}}]}]}}


def _is_local(volume: Tree) -> bool:
    return "local" in volume["spec"]


def _node_of(volume: Tree) -> str:
    (term,) = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    node: str = term["matchExpressions"][0]["values"][0]
    return node
