"""Kubernetes' Pod Security Standards as rules over a pod: what `baseline` and `restricted` do not allow.

The operator creates pods with its own rights, so a tenant must not get from it what admission would refuse the tenant.
The rules are those of Kubernetes 1.34, compared with a real API server in tests/api/test_pod_security.py. A field of
the wrong type is a violation, not an exception: Spark reads templates more leniently than the API server does. Must not
know apps, nor rules beyond the standards.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from holdfast.trees import ReadTree

_LISTS = ("initContainers", "containers", "ephemeralContainers")
_REMOVE = "remove it"
_SHOWN = 80
_SECCOMP = "set it to RuntimeDefault"


class PodProfile(StrEnum):
    """What pods may do; the names are those of Pod Security, except `any`."""

    RESTRICTED = "restricted"
    BASELINE = "baseline"
    ANY = "any"


@dataclass(frozen=True, slots=True)
class Violation:
    """A field that is not allowed, and what to do."""

    path: str
    """Path within the pod."""
    why: str
    cure: str

    def __str__(self) -> str:
        return f"{self.path} {self.why}: {self.cure}"


Rule = Callable[[ReadTree], Iterator[Violation]]
Allows = Callable[[object], bool]


def violations(pod: ReadTree, profile: PodProfile) -> Iterator[Violation]:
    """Yield what the profile does not allow in this pod."""
    for rule in RULES[profile]:
        yield from rule(pod)


class _Misshapen:
    """Stands for a value of the wrong type; never equal to an allowed value."""

    def __init__(self, shape: str) -> None:
        self.shape = shape


def values(tree: object, path: str, parent: str = "") -> Iterator[tuple[str, object]]:
    """Yield every value at a path like `a.b[].c`; `*` is each list of containers. Null counts as absent."""
    part, _, rest = path.partition(".")
    if not isinstance(tree, dict):
        yield parent, _Misshapen("an object")
        return
    for name in _LISTS if part == "*" else (part.removesuffix("[]"),):
        value, field_path = tree.get(name), f"{parent}.{name}" if parent else name
        if value is None:
            continue
        if part == "*" or part.endswith("[]"):
            yield from _elements(value, rest, field_path)
        elif rest:
            yield from values(value, rest, field_path)
        else:
            yield field_path, value


def _elements(value: object, rest: str, parent: str) -> Iterator[tuple[str, object]]:
    if not isinstance(value, list):
        yield parent, _Misshapen("a list")
        return
    for number, element in enumerate(value):
        name = element.get("name") if isinstance(element, dict) else None
        field_path = f"{parent}[{name[:_SHOWN] if isinstance(name, str) else number}]"
        if rest:
            yield from values(element, rest, field_path)
        else:
            yield field_path, element


def shown(value: object) -> str:
    """Return what is wrong with a value, in words."""
    if isinstance(value, _Misshapen):
        return f"is not {value.shape}"
    if value is None:
        return "is not set"
    if isinstance(value, dict | list):
        return "is set"
    return f"is {str(value).lower() if isinstance(value, bool) else repr(value)[:_SHOWN]}"


def one_of(*allowed: object) -> Allows:
    """Return a check for exactly these values; types must match, as 0 is not false."""
    return lambda value: any(type(value) is type(one) and value == one for one in allowed)


def _nothing(_: object) -> bool:
    return False


def _true(value: object) -> bool:
    return value is True


def _false(value: object) -> bool:
    return value is False


def _not_root(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value != 0


def _drops_all(value: object) -> bool:
    return isinstance(value, list) and "ALL" in value


def if_set(*paths: str, allows: Allows = _nothing, cure: str = _REMOVE) -> Rule:
    """Return a rule: values at these paths must be allowed or absent."""

    def rule(pod: ReadTree) -> Iterator[Violation]:
        for path in paths:
            for field_path, value in values(pod, path):
                if not allows(value):
                    yield Violation(field_path, shown(value), cure)

    return rule


def _in_each_container(field: str, allows: Allows, cure: str) -> Rule:
    """Return a rule: every container must set this field to an allowed value."""

    def rule(pod: ReadTree) -> Iterator[Violation]:
        for field_path, container in _containers(pod):
            value = _first(container, field)
            if not allows(value):
                yield Violation(f"{field_path}.{field}", shown(value), cure)

    return rule


def _in_pod_or_containers(field: str, allows: Allows, cure: str) -> Rule:
    """Return a rule: the pod must set an allowed value and no container another one, or each container must set it."""

    def rule(pod: ReadTree) -> Iterator[Violation]:
        pod_value = _first(pod, f"spec.{field}")
        if pod_value is not None and not allows(pod_value):
            yield Violation(f"spec.{field}", shown(pod_value), cure)
        for field_path, container in _containers(pod):
            value = _first(container, field)
            if not allows(value) and (value is not None or pod_value is None):
                yield Violation(f"{field_path}.{field}", shown(value), cure)

    return rule


def _first(tree: object, field: str) -> object:
    return next((value for _, value in values(tree, field)), None)


def _containers(pod: ReadTree) -> Iterator[tuple[str, object]]:
    for name in _LISTS:
        yield from values(pod, f"spec.{name}[]")


def _contexts(field: str) -> tuple[str, str]:
    """Return the paths of a field that both pods and containers have."""
    return f"spec.securityContext.{field}", f"spec.*.securityContext.{field}"


_DEFAULT_CAPABILITIES = (
    "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP",
    "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
)  # fmt: skip
_SYSCTLS = (
    "kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range",
    "net.ipv4.ip_unprivileged_port_start", "net.ipv4.ip_local_reserved_ports", "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
)  # fmt: skip
_PROFILES = ("RuntimeDefault", "Localhost")
_SELINUX_TYPES = ("", "container_t", "container_init_t", "container_kvm_t", "container_engine_t")
_ASKING = ("livenessProbe", "readinessProbe", "startupProbe", "lifecycle.postStart", "lifecycle.preStop")
_HOSTS = tuple(f"spec.*.{who}.{how}.host" for who in _ASKING for how in ("httpGet", "tcpSocket"))
_APPARMOR = "container.apparmor.security.beta.kubernetes.io/"
_VOLUMES = frozenset(
    {
        "name", "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim",
        "projected", "secret",
    }
)  # fmt: skip


def _apparmor_annotations(pod: ReadTree) -> Iterator[Violation]:
    for field_path, annotations in values(pod, "metadata.annotations"):
        if not isinstance(annotations, dict):
            yield Violation(field_path, "is not an object", _REMOVE)
            continue
        for name, value in annotations.items():
            unset = value is None or value in ("", "runtime/default")
            if str(name).startswith(_APPARMOR) and not (unset or str(value).startswith("localhost/")):
                yield Violation(f"{field_path}[{str(name)[:_SHOWN]}]", shown(value), _REMOVE)


def _volume_kinds(pod: ReadTree) -> Iterator[Violation]:
    for field_path, volume in values(pod, "spec.volumes[]"):
        if not isinstance(volume, dict):
            yield Violation(
                field_path, shown(volume) if isinstance(volume, _Misshapen) else "is not an object", _REMOVE
            )
            continue
        for kind, value in volume.items():
            if kind not in _VOLUMES and value is not None:
                kinds = ", ".join(sorted(_VOLUMES - {"name"}))
                yield Violation(
                    f"{field_path}.{str(kind)[:_SHOWN]}", "is a volume of another kind", f"use one of {kinds}"
                )


_COMMON: tuple[Rule, ...] = (
    if_set("spec.hostNetwork", "spec.hostPID", "spec.hostIPC", allows=_false),
    if_set("spec.*.securityContext.privileged", allows=_false),
    if_set("spec.*.ports[].hostPort", allows=one_of(0)),
    if_set(*_HOSTS, allows=one_of("")),
    if_set(*_contexts("appArmorProfile.type"), allows=one_of(*_PROFILES)),
    _apparmor_annotations,
    if_set(*_contexts("seLinuxOptions.type"), allows=one_of(*_SELINUX_TYPES)),
    if_set(*_contexts("seLinuxOptions.user"), *_contexts("seLinuxOptions.role"), allows=one_of("")),
    if_set("spec.*.securityContext.procMount", allows=one_of("Default")),
    if_set("spec.securityContext.sysctls[].name", allows=one_of(*_SYSCTLS)),
    if_set(*_contexts("windowsOptions.hostProcess"), allows=_false),
)
RULES: Mapping[PodProfile, tuple[Rule, ...]] = {
    PodProfile.BASELINE: (
        *_COMMON,
        if_set("spec.volumes[].hostPath", cure="use another kind of volume"),
        if_set("spec.*.securityContext.capabilities.add[]", allows=one_of(*_DEFAULT_CAPABILITIES)),
        if_set(*_contexts("seccompProfile.type"), allows=one_of(*_PROFILES), cure=_SECCOMP),
    ),
    PodProfile.RESTRICTED: (
        *_COMMON,
        _volume_kinds,
        _in_each_container("securityContext.allowPrivilegeEscalation", _false, "set it to false"),
        _in_each_container("securityContext.capabilities.drop", _drops_all, "set it to [ALL]"),
        if_set("spec.*.securityContext.capabilities.add[]", allows=one_of("NET_BIND_SERVICE")),
        _in_pod_or_containers("securityContext.runAsNonRoot", _true, "set it to true"),
        if_set(*_contexts("runAsUser"), allows=_not_root, cure="name a user other than root"),
        _in_pod_or_containers("securityContext.seccompProfile.type", one_of(*_PROFILES), _SECCOMP),
    ),
    PodProfile.ANY: (),
}
"""The rules of each profile."""
