"""Who reaches whom, by NetworkPolicies read as Kubernetes defines them: a network that enforces them, as a function.

Read strictly where networks differ: an `ipBlock` is for what is outside of the cluster, and never matches a pod.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from typing import Any

Tree = dict[str, Any]


@dataclass(frozen=True)
class End:
    """One end of a connection: a pod, or an address outside of the cluster."""

    address: str = ""
    namespace: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)


def reaches(policies: Iterable[tuple[str, Tree]], source: End, target: End, port: int, protocol: str = "TCP") -> bool:
    """Whether a connection comes about; each policy with its namespace."""
    known = list(policies)
    out = _admitted(known, source, target, port, protocol, ("Egress", "egress", "to"))
    return out and _admitted(known, target, source, port, protocol, ("Ingress", "ingress", "from"))


def _admitted(
    policies: list[tuple[str, Tree]], pod: End, peer: End, port: int, protocol: str, words: tuple[str, str, str]
) -> bool:
    kind, rules, peers = words
    specs = [tree["spec"] for namespace, tree in policies if namespace == pod.namespace]
    selecting = [one for one in specs if kind in one["policyTypes"] and _selects(one["podSelector"], pod.labels)]
    return not selecting or any(
        _port(rule.get("ports"), port, protocol) and _peer(rule.get(peers), pod, peer)
        for spec in selecting
        for rule in spec.get(rules) or []
    )


def _port(ports: list[Tree] | None, port: int, protocol: str) -> bool:
    return not ports or any(one["port"] == port and one["protocol"] == protocol for one in ports)


def _peer(peers: list[Tree] | None, pod: End, peer: End) -> bool:
    return not peers or any(_is(one, pod, peer) for one in peers)


def _is(rule: Tree, pod: End, peer: End) -> bool:
    if "ipBlock" in rule:
        block = rule["ipBlock"]
        return (
            peer.namespace is None and _in(peer, block["cidr"]) and not any(_in(peer, cut) for cut in block["except"])
        )
    if peer.namespace is None:
        return False
    if "namespaceSelector" in rule:
        assert rule["namespaceSelector"] == {}
        return _selects(rule.get("podSelector", {}), peer.labels)
    return peer.namespace == pod.namespace and _selects(rule["podSelector"], peer.labels)


def _in(end: End, block: str) -> bool:
    return ip_address(end.address) in ip_network(block)


def _selects(selector: Tree, labels: Mapping[str, str]) -> bool:
    return all(labels.get(name) == value for name, value in selector.get("matchLabels", {}).items())
