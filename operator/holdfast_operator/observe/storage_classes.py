"""The cluster's StorageClasses, of which apps with claims need one by name.

Must not decide what an app without one is told.
"""

import asyncio
import math
from dataclasses import dataclass, field

from holdfast.errors import HoldfastError
from holdfast.one_line import one_line
from holdfast.spec.app import StreamApp
from holdfast.trees import Tree
from holdfast_operator.cluster import STORAGE_CLASS, Cluster
from holdfast_operator.decide.facts import Unknown

_DEFAULT = "storageclass.kubernetes.io/is-default-class"
_KEPT, _KEPT_BEFORE_A_START = 60.0, 5.0


@dataclass(slots=True)
class StorageClasses:
    """The cluster's StorageClasses, cached: Spark creates executors' claims only with a named class."""

    cluster: Cluster
    allowed: bool = True
    """Whether classes may be listed; if not, there is no default, and a named one is taken as it is."""
    _classes: list[Tree] | Unknown = field(default_factory=list)
    _asked: float = -math.inf

    async def of(self, app: StreamApp, *, live: bool) -> str | Unknown | None:
        """Return the class of the app's claims, named or the default; None: there is no such; empty: it has none."""
        named = app.spec.state.storage_class
        if app.spec.state.location != "Claim":
            return ""
        if not self.allowed:
            return named
        lifetime = _KEPT if isinstance(self._answer(named), str) and not live else _KEPT_BEFORE_A_START
        clock = asyncio.get_running_loop().time
        if clock() - self._asked >= lifetime:
            try:
                self._classes = await self.cluster.find(STORAGE_CLASS, None, {})
            except HoldfastError as error:
                self._classes = Unknown(one_line(error))
            self._asked = clock()
        return self._answer(named)

    def _answer(self, named: str | None) -> str | Unknown | None:
        if isinstance(self._classes, Unknown):
            return named or Unknown(f"{self._classes.why}; or name one in spec.state.storageClass")
        if named is None:
            return default_of(self._classes)
        return named if any(storage_class["metadata"]["name"] == named for storage_class in self._classes) else None


def default_of(classes: list[Tree]) -> str | None:
    """Return the default class; of several the newest, as in Kubernetes."""
    metadata = [one["metadata"] for one in classes]
    metadata = [one for one in metadata if (one.get("annotations") or {}).get(_DEFAULT) == "true"]
    metadata.sort(key=lambda one: str(one["name"]))
    newest = max(metadata, key=lambda one: str(one.get("creationTimestamp") or ""), default=None)
    return None if newest is None else str(newest["name"])
