"""Why: the kinds of objects the commands about a cluster read, as they stand in paths and in rights."""

from dataclasses import dataclass


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
