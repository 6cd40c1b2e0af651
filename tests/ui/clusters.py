"""A cluster in a few lists, as the page reads it: apps with specs, reports, assignments, pods, events and logs."""

from collections.abc import Iterator, Mapping
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.protocol.assignment import Assignment, VersionedAssignment
from holdfast.protocol.names import (
    APP_ID_LABEL,
    APP_LABEL,
    ATTEMPT_LABEL,
    ROLE_LABEL,
    app_id,
    assignment_name,
    attempt_name,
    executor_set,
)
from holdfast.times import stamp
from holdfast_cli.cluster.app import APPS, CONFIG_MAPS, EVENTS, PODS, ObjectKind
from tests.cli.status_objects import NOW, app, config_map, report
from tests.operator.apps import tree

Tree = dict[str, Any]
HOSTILE = "<img src=x onerror=document.title='taken'><script>document.title='taken'</script>"
FLOW = {"read": {"clicks": 1_234.0}, "written": {}}
STALLED = {
    "Ready": ("False", "CheckpointMissing", "give it a location that driver and executors reach"),
    "Stalled": ("True", "CheckpointMissing", "Waits for somebody to act."),
}


class FakeLog:
    """The lines of a log."""

    def __init__(self, lines: tuple[bytes, ...]) -> None:
        self._lines = lines

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._lines)

    def cut(self) -> None:
        """Nothing waits."""

    def close(self) -> None:
        """Nothing is open."""


class FakeCluster:
    """What an API server would answer; the real one is in `tests/api/test_ui.py`."""

    def __init__(self, *objects: tuple[ObjectKind, Tree]) -> None:
        self.objects = list(objects)
        self.logs: dict[str, tuple[bytes, ...]] = {}
        self.trouble: HoldfastError | None = None
        """Why nothing is answered."""
        self.refused: dict[ObjectKind, HoldfastError] = {}
        self.calls = 0

    def add(self, kind: ObjectKind, *trees: Tree) -> None:
        """More objects."""
        self.objects += [(kind, tree) for tree in trees]

    def get(self, kind: ObjectKind, namespace: str, name: str) -> Tree | None:
        """As `ClusterClient.get`."""
        return next((tree for tree in self.find(kind, namespace, {}) if tree["metadata"]["name"] == name), None)

    def find(self, kind: ObjectKind, namespace: str | None, query: Mapping[str, str]) -> list[Tree]:
        """As `ClusterClient.find`, for labels by value."""
        self.calls += 1
        error = self.trouble or self.refused.get(kind)
        if error is not None:
            raise error
        label, _, value = query.get("labelSelector", "").partition("=")
        trees = [tree for known, tree in self.objects if known is kind and _within(tree, namespace)]
        return [tree for tree in trees if not value or (tree["metadata"].get("labels") or {}).get(label) == value]

    def log(self, _: str, pod: str, query: Mapping[str, str]) -> FakeLog | None:
        """As `ClusterClient.log`."""
        lines = self.logs.get(pod)
        return None if lines is None else FakeLog(lines[-int(query["tailLines"]) :])


def _within(tree: Tree, namespace: str | None) -> bool:
    return namespace in (None, tree["metadata"].get("namespace", namespace))


def whole_app(name: str = "ads", verdicts: dict[str, tuple[str, str, str]] | None = None, **status: Any) -> Tree:
    """An app with its spec, as an API server has it."""
    observed = app(name, verdicts=verdicts, **status)
    return {**tree(), **observed, "metadata": {**observed["metadata"], "resourceVersion": "7", "managedFields": []}}


def pod(name: str, role: str, attempt: int = 2, app_name: str = "ads", **status: Any) -> Tree:
    """A pod of an app's attempt."""
    labels = {
        APP_LABEL: app_name,
        ROLE_LABEL: role,
        ATTEMPT_LABEL: str(attempt),
        APP_ID_LABEL: app_id(app_name, "1"),
    }
    metadata = {"name": name, "namespace": "apps", "uid": f"uid-{name}", "labels": labels}
    created = {"creationTimestamp": stamp(NOW - 600_000)}
    known = {"phase": "Running", **status}
    return {"metadata": metadata | created, "spec": {"nodeName": "node-a"}, "status": known}


def pods_of_attempt(executors: int, app_name: str = "ads") -> tuple[Tree, ...]:
    """A driver and its executors."""
    names = [f"{executor_set(app_name, '1')}-{at}" for at in range(executors)]
    driver = pod(attempt_name(app_name, "1", 2), "driver", app_name=app_name)
    return (driver, *(pod(name, "executor", app_name=app_name) for name in names))


def assignment(tasks: int, executors: int, app_name: str = "ads") -> Tree:
    """The ConfigMap that says where tasks are."""
    names = [f"{executor_set(app_name, '1')}-{at}" for at in range(executors)]
    tasks_of = {
        name: tuple(f"partition-{task}" for task in range(at, tasks, executors)) for at, name in enumerate(names)
    }
    text = VersionedAssignment(1, 2, {name: f"state-{name}" for name in names}, Assignment(tasks_of)).text()
    return config_map(assignment_name(app_name, "1"), "assignment.json", text)


def cluster_of(apps: int, tasks: int, executors: int) -> FakeCluster:
    """Many apps, every tenth in trouble, and `ads` with many tasks, a driver that failed before and logs."""
    cluster = FakeCluster()
    for at in range(apps - 1):
        name = f"app-{at:03}"
        cluster.add(APPS, whole_app(name, STALLED if at % 10 == 0 else None, tasks=16, placed="16/16"))
        cluster.add(CONFIG_MAPS, report(name, lag=at * 37, tasks=16))
    cluster.add(APPS, whole_app(tasks=tasks, placed=f"{tasks - 3}/{tasks}", partitions=tasks))
    cluster.add(
        CONFIG_MAPS,
        report(tasks=tasks, lag=1_234_567, lags={"clicks": 1_234_567}, rows=FLOW),
        assignment(tasks, executors),
    )
    cluster.add(PODS, *pods_of_attempt(executors))
    end = {"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": stamp(NOW - 900_000)}}
    containers = [{"name": "driver", "state": end}]
    failed = pod(attempt_name("ads", "1", 1), "driver", 1, phase="Failed", containerStatuses=containers)
    cluster.add(PODS, failed)
    cluster.add(EVENTS, event("Starting", "attempt 2 of run 1 starts"), event("DriverFailed", "no broker", "Warning"))
    cluster.logs[attempt_name("ads", "1", 2)] = tuple(f"batch {at} committed".encode() for at in range(800))
    return cluster


def event(reason: str, note: str, kind: str = "Normal") -> Tree:
    """An event about an app."""
    at = f"{stamp(NOW - 5_000)[:-1]}.000000Z"
    metadata = {"name": f"e-{reason.lower()}", "namespace": "apps"}
    return {"metadata": metadata, "eventTime": at, "type": kind, "reason": reason, "note": note}
