"""Why: drivers say how they do in a ConfigMap of their run; here is where it is and how it is read.

Must not judge what was said.
"""

import json
from typing import Any

from holdfast_operator.facts import Report
from holdfast_operator.names import app_id

REPORT_LABEL = "holdfast.dev/report"
REPORT_KEY = "report.json"


def report_name(app: str, run: str) -> str:
    """The ConfigMap in which the driver of a run reports."""
    return f"{app_id(app, run)}-report"


def read_report(tree: dict[str, Any]) -> Report | None:
    """What the driver said; None where it can't be read: a report is no reason to fail."""
    try:
        said = json.loads(tree["data"][REPORT_KEY])
        progressed, held = said.get("progressed"), said.get("heldBack")
        return Report(
            attempt=int(said["attempt"]),
            at=int(said["at"]),
            batch=int(said.get("batch", 0)),
            progressed=None if progressed is None else int(progressed),
            lag=int(said.get("lag", 0)),
            tasks=int(said.get("tasks", 0)),
            partitions=int(said.get("partitions", 0)),
            placed=int(said.get("placed", 0)),
            held_back=None if held is None else str(held),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
