"""What is created when an attempt starts, beside what late calls have left there, or bring meanwhile."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest

from holdfast.api_answers import ApiConflictError
from holdfast.protocol.names import SPEC_LABEL, attempt_name
from holdfast.reasons import Reason
from holdfast.spec.app import BegunAttempt, Status
from holdfast.spec.parse import parse_app
from holdfast.trees import Tree
from holdfast_operator.act.actions import ActionRunner
from holdfast_operator.cluster import APP, CONFIG_MAP, POD, ApiKind, Cluster
from holdfast_operator.decide.decision import StartDriver
from holdfast_operator.decide.facts import AppFinding
from holdfast_operator.observe.cache import WatchCache
from tests.operator.apps import POLICY, UID, app, tree

OWNED: Tree = {"ownerReferences": [{"uid": UID}]}
LABELS: dict[str, Tree] = {spec: {"labels": {SPEC_LABEL: spec}} for spec in ("before", "after")}
THIS, LEFT = attempt_name("ads", "2", 1), attempt_name("ads", "1", 1)
Key = tuple[str, str]


class Namespace:
    """A cluster with the app of run 2, of version 7, in which an attempt is started."""

    def __init__(self) -> None:
        self.objects: dict[Key, Tree] = {}
        self.has(APP, "ads")
        self.created: list[Key] = []
        self.deleted: list[Key] = []
        self.meanwhile: dict[Key, Callable[[], None]] = {}
        """What happens behind the creation or deletion of an object."""

    def has(self, kind: ApiKind, name: str, phase: Any = "Running", **metadata: Any) -> None:
        """Let this object exist."""
        metadata = {"name": name, "uid": f"uid-of-{name}", "resourceVersion": "7", **metadata}
        self.objects[kind.name, name] = {"metadata": metadata, "status": {"phase": phase}}

    async def get(self, kind: ApiKind, _: str | None, name: str) -> Tree | None:
        return self.objects.get((kind.name, name))

    async def find(self, kind: ApiKind, _: str, __: object) -> list[Tree]:
        return [tree for (name, _), tree in self.objects.items() if name == kind.name]

    async def delete(self, kind: ApiKind, _: str, name: str, uid: str | None = None, **__: object) -> None:
        assert self.objects.pop((kind.name, name))["metadata"]["uid"] == uid
        self.deleted.append((kind.name, name))
        self.meanwhile.pop((kind.name, name), lambda: None)()

    async def create(self, kind: ApiKind, _: str, created: Tree) -> None:
        key = kind.name, created["metadata"]["name"]
        if key in self.objects:
            message = "it exists"
            raise ApiConflictError(message)
        self.created.append(key)
        self.meanwhile.pop(key, lambda: None)()

    def start(self, **status: Any) -> AppFinding | None:
        """Start attempt 1 of run 2, of the spec `after`; return what is refused."""
        spec = tree(runId="2")
        written = replace(app(Status(**status)), tree=spec, version="7")
        start = StartDriver(parse_app(spec), 1, spec_hash="after")
        return asyncio.run(ActionRunner(cast("Cluster", self), WatchCache(), POLICY.release).act(start, written))


@pytest.fixture
def namespace() -> Namespace:
    return Namespace()


@pytest.mark.parametrize("labels", [LABELS["before"], {}])
def test_orders_of_the_spec_before_an_edit_are_replaced(namespace: Namespace, labels: Tree) -> None:
    namespace.has(CONFIG_MAP, THIS, **labels, **OWNED)
    assert namespace.start() is None
    assert namespace.deleted == [("ConfigMap", THIS)]
    assert namespace.created == [("ConfigMap", THIS), ("Pod", THIS)]


def test_orders_of_the_spec_as_it_is_are_used(namespace: Namespace) -> None:
    namespace.has(CONFIG_MAP, THIS, **LABELS["after"], **OWNED)
    assert namespace.start() is None
    assert (namespace.deleted, namespace.created) == ([], [("Pod", THIS)])


def test_orders_of_another_owner_stay(namespace: Namespace) -> None:
    namespace.has(CONFIG_MAP, THIS, **LABELS["before"])
    refused = namespace.start()
    assert refused is not None
    assert refused.reason is Reason.CREATE_REFUSED
    assert (namespace.deleted, namespace.created) == ([], [])


def test_orders_of_a_driver_that_is_there_stay(namespace: Namespace) -> None:
    namespace.has(CONFIG_MAP, THIS, **LABELS["before"], **OWNED)
    namespace.has(POD, THIS, **LABELS["before"], **OWNED)
    with pytest.raises(ApiConflictError, match="of another spec has come up meanwhile"):
        namespace.start()
    assert (namespace.deleted, namespace.created) == ([], [])


def test_late_orders_of_another_spec_get_no_driver(namespace: Namespace) -> None:
    """An operator that was cut off made them again, just after they were deleted."""
    late = {**LABELS["before"], **OWNED}
    namespace.has(CONFIG_MAP, THIS, **late)
    namespace.meanwhile["ConfigMap", THIS] = lambda: namespace.has(CONFIG_MAP, THIS, **late)
    with pytest.raises(ApiConflictError, match="of another spec has come up meanwhile"):
        namespace.start()
    assert namespace.created == []


def test_orders_of_a_left_run_are_withdrawn_first(namespace: Namespace) -> None:
    """A call that is still under way may make their driver; it finds no orders."""
    namespace.has(CONFIG_MAP, LEFT, **LABELS["before"], **OWNED)
    assert namespace.start() is None
    assert namespace.deleted == [("ConfigMap", LEFT)]
    assert namespace.created == [("ConfigMap", THIS), ("Pod", THIS)]


def test_orders_by_which_an_app_goes_back_stay(namespace: Namespace) -> None:
    namespace.has(CONFIG_MAP, LEFT, **LABELS["before"], **OWNED)
    assert namespace.start(begun=BegunAttempt(run_id="1", attempt=1, spec_hash="before")) is None
    assert namespace.deleted == []


def test_what_only_looks_like_orders_stays(namespace: Namespace) -> None:
    namespace.has(CONFIG_MAP, LEFT, **LABELS["before"])  # not ours
    namespace.has(CONFIG_MAP, "ads-notes", **OWNED)
    assert namespace.start() is None
    assert namespace.deleted == []


@pytest.mark.parametrize("phase", ["Pending", "Running"])
def test_a_driver_of_a_left_run_stays_alone(namespace: Namespace, phase: str) -> None:
    namespace.has(CONFIG_MAP, LEFT, **LABELS["before"], **OWNED)
    namespace.has(POD, LEFT, phase, **OWNED)
    with pytest.raises(ApiConflictError, match="of a run that the app has left, has come up meanwhile"):
        namespace.start()
    assert namespace.created == []


def test_an_ended_driver_of_a_left_run_holds_nothing_up(namespace: Namespace) -> None:
    namespace.has(CONFIG_MAP, LEFT, **LABELS["before"], **OWNED)
    namespace.has(POD, LEFT, "Succeeded", **OWNED)
    assert namespace.start() is None


def test_an_app_that_is_changed_meanwhile_gets_no_driver(namespace: Namespace) -> None:
    """Another operator has written that another attempt is to start: it will not see this driver any more."""
    namespace.meanwhile["ConfigMap", THIS] = lambda: namespace.has(APP, "ads", resourceVersion="8")
    with pytest.raises(ApiConflictError, match="ads was changed while its driver was being made"):
        namespace.start()
    assert namespace.created == [("ConfigMap", THIS)]


def test_an_app_that_goes_meanwhile_gets_no_driver(namespace: Namespace) -> None:
    namespace.meanwhile["ConfigMap", THIS] = namespace.objects.clear
    with pytest.raises(ApiConflictError, match="ads was changed while its driver was being made"):
        namespace.start()
