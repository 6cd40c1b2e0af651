"""All that the operator changes in the cluster for an app: its status, the actions of a decision, events.

Each action is idempotent, also after a partial run. Names come from the decision, and deletes name the uid they mean,
so that a late call can't hit a successor. Labels only find objects: what is deleted or replaced has a name that the
operator or Spark gave it for this app. An event that can't be written does no harm: the failure is logged. Must not
decide, nor read anything but the objects of the action.
"""

import contextlib
import hashlib
import logging
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from holdfast.api_answers import ApiConflictError, NamespaceEndsError
from holdfast.errors import HoldfastError
from holdfast.protocol.names import APP_LABEL, FINALIZER, SPARK_APP_LABEL
from holdfast.reasons import Reason
from holdfast.spec.app import API_VERSION, KIND, Status
from holdfast.trees import Tree
from holdfast_operator.act.creation import Creation
from holdfast_operator.cluster import APP, CLAIM, CONFIG_MAP, EVENT, POD, STATEFUL_SET, Cluster
from holdfast_operator.decide.decision import (
    Action,
    AddFinalizer,
    CollectAttempts,
    EndExecutorSet,
    EndPod,
    ForceDeletePod,
    GiveUpClaim,
    GiveUpRunClaims,
    HandOver,
    OperatorEvent,
    RemoveFinalizer,
    StartDriver,
    TryPods,
)
from holdfast_operator.decide.facts import AppFinding, AppKey, AppObject
from holdfast_operator.manifests.driver_pod import Installation
from holdfast_operator.manifests.network_policy import AppNetwork
from holdfast_operator.observe.cache import RecentValues, WatchCache


@dataclass(frozen=True, slots=True)
class ActionRunner:
    """Writes the status and executes actions."""

    cluster: Cluster
    cache: WatchCache
    """Told of every write to an app, so that it is known before a watch reports it."""
    installed: Installation
    network: AppNetwork | None = None
    """None: apps get no NetworkPolicies, and the operator has no right to create any."""

    async def write_status(self, app: AppObject, status: Status) -> AppObject | None:
        """Write a changed status over the version that was read; return the app with it, None if that has changed."""
        before, after = _status_tree(app.status), _status_tree(status)
        if before == after:
            return app
        removed_fields = {name: None for name in before if name not in after}
        patch: Tree = {"metadata": {"resourceVersion": app.version}, "status": {**after, **removed_fields}}
        try:
            written = await self.cluster.patch(APP, app.namespace, app.name, patch, part="status")
        except ApiConflictError:
            written = None
        if written is None:
            self.cache.distrust_app(AppKey(app.namespace, app.name))
            return None
        self.cache.read_app(written)
        return replace(app, status=status, version=written["metadata"]["resourceVersion"])

    async def act(self, action: Action, app: AppObject) -> AppFinding | None:
        """Execute an action. Return a finding if an object can't be created for good; raise on any other error."""
        try:
            return await self._done(action, app)
        except NamespaceEndsError as error:
            return AppFinding(Reason.DELETING, str(error))

    async def _done(self, action: Action, app: AppObject) -> AppFinding | None:
        match action:
            case AddFinalizer() | RemoveFinalizer():
                await self._finalizer(app, keep=isinstance(action, AddFinalizer))
            case StartDriver():
                return await self._creation(app).attempt(action)
            case TryPods():
                return await self._creation(app).trial(action)
            case HandOver():
                await self._creation(app).assignment(action)
            case EndPod() | ForceDeletePod():
                grace = 0 if isinstance(action, ForceDeletePod) else None
                await self.cluster.delete(POD, app.namespace, action.name, action.uid, grace)
            case EndExecutorSet():
                await self.cluster.delete(STATEFUL_SET, app.namespace, action.name, action.uid)
            case GiveUpClaim():
                await self.cluster.delete(CLAIM, app.namespace, action.name, action.uid)
            case GiveUpRunClaims():
                await self._give_up(action, app)
            case CollectAttempts():
                await self._collect(action, app)
        return None

    def _creation(self, app: AppObject) -> Creation:
        return Creation(self.cluster, self.cache, self.installed, self.network, app)

    async def _finalizer(self, app: AppObject, *, keep: bool) -> None:
        other_finalizers = [name for name in app.tree["metadata"].get("finalizers") or () if name != FINALIZER]
        finalizers = [*other_finalizers, FINALIZER] if keep else other_finalizers
        patch = {"metadata": {"finalizers": finalizers, "resourceVersion": app.version}}
        written = await self.cluster.patch(APP, app.namespace, app.name, patch)
        if written is not None:
            self.cache.read_app(written)

    async def _give_up(self, action: GiveUpRunClaims, app: AppObject) -> None:
        for tree in await self.cluster.find(CLAIM, app.namespace, {SPARK_APP_LABEL: action.app_id}):
            if action.covers(tree["metadata"]):
                await self.cluster.delete(CLAIM, app.namespace, tree["metadata"]["name"], tree["metadata"]["uid"])

    async def _collect(self, action: CollectAttempts, app: AppObject) -> None:
        for kind in (POD, CONFIG_MAP):
            for tree in await self.cluster.find(kind, app.namespace, {APP_LABEL: app.name}):
                if action.covers(app, tree["metadata"]):
                    await self.cluster.delete(kind, app.namespace, tree["metadata"]["name"], tree["metadata"]["uid"])


def _status_tree(status: Status) -> Tree:
    return status.model_dump(mode="json", by_alias=True, exclude_none=True)


_LOG = logging.getLogger("holdfast.events")
_LONGEST = 1000
"""Maximum bytes of a note; the API server takes 1024."""


_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class EventWriter:
    """Writes events."""

    cluster: Cluster
    who: str
    clock: Callable[[], int]
    """Returns the time of day in milliseconds."""
    _written: RecentValues[str, bool] = field(default_factory=lambda: RecentValues(_REMEMBERED))
    """Names of events that exist, so that not every look tries to write them again."""

    async def say(self, app: AppObject, event: OperatorEvent) -> None:
        """Write an event about this app, unless it is about something that already has its event."""
        of = {"apiVersion": API_VERSION, "kind": KIND, "namespace": app.namespace, "name": app.name, "uid": app.uid}
        await self.tell(of, event.reason.value, event.message, warning=event.warning, about=event.about)

    async def tell(self, of: Mapping[str, str], reason: str, message: str, *, warning: bool, about: str = "") -> None:
        """Write and log an event about the object that `of` names."""
        namespace, name = of["namespace"], _event_name(of, about)
        if self._written.get(name, None):
            return
        _LOG.info("%s/%s: %s: %s", namespace, of["name"], reason, message)
        tree = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "eventTime": datetime.fromtimestamp(self.clock() / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "reportingController": "holdfast.dev/operator",
            "reportingInstance": self.who,
            "action": "Reconcile",
            "type": "Warning" if warning else "Normal",
            "reason": reason,
            "note": message.encode(errors="replace")[:_LONGEST].decode(errors="ignore"),
            "regarding": dict(of),
        }
        try:
            await self._create(namespace, tree)
        except HoldfastError as error:
            _LOG.warning("%s/%s: the event %s could not be written: %s", namespace, of["name"], reason, error)
        else:
            self._written.put(name, None, value=True)

    async def _create(self, namespace: str, tree: Tree) -> None:
        # On a conflict it is there: this operator wrote it before it was started again, or another one did.
        with contextlib.suppress(ApiConflictError):
            await self.cluster.create(EVENT, namespace, tree)


def _event_name(of: Mapping[str, str], about: str) -> str:
    """Return a new name, or the one that the event about this always has."""
    digest = hashlib.sha256(f"{of.get('uid')}/{about}".encode()).hexdigest()[:16]
    return f"{of['name']}.{digest if about else secrets.token_hex(8)}"
