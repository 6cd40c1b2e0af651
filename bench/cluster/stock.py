"""The stock subject: Structured Streaming as people run it on Kubernetes without an operator.

A Deployment of one driver in client mode, from the same image, on the same nodes, with its checkpoint in the same
folder. What it gets, so that it is at its best:

- A Deployment, which replaces a driver at once, also one whose node is lost; executors come from Spark's own allocator.
- The settings of `bench.engine.peers` (tuned), changelog checkpointing on, and what Holdfast sets to notice lost
  executors soon; the same trigger, rows per trigger, cores and heap, the same tolerations for lost nodes.
- More memory beside the heap than Holdfast, for RocksDB.

The image has neither RocksDB, Spark's Kafka source nor protobuf: they lie in the shared folder. With them the class
path is not that of the image's archive of Java's classes, and Java starts as in other images of Spark. Must not use
anything of Holdfast but the words of pods.
"""

import json
import shutil
import site
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark

from bench.cluster.newest import BLOB
from bench.cluster.subject import BLOB_BYTES, INTERVAL, NO_ARCHIVE, PARTITIONS, PER_PARTITION, killed
from bench.engine.peers import TUNED, rocksdb
from bench.kafka.jars import jars
from holdfast_operator.manifests.driver_pod import USER
from holdfast_operator.manifests.pod_templates import with_node_tolerations
from tests.cluster.cluster import Cluster, Tree
from tests.kafka.counted import Counted
from tests.kind.apps import CHECKPOINTS
from tests.kind.installed import LOST_AFTER, Installed, Team
from tests.kind.storage import SHARED_CLAIM
from tests.waiting import wait_until

NAME = "stock"
_FOLDER = f"{CHECKPOINTS}/{NAME}"
_APP = Path(__file__).with_name("stock_app.py")
_GONE = 180.0
_HEAP = "768m"
_EVERYTHING = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"]
_POD_SECURITY = {
    "runAsNonRoot": True,
    "runAsUser": USER,
    "fsGroup": USER,
    "fsGroupChangePolicy": "OnRootMismatch",
    "seccompProfile": {"type": "RuntimeDefault"},
}
_CLOSED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
_VOLUMES = [{"name": "shared", "persistentVolumeClaim": {"claimName": SHARED_CLAIM}}]
_MOUNTS = [{"name": "shared", "mountPath": CHECKPOINTS}]


@dataclass(frozen=True)
class Stock:
    """The Deployment."""

    cluster: Cluster
    team: Team
    image: str
    request: Mapping[str, Any]

    def prepare(self) -> None:
        """What its pods find in the shared folder."""
        folder = self._folder()
        (folder / "jars").mkdir(parents=True)
        (spark,) = pyspark.__path__
        for jar in (*map(Path, jars("spark-kafka").split(",")), *Path(spark, "jars").glob("rocksdbjni-*.jar")):
            shutil.copyfile(jar, folder / "jars" / jar.name)
        (packages,) = [path for one in site.getsitepackages() if (path := Path(one, "google", "protobuf")).is_dir()]
        shutil.copytree(packages.parent, folder / "python" / "google")
        shutil.copyfile(_APP, folder / _APP.name)
        (folder / "executor.json").write_text(json.dumps(executor_template()))

    def apply(self) -> None:
        """As users do."""
        namespace = self.team.namespace
        self.cluster.apply(*account(namespace), deployment(namespace, self.image, self.request), namespace=namespace)

    def driver(self) -> Tree:
        """The one that runs."""
        (driver,) = [
            pod
            for pod in self._pods(f"app={NAME}")
            if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]
        ]
        return driver

    def kill_driver(self) -> None:
        """Its executors go with it."""
        killed(self.cluster, self.driver())

    def suspend(self) -> None:
        """No driver."""
        self._scale(0)
        wait_until(lambda: not self._all_pods(), _GONE, "no pod of stock Spark is there")

    def resume(self) -> None:
        """One driver."""
        self._scale(1)

    def restored(self) -> int | None:
        """It always restores: its executors are new ones each time."""
        return None

    def remove(self) -> None:
        """Its pods too: others want the cores."""
        where = f"--namespace={self.team.namespace}"
        self.cluster.kubectl("delete", "deployment", NAME, where, "--ignore-not-found")
        wait_until(lambda: not self._all_pods(), _GONE, "the pods of stock Spark are gone")
        shutil.rmtree(self._folder())

    def _folder(self) -> Path:
        return self.cluster.shared / self.team.namespace / NAME

    def _scale(self, count: int) -> None:
        where = f"--namespace={self.team.namespace}"
        self.cluster.kubectl("scale", f"deployment/{NAME}", f"--replicas={count}", where)

    def _all_pods(self) -> list[Tree]:
        return [*self._pods(f"app={NAME}"), *self._pods("spark-role=executor")]

    def _pods(self, labels: str) -> list[Tree]:
        pods: list[Tree] = self.cluster.tree("pods", f"--selector={labels}", f"--namespace={self.team.namespace}")[
            "items"
        ]
        return pods


@contextmanager
def stock(installed: Installed, team: Team, counted: Counted) -> Iterator[Stock]:
    """Ready to be applied; its topic is there, as nobody else makes it."""
    counted.broker.create_topic(counted.numbered, PARTITIONS)
    made = Stock(installed.cluster, team, installed.images.runtime, request_of(counted))
    made.prepare()
    try:
        yield made
    finally:
        made.remove()


def request_of(counted: Counted) -> dict[str, Any]:
    """What `stock_app` is told."""
    return {
        "bootstrap": counted.broker.bootstrap,
        "rows": counted.rows,
        "numbered": counted.numbered,
        "checkpoint": f"file://{CHECKPOINTS}/{NAME}-checkpoint",
        "per_batch": PARTITIONS * PER_PARTITION,
        "interval": INTERVAL.replace("ms", " milliseconds"),
        "fills": f"key-{BLOB}",
        "size": BLOB_BYTES,
    }


def settings(namespace: str, image: str) -> dict[str, str]:
    """Of Spark. `$(NAME)` is put in by Kubernetes."""
    kubernetes = "spark.kubernetes"
    return {
        **TUNED,
        **rocksdb(changelog=True),
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.host": "$(POD_IP)",
        "spark.driver.bindAddress": "$(POD_IP)",
        "spark.driver.extraClassPath": f"{_FOLDER}/jars/*",
        "spark.executor.extraClassPath": f"{_FOLDER}/jars/*",
        "spark.executorEnv.PYTHONPATH": f"{_FOLDER}/python",
        f"spark.executorEnv.{NO_ARCHIVE['name']}": NO_ARCHIVE["value"],
        "spark.executor.instances": "2",
        "spark.executor.cores": "1",
        "spark.executor.memory": _HEAP,
        "spark.executor.memoryOverhead": "1g",
        "spark.scheduler.minRegisteredResourcesRatio": "0",
        f"{kubernetes}.namespace": namespace,
        f"{kubernetes}.container.image": image,
        f"{kubernetes}.container.image.pullPolicy": "IfNotPresent",
        f"{kubernetes}.driver.pod.name": "$(POD_NAME)",
        f"{kubernetes}.executor.request.cores": "200m",
        f"{kubernetes}.executor.podTemplateFile": f"{_FOLDER}/executor.json",
        f"{kubernetes}.executor.missingPodDetectDelta": "3s",
        f"{kubernetes}.executor.apiPollingInterval": "2s",
    }


def executor_template() -> Tree:
    """One executor for each worker, if that can be."""
    apart = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"spark-role": "executor"}}}
    affinity = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": apart}]}
    container = {"name": "spark-kubernetes-executor", "securityContext": _CLOSED, "volumeMounts": _MOUNTS}
    spec = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": _POD_SECURITY,
        "affinity": {"podAntiAffinity": affinity},
        "containers": [container],
        "volumes": _VOLUMES,
    }
    return with_node_tolerations({"apiVersion": "v1", "kind": "Pod", "spec": spec}, LOST_AFTER)


def deployment(namespace: str, image: str, request: Mapping[str, Any]) -> Tree:
    """A driver that comes back."""
    conf = [word for name, value in settings(namespace, image).items() for word in ("--conf", f"{name}={value}")]
    submit = ["spark-submit", "--master", "k8s://https://kubernetes.default.svc", "--deploy-mode", "client"]
    command = [*submit, "--name", NAME, "--driver-memory", _HEAP, *conf, f"{_FOLDER}/{_APP.name}", json.dumps(request)]
    container = {
        "name": "driver",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "args": command,
        "env": [
            {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "PYTHONPATH", "value": f"{_FOLDER}/python"},
            NO_ARCHIVE,
        ],
        "resources": {"requests": {"cpu": "200m", "memory": "1152Mi"}, "limits": {"memory": "1152Mi"}},
        "securityContext": _CLOSED,
        "volumeMounts": _MOUNTS,
    }
    spec = {
        "serviceAccountName": NAME,
        "enableServiceLinks": False,
        "securityContext": _POD_SECURITY,
        "containers": [container],
        "volumes": _VOLUMES,
    }
    pod = with_node_tolerations({"metadata": {"labels": {"app": NAME}}, "spec": spec}, LOST_AFTER)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": NAME},
        "spec": {
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": {"app": NAME}},
            "template": pod,
        },
    }


def account(namespace: str) -> list[Tree]:
    """The driver's, with the rights that Spark's manual names."""
    rbac = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": NAME}}
    resources = ["pods", "services", "configmaps", "persistentvolumeclaims"]
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": NAME}},
        {**rbac, "kind": "Role", "rules": [{"apiGroups": [""], "resources": resources, "verbs": _EVERYTHING}]},
        {
            **rbac,
            "kind": "RoleBinding",
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": NAME},
            "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": namespace}],
        },
    ]
