"""A real broker in the cluster, on the control plane's node, where no fault of a test takes its machine away.

It listens at the node's own address: pods and tests reach it by the same one. What it holds outlives its pod.
"""

import functools
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaException

from tests.cluster.cluster import Cluster
from tests.cluster.config import NODES
from tests.kafka.broker import PASSWORD, SETTINGS, USER
from tests.kafka.reached import Reached
from tests.waiting import wait_until

PORT, LOGIN_PORT, _CONTROLLER_PORT = 30092, 30094, 30093
NAMESPACE = "kafka"
_NAME = "broker"
_DATA = "/var/lib/kafka/data"
_ANSWERS = 90.0
_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@dataclass(frozen=True)
class KindBroker(Reached):
    """The broker of the cluster; `LOGIN_PORT` is for those who log in as USER with PASSWORD."""

    cluster: Cluster

    @functools.cached_property
    def _host(self) -> str:
        return self.cluster.address(NODES[0])

    @property
    def bootstrap(self) -> str:
        return f"{self._host}:{PORT}"

    @property
    def login(self) -> str:
        """The address for those who log in."""
        return f"{self._host}:{LOGIN_PORT}"

    def start(self, image: str) -> None:
        """It runs, and answers."""
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        self.cluster.apply(namespace, namespace="default")
        settings = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": _NAME},
            "data": {"server.properties": "".join(f"{name}={value}\n" for name, value in self._properties().items())},
        }
        self.cluster.apply(settings, _stateful_set(image), namespace=NAMESPACE)
        wait_until(self.answers, _ANSWERS, "the broker in the cluster answers")

    def die(self) -> None:
        """As a power cut would end it; it comes back with all it holds."""
        self.cluster.kubectl("delete", "pod", f"{_NAME}-0", f"--namespace={NAMESPACE}", "--force", "--grace-period=0")

    def answers(self) -> bool:
        """Whether it is there for clients."""
        try:
            with self.admin() as admin:
                return len(admin.list_topics(timeout=0.5).brokers) == 1
        except KafkaException:
            return False

    def _properties(self) -> dict[str, str]:
        listeners = {"PLAINTEXT": PORT, "LOGIN": LOGIN_PORT, "CONTROLLER": _CONTROLLER_PORT}
        addresses = {name: f"{name}://{self._host}:{port}" for name, port in listeners.items()}
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{self._host}:{_CONTROLLER_PORT}",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "listeners": ",".join(addresses.values()),
            "advertised.listeners": f"{addresses['PLAINTEXT']},{addresses['LOGIN']}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,LOGIN:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.login.plain.sasl.jaas.config": f'{_LOGIN} required user_{USER}="{PASSWORD}";',
            "log.dirs": _DATA,
            **SETTINGS,
            # The default: on a starved machine the controller would take the only broker for dead.
            "broker.session.timeout.ms": "9000",
        }


def _stateful_set(image: str) -> dict[str, Any]:
    labels = {"app": _NAME}
    container = {
        "name": "kafka",
        "image": image,
        "imagePullPolicy": "Never",
        "volumeMounts": [
            {"name": "settings", "mountPath": "/etc/kafka"},
            {"name": "data", "mountPath": _DATA},
        ],
        "resources": {"requests": {"cpu": "500m", "memory": "768Mi"}},
    }
    owned = {**container, "name": "owned", "command": ["sh", "-c", f"chmod 777 {_DATA}"]}
    owned["securityContext"] = {"runAsUser": 0}
    pod = {
        "hostNetwork": True,
        "terminationGracePeriodSeconds": 5,
        "nodeSelector": {"kubernetes.io/hostname": NODES[0]},
        "tolerations": [{"operator": "Exists"}],
        "initContainers": [owned],
        "containers": [container],
        "volumes": [
            {"name": "settings", "configMap": {"name": _NAME}},
            {"name": "data", "hostPath": {"path": "/var/lib/test-broker", "type": "DirectoryOrCreate"}},
        ],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": _NAME},
        "spec": {
            "serviceName": _NAME,
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }
