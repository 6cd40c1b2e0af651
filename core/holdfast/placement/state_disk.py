"""The disk that executors keep local state on: who shares it, and whether a location names one disk or several.

Tasks go back to the location where they ran last. Under a location with several disks some of them meet a disk without
their state and restore it, after every such restart, while status and plan say that nothing moved. So a location
names no more than one disk. Must not decide what becomes of an app whose location does.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from holdfast.placement.location import location_fields
from holdfast.protocol.pods import MAIN, STATE_DIRECTORY, STATE_VOLUME


class DiskSharing(StrEnum):
    """Which pods see the same disk."""

    POD = "pod"
    NODE = "node"
    EVERY_NODE = "every node"


@dataclass(frozen=True, slots=True)
class StateDisk:
    """The disk below `STATE_DIRECTORY` of an executor."""

    source: str
    """What Kubernetes calls it: `hostPath`, `emptyDir`, `nfs`."""
    sharing: DiskSharing
    of_template: bool
    """Whether the user's pod template mounts it, so that Holdfast mounts nothing there."""


_SOURCES = {"Claim": "persistentVolumeClaim", "Pod": "emptyDir"}
_SHARING = {"emptyDir": DiskSharing.POD, "ephemeral": DiskSharing.POD, "hostPath": DiskSharing.NODE}
"""All other sources are volumes with a name of their own, the same one in each executor."""
_TELLING_PODS = frozenset({"pod.uid"})
_TELLING_NODES = _TELLING_PODS | {"node.name", "node.labels.kubernetes.io/hostname"}


def state_disk(location: str, pod_template: Mapping[str, Any]) -> StateDisk:
    """Return the disk of executors with this `spec.state.location` and `spec.runtime.executors.podTemplate`."""
    pod = pod_template.get("spec")
    main = next((one for one in _objects(pod, "containers") if one.get("name") == MAIN["executors"]), None)
    mounts = [one.get("name") for one in _objects(main, "volumeMounts") if one.get("mountPath") == STATE_DIRECTORY]
    volume = mounts[-1] if mounts else STATE_VOLUME
    volume_tree = next((one for one in _objects(pod, "volumes") if one.get("name") == volume), {})
    sources = sorted(source for source, value in volume_tree.items() if source != "name" and value is not None)
    source = sources[0] if sources else _SOURCES.get(location, "hostPath")
    return StateDisk(source, _SHARING.get(source, DiskSharing.EVERY_NODE), bool(mounts and sources))


def names_several_disks(location: str, disk: StateDisk) -> bool:
    """Return whether executors with different disks may have one location."""
    match disk.sharing:
        case DiskSharing.POD:
            return not location_fields(location) & _TELLING_PODS
        case DiskSharing.NODE:
            return not location_fields(location) & _TELLING_NODES
        case DiskSharing.EVERY_NODE:
            return False


def _objects(tree: object, field: str) -> list[Mapping[str, Any]]:
    items = tree.get(field) if isinstance(tree, Mapping) else None
    return [one for one in items if isinstance(one, Mapping)] if isinstance(items, list) else []
