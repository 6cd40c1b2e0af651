"""The orders of an attempt: what the operator gives a driver beside the app, as the file `attempt.json`.

They identify the attempt, and name the ConfigMaps for its assignments and reports. The file is in the ConfigMap of the
attempt, mounted into the driver, and never changes; the release that wrote it reads it. Must not hold what can change.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from holdfast.attempt_number import checked_attempt
from holdfast.bounded_json import load

ORDERS_KEY = "attempt.json"
"""The key in the attempt's ConfigMap."""


@dataclass(frozen=True, slots=True)
class AttemptOrders:
    """The orders that the operator gives to the driver of an attempt."""

    app: str
    namespace: str
    uid: str
    """Uid of the StreamApp, which owns all objects that the driver creates."""
    run: str
    attempt: int
    assignment: str
    """The ConfigMap from which the driver reads assignments."""
    report: str
    """The ConfigMap to which the driver writes its report."""
    topics: Mapping[str, int | None] = field(default_factory=dict)
    """Partition counts with which the plan was accepted, by stream; None: the topic did not exist."""

    def text(self) -> str:
        """Return them as JSON."""
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
    """Return the orders in this text. Only the number that fences is checked: the operator of this release wrote it."""
    tree: Any = load(text)
    return AttemptOrders(
        app=tree["app"],
        namespace=tree["namespace"],
        uid=tree["uid"],
        run=tree["runId"],
        attempt=checked_attempt(tree["attempt"]),
        assignment=tree["assignment"],
        report=tree["report"],
        topics=tree["topics"],
    )
