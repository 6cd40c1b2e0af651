"""The policy for pods of apps: Pod Security's rules, plus rules for what those leave open.

The operator creates the driver's pod with its own rights, and Spark creates executors from the operator's template.
So pod templates and Spark settings must not allow more than the installation permits. An app's code runs in these
pods with the rights of their account: this does not isolate apps within one namespace. Must not create pods.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.spec.app import StreamApp
from holdfast.trees import ReadTree
from holdfast_operator.decide.decision import StartDriver
from holdfast_operator.manifests.driver_pod import (
    AppOwner,
    Installation,
    driver_pod,
    executor_template,
    node_directory,
    takes_node_directory,
)
from holdfast_operator.manifests.pod_security import (
    PodProfile,
    Rule,
    Violation,
    if_set,
    one_of,
    shown,
    values,
    violations,
)

ANY_ACCOUNT = "*"
_SOMEBODY = AppOwner("app", "namespace", "uid")
_EXECUTOR = "spark.kubernetes.executor"
_ACCOUNT = re.compile(r"spark\.kubernetes\.authenticate\.(.+\.)?serviceAccountName")


def _no_system_class(value: object) -> bool:
    return isinstance(value, str) and not value.startswith("system-")


_BESIDE: tuple[Rule, ...] = (
    if_set(
        "spec.nodeName",
        allows=one_of(""),
        cure="choose nodes by nodeSelector or affinity, as only they ask the scheduler",
    ),
    if_set("spec.priorityClassName", allows=_no_system_class, cure="name a class that is not the cluster's own"),
)
"""Rules for fields that Pod Security ignores; docs/security.md says why these."""


@dataclass(frozen=True, slots=True)
class _Setting:
    """A Spark setting, or a group of them, that changes executor pods beside their template."""

    name: str
    """The setting; with a dot or slash at the end, all settings that begin with it."""
    why: str
    allowed_by: frozenset[PodProfile] = frozenset({PodProfile.ANY})
    unless: str | None = None
    """The harmless value."""

    def hits(self, name: str, value: str) -> bool:
        """Return whether it covers this setting with this value."""
        same = name.startswith(self.name) if self.name.endswith((".", "/")) else name == self.name
        return same and value.strip().casefold() != self.unless


_NOT_RESTRICTED = frozenset({PodProfile.ANY, PodProfile.BASELINE})
_SETTINGS = (
    _Setting(f"{_EXECUTOR}.podTemplateFile", "is spec.runtime.executors.podTemplate", frozenset()),
    _Setting("spark.kubernetes.namespace", "is the namespace of the app", frozenset()),
    _Setting(f"{_EXECUTOR}.label.holdfast.dev/", "is how Holdfast finds pods", frozenset()),
    _Setting(f"{_EXECUTOR}.pod.featureSteps", "would change pods after they were checked"),
    _Setting(f"{_EXECUTOR}.annotation.container.apparmor.security.beta.kubernetes.io/", "chooses an AppArmor profile"),
    _Setting(f"{_EXECUTOR}.volumes.hostPath.", "mounts a folder of the node"),
    _Setting(f"{_EXECUTOR}.volumes.nfs.", "mounts a volume that is no claim", _NOT_RESTRICTED),
    _Setting(f"{_EXECUTOR}.securityContext.allowPrivilegeEscalation", "must be false", _NOT_RESTRICTED, "false"),
    _Setting("spark.kubernetes.securityContext.allowPrivilegeEscalation", "must be false", _NOT_RESTRICTED, "false"),
)


@dataclass(frozen=True, slots=True)
class PodPolicy:
    """What pods of apps may have in an installation."""

    release: Installation
    profile: PodProfile = PodProfile.RESTRICTED
    accounts: tuple[str, ...] = ()
    """Service accounts that templates may name besides the release's own; `*`: all."""
    node_state: bool = False
    """Whether apps may keep state in directories of nodes."""

    def against(self, app: StreamApp) -> tuple[str, ...]:
        """Return all violations of this app's pods, each with its cure. Its templates must have passed their check."""
        pods = (
            ("driver", driver_pod(app, 1, _SOMEBODY, self.release)),
            ("executors", self._executors(app)),
        )
        return (
            *self._refused_state(app),
            *self._refused_account(app),
            *(
                f"spec.runtime.{part}.podTemplate.{violation}"
                for part, pod in pods
                for violation in self._refused(pod, app)
            ),
            *self._refused_settings(app),
        )

    def _executors(self, app: StreamApp) -> ReadTree:
        """Return the executors' pod without Holdfast's own node directory, which the user did not add."""
        template = executor_template(StartDriver(app, 1), _SOMEBODY, self.release)
        volumes = template["spec"].get("volumes")
        if not takes_node_directory(app) or not isinstance(volumes, list):
            return template
        state_directory = node_directory(app, _SOMEBODY)
        return {**template, "spec": {**template["spec"], "volumes": [one for one in volumes if one != state_directory]}}

    def _refused_state(self, app: StreamApp) -> Iterator[str]:
        if takes_node_directory(app) and not self.node_state:
            yield (
                f"spec.state.location is {app.spec.state.location}, a folder of the node: use Claim or Pod, or let the "
                "release allow it (value apps.nodeState)"
            )

    def _refused_account(self, app: StreamApp) -> Iterator[str]:
        account = app.spec.runtime.service_account_name
        if account is not None and not self._may_be(account):
            yield f"spec.runtime.serviceAccountName {shown(account)}: {self._account_cure}"

    def _refused(self, pod: ReadTree, app: StreamApp) -> Iterator[Violation]:
        yield from violations(pod, self.profile)
        if self.profile is not PodProfile.ANY:
            for rule in _BESIDE:
                yield from rule(pod)
        named = [
            named_account
            for field in ("serviceAccountName", "serviceAccount")
            for named_account in values(pod, f"spec.{field}")
        ]
        for path, account in [one for one in named if one[1] != ""] or [("spec.serviceAccountName", "default")]:
            # That of the spec is no template's, and is judged by itself.
            if not self._may_be(account) and account != app.spec.runtime.service_account_name:
                yield Violation(path, shown(account), self._account_cure)

    def _refused_settings(self, app: StreamApp) -> Iterator[str]:
        for name, value in sorted(app.spec.runtime.spark_conf.items()):
            path = f"spec.runtime.sparkConf.{name}"
            for setting in _SETTINGS:
                if setting.hits(name, value) and self.profile not in setting.allowed_by:
                    yield f"{path} {setting.why}: remove it"
            if _ACCOUNT.fullmatch(name) and not self._may_be(value):
                yield f"{path} {shown(value)}: {self._account_cure}"

    def _may_be(self, account: object) -> bool:
        return ANY_ACCOUNT in self.accounts or account in (self.release.service_account, *self.accounts)

    @property
    def _account_cure(self) -> str:
        return f"use {self.release.service_account}, or let the release allow it (value apps.serviceAccounts)"
