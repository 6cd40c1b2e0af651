"""Why: what watches have told, kept small, so that looks need not ask for it.

What is here was so a moment ago. What is not here may be there all the same: absence is proven by a live call, which
is the snapshot's business. Must not call the API server.
"""

from dataclasses import dataclass, field, replace
from typing import Any

from holdfast_operator.facts import PodSeen, Report
from holdfast_operator.pods import APP_LABEL, pod_seen

Tree = dict[str, Any]


@dataclass(frozen=True, order=True, slots=True)
class Key:
    """Which app."""

    namespace: str
    name: str


@dataclass(slots=True)
class Cache:
    """Where pods are, what drivers reported, which nodes answer."""

    reports: dict[tuple[str, str], Report] = field(default_factory=dict)
    """By namespace and name of the ConfigMap."""
    nodes: dict[str, bool] | None = None
    """Node -> whether it answers; None: nodes are not watched."""
    _places: dict[Key, dict[str, str | None]] = field(default_factory=dict)
    """App -> pod -> its node."""

    def saw_pod(self, tree: Tree, *, gone: bool) -> Key | None:
        """A pod changed; whose it is."""
        metadata = tree.get("metadata") or {}
        app = (metadata.get("labels") or {}).get(APP_LABEL)
        if not isinstance(app, str):
            return None
        key, name = Key(str(metadata.get("namespace")), app), str(metadata.get("name"))
        places = self._places.setdefault(key, {})
        if gone:
            places.pop(name, None)
            if not places:
                del self._places[key]
        else:
            places[name] = pod_seen(tree).node
        return key

    def saw_node(self, tree: Tree, *, gone: bool) -> bool:
        """A node changed; whether it answers differently from before."""
        name = str((tree.get("metadata") or {}).get("name"))
        nodes = self.nodes = {} if self.nodes is None else self.nodes
        before = nodes.get(name)
        if gone:
            nodes.pop(name, None)
        else:
            nodes[name] = node_answers(tree)
        return before != nodes.get(name)

    def on_node(self, node: str) -> list[Key]:
        """Apps with pods there."""
        return [key for key, places in self._places.items() if node in places.values()]

    def placed(self, pod: PodSeen) -> PodSeen:
        """A pod with what is known of its node now."""
        if self.nodes is None or pod.node is None or self.nodes.get(pod.node, False):
            return pod
        return replace(pod, node_lost=True)


def node_answers(tree: Tree) -> bool:
    """Whether the kubelet of a node reports."""
    conditions = (tree.get("status") or {}).get("conditions") or []
    return any(
        one.get("type") == "Ready" and one.get("status") == "True" for one in conditions if isinstance(one, dict)
    )
