"""Requests to the API server: kinds of objects, their paths, and the right that each request needs.

Must not import the Kubernetes client: code that only names a kind should not wait for it to load.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote


@dataclass(frozen=True, slots=True)
class ObjectKind:
    """A kind of object."""

    api: str
    """Path of its API group and version."""
    plural: str

    @property
    def right(self) -> str:
        """Return the resource name that RBAC and `kubectl auth can-i` use."""
        group = self.api.split("/")[2:-1]
        return ".".join([self.plural, *group])


APPS = ObjectKind("/apis/holdfast.dev/v1alpha1", "streamapps")
CONFIG_MAPS = ObjectKind("/api/v1", "configmaps")
EVENTS = ObjectKind("/apis/events.k8s.io/v1", "events")
PODS = ObjectKind("/api/v1", "pods")

Tree = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """One request to the API server."""

    verb: str
    """The RBAC verb: get, list, patch."""
    kind: ObjectKind
    namespace: str | None
    name: str | None = None
    part: str | None = None
    """A subresource, such as `log` of a pod."""
    query: Mapping[str, str] = field(default_factory=dict)
    body: Tree | None = None
    """A merge patch."""

    @property
    def path(self) -> str:
        """Return the URL path."""
        within = "" if self.namespace is None else f"/namespaces/{quote(self.namespace, safe='')}"
        name = "" if self.name is None else f"/{quote(self.name, safe='')}"
        return f"{self.kind.api}{within}/{self.kind.plural}{name}" + ("" if self.part is None else f"/{self.part}")

    @property
    def right(self) -> str:
        """Return the right it needs, in the words of `kubectl auth can-i`."""
        plural, *group = self.kind.right.split(".")
        return f"{self.verb} " + ".".join([plural if self.part is None else f"{plural}/{self.part}", *group])
