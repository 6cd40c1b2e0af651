"""Trial pods: what is known of the next attempt's pods before the running attempt is drained for them.

A trial is made from the same spec and template as the driver's pod, or the executors' where those differ. It pulls the
image, mounts the volumes, imports the runtime and exits. It has to fit beside the running attempt, so that it asks for
next to nothing, and leaves out what only one pod may have, or what would act on what the attempt uses:

    left out                                            why
    other containers, init containers, probes, hooks    they may change what the running attempt uses
    volume claims, devices, host ports                  the running attempt may hold them
    affinity to pods, topology spread                   they count the pods that are about to go
    the attempt's own ConfigMap, the disk of state      belong to an attempt
    the token                                           it calls nobody

What is left out is in no digest either: a change of it is not tried. Must not create pods.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.protocol.names import APP_ID_LABEL, ATTEMPT_LABEL, ROLE_LABEL, TRIAL_LABEL, trial_digest, trial_name
from holdfast.protocol.pods import MAIN, STATE_VOLUME
from holdfast.spec.app import StreamApp
from holdfast.trees import Tree, as_objects
from holdfast_operator.decide.decision import StartDriver
from holdfast_operator.manifests.driver_pod import (
    APP_VOLUME,
    POD_ATTRIBUTE,
    AppOwner,
    Installation,
    driver_pod,
    executor_template,
)
from holdfast_operator.manifests.pod_templates import RESERVED

_NOT_TRIED = (
    "initContainers", "ephemeralContainers", "topologySpreadConstraints", "resourceClaims", "resources",
    "serviceAccount",
)  # fmt: skip
"""Fields of a pod's spec. The last one repeats the account's name."""
_CONTAINER = ("workingDir", "env", "envFrom", "imagePullPolicy", "securityContext", "volumeMounts")
"""Fields of a container that are tried beside its image."""
_HELD = ("persistentVolumeClaim", "ephemeral")
_COMMAND = ("python", "-c", "import holdfast_runtime.driver.__main__")
_REQUESTS = {"cpu": "10m", "memory": "64Mi"}
_LIMITS = {"memory": "512Mi"}
"""The import takes 180 MiB; namespaces may ask for a limit."""
_LABELS_OF_ATTEMPTS = frozenset({ROLE_LABEL, ATTEMPT_LABEL, APP_ID_LABEL})
"""By which pods are selected as drivers and executors."""
_EXECUTOR_IMAGE = "spark.kubernetes.executor.container.image"


@dataclass(frozen=True, slots=True)
class TrialPod:
    """A pod that tries what an attempt's pods are made from."""

    digest: str
    """Equal for equal specs of trials: neither attempts, labels nor owners count."""
    tree: Tree


def trial_pods(app: StreamApp, owner: AppOwner, release: Installation) -> tuple[TrialPod, ...]:
    """Return the trials of an app: one of the driver, and one of the executors if they are made from something else."""
    image = app.spec.runtime.image or release.image
    driver = _Part(driver_pod(app, 1, owner, release), MAIN["driver"], image)
    image = app.spec.runtime.spark_conf.get(_EXECUTOR_IMAGE, image)
    executors = _Part(executor_template(StartDriver(app, 1), owner, release), MAIN["executors"], image)
    pods = [_trial(app, part, owner, release) for part in (driver, executors)]
    return tuple({pod.digest: pod for pod in pods}.values())


def pod_digests(app: StreamApp, release: Installation) -> tuple[str, ...]:
    """Return the digests of an app's trials."""
    return tuple(pod.digest for pod in trial_pods(app, AppOwner(app.name, "", ""), release))


@dataclass(frozen=True, slots=True)
class _Part:
    pod: Tree
    main: str
    image: str


def _trial(app: StreamApp, part: _Part, owner: AppOwner, release: Installation) -> TrialPod:
    spec, metadata = _spec(part, release), part.pod["metadata"]
    digest = trial_digest(json.dumps(spec, sort_keys=True))
    labels = {name: value for name, value in metadata["labels"].items() if name not in _LABELS_OF_ATTEMPTS}
    named = {"name": trial_name(app.name, app.spec.run_id, digest), "labels": {**labels, TRIAL_LABEL: digest}}
    if annotations := metadata.get("annotations"):
        named |= {"annotations": annotations}
    named |= {"ownerReferences": [owner.reference()]}
    return TrialPod(digest, {"apiVersion": "v1", "kind": "Pod", "metadata": named, "spec": spec})


def _spec(part: _Part, release: Installation) -> Tree:
    spec = {name: value for name, value in part.pod["spec"].items() if name not in _NOT_TRIED}
    volumes = [volume for volume in as_objects(spec.get("volumes")) if _is_tried(volume)]
    mounted = {volume.get("name") for volume in volumes}
    main = next(one for one in as_objects(spec["containers"]) if one.get("name") == part.main)
    affinity = spec.pop("affinity", None)
    nodes = affinity.get("nodeAffinity") if isinstance(affinity, Mapping) else None
    return {
        **spec,
        **({"affinity": {"nodeAffinity": nodes}} if nodes else {}),
        "automountServiceAccountToken": False,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "containers": [_container(main, part.image, mounted, release)],
        "volumes": volumes,
    }


def _container(main: Tree, image: str, mounted: set[object], release: Installation) -> Tree:
    tried = {name: main[name] for name in _CONTAINER if name in main}
    return {
        "imagePullPolicy": release.pull_policy,
        **tried,
        "name": "trial",
        "image": image,
        "args": [*_COMMAND],
        "env": [variable for variable in as_objects(main.get("env")) if not _is_ours(variable)],
        "resources": {"requests": _REQUESTS, "limits": _LIMITS},
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [mount for mount in as_objects(main.get("volumeMounts")) if mount.get("name") in mounted],
    }


def _is_tried(volume: Tree) -> bool:
    return volume.get("name") not in (APP_VOLUME, STATE_VOLUME) and not any(kind in volume for kind in _HELD)


def _is_ours(variable: Tree) -> bool:
    name = str(variable.get("name"))
    return name == POD_ATTRIBUTE or name.startswith(RESERVED)
