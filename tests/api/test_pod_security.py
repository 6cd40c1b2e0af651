"""Our rules for pods, held against Pod Security admission itself: the same pods, the same verdicts."""

import copy
import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from holdfast_operator.manifests.pod_security import PodProfile, violations
from tests.api.admin import PODS, Admin, RefusedError, Tree
from tests.api.conftest import NAMESPACE, Site
from tests.api.plane import Plane
from tests.operator.apps import TREE

CHECKED = (PodProfile.RESTRICTED, PodProfile.BASELINE)
_CLOSED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
_POD = "spec.securityContext"
_BOTH = (_POD, "spec.containers.0.securityContext", "spec.initContainers.0.securityContext")
_EACH = ("spec.containers.0", "spec.initContainers.0")
_SOURCES: dict[str, Any] = {
    "hostPath": {"path": "/etc"},
    "nfs": {"server": "a", "path": "/"},
    "gitRepo": {"repository": "a"},
    "iscsi": {"targetPortal": "1.2.3.4", "iqn": "iqn.2015-02.example.com:test", "lun": 0},
    "flexVolume": {"driver": "example/x"},
    "cephfs": {"monitors": ["a"]},
    "configMap": {"name": "a"},
    "csi": {"driver": "csi.example.com"},
    "downwardAPI": {},
    "emptyDir": {},
    "ephemeral": {
        "volumeClaimTemplate": {
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        }
    },
    "image": {"reference": "a"},
    "persistentVolumeClaim": {"claimName": "a"},
    "projected": {"sources": [{"serviceAccountToken": {"path": "token", "audience": "vault"}}]},
    "secret": {"secretName": "a"},
}


@dataclass(frozen=True, slots=True)
class Change:
    """One value at one place of a pod that is restricted otherwise."""

    path: str
    value: Any

    def of(self, pod: Tree) -> None:
        """Make it."""
        *path, last = self.path.split(".")
        at: Any = pod
        for part in path:
            at = at[int(part)] if isinstance(at, list) else at.setdefault(part, {})
        if self.value is None:
            at.pop(last, None)
        else:
            at[last] = copy.deepcopy(self.value)

    def __str__(self) -> str:
        return f"{self.path}={self.value}"


def _at(places: tuple[str, ...], field: str, *values: Any) -> Iterator[Change]:
    for place, value in itertools.product(places, values):
        yield Change(f"{place}.{field}", value)


def _contexts() -> Iterator[Change]:
    """What pods and containers say of their rights."""
    yield from _at(_EACH, "securityContext.privileged", False)
    yield from _at(_EACH, "securityContext", None, {}, {"privileged": True}, {**_CLOSED, "privileged": False})
    yield from _at(_EACH, "securityContext.allowPrivilegeEscalation", None, True)
    yield from _at(_EACH, "securityContext.capabilities.drop", [], ["NET_RAW"], ["NET_RAW", "ALL"], ["all"])
    yield from _at(_EACH, "securityContext.capabilities.add", ["NET_BIND_SERVICE"], ["CHOWN"], ["SYS_ADMIN"], [])
    yield from _at(_EACH, "securityContext.capabilities", None, {})
    yield from _at(_EACH, "securityContext.procMount", "Default", "Unmasked")
    yield from _at(_BOTH, "runAsNonRoot", None, True, False)
    yield from _at(_BOTH, "runAsUser", None, 0, 1, 185)
    for kind in ("RuntimeDefault", "Unconfined"):
        yield from _at(_BOTH, "seccompProfile", None, {"type": kind}, {"type": "Localhost", "localhostProfile": "a"})
        yield from _at(_BOTH, "appArmorProfile", {"type": kind}, {"type": "Localhost", "localhostProfile": "a"})
    for kind in ("", "container_t", "container_init_t", "container_kvm_t", "container_engine_t", "spc_t"):
        yield from _at(_BOTH, "seLinuxOptions", {"type": kind})
    yield from _at(_BOTH, "seLinuxOptions", {"user": "u"}, {"role": "r"}, {"level": "s0:c1"}, {"user": "", "role": ""})
    yield from _at(_BOTH, "windowsOptions", {"hostProcess": False}, {"hostProcess": True}, {})
    for name in ("kernel.shm_rmid_forced", "net.ipv4.tcp_rmem", "net.ipv4.tcp_keepalive_time", "kernel.msgmax"):
        yield Change(f"{_POD}.sysctls", [{"name": name, "value": "1"}])


def _beside() -> Iterator[Change]:
    """What else reaches beyond a pod."""
    for field in ("hostNetwork", "hostPID", "hostIPC", "hostUsers"):
        yield from _at(("spec",), field, True, False)
    yield from _at(
        _EACH,
        "ports",
        [{"containerPort": 80}],
        [{"containerPort": 80, "hostPort": 80}],
        [{"containerPort": 8, "hostPort": 0}],
    )
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        for host in ("", "10.0.0.1"):
            yield Change(f"spec.containers.0.{probe}", {"httpGet": {"port": 80, "host": host}})
            yield Change(f"spec.containers.0.{probe}", {"tcpSocket": {"port": 80, "host": host}})
    for hook, host in itertools.product(("postStart", "preStop"), ("", "10.0.0.1")):
        yield Change("spec.containers.0.lifecycle", {hook: {"httpGet": {"port": 80, "host": host}}})
        yield Change("spec.containers.0.lifecycle", {hook: {"exec": {"command": ["true"]}}})
    for value in ("unconfined", "runtime/default", "localhost/a", ""):
        yield Change("metadata.annotations", {"container.apparmor.security.beta.kubernetes.io/main": value})
    for kind, source in _SOURCES.items():
        yield Change("spec.volumes", [{"name": "a", kind: source}])
    yield Change("spec.volumes", [{"name": "a"}])


CHANGES = (*_contexts(), *_beside())
TOGETHER = (
    (Change("spec.hostUsers", False), Change("spec.containers.0.securityContext.procMount", "Unmasked")),
    (Change("spec.hostNetwork", True), Change(f"{_POD}.windowsOptions", {"hostProcess": True})),
)
"""What no API server takes alone."""


def changed(*changes: Change) -> Tree:
    """A restricted pod with these changes."""
    container = {"image": "a", "securityContext": _CLOSED}
    pod: Tree = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "a-"},
        "spec": {
            "containers": [{"name": "main", **container}],
            "initContainers": [{"name": "first", **container}],
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        },
    }
    pod = copy.deepcopy(pod)
    for change in changes:
        change.of(pod)
    return pod


def some_combinations(number: int) -> Iterator[tuple[Change, ...]]:
    chosen = random.Random(7)  # noqa: S311 - the same every time
    for _ in range(number):
        yield tuple(chosen.sample(CHANGES, chosen.randint(2, 5)))


def admitted(admin: Admin, namespace: str, pod: Tree) -> bool | None:
    """Whether Pod Security lets it in; None: no API server would take it for a pod."""
    try:
        admin.create(f"{PODS.format(namespace)}?dryRun=All", pod)
    except RefusedError as error:
        if error.status == 403 and "violates PodSecurity" in str(error):
            return False
        assert error.status in (400, 422), error
        return None
    return True


@pytest.fixture(scope="session")
def namespaces(plane: Plane) -> dict[PodProfile, str]:
    """One under each profile."""
    names = {profile: f"pods-{profile}" for profile in CHECKED}
    for profile, name in names.items():
        labels = {"pod-security.kubernetes.io/enforce": profile.value}
        Admin(plane).create("/api/v1/namespaces", NAMESPACE | {"metadata": {"name": name, "labels": labels}})
    return names


@pytest.mark.parametrize("profile", CHECKED)
def test_our_rules_say_of_pods_what_pod_security_says(
    plane: Plane, namespaces: dict[PodProfile, str], profile: PodProfile
) -> None:
    cases = [*((one,) for one in CHANGES), *TOGETHER, *some_combinations(400)]
    pods = [changed(*case) for case in cases]
    admin = Admin(plane)
    verdicts = [admitted(admin, namespaces[profile], pod) for pod in pods]
    differ = [
        f"{', '.join(map(str, case))}: admitted {verdict}, by us refused {refused or 'not'}"
        for case, pod, verdict in zip(cases, pods, verdicts, strict=True)
        for refused in ["; ".join(map(str, violations(pod, profile)))]
        if verdict is not None and verdict != (not refused)
    ]
    assert differ == []
    # Otherwise nothing has been compared.
    assert min(verdicts.count(True), verdicts.count(False)) > 80, verdicts
    assert verdicts.count(None) < len(verdicts) / 3


def test_no_app_starts_while_it_reaches_for_its_node(site: Site) -> None:
    runtime = TREE["spec"]["runtime"]
    with site.operator():
        site.apply(runtime={**runtime, "executors": {"podTemplate": {"spec": {"hostPID": True}}}})
        site.until("Stalled", "True", "PodsNotAllowed")
        assert site.alive() == []
        site.apply(runtime={**runtime, "executors": {"podTemplate": {"spec": {"nodeSelector": {"disk": "ssd"}}}}})
        site.until("DriverRunning", "True", "Running")
