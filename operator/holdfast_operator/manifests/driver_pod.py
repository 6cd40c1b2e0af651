"""The driver pod, its ConfigMaps, the executors' pod template, and Spark's settings.

The operator builds the driver's pod completely: no spark-submit, no webhook. The driver reads its app from the
ConfigMap of its attempt and starts Spark in client mode. Executors come from Spark's StatefulSet allocator, with an
app id that is the same in every attempt of a run, so that executor k finds claim k again. Must not talk to the API
server.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlsplit

from holdfast.placement.state_disk import StateDisk, state_disk
from holdfast.protocol.assignment import ASSIGNMENT_KEY, VersionedAssignment
from holdfast.protocol.attempt import ORDERS_KEY, AttemptOrders
from holdfast.protocol.metrics import METRICS_PORT, METRICS_PORT_NAME, METRICS_PORT_VARIABLE
from holdfast.protocol.names import (
    APP_ID_LABEL,
    APP_LABEL,
    ASSIGNMENT_LABEL,
    ATTEMPT_LABEL,
    ROLE_LABEL,
    SPEC_LABEL,
    app_id,
    assignment_name,
    attempt_name,
    report_name,
)
from holdfast.protocol.pods import APP_DIRECTORY, MAIN, STATE_DIRECTORY, STATE_VOLUME
from holdfast.spec.app import API_VERSION, KIND, StreamApp
from holdfast.spec.defaults import spec_with_defaults
from holdfast.spec.values import as_spark, millis
from holdfast.trees import Tree
from holdfast_operator.decide.decision import StartDriver
from holdfast_operator.manifests.pod_fields import node_fields, variables
from holdfast_operator.manifests.pod_resources import driver_resources, executor_resources, executor_settings
from holdfast_operator.manifests.pod_templates import merged, with_node_tolerations
from holdfast_operator.manifests.release_defaults import ReleaseDefaults

USER = 185
APP_KEY, EXECUTOR_KEY, SPARK_KEY = "app.json", "executor.json", "spark.json"
_DRAIN = 120
_LONGEST_DRAIN = 3600
_NODES = 50
POD_ATTRIBUTE = "SPARK_EXECUTOR_ATTRIBUTE_POD"
APP_VOLUME, _CHECKPOINT_VOLUME = "holdfast-app", "holdfast-checkpoint"


@dataclass(frozen=True, slots=True)
class Installation:
    """The settings of an installation that its pods get."""

    image: str
    service_account: str = "holdfast-app"
    pull_policy: str = "IfNotPresent"
    pull_secrets: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    lost_after: int = 60
    """Seconds that pods stay on a silent node."""
    defaults: ReleaseDefaults = field(default_factory=ReleaseDefaults)
    """What apps get that do not say it."""


@dataclass(frozen=True, slots=True)
class AppOwner:
    """The app object that owns all other objects."""

    name: str
    namespace: str
    uid: str

    def reference(self) -> Tree:
        """Return the Kubernetes owner reference."""
        return {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "name": self.name,
            "uid": self.uid,
            "controller": True,
            # The finalizer already keeps the app until its pods are gone; blocking would need one more right.
            "blockOwnerDeletion": False,
        }


def driver_pod(app: StreamApp, attempt: int, owner: AppOwner, release: Installation, spec_hash: str = "") -> Tree:
    """Return the driver pod of an attempt; `spec_hash`: the fingerprint of the spec."""
    name, driver = attempt_name(app.name, app.spec.run_id, attempt), app.spec.runtime.driver
    container: Tree = {
        "name": MAIN["driver"],
        "image": app.spec.runtime.image or release.image,
        "imagePullPolicy": release.pull_policy,
        "args": ["driver", APP_DIRECTORY],
        "env": [
            {"name": "HOLDFAST_ATTEMPT", "value": str(attempt)},
            {"name": "HOLDFAST_NAMESPACE", "value": owner.namespace},
            {"name": "HOLDFAST_POD", "value": name},
            {"name": "HOLDFAST_POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": METRICS_PORT_VARIABLE, "value": str(METRICS_PORT)},
            *variables(driver),
        ],
        "ports": [{"name": METRICS_PORT_NAME, "containerPort": METRICS_PORT}],
        "resources": driver_resources(driver),
        "securityContext": _container_security(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [{"name": APP_VOLUME, "mountPath": APP_DIRECTORY, "readOnly": True}, *_mounts(app)],
    }
    pod: Tree = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": {**release.labels, **_labels(app, attempt), **_made_of(spec_hash), ROLE_LABEL: "driver"},
            "ownerReferences": [owner.reference()],
        },
        "spec": {
            **_pod_basics(app, release),
            **node_fields(driver),
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": drain_seconds(app),
            "containers": [container],
            "volumes": [{"name": APP_VOLUME, "configMap": {"name": name}}, *_volumes(app)],
        },
    }
    return with_node_tolerations(merged(pod, driver.pod_template), release.lost_after)


def attempt_config_map(start: StartDriver, tree: Mapping[str, Any], owner: AppOwner, release: Installation) -> Tree:
    """Return the immutable ConfigMap of an attempt: the app as it is now, the orders, and Spark's settings."""
    app, attempt = start.app, start.attempt
    run = app.spec.run_id
    who = AttemptOrders(
        app.name,
        owner.namespace,
        owner.uid,
        run,
        attempt,
        assignment_name(app.name, run),
        report_name(app.name, run),
        start.topics,
    )
    app_tree = {
        **{name: tree[name] for name in ("apiVersion", "kind")},
        "metadata": {"name": app.name},
        "spec": spec_with_defaults(tree["spec"], start.defaults),
    }
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": attempt_name(app.name, app.spec.run_id, attempt),
            "labels": {**release.labels, **_labels(app, attempt), **_made_of(start.spec_hash)},
            "ownerReferences": [owner.reference()],
        },
        "immutable": True,
        "data": {
            APP_KEY: json.dumps(app_tree, ensure_ascii=False, sort_keys=True),
            ORDERS_KEY: who.text(),
            EXECUTOR_KEY: json.dumps(executor_template(start, owner, release), sort_keys=True),
            SPARK_KEY: json.dumps(spark_settings(app, attempt, owner, release, start.storage_class), sort_keys=True),
        },
    }


def assignment_config_map(handed: VersionedAssignment, run: str, owner: AppOwner) -> Tree:
    """Return the ConfigMap with the assignment for the driver."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": assignment_name(owner.name, run),
            "labels": {APP_LABEL: owner.name, ASSIGNMENT_LABEL: owner.name},
            "ownerReferences": [owner.reference()],
        },
        "data": {ASSIGNMENT_KEY: handed.text()},
    }


def executor_template(start: StartDriver, owner: AppOwner, release: Installation) -> Tree:
    """Return the pod template of executors; Spark adds image, command, resources and the state volume."""
    app, attempt = start.app, start.attempt
    affinity: Tree = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [_anti_affinity(app)]}}
    if start.nodes:
        affinity["nodeAffinity"] = {"preferredDuringSchedulingIgnoredDuringExecution": _state_affinity(start.nodes)}
    template: Tree = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"labels": {**release.labels, **_labels(app, attempt)}},
        "spec": {
            **_pod_basics(app, release),
            **node_fields(app.spec.runtime.executors),
            # Executors never call the API server, so users' code there gets no rights by default.
            "automountServiceAccountToken": False,
            "affinity": affinity,
            "containers": [
                {
                    "name": MAIN["executors"],
                    **executor_resources(app.spec.runtime.executors),
                    "securityContext": _container_security(),
                    # Spark passes it to the driver, which knows executors by pod, whatever number Spark gives them.
                    "env": [
                        {"name": POD_ATTRIBUTE, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                        *variables(app.spec.runtime.executors),
                    ],
                    "volumeMounts": _mounts(app),
                }
            ],
            "volumes": _volumes(app),
        },
    }
    if app.spec.state.location != "Claim" and not _disk(app).of_template:
        _add_local_state(template["spec"], app, owner)
    pod = merged(template, app.spec.runtime.executors.pod_template)
    if account := pod["spec"].get("serviceAccountName"):
        # Spark reads only this field; if it is empty, Spark replaces the template's account by the driver's.
        pod["spec"]["serviceAccount"] = account
    return with_node_tolerations(pod, release.lost_after)


def spark_settings(
    app: StreamApp, attempt: int, owner: AppOwner, release: Installation, storage_class: str = ""
) -> dict[str, str]:
    """Return Spark's settings for client mode, each tested on a cluster. `storage_class`: that of its claims."""
    spec, run = app.spec, app_id(app.name, app.spec.run_id)
    kubernetes, executors = "spark.kubernetes", spec.runtime.executors
    settings = {
        "spark.app.id": run,
        "spark.executor.instances": str(executors.count),
        "spark.executor.cores": str(executors.cores),
        "spark.executor.memory": as_spark(executors.memory),
        "spark.scheduler.minRegisteredResourcesRatio": "0",
        f"{kubernetes}.namespace": owner.namespace,
        f"{kubernetes}.container.image": spec.runtime.image or release.image,
        f"{kubernetes}.container.image.pullPolicy": release.pull_policy,
        f"{kubernetes}.authenticate.driver.serviceAccountName": _account(app, release),
        f"{kubernetes}.driver.pod.name": attempt_name(app.name, spec.run_id, attempt),
        f"{kubernetes}.driver.ownPersistentVolumeClaim": "false",
        # Client mode has no Service; deleting by label would need a right to all Services of the namespace.
        f"{kubernetes}.driver.service.deleteOnTermination": "false",
        f"{kubernetes}.allocation.pods.allocator": "statefulset",
        f"{kubernetes}.executor.podTemplateFile": f"{APP_DIRECTORY}/{EXECUTOR_KEY}",
        f"{kubernetes}.executor.missingPodDetectDelta": "3s",
        f"{kubernetes}.executor.apiPollingInterval": "2s",
    }
    settings |= executor_settings(executors, spec.runtime.spark_conf)
    if spec.state.location == "Claim":
        claim = f"{kubernetes}.executor.volumes.persistentVolumeClaim.{STATE_VOLUME}"
        settings |= {
            f"{kubernetes}.legacy.useReadWriteOnceAccessMode": "true",
            f"{claim}.options.claimName": "OnDemand",
            f"{claim}.options.sizeLimit": spec.state.size,
            f"{claim}.mount.path": STATE_DIRECTORY,
        }
        # Without a class Spark creates no claims, and executors wait forever.
        if named := spec.state.storage_class or storage_class:
            settings[f"{claim}.options.storageClass"] = named
    return settings


def drain_seconds(app: StreamApp) -> int:
    """Return how long a driver may take to finish its batch; longer triggers mean longer batches."""
    return min(_LONGEST_DRAIN, max(_DRAIN, 2 * millis(app.spec.runtime.trigger.interval) // 1000))


def secrets_needed(app: StreamApp) -> tuple[str, ...]:
    """Return the names of the Secrets that the app's pods mount."""
    clusters = [system.kafka for system in app.spec.systems if system.kafka is not None]
    registries = [cluster.registry for cluster in clusters if cluster.registry is not None]
    names = {*(cluster.secret_name for cluster in clusters), *(registry.secret_name for registry in registries)}
    if (lineage := app.spec.runtime.lineage) is not None:
        names.add(lineage.secret_name)
    return tuple(sorted(name for name in names if name is not None))


def _labels(app: StreamApp, attempt: int) -> dict[str, str]:
    return {
        APP_LABEL: app.name,
        ATTEMPT_LABEL: str(attempt),
        APP_ID_LABEL: app_id(app.name, app.spec.run_id),
        "app.kubernetes.io/name": app.name,
        "app.kubernetes.io/managed-by": "holdfast",
    }


def _made_of(spec_hash: str) -> dict[str, str]:
    return {SPEC_LABEL: spec_hash} if spec_hash else {}


def _account(app: StreamApp, release: Installation) -> str:
    return app.spec.runtime.service_account_name or release.service_account


def _pod_basics(app: StreamApp, release: Installation) -> Tree:
    basics: Tree = {
        "serviceAccountName": _account(app, release),
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "fsGroup": USER,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    if release.pull_secrets:
        basics["imagePullSecrets"] = [{"name": name} for name in release.pull_secrets]
    return basics


def _container_security() -> Tree:
    return {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def _anti_affinity(app: StreamApp) -> Tree:
    """Return a preference for one executor per node, so that a lost node takes less state."""
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {APP_LABEL: app.name}}}
    return {"weight": 100, "podAffinityTerm": term}


def _state_affinity(nodes: Mapping[str, int]) -> list[Tree]:
    """Return preferences for the nodes with most state, weighted by it; the API server takes weights up to 100."""
    most = sorted(nodes.items(), key=lambda node: (-node[1], node[0]))[:_NODES]
    top = most[0][1]
    return [
        {
            "weight": max(1, 100 * tasks // top),
            "preference": {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]},
        }
        for node, tasks in most
    ]


def takes_node_directory(app: StreamApp) -> bool:
    """Return whether the app's state is in Holdfast's directory of the node, which outlives pods."""
    return app.spec.state.location not in ("Claim", "Pod") and not _disk(app).of_template


def node_directory(app: StreamApp, owner: AppOwner) -> Tree:
    """Return the app's node directory as a volume; its path is unique among all apps of all namespaces."""
    path = f"{STATE_DIRECTORY}/{owner.namespace}/{app_id(app.name, app.spec.run_id)}"
    return {"name": STATE_VOLUME, "hostPath": {"path": path, "type": "DirectoryOrCreate"}}


def _disk(app: StreamApp) -> StateDisk:
    return state_disk(app.spec.state.location, app.spec.runtime.executors.pod_template)


def _add_local_state(spec: Tree, app: StreamApp, owner: AppOwner) -> None:
    empty_dir: Tree = {"name": STATE_VOLUME, "emptyDir": {"sizeLimit": app.spec.state.size}}
    spec["volumes"] = [*spec["volumes"], node_directory(app, owner) if takes_node_directory(app) else empty_dir]
    (container,) = spec["containers"]
    container["volumeMounts"] = [*container["volumeMounts"], {"name": STATE_VOLUME, "mountPath": STATE_DIRECTORY}]


def _volumes(app: StreamApp) -> list[Tree]:
    """Return what driver and executors mount alike: the app's secrets, and the claim of its checkpoint."""
    checkpoint = app.spec.runtime.checkpoint
    volumes: list[Tree] = [
        {"name": f"secret-{number}", "secret": {"secretName": name}} for number, name in enumerate(secrets_needed(app))
    ]
    if checkpoint is not None and checkpoint.claim is not None:
        volumes.append({"name": _CHECKPOINT_VOLUME, "persistentVolumeClaim": {"claimName": checkpoint.claim}})
    return volumes


def _mounts(app: StreamApp) -> list[Tree]:
    checkpoint = app.spec.runtime.checkpoint
    mounts: list[Tree] = [
        {"name": f"secret-{number}", "mountPath": f"{APP_DIRECTORY}/secrets/{name}", "readOnly": True}
        for number, name in enumerate(secrets_needed(app))
    ]
    if checkpoint is not None and checkpoint.claim is not None:
        mounts.append({"name": _CHECKPOINT_VOLUME, "mountPath": unquote(urlsplit(checkpoint.location).path)})
    return mounts
