"""Why: the state of apps on a cluster for programs: all of it, whole, under names that stay."""

import json
from typing import Any

from holdfast.protocol.assignment import VersionedAssignment
from holdfast.protocol.report import DriverReport
from holdfast_cli.cluster.app import AppDetail, AppEvent, AppList, ClusterApp, Missing, OrMissing

Tree = dict[str, Any]


def list_json(found: AppList) -> Tree:
    """All apps."""
    return {"apps": [{**_app(app), "report": _report(report)} for app, report in found.apps]}


def app_json(found: AppDetail) -> Tree:
    """One app; `missing` says why a part is null."""
    parts: dict[str, OrMissing[Any]] = {"report": found.report, "assignment": found.handed, "events": found.events}
    return {
        **_app(found.app),
        "report": _report(found.report),
        "assignment": _handed(found.handed),
        "events": None if isinstance(found.events, Missing) else [_event(one) for one in found.events],
        "missing": {name: part.why for name, part in parts.items() if isinstance(part, Missing)},
    }


def _app(app: ClusterApp) -> Tree:
    return {
        "app": app.name,
        "namespace": app.namespace,
        "ready": app.verdict.ready,
        "reason": app.verdict.reason,
        "message": app.verdict.message,
        "generation": app.generation,
        "driver": app.driver,
        "status": app.status.model_dump(mode="json", by_alias=True, exclude_none=True),
    }


def _report(report: OrMissing[DriverReport]) -> Tree | None:
    if isinstance(report, Missing):
        return None
    tree: Tree = json.loads(report.text())
    return tree


def _handed(handed: OrMissing[VersionedAssignment]) -> Tree | None:
    if isinstance(handed, Missing):
        return None
    processors = [
        {"processor": processor, "location": handed.processors[processor], "tasks": list(tasks)}
        for processor, tasks in handed.assignment.tasks_of.items()
    ]
    return {"version": handed.version, "attempt": handed.attempt, "processors": processors}


def _event(event: AppEvent) -> Tree:
    return {"at": event.at, "warning": event.warning, "reason": event.reason, "note": event.note}
