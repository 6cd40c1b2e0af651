"""The chart, installed by Helm as users do, and namespaces of tenants with exactly the account that it makes."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.chart.helms import Helm
from tests.chart.rendered import CHART
from tests.cluster.cluster import Cluster
from tests.kind.images import Images
from tests.kind.storage import local_disks, shared_folder
from tests.waiting import wait_until

RELEASE, SYSTEM = "holdfast", "holdfast-system"
LOST_AFTER = 20
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
_UP = 90.0
_OPERATOR = "app.kubernetes.io/name=holdfast,app.kubernetes.io/component=operator"


@dataclass(frozen=True)
class Team:
    """A tenant's namespace, under restricted pod security, with what apps keep things on."""

    namespace: str
    storage_class: str


@dataclass(frozen=True)
class Installed:
    """The release."""

    cluster: Cluster
    helm: Helm
    images: Images

    def upgrade(self, **values: Any) -> None:
        """Install it, or change values of it; returns when its pods are ready."""
        self.helm("upgrade", "--install", RELEASE, str(CHART), *self._settings(values), "--create-namespace",
                  "--wait", "--timeout", f"{_UP:g}s")  # fmt: skip

    def operator(self) -> str:
        """The pod that runs."""
        pods = self.cluster.tree("pods", f"--namespace={SYSTEM}", f"--selector={_OPERATOR}")["items"]
        (alive,) = [one for one in pods if "deletionTimestamp" not in one["metadata"]]
        name: str = alive["metadata"]["name"]
        return name

    def kill_operator(self) -> None:
        """As a power cut would end it; its Deployment makes another one."""
        self.cluster.kubectl("delete", "pod", self.operator(), f"--namespace={SYSTEM}", "--force", "--grace-period=0")

    def up(self) -> None:
        """Wait until an operator is ready."""
        words = ("rollout", "status", f"deployment/{RELEASE}", f"--namespace={SYSTEM}", f"--timeout={_UP:g}s")
        self.cluster.kubectl(*words, seconds=_UP + 10)

    @contextmanager
    def team(self, disks: int = 2, limit: str | None = None) -> Iterator[Team]:
        """A namespace whose account of apps is the chart's."""
        with self.cluster.namespace(RESTRICTED) as namespace:
            account = self.helm("template", RELEASE, str(CHART), *self._settings({"appNamespaces": [namespace]}),
                                "--show-only", "templates/rbac-apps.yaml")  # fmt: skip
            self.cluster.kubectl("apply", "--filename=-", stdin=account)
            with (
                shared_folder(self.cluster, namespace),
                local_disks(self.cluster, namespace, disks, limit) as storage,
            ):
                try:
                    yield Team(namespace, storage)
                finally:
                    self._let_go(namespace)

    def _let_go(self, namespace: str) -> None:
        """Apps first: pods that run on would take the cores from the next test."""
        everything = ("streamapps", "--all", f"--namespace={namespace}", "--wait=false")
        self.cluster.kubectl("delete", *everything)

        def gone() -> bool:
            pods = self.cluster.tree("pods", f"--namespace={namespace}")["items"]
            apps = self.cluster.tree("streamapps", f"--namespace={namespace}")["items"]
            return not pods and not apps

        wait_until(gone, 180, f"the apps of {namespace} and their pods are gone")

    def _settings(self, values: dict[str, Any]) -> tuple[str, ...]:
        operator, runtime = self.images.operator.rpartition(":"), self.images.runtime.rpartition(":")
        everything = {
            "image.repository": operator[0],
            "image.tag": operator[2],
            "runtime.image.repository": runtime[0],
            "runtime.image.tag": runtime[2],
            "nodes.lostAfter": LOST_AFTER,
            "topics.every": 5,
            "networkPolicy.kafkaPorts": [30092, 30094],
            **values,
        }
        pairs = [f"{name}={json.dumps(value)}" for name, value in everything.items()]
        return tuple(word for pair in pairs for word in ("--set-json", pair))
