"""Lost nodes, and the volume claims that only they can reach.

A node is lost a fixed time after it stopped answering or disappeared. Pods leave it after the same time, by the
tolerations of their manifests, so there is one wait instead of several in a row. A node that comes back earlier was
never lost. A claim is given up only if its volume says that no node but lost ones can reach it: a zonal or network
volume outlives its node, whichever node it was created for; a volume on a node's disk does not, even if created by
hand. Must not judge what runs on a node, nor read anything.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from holdfast.times import moment
from holdfast.trees import Tree

HOST = "kubernetes.io/hostname"
_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_NO_EXECUTE = "NoExecute"


@dataclass(frozen=True, slots=True)
class _Node:
    """The known state of a node."""

    host: str
    silent_since: int | None
    """Since when it does not answer; None: it answers."""


@dataclass(slots=True)
class Nodes:
    """The state of all watched nodes; times are milliseconds since 1970."""

    lost_after: int = 60_000
    clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    _seen: dict[str, _Node] = field(default_factory=dict)
    _gone: dict[str, int] = field(default_factory=dict)
    """Node that does not exist -> since when that is known."""

    @property
    def told(self) -> bool:
        """Return whether any node has been seen."""
        return bool(self._seen or self._gone)

    def saw(self, name: str, tree: Tree | None) -> bool:
        """Record a node's state (None: it is gone); return whether it started or stopped answering."""
        before = self._seen.pop(name, None)
        if tree is None:
            self._gone.setdefault(name, self.clock() if before is None else before.silent_since or self.clock())
            return before is not None
        self._gone.pop(name, None)
        since = _silent_since(tree, self.clock())
        if since is not None and before is not None and before.silent_since is not None:
            since = min(since, before.silent_since)  # a changed reason is no sign of life
        labels = (tree.get("metadata") or {}).get("labels") or {}
        self._seen[name] = _Node(str(labels.get(HOST, name)), since)
        return before is None or (before.silent_since is None) != (since is None)

    def silent_since(self, name: str) -> int | None:
        """Return since when this node does not answer; None: it answers, or nodes are not watched."""
        if name in self._seen:
            return self._seen[name].silent_since
        # If no node is known, the watch itself is silent. An unknown node counts as silent from now on.
        return self._gone.setdefault(name, self.clock()) if self.told else None

    def lost(self, name: str) -> bool:
        """Return whether this node has been silent for so long that it counts as lost."""
        since = self.silent_since(name)
        return since is not None and self.clock() - since >= self.lost_after

    def lost_host(self, host: str) -> bool:
        """Return whether the node with this hostname label is lost."""
        names = [name for name, node in self._seen.items() if host in (name, node.host)]
        return all(self.lost(name) for name in names or [host])

    def known(self, name: str) -> bool:
        """Return whether a node of this name exists or existed."""
        return name in self._seen or name in self._gone


def _silent_since(tree: Tree, now: int) -> int | None:
    conditions = (tree.get("status") or {}).get("conditions") or []
    ready: Tree = next((one for one in conditions if isinstance(one, dict) and one.get("type") == "Ready"), {})
    if ready.get("status") == "True":
        return None
    return moment(ready.get("lastTransitionTime")) or now


StorageTree = dict[str, Any]
MADE_FOR = "volume.kubernetes.io/selected-node"
"""The annotation of a claim in which the scheduler names the node to create a volume for."""


def out_of_reach(claim: StorageTree, volume: StorageTree | None, nodes: Nodes) -> bool:
    """Return whether only lost nodes can reach the claim's volume, existing or still to be created."""
    made_for = (claim["metadata"].get("annotations") or {}).get(MADE_FOR)
    if not (claim.get("spec") or {}).get("volumeName"):
        return isinstance(made_for, str) and nodes.lost(made_for)
    spec = (volume or {}).get("spec") or {}
    terms = ((spec.get("nodeAffinity") or {}).get("required") or {}).get("nodeSelectorTerms") or []
    return bool(terms) and all(_only_lost(term, made_for, nodes) for term in terms)


def _only_lost(term: StorageTree, made_for: object, nodes: Nodes) -> bool:
    """Return whether a term admits only lost nodes; one such requirement is enough, as all must hold."""
    return any(all(nodes.lost_host(name) for name in names) for names in _nodes_of(term, made_for, nodes))


def _nodes_of(term: StorageTree, made_for: object, nodes: Nodes) -> Iterator[Iterable[str]]:
    """Yield the nodes that each requirement of a term names, if it names nodes.

    Volume drivers use their own node labels, e.g. `topology.topolvm.io/node`; the values tell whether it is a node or a
    zone.
    """
    fields = [(True, one) for one in term.get("matchFields") or ()]
    labels = [(one.get("key") == HOST, one) for one in term.get("matchExpressions") or ()]
    for of_nodes, requirement in [*fields, *labels]:
        values = [str(value) for value in requirement.get("values") or ()]
        named = of_nodes or all(value == made_for or nodes.known(value) for value in values)
        if requirement.get("operator") == "In" and values and named:
            yield values
