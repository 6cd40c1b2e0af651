"""Kubernetes events about apps and the operator, as `kubectl describe` shows them.

An event that can't be written does no harm: the failure is logged. Must not decide what is worth an event.
"""

import logging
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime

from holdfast.errors import HoldfastError
from holdfast.spec.app import API_VERSION, KIND
from holdfast_operator.cluster.client import EVENT, Cluster
from holdfast_operator.decide.decision import OperatorEvent
from holdfast_operator.decide.facts import AppObject

_LOG = logging.getLogger("holdfast.events")
_LONGEST = 1000
"""Maximum bytes of a note; the API server takes 1024."""


@dataclass(frozen=True, slots=True)
class EventSubject:
    """The object that an event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str = ""


@dataclass(frozen=True, slots=True)
class EventWriter:
    """Writes events."""

    cluster: Cluster
    who: str

    async def say(self, app: AppObject, told: OperatorEvent) -> None:
        """Write an event about this app."""
        regarding = EventSubject(API_VERSION, KIND, app.namespace, app.name, app.uid)
        await self.tell(regarding, told.reason.value, told.message, warning=told.warning)

    async def tell(self, of: EventSubject, reason: str, message: str, *, warning: bool) -> None:
        """Write and log an event about any object."""
        _LOG.info("%s/%s: %s: %s", of.namespace, of.name, reason, message)
        tree = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": f"{of.name}.{secrets.token_hex(8)}", "namespace": of.namespace},
            "eventTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "reportingController": "holdfast.dev/operator",
            "reportingInstance": self.who,
            "action": "Reconcile",
            "type": "Warning" if warning else "Normal",
            "reason": reason,
            "note": message.encode(errors="replace")[:_LONGEST].decode(errors="ignore"),
            "regarding": {
                "apiVersion": of.api_version,
                "kind": of.kind,
                "name": of.name,
                "namespace": of.namespace,
                **({"uid": of.uid} if of.uid else {}),
            },
        }
        try:
            await self.cluster.create(EVENT, of.namespace, tree)
        except HoldfastError as error:
            _LOG.warning("%s/%s: the event %s could not be written: %s", of.namespace, of.name, reason, error)
