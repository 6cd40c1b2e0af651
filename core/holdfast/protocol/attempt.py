"""The orders of an attempt: what the operator tells a driver beside its app, as the file `attempt.json`.

Who the attempt is, and in which ConfigMaps it finds its assignment and reports. The file is in the ConfigMap of the
attempt, mounted into the driver, and never changes; it is read by the release that wrote it. Must not hold what can
change.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from holdfast.bounded_json import load

ORDERS_KEY = "attempt.json"
"""Where it is in the attempt's ConfigMap."""


@dataclass(frozen=True, slots=True)
class AttemptOrders:
    """What an attempt is told."""

    app: str
    namespace: str
    uid: str
    """Of the StreamApp: what the driver makes goes with it."""
    run: str
    attempt: int
    assignment: str
    """The ConfigMap in which assignments are handed over."""
    report: str
    """The ConfigMap in which the driver reports."""
    topics: Mapping[str, int | None] = field(default_factory=dict)
    """Partition counts the plan was accepted with, by stream; None: there was no such topic."""

    def text(self) -> str:
        """As JSON."""
        return json.dumps(
            {
                "app": self.app,
                "namespace": self.namespace,
                "uid": self.uid,
                "runId": self.run,
                "attempt": self.attempt,
                "assignment": self.assignment,
                "report": self.report,
                "topics": dict(self.topics),
            },
            sort_keys=True,
        )


def read_orders(text: str) -> AttemptOrders:
    """What stands in this text; it was written by the operator of the same release."""
    tree: Any = load(text)
    return AttemptOrders(
        app=tree["app"],
        namespace=tree["namespace"],
        uid=tree["uid"],
        run=tree["runId"],
        attempt=tree["attempt"],
        assignment=tree["assignment"],
        report=tree["report"],
        topics=tree["topics"],
    )
