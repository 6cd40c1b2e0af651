"""The list of apps as the page gets it: a row for each, problems first.

Moments stay moments, in milliseconds, and the page says how long ago they are: so an answer changes only when the
cluster does. Must not read anything.
"""

from enum import StrEnum

from holdfast.protocol.report import DriverReport
from holdfast.reasons import Reason
from holdfast.trees import Tree
from holdfast_cli.cluster.app import AppList, ClusterApp, Missing, OrMissing


class AppStanding(StrEnum):
    """How an app does, the worst first: the order of the list."""

    STALLED = "stalled"
    """It waits for somebody to act."""
    NOT_READY = "not ready"
    CHANGING = "changing"
    UNKNOWN = "unknown"
    """The operator has not looked at it, or not at its newest generation."""
    OFF = "off"
    READY = "ready"


_ORDER = {standing: place for place, standing in enumerate(AppStanding)}


def standing_of(app: ClusterApp) -> AppStanding:
    """Return how an app does, by its conditions."""
    verdict = app.verdict
    if verdict.ready:
        return AppStanding.READY
    if verdict.reason is None:
        return AppStanding.UNKNOWN
    if verdict.reason == Reason.SUSPENDED:
        return AppStanding.OFF
    if app.holds("Stalled"):
        return AppStanding.STALLED
    return AppStanding.CHANGING if app.holds("Reconciling") else AppStanding.NOT_READY


def list_view(app_list: AppList, refusals: tuple[str, ...] = ()) -> Tree:
    """Return all apps, those that need somebody first.

    `missing`: why no report of any can be read; `refusals`: why apps of some namespaces are not in it.
    """
    rows = sorted((_row(app, report) for app, report in app_list.apps), key=_place)
    reasons = {report.why if isinstance(report, Missing) else None for _, report in app_list.apps}
    missing = next(iter(reasons)) if len(reasons) == 1 else None
    return {"apps": rows, "missing": missing, "refusals": refusals}


def _place(row: Tree) -> tuple[int, str, str]:
    return _ORDER[row["standing"]], row["namespace"], row["app"]


def _row(app: ClusterApp, any_report: OrMissing[DriverReport]) -> Tree:
    status, verdict = app.status, app.verdict
    report = app.current(any_report)
    progress = None if isinstance(report, Missing) or report.progressed is None else report
    return {
        "namespace": app.namespace,
        "app": app.name,
        "standing": standing_of(app),
        "reason": verdict.reason,
        "message": verdict.message,
        "attempt": status.attempt,
        "restarts": status.restarts,
        "tasks": status.tasks,
        "placed": status.placed,
        "lag": progress.lag if progress else None,
        "batch": progress.batch if progress else None,
        "progressed": progress.progressed if progress else None,
        "missing": report.why if isinstance(report, Missing) else None,
        "created": app.created,
    }
