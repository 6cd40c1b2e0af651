"""What a look does to the cluster and what it remembers, with a client that notes the calls it is asked for.

It answers as an empty cluster would; the real API server is in `tests/api`.
"""

import asyncio
from typing import Any, cast

import pytest

from holdfast.api_answers import ApiConflictError, ApiRefusedError
from holdfast.protocol.names import SPARK_APP_LABEL, app_id, assignment_name, attempt_name, executor_set
from holdfast.reasons import Reason
from holdfast.spec.parse import parse_app
from holdfast_operator.act.actions import ActionRunner
from holdfast_operator.cluster import ApiKind, Cluster
from holdfast_operator.decide.decision import (
    Action,
    CollectAttempts,
    GiveUpClaim,
    GiveUpRunClaims,
    HandOver,
    TryPods,
)
from holdfast_operator.decide.facts import AppFinding, AppKey
from holdfast_operator.manifests.trial_pod import pod_digests
from holdfast_operator.observe.cache import WatchCache
from holdfast_operator.observe.placement import PlacementRecords
from holdfast_operator.observe.snapshot import SnapshotSources
from holdfast_operator.observe.storage_classes import StorageClasses
from holdfast_operator.reconcile import Reconciler, RefusedCreation
from tests.operator.apps import LIMITS, POLICY, UID, app, tree
from tests.operator.test_seating import handed

OWNED = {"ownerReferences": [{"uid": UID}]}


class NotedCalls:
    """A client of a cluster in which these objects are."""

    def __init__(self, *metadata: dict[str, Any]) -> None:
        self.trees = [{"metadata": {"uid": f"uid-of-{one['name']}", "resourceVersion": "7", **one}} for one in metadata]
        self.deleted: list[tuple[str, str | None]] = []

    async def get(self, _: ApiKind, __: str | None, name: str) -> dict[str, Any] | None:
        return next((tree for tree in self.trees if tree["metadata"]["name"] == name), None)

    async def find(self, *_: object) -> list[dict[str, Any]]:
        return self.trees

    async def delete(self, _: ApiKind, __: str, name: str, uid: str | None = None, **___: object) -> None:
        self.deleted.append((name, uid))

    def client(self) -> Cluster:
        return cast("Cluster", self)


def done(action: Action, *metadata: dict[str, Any]) -> list[tuple[str, str | None]]:
    """Names and uids of what is deleted, of these objects."""
    calls = NotedCalls(*metadata)
    hands = ActionRunner(calls.client(), WatchCache(), POLICY.release)
    asyncio.run(hands.act(action, app()))
    return list(dict.fromkeys(calls.deleted))


def test_a_recreated_claim_is_not_deleted_for_its_predecessor() -> None:
    assert done(GiveUpClaim("state-x-0", "uid-1")) == [("state-x-0", "uid-1")]


def test_claims_that_only_carry_the_label_are_not_deleted() -> None:
    claim, run = f"state-{executor_set('ads', '1')}-0", app_id("ads", "1")
    labelled = {"labels": {SPARK_APP_LABEL: run}}
    deletions = done(GiveUpRunClaims(run), {"name": claim, **labelled}, {"name": "data-database-0", **labelled})
    assert deletions == [(claim, f"uid-of-{claim}")]


def test_objects_that_only_carry_the_labels_are_not_deleted() -> None:
    old, now = attempt_name("ads", "1", 1), attempt_name("ads", "1", 2)
    labels = {"labels": {"holdfast.dev/attempt": "1", "holdfast.dev/app": "ads"}}
    objects = ({"name": old, **OWNED}, {"name": now, **OWNED}, {"name": "notes", **OWNED, **labels})
    assert done(CollectAttempts(2, app_id("ads", "1")), *objects) == [(old, f"uid-of-{old}")]
    assert done(CollectAttempts(2, app_id("ads", "1")), {"name": old, **labels}) == []


def test_an_assignment_replaces_no_config_map_of_others() -> None:
    with pytest.raises(ApiConflictError, match="does not belong to this app"):
        done(HandOver(handed(1, 0, 1)), {"name": assignment_name("ads", "1")})


def test_what_was_refused_to_an_app_is_forgotten_with_it() -> None:
    cluster, cache = NotedCalls().client(), WatchCache()
    world = SnapshotSources(
        cluster, cache, lambda *_: {}, PlacementRecords(cluster), StorageClasses(cluster), cast("Any", None)
    )
    hands, unused = ActionRunner(cluster, cache, POLICY.release), cast("Any", None)
    key = AppKey("apps", "ads")
    refused = {key: (RefusedCreation(UID, 1), AppFinding(Reason.CREATE_REFUSED, "quota"))}
    reconciler = Reconciler(world, unused, hands, unused, unused, LIMITS, unused, print, int, float, print, refused)
    asyncio.run(reconciler.reconcile(key))
    assert refused == {}


def test_a_refused_trial_is_told_apart_from_a_refused_attempt() -> None:
    class Refusing(NotedCalls):
        async def create(self, *_: object) -> dict[str, Any]:
            message = "create Pod: exceeded quota"
            raise ApiRefusedError(message)

    spec = parse_app(tree())
    tries = TryPods(spec, pod_digests(spec, POLICY.release))
    hands = ActionRunner(Refusing().client(), WatchCache(), POLICY.release)
    refused = asyncio.run(hands.act(tries, app()))
    assert refused == AppFinding(Reason.TRIAL_FAILED, "create Pod: exceeded quota")
    assert asyncio.run(hands.act(TryPods(spec, ("another",)), app())) is None
