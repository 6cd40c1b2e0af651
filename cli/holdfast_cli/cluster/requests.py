"""Requests to the API server: the kinds of objects that are read, their paths, and the rights each request takes.

Light on purpose: what only names a kind must not load the Kubernetes client.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote


@dataclass(frozen=True, slots=True)
class ObjectKind:
    """A kind of object."""

    api: str
    """Where it is served."""
    plural: str

    @property
    def right(self) -> str:
        """As RBAC and `kubectl auth can-i` name it."""
        group = self.api.split("/")[2:-1]
        return ".".join([self.plural, *group])


APPS = ObjectKind("/apis/holdfast.dev/v1alpha1", "streamapps")
CONFIG_MAPS = ObjectKind("/api/v1", "configmaps")
EVENTS = ObjectKind("/apis/events.k8s.io/v1", "events")
PODS = ObjectKind("/api/v1", "pods")

Tree = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """What is asked of the API server."""

    verb: str
    """As RBAC names it: get, list, patch."""
    kind: ObjectKind
    namespace: str | None
    name: str | None = None
    part: str | None = None
    """As `log` of a pod."""
    query: Mapping[str, str] = field(default_factory=dict)
    body: Tree | None = None
    """A merge patch."""

    @property
    def path(self) -> str:
        """Where it is served."""
        within = "" if self.namespace is None else f"/namespaces/{quote(self.namespace, safe='')}"
        name = "" if self.name is None else f"/{quote(self.name, safe='')}"
        return f"{self.kind.api}{within}/{self.kind.plural}{name}" + ("" if self.part is None else f"/{self.part}")

    @property
    def right(self) -> str:
        """As `kubectl auth can-i` would be asked for it."""
        plural, *group = self.kind.right.split(".")
        return f"{self.verb} " + ".".join([plural if self.part is None else f"{plural}/{self.part}", *group])
