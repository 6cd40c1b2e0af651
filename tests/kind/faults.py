"""Faults of clusters, each a call that returns when the harm is done and what must be mended is mended.

Whether the app goes on is for the caller to see.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tests.cluster.cluster import Cluster
from tests.cluster.config import NODES
from tests.cluster.steps import ClusterError
from tests.kind.apps import JAVA, PYTHON, App
from tests.kind.installed import Installed
from tests.kind.kafka import KindBroker
from tests.waiting import wait_until

_BACK = 120.0


@dataclass(frozen=True)
class Faults:
    """Everything that can be harmed, and one app of many."""

    cluster: Cluster
    installed: Installed
    broker: KindBroker
    app: App

    def kinds(self) -> Mapping[str, Callable[[random.Random], None]]:
        """By name; each draws what it needs."""
        return {
            "driver killed": lambda _: self.driver(),
            "driver crashed": self.crash,
            "executor killed": self.executor,
            "operator killed": lambda _: self.installed.kill_operator(),
            "all killed": self.everything,
            "broker restarted": lambda _: self.broker.die(),
            "API server restarted": lambda _: self.api_server(),
            "node lost": self.node,
            "suspended and resumed": lambda _: self.suspended(),
        }

    def driver(self) -> None:
        """Its pod is deleted by force, as soon as there is one."""
        wait_until(self.app.driven, _BACK, "a driver runs")
        self.app.kill_driver()

    def crash(self, drawn: random.Random) -> None:
        """One of its processes is killed, and the pod stays."""
        wait_until(self.app.driven, _BACK, "a driver runs")
        self.app.crash_driver(drawn.choice((JAVA, PYTHON)))

    def executor(self, drawn: random.Random) -> None:
        """One of those that run, if one does."""
        running = sorted(self.app.executors())
        if running:
            self.app.kill(drawn.choice(running))

    def everything(self, drawn: random.Random) -> None:
        """Driver, an executor and the operator."""
        self.executor(drawn)
        self.driver()
        self.installed.kill_operator()

    def api_server(self) -> None:
        """It is killed; its kubelet starts another one.

        Scheduler and controllers end with it, and after some times their kubelet would let minutes pass without them.
        """
        self.cluster.on_node(NODES[0], "sh", "-c", "kill -9 $(pidof kube-apiserver)")
        wait_until(self._answers, _BACK, "the API server answers again")
        self.cluster.on_node(NODES[0], "systemctl", "restart", "kubelet")
        wait_until(self._schedules, _BACK, "scheduler and controllers run again")

    def node(self, drawn: random.Random) -> None:
        """A worker's power fails, and comes back when the cluster has noticed."""
        lost = drawn.choice(self.cluster.workers)
        self.cluster.stop_node(lost)
        wait_until(lambda: not self.cluster.ready(lost), _BACK, f"{lost} is not Ready")
        self.cluster.start_node(lost)

    def suspended(self) -> None:
        """By its user."""
        self.app.apply(suspend=True)
        self.app.until("Ready", "False", "Suspended")
        self.app.apply(suspend=False)

    def _schedules(self) -> bool:
        try:
            return bool(
                self.cluster.on_node(NODES[0], "pidof", "kube-scheduler", "kube-controller-manager").split()[1:]
            )
        except ClusterError:
            return False

    def _answers(self) -> bool:
        try:
            return bool(self.cluster.kubectl("get", "--raw=/readyz", seconds=10))
        except (ClusterError, TimeoutError):
            return False
