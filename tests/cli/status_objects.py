"""The objects of a cluster that `holdfast status` and the page in the browser read."""

import json
from typing import Any

from holdfast.errors import UserActionError
from holdfast.protocol.assignment import Assignment, VersionedAssignment
from holdfast.protocol.names import assignment_name, report_name
from holdfast.times import stamp
from holdfast_cli.cluster.app import APPS, CONFIG_MAPS, EVENTS, ObjectKind
from holdfast_operator.decide.conditions import CONDITION_TYPES

NOW = 1_800_000_000_000
Tree = dict[str, Any]
FINE = {
    "Ready": ("True", "Running", "attempt 2 commits batches"),
    "Reconciling": ("False", "Settled", "Nothing is being changed."),
    "Stalled": ("False", "NotStalled", "Nothing waits for somebody to act."),
    "PlanValid": ("True", "PlanAccepted", "4 tasks; 0 warnings"),
    "Assigned": ("True", "Assigned", "4 tasks"),
    "LocalityHonoured": ("True", "AllPlaced", "4 of 4 tasks"),
    "DriverRunning": ("True", "Running", "pod ads-2"),
    "StateCompatible": ("True", "StateFits", "What the app is now can go on with the state of its run."),
    "TablesLoaded": ("True", "TablesLoaded", "Every table that the app's inputs wait for is loaded."),
}


def app(
    name: str = "ads", generation: int = 3, verdicts: dict[str, tuple[str, str, str]] | None = None, **status: Any
) -> Tree:
    conditions = [
        {
            "type": kind,
            "status": (FINE | (verdicts or {}))[kind][0],
            "reason": (FINE | (verdicts or {}))[kind][1],
            "message": (FINE | (verdicts or {}))[kind][2],
            "lastTransitionTime": stamp(NOW - 200_000),
            "observedGeneration": 3,
        }
        for kind in CONDITION_TYPES
    ]
    known = {"observedGeneration": 3, "runId": "1", "attempt": 2, "restarts": 1, "tasks": 4, "placed": "4/4"}
    metadata = {"name": name, "namespace": "apps", "uid": f"uid-{name}", "generation": generation}
    created = {"creationTimestamp": stamp(NOW - 7_200_000)}
    return {"metadata": metadata | created, "status": {**known, "conditions": conditions, **status}}


def config_map(name: str, key: str, text: str) -> Tree:
    return {"metadata": {"name": name, "namespace": "apps"}, "data": {key: text}}


def report(name: str = "ads", **fields: Any) -> Tree:
    defaults = {"attempt": 2, "at": NOW - 1000, "batch": 1041, "progressed": NOW - 2500, "lag": 12, "tasks": 4}
    text = json.dumps(defaults | {"partitions": 8, "placed": 4, "assignment": 1} | fields)
    return config_map(report_name(name, "1"), "report.json", text)


def handed(processors: int = 2, tasks: int = 4, version: int = 1, attempt: int = 2) -> Tree:
    names = [f"ads-exec-{at}" for at in range(processors)]
    tasks_of = {
        name: tuple(f"partition-{task}" for task in range(at, tasks, processors)) for at, name in enumerate(names)
    }
    location_of = {name: f"claim-{at}" for at, name in enumerate(names)}
    text = VersionedAssignment(version, attempt, location_of, Assignment(tasks_of)).text()
    return config_map(assignment_name("ads", "1"), "assignment.json", text)


def event(ago: int, reason: str, note: str, kind: str = "Normal") -> Tree:
    at = f"{stamp(NOW - ago)[:-1]}.000000Z"
    return {"metadata": {"name": f"e{ago}"}, "eventTime": at, "type": kind, "reason": reason, "note": note}


class Trees:
    """A cluster in a few lists. The real one is in `tests/api`."""

    def __init__(self, *apps: Tree, maps: tuple[Tree, ...] = (), events: tuple[Tree, ...] = ()) -> None:
        self._of = {APPS: apps, CONFIG_MAPS: maps, EVENTS: events}
        self.refused: set[ObjectKind] = set()

    def get(self, kind: ObjectKind, _: str, name: str) -> Tree | None:
        return next((one for one in self.find(kind, None, {}) if one["metadata"]["name"] == name), None)

    def find(self, kind: ObjectKind, _: str | None, __: dict[str, str]) -> list[Tree]:
        if kind in self.refused:
            message = f"you may not see {kind.right}"
            raise UserActionError(message)
        return list(self._of[kind])
