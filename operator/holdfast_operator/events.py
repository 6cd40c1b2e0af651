"""Why: an event is how an app tells its story to `kubectl describe`. One that fails to be told harms nobody.

Must not decide what is worth telling.
"""

import logging
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime

from holdfast.errors import HoldfastError
from holdfast.spec.app import API_VERSION, KIND
from holdfast_operator.cluster import EVENT, Cluster
from holdfast_operator.decision import Told
from holdfast_operator.facts import AppSeen

_LOG = logging.getLogger("holdfast.events")
_LONGEST = 1000


@dataclass(frozen=True, slots=True)
class Teller:
    """Writes events."""

    cluster: Cluster
    who: str

    async def say(self, app: AppSeen, told: Told) -> None:
        """Tell it of this app."""
        _LOG.info("%s/%s: %s: %s", app.namespace, app.name, told.reason, told.message)
        tree = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": f"{app.name}.{secrets.token_hex(8)}", "namespace": app.namespace},
            "eventTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "reportingController": "holdfast.dev/operator",
            "reportingInstance": self.who,
            "action": "Reconcile",
            "type": "Warning" if told.warning else "Normal",
            "reason": told.reason.value,
            "note": told.message[:_LONGEST],
            "regarding": {
                "apiVersion": API_VERSION,
                "kind": KIND,
                "name": app.name,
                "namespace": app.namespace,
                "uid": app.uid,
            },
        }
        try:
            await self.cluster.create(EVENT, app.namespace, tree)
        except HoldfastError as error:
            _LOG.warning("%s/%s: the event %s could not be written: %s", app.namespace, app.name, told.reason, error)
