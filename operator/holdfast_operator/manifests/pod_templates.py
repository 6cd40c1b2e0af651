"""Users' pod templates: the fields they may not set, and their merge into the operator's pods.

The engine depends on some fields; a template that sets one of them is refused by name. Merging follows Kubernetes'
strategic merge: objects by field; containers, volumes, mounts and variables by name; other lists are replaced. Must
not know what a driver or an executor needs.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from holdfast.errors import UserActionError
from holdfast.protocol.pods import MAIN
from holdfast.spec.app import StreamApp
from holdfast.spec.runtime import Runtime
from holdfast.trees import Tree

_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "volumes": "name",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "env": "name",
    "ports": "containerPort",
    "imagePullSecrets": "name",
    "hostAliases": "ip",
    "topologySpreadConstraints": "topologyKey",
}
_POD_FIELDS = {
    "restartPolicy": "an attempt is one life of its pod",
    "hostname": "Spark finds the driver by its address",
    "subdomain": "Spark finds the driver by its address",
    "enableServiceLinks": "variables of services would become settings of Spark",
    "shareProcessNamespace": "the driver's signals must reach the driver",
    "activeDeadlineSeconds": "a stream has no end",
}
_MAIN_FIELDS = {
    "command": "the runtime starts itself",
    "args": "the runtime starts itself",
    "image": "is given by spec.runtime.image",
}
RESERVED = "HOLDFAST_"


class TemplateRefusedError(UserActionError):
    """A pod template sets fields that the engine depends on."""


def mounted_claims(app: StreamApp) -> tuple[str, ...]:
    """Return the names of the claims that the app's pods mount: that of its checkpoint, and those of its templates."""
    runtime = app.spec.runtime
    claims = {*_claims(runtime.driver.pod_template), *_claims(runtime.executors.pod_template)}
    if runtime.checkpoint is not None and runtime.checkpoint.claim is not None:
        claims.add(runtime.checkpoint.claim)
    return tuple(sorted(claims))


def _claims(template: Mapping[str, Any]) -> Iterator[str]:
    """Yield the claims that a template names; whether its shape is right is judged elsewhere."""
    spec = template.get("spec")
    volumes = spec.get("volumes") if isinstance(spec, dict) else None
    for volume in volumes if isinstance(volumes, list) else ():
        source = volume.get("persistentVolumeClaim") if isinstance(volume, dict) else None
        name = source.get("claimName") if isinstance(source, dict) else None
        if isinstance(name, str) and name:
            yield name


def check_templates(runtime: Runtime) -> None:
    """Raise `TemplateRefusedError` naming every field a template may not set."""
    wrong = [
        f"spec.runtime.{part}.podTemplate.{path} {why}"
        for part, template in (
            ("driver", runtime.driver.pod_template),
            ("executors", runtime.executors.pod_template),
        )
        for path, why in _refused(template, MAIN[part])
    ]
    if wrong:
        message = f"remove {'; '.join(wrong)}"
        raise TemplateRefusedError(message)


def _refused(template: Mapping[str, Any], main: str) -> Iterator[tuple[str, str]]:
    for name in template:
        if name not in ("metadata", "spec"):
            yield name, "(a pod template has metadata and spec)"
    metadata, spec = template.get("metadata", {}), template.get("spec", {})
    if not isinstance(metadata, dict) or not isinstance(spec, dict):
        yield "metadata, spec", "(both are objects)"
        return
    yield from _refused_metadata(metadata)
    for name, why in _POD_FIELDS.items():
        if name in spec:
            yield f"spec.{name}", f"({why})"
    yield from _refused_in_main(spec, main)


def _refused_metadata(metadata: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, values in metadata.items():
        if name not in ("labels", "annotations"):
            yield f"metadata.{name}", "(only labels and annotations are the user's)"
        elif not isinstance(values, dict):
            yield f"metadata.{name}", "(is an object)"
        else:
            for key in values:
                if str(key).startswith(("holdfast.dev/", "spark-")):
                    yield f"metadata.{name}[{key}]", "(Holdfast and Spark find pods by it)"


def _refused_in_main(spec: Mapping[str, Any], main: str) -> Iterator[tuple[str, str]]:
    containers = spec.get("containers", [])
    if not isinstance(containers, list) or not all(isinstance(one, dict) for one in containers):
        # Null is refused too: without our container Spark would add its own, without our security settings.
        yield "spec.containers", "(is a list of objects)"
        return
    for container in containers:
        if not container.get("name"):
            yield "spec.containers[]", f"(each has a name; Holdfast's own is {main})"
        if container.get("name") != main:
            continue
        for name, why in _MAIN_FIELDS.items():
            if name in container:
                yield f"spec.containers[{main}].{name}", f"({why})"
        variables = container.get("env", [])
        if not isinstance(variables, list):
            yield f"spec.containers[{main}].env", "(is a list of objects)"
            continue
        for variable in variables:
            if isinstance(variable, dict) and str(variable.get("name", "")).startswith(RESERVED):
                yield f"spec.containers[{main}].env[{variable['name']}]", "(the name is Holdfast's)"


def merged(ours: Mapping[str, Any], users: Mapping[str, Any]) -> dict[str, Any]:
    """Return our pod with the user's template merged into it."""
    result = dict(ours)
    for name, value in users.items():
        before = result.get(name)
        if isinstance(before, dict) and isinstance(value, dict):
            result[name] = merged(before, value)
        elif isinstance(before, list) and isinstance(value, list) and name in _KEYS:
            result[name] = _merged_lists(before, value, _KEYS[name])
        elif value is None:
            result.pop(name, None)
        else:
            result[name] = value
    return result


def _merged_lists(ours: list[Any], users: list[Any], key: str) -> list[Any]:
    """Return our items in our order, each merged with the user's, then the items that only the user has."""
    keys = [one.get(key) for one in ours]
    users_by_key = {one.get(key): one for one in users if isinstance(one, dict) and one.get(key) in keys}
    return [merged(one, users_by_key.get(one.get(key), {})) for one in ours] + [
        one for one in users if not isinstance(one, dict) or one.get(key) not in keys
    ]


_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_NO_EXECUTE = "NoExecute"


def with_node_tolerations(pod: Tree, seconds: int) -> Tree:
    """Return the pod with tolerations for a silent node for this long, unless it has its own."""
    spec = pod["spec"]
    tolerations = spec.get("tolerations") or []
    if not isinstance(tolerations, list):
        return pod  # the API server reports what is wrong with it
    user_tolerations = [one for one in tolerations if isinstance(one, dict)]
    ours = [
        {"key": taint, "operator": "Exists", "effect": _NO_EXECUTE, "tolerationSeconds": seconds}
        for taint in _TAINTS
        if not any(_tolerates(one, taint) for one in user_tolerations)
    ]
    return {**pod, "spec": {**spec, "tolerations": [*tolerations, *ours]}}


def _tolerates(toleration: Mapping[str, Any], taint: str) -> bool:
    return toleration.get("key") in (taint, None, "") and toleration.get("effect") in (_NO_EXECUTE, None, "")
