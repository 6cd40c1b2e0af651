"""What is created for an app: an attempt's policies, orders and driver, the pods of a trial, an assignment.

    policies -> orders that must not be followed any more are deleted -> orders -> is the app as it was? -> driver

A call may arrive late: its operator gave it up or died, and another one works on, or the app was changed. So the name
of an object says for which attempt it is, and a label of which spec it was made. An attempt of a run that the app has
left can't begin once its orders are gone; and whoever makes a driver looks, when its orders are there, whether they
still count. Must not decide.
"""

from dataclasses import dataclass

from holdfast.api_answers import ApiConflictError, ApiRefusedError
from holdfast.protocol.names import APP_LABEL, SPEC_LABEL, attempt_in, attempt_name
from holdfast.protocol.pods import pod_state
from holdfast.reasons import Reason
from holdfast.trees import Tree
from holdfast_operator.cluster import APP, CONFIG_MAP, NETWORK_POLICY, POD, ApiKind, Cluster
from holdfast_operator.decide.decision import HandOver, StartDriver, TryPods
from holdfast_operator.decide.facts import AppFinding, AppKey, AppObject
from holdfast_operator.manifests.driver_pod import (
    AppOwner,
    Installation,
    assignment_config_map,
    attempt_config_map,
    driver_pod,
)
from holdfast_operator.manifests.network_policy import AppNetwork, network_policies
from holdfast_operator.manifests.trial_pod import trial_pods
from holdfast_operator.observe.cache import WatchCache


@dataclass(frozen=True, slots=True)
class Creation:
    """Creates objects of one app, as it was when its status was written."""

    cluster: Cluster
    cache: WatchCache
    installed: Installation
    network: AppNetwork | None
    app: AppObject

    async def attempt(self, start: StartDriver) -> AppFinding | None:
        """Create what an attempt needs, and its driver. Return a finding if that is refused."""
        config_map = attempt_config_map(start, self.app.tree, self._owner, self.installed)
        pod = driver_pod(start.app, start.attempt, self._owner, self.installed, start.spec_hash)
        try:
            # Policies come first, so that no pod of this attempt ever runs without them.
            if (refused := await self._limit(start)) is not None:
                return refused
            await self._withdraw(config_map)
            if not await self._made(CONFIG_MAP, config_map):
                return _anothers(CONFIG_MAP, config_map)
            await self._check_unchanged()
            if not await self._made(POD, pod):
                return _anothers(POD, pod)
        except ApiRefusedError as error:
            return AppFinding(Reason.CREATE_REFUSED, str(error))
        return None

    async def trial(self, action: TryPods) -> AppFinding | None:
        """Create the pods of a trial. Return a finding if one is refused."""
        for trial in trial_pods(action.app, self._owner, self.installed):
            if trial.digest not in action.digests:
                continue
            try:
                if not await self._made(POD, trial.tree):
                    return AppFinding(Reason.TRIAL_FAILED, _anothers(POD, trial.tree).message)
            except ApiRefusedError as error:
                return AppFinding(Reason.TRIAL_FAILED, str(error))
        return None

    async def assignment(self, action: HandOver) -> None:
        """Hand an assignment to the driver."""
        tree = assignment_config_map(action.handed, self.app.status.run_id or "1", self._owner)
        existing_map = await self.cluster.get(CONFIG_MAP, self.app.namespace, tree["metadata"]["name"])
        if existing_map is not None and not self.app.owns(existing_map["metadata"]):
            # It may be that of a deleted app of this name, which Kubernetes is about to remove.
            raise ApiConflictError(_anothers(CONFIG_MAP, tree).message)
        await self._put(CONFIG_MAP, tree, existing_map)

    @property
    def _owner(self) -> AppOwner:
        return AppOwner(self.app.name, self.app.namespace, self.app.uid)

    async def _limit(self, start: StartDriver) -> AppFinding | None:
        """Write the app's NetworkPolicies."""
        if self.network is None:
            return None
        for tree in network_policies(start.app, self._owner, self.installed.labels, self.network):
            existing_policy = await self.cluster.get(NETWORK_POLICY, self.app.namespace, tree["metadata"]["name"])
            if existing_policy is not None and not self.app.owns(existing_policy["metadata"]):
                return _anothers(NETWORK_POLICY, tree)
            await self._put(NETWORK_POLICY, tree, existing_policy)
        return None

    async def _withdraw(self, config_map: Tree) -> None:
        """Delete orders by which a driver could be made that the app does not want any more.

        Those of this attempt that were made of another spec: they are immutable. And those of runs that the app has
        left; the last attempt that began keeps its own, by which the app can go back.
        """
        name, last_begun = config_map["metadata"]["name"], self.app.status.begun
        going_back = last_begun and attempt_name(self.app.name, last_begun.run_id, last_begun.attempt)
        this_attempt = attempt_in(self.app.name, name)
        assert this_attempt is not None  # noqa: S101 - the operator named it
        for orders in await self.cluster.find(CONFIG_MAP, self.app.namespace, {APP_LABEL: self.app.name}):
            attempt = attempt_in(self.app.name, orders["metadata"]["name"])
            if attempt is None or not self.app.owns(orders["metadata"]):
                continue
            if attempt == this_attempt:
                if _spec_label(orders) != _spec_label(config_map) and not await self._has_driver(name):
                    await self._delete(orders)
            elif attempt.app_id != this_attempt.app_id and orders["metadata"]["name"] != going_back:
                await self._delete(orders)
                # It may have come a moment before, and have read them.
                if await self._has_driver(orders["metadata"]["name"]):
                    message = f"{orders['metadata']['name']}, of a run that the app has left, has come up meanwhile"
                    raise ApiConflictError(message)

    async def _has_driver(self, name: str) -> bool:
        tree = await self.cluster.get(POD, self.app.namespace, name)
        return tree is not None and not pod_state(tree).over

    async def _delete(self, orders: Tree) -> None:
        metadata = orders["metadata"]
        await self.cluster.delete(CONFIG_MAP, self.app.namespace, metadata["name"], metadata["uid"])

    async def _check_unchanged(self) -> None:
        """Raise a conflict if the app was written since its status was: the attempt may count no more."""
        tree = await self.cluster.get(APP, self.app.namespace, self.app.name)
        if tree is None or tree["metadata"]["resourceVersion"] != self.app.version:
            self.cache.distrust_app(AppKey(self.app.namespace, self.app.name))
            message = f"{self.app.name} was changed while its driver was being made"
            raise ApiConflictError(message)

    async def _put(self, kind: ApiKind, tree: Tree, existing_object: Tree | None) -> None:
        """Create the object, or replace the one that is there. After a concurrent write a later look tries again."""
        if existing_object is None:
            await self.cluster.create(kind, self.app.namespace, tree)
            return
        tree["metadata"]["resourceVersion"] = existing_object["metadata"]["resourceVersion"]
        if await self.cluster.replace(kind, self.app.namespace, tree) is None:
            message = f"{kind.name} {tree['metadata']['name']} was deleted while it was being written"
            raise ApiConflictError(message)

    async def _made(self, kind: ApiKind, tree: Tree) -> bool:
        """Create the object; ours may exist from an earlier try. Return False if another owner's has the name."""
        try:
            await self.cluster.create(kind, self.app.namespace, tree)
        except ApiConflictError:
            existing_object = await self.cluster.get(kind, self.app.namespace, tree["metadata"]["name"])
            if existing_object is None:
                return True
            ours = self.app.owns(existing_object["metadata"])
            if ours and _spec_label(existing_object) != _spec_label(tree):
                message = f"{kind.name} {tree['metadata']['name']} of another spec has come up meanwhile"
                raise ApiConflictError(message) from None
            return ours
        return True


def _spec_label(tree: Tree) -> str | None:
    """Return the fingerprint of the spec that an attempt's object was made of."""
    fingerprint: str | None = (tree["metadata"].get("labels") or {}).get(SPEC_LABEL)
    return fingerprint


def _anothers(kind: ApiKind, tree: Tree) -> AppFinding:
    name = tree["metadata"]["name"]
    message = f"{kind.name} {name} is there and does not belong to this app; delete it, or rename the app"
    return AppFinding(Reason.CREATE_REFUSED, message)
