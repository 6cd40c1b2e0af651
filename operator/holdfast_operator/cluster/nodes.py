"""Silent nodes: when a node counts as lost, and the tolerations that keep pods on it until then.

A node is lost a fixed time after it stopped answering or disappeared. Pods leave it after the same time, by the
tolerations set here, so there is one wait instead of several in a row. A node that comes back earlier was never lost.
Must not judge what runs on it.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from holdfast.moments import moment

Tree = dict[str, Any]
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


def with_node_tolerations(pod: Tree, seconds: int) -> Tree:
    """Return the pod with tolerations for a silent node for this long, unless it has its own."""
    spec = pod["spec"]
    tolerations = spec.get("tolerations") or []
    if not isinstance(tolerations, list):
        return pod  # the API server reports what is wrong with it
    given = [one for one in tolerations if isinstance(one, dict)]
    ours = [
        {"key": taint, "operator": "Exists", "effect": _NO_EXECUTE, "tolerationSeconds": seconds}
        for taint in _TAINTS
        if not any(_tolerates(one, taint) for one in given)
    ]
    return {**pod, "spec": {**spec, "tolerations": [*tolerations, *ours]}}


def _tolerates(toleration: Mapping[str, Any], taint: str) -> bool:
    return toleration.get("key") in (taint, None, "") and toleration.get("effect") in (_NO_EXECUTE, None, "")


def _silent_since(tree: Tree, now: int) -> int | None:
    conditions = (tree.get("status") or {}).get("conditions") or []
    ready: Tree = next((one for one in conditions if isinstance(one, dict) and one.get("type") == "Ready"), {})
    if ready.get("status") == "True":
        return None
    return moment(ready.get("lastTransitionTime")) or now
