"""Nodes that do not answer: when one counts as lost, and the tolerations that keep pods there as long.

One figure says when a node is lost: so long after it stopped answering, or was gone, and not a moment before. Pods
leave such a node after the same time, by the tolerations given here, so there is one wait and not several in a row.
A node that comes back before has never been lost. Must not judge what is on it.
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
    """What is known of a node."""

    host: str
    silent_since: int | None
    """Since when it does not answer; None: it does."""


@dataclass(slots=True)
class Nodes:
    """What watches have told of nodes; times are milliseconds since 1970."""

    lost_after: int = 60_000
    clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    _seen: dict[str, _Node] = field(default_factory=dict)
    _gone: dict[str, int] = field(default_factory=dict)
    """Nodes that are not there, and since when that is known."""

    @property
    def told(self) -> bool:
        """Whether anybody has told of a node."""
        return bool(self._seen or self._gone)

    def saw(self, name: str, tree: Tree | None) -> bool:
        """A node is so now, or gone (None); whether it answers differently from before."""
        before = self._seen.pop(name, None)
        if tree is None:
            self._gone.setdefault(name, self.clock() if before is None else before.silent_since or self.clock())
            return before is not None
        self._gone.pop(name, None)
        since = _silent_since(tree, self.clock())
        if since is not None and before is not None and before.silent_since is not None:
            since = min(since, before.silent_since)  # that a controller found another word for it is no answer
        labels = (tree.get("metadata") or {}).get("labels") or {}
        self._seen[name] = _Node(str(labels.get(HOST, name)), since)
        return before is None or (before.silent_since is None) != (since is None)

    def silent_since(self, name: str) -> int | None:
        """Since when this node does not answer; None: it does, or nodes are not watched."""
        if name in self._seen:
            return self._seen[name].silent_since
        # Without any node it is the watch that is silent. Who was never told of a node counts from now.
        return self._gone.setdefault(name, self.clock()) if self.told else None

    def lost(self, name: str) -> bool:
        """Whether this node has not answered for so long that it is not waited for any more."""
        since = self.silent_since(name)
        return since is not None and self.clock() - since >= self.lost_after

    def lost_host(self, host: str) -> bool:
        """The same, by what a node calls itself in its label."""
        names = [name for name, node in self._seen.items() if host in (name, node.host)]
        return all(self.lost(name) for name in names or [host])

    def known(self, name: str) -> bool:
        """Whether there is, or was, a node of this name."""
        return name in self._seen or name in self._gone


def with_node_tolerations(pod: Tree, seconds: int) -> Tree:
    """The pod, staying so long on a node that does not answer, where nobody has said how long."""
    spec = pod["spec"]
    tolerations = spec.get("tolerations") or []
    if not isinstance(tolerations, list):
        return pod  # the API server says what is wrong with it
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
