"""The figures of an app that metrics show: readiness, restarts, and what the app promises (`alerts`).

Read when a watch tells of the app, so that a scrape of ten thousand apps parses nothing. They outlive drivers. An
object that no model has judged may say anything: what is no figure is left out. Must not judge an app.
"""

from typing import NamedTuple

from holdfast.spec.values import is_duration, millis
from holdfast.trees import Tree, as_object


class AppFigures(NamedTuple):
    """What is known of an app without its driver."""

    ready: str = "Unknown"
    """Status of its condition Ready."""
    reason: str = "NotYetKnown"
    restarts: int = 0
    max_lag: float | None = None
    """Seconds; None: it promises none."""
    max_dead_letters: int | None = None
    """In an hour; None: it promises none."""


def app_figures(tree: Tree) -> AppFigures:
    """Return the figures in an app's object."""
    status = as_object(tree.get("status"))
    alerts = as_object(as_object(tree.get("spec")).get("alerts"))
    conditions = status.get("conditions") or []
    ready: Tree = next((condition for condition in conditions if condition.get("type") == "Ready"), {})
    lag, letters, restarts = alerts.get("maxLag"), alerts.get("deadLetters"), status.get("restarts")
    return AppFigures(
        str(ready.get("status", "Unknown")),
        str(ready.get("reason", "NotYetKnown")),
        restarts if isinstance(restarts, int) else 0,
        millis(lag) / 1000 if isinstance(lag, str) and is_duration(lag) else None,
        letters if isinstance(letters, int) else None,
    )
