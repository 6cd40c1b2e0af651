"""The NetworkPolicies of an app: who may reach its pods and what they may reach, from spec and installation.

Spark's internal RPC has no authentication: whoever reaches a driver's ports can run code in its app. A policy in the
chart can't say "pods of the same app", as selectors have fixed values, so each app gets its own. They add up:

    holdfast.<app>.<digest>       all pods. In: pods of the app. Out: pods of the app, DNS, brokers, the store
    holdfast.<app>.<digest>.api   pods that have a token. Out: the API server

A rule with ports and without peers means any address, which all network plugins understand alike. Whether policies are
enforced is up to the cluster's network. Must not create them, nor read anything but its arguments.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar
from urllib.parse import urlsplit

from pydantic import ConfigDict, TypeAdapter

from holdfast.protocol.names import APP_LABEL, ROLE_LABEL, api_policy_name, policy_name
from holdfast.spec.app import StreamApp
from holdfast.spec.streams import KafkaSystem
from holdfast.trees import Tree
from holdfast_operator.manifests.driver_pod import AppOwner

_KAFKA, _HTTP, _HTTPS = 9092, 80, 443
_TOKEN_ENDPOINT = "sasl.oauthbearer.token.endpoint.url"  # noqa: S105 - the name of a setting
_S3 = ("s3a", "s3")
_S3A = "spark.hadoop.fs.s3a."


@dataclass(frozen=True, slots=True)
class AppNetwork:
    """An installation's network settings for all apps. Peers and rules are written as in a NetworkPolicy."""

    dns_ports: tuple[int, ...] = (53,)
    api_server_ports: tuple[int, ...] = (443, 6443)
    api_server: tuple[Tree, ...] = ()
    """Where it is; empty: anywhere."""
    kafka_ports: tuple[int, ...] = ()
    """Ports of brokers besides those that a spec names: listeners that brokers advertise may have others."""
    brokers: tuple[Tree, ...] = ()
    """Where brokers, their logins and registries are; empty: anywhere."""
    stores: tuple[Tree, ...] = ()
    """Where object stores are; empty: anywhere."""
    open: bool = False
    """Whether pods may reach everything; who reaches them is limited all the same."""
    ingress: tuple[Tree, ...] = ()
    egress: tuple[Tree, ...] = ()

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")


_NETWORK = TypeAdapter(AppNetwork)


def read_app_network(text: str) -> AppNetwork:
    """Parse the JSON that the chart writes; raise `ValueError` if it is invalid."""
    return _NETWORK.validate_json(text)


def network_policies(
    app: StreamApp, owner: AppOwner, labels: Mapping[str, str], network: AppNetwork
) -> tuple[Tree, ...]:
    """Return the policies to create before any pod of the app. `labels`: the installation's labels for its objects."""

    def policy(name: str, pods: Mapping[str, str], rules: Tree) -> Tree:
        own_labels = {
            APP_LABEL: app.name,
            "app.kubernetes.io/name": app.name,
            "app.kubernetes.io/managed-by": "holdfast",
        }
        return {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {"name": name, "labels": {**labels, **own_labels}, "ownerReferences": [owner.reference()]},
            "spec": {"podSelector": {"matchLabels": dict(pods)}, **rules},
        }

    everyone = {APP_LABEL: app.name}
    own_pods = [{"podSelector": {"matchLabels": everyone}}]
    rules = {
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"from": own_pods}, *network.ingress],
        # Explicit, as the other policy may be left from an earlier attempt and would restrict the driver.
        "egress": [{}] if network.open else [{"to": own_pods}, *_ways_out(app, network), *network.egress],
    }
    policies = [policy(policy_name(app.name, owner.uid), everyone, rules)]
    if not network.open:
        callers = everyone if _executors_have_token(app) else {**everyone, ROLE_LABEL: "driver"}
        out = list(_rule(_tcp(network.api_server_ports), network.api_server))
        name = api_policy_name(app.name, owner.uid)
        policies.append(policy(name, callers, {"policyTypes": ["Egress"], "egress": out}))
    return tuple(policies)


def _ways_out(app: StreamApp, network: AppNetwork) -> Iterator[Tree]:
    names = [{"protocol": protocol, "port": port} for port in network.dns_ports for protocol in ("UDP", "TCP")]
    yield from _rule(names, ())
    systems = [one.kafka for one in app.spec.systems if one.kafka is not None]
    if systems:
        ports = {port for system in systems for port in _broker_ports(system)}
        yield from _rule(_tcp(sorted(ports | set(network.kafka_ports))), network.brokers)
    store = store_port(app)
    if store is not None:
        yield from _rule(_tcp([store]), network.stores)


def _rule(ports: list[Tree], peers: tuple[Tree, ...]) -> Iterator[Tree]:
    """Yield a rule, none without ports: an empty list of ports would mean all."""
    if ports:
        yield {"ports": ports, "to": list(peers)} if peers else {"ports": ports}


def _tcp(ports: Iterable[int]) -> list[Tree]:
    return [{"protocol": "TCP", "port": port} for port in ports]


def _executors_have_token(app: StreamApp) -> bool:
    """Return whether the user gave executors a token, so that their code can call the API server."""
    spec = app.spec.runtime.executors.pod_template.get("spec")
    return isinstance(spec, dict) and spec.get("automountServiceAccountToken") is True


def _broker_ports(system: KafkaSystem) -> Iterator[int]:
    """Yield the ports of the bootstrap brokers, of the token endpoint for their login, and of the registry."""
    for broker in system.bootstrap_servers.split(","):
        # As in the Kafka client, a scheme is ignored and the default port is 9092.
        yield from _port(broker.strip().rpartition("://")[2], _KAFKA)
    registry = None if system.registry is None else system.registry.url
    for url in (system.config.get(_TOKEN_ENDPOINT), registry):
        if url is not None:
            scheme, _, address = url.rpartition("://")
            yield from _port(address, _HTTP if scheme == "http" else _HTTPS)


def store_port(app: StreamApp) -> int | None:
    """Return the port of the checkpoint's object store, parsed as the driver does; None: there is no store."""
    checkpoint, conf = app.spec.runtime.checkpoint, app.spec.runtime.spark_conf
    scheme, _, path = ("" if checkpoint is None else checkpoint.location).partition("://")
    if scheme not in _S3:
        return None
    bucket = path.partition("/")[0]

    def said(name: str) -> str:
        return (conf.get(f"{_S3A}bucket.{bucket}.{name}") or conf.get(_S3A + name) or "").strip()

    scheme, _, address = said("endpoint").rpartition("://")
    encrypted = scheme.casefold() != "http" if scheme else said("connection.ssl.enabled").casefold() != "false"
    return next(_port(address, _HTTPS if encrypted else _HTTP), None)


def _port(address: str, otherwise: int) -> Iterator[int]:
    """Yield the port of `host:port/path`; nothing if it is invalid, as the client that connects reports it."""
    try:
        port = urlsplit(f"//{address}").port
    except ValueError:
        return
    yield port or otherwise
