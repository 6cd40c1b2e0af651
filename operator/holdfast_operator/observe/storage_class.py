"""The cluster's default StorageClass, needed because Spark creates executors' claims only with a named class.

Read once for all apps and again after a while, as it rarely changes. Must not decide which apps use it.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from holdfast.errors import HoldfastError
from holdfast_operator.cluster.client import STORAGE_CLASS, Cluster
from holdfast_operator.decide.facts import Unknown

Tree = dict[str, Any]
_DEFAULT = "storageclass.kubernetes.io/is-default-class"
_KEPT, _KEPT_BEFORE_A_START = 60.0, 5.0


@dataclass(slots=True)
class StorageClasses:
    """The cluster's default class, cached."""

    cluster: Cluster
    allowed: bool = True
    """Whether classes may be listed; if not, there is no default."""
    clock: Callable[[], float] = time.monotonic
    _found: str | Unknown | None = None
    _asked: float | None = None

    async def default(self, *, live: bool) -> str | Unknown | None:
        """Return its name; None: there is none."""
        if not self.allowed:
            return None
        age = None if self._asked is None else self.clock() - self._asked
        kept = _KEPT_BEFORE_A_START if live or not isinstance(self._found, str) else _KEPT
        if age is None or age >= kept:
            self._found, self._asked = await self._ask(), self.clock()
        return self._found

    async def _ask(self) -> str | Unknown | None:
        try:
            return default_of(await self.cluster.find(STORAGE_CLASS, None, {}))
        except HoldfastError as error:
            return Unknown(f"{error}; or name one in spec.state.storageClass")


def default_of(classes: list[Tree]) -> str | None:
    """Return the default class; of several the newest, as in Kubernetes."""
    found = [one["metadata"] for one in classes if _is_default(one)]
    found.sort(key=lambda one: str(one["name"]))
    found.sort(key=lambda one: str(one.get("creationTimestamp") or ""), reverse=True)
    return str(found[0]["name"]) if found else None


def _is_default(tree: Tree) -> bool:
    return (tree["metadata"].get("annotations") or {}).get(_DEFAULT) == "true"
