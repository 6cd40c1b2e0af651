"""An app that is not well though it has pods: the API server is asked whether they still exist, once a minute."""

import asyncio
import copy
import pickle
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, cast

from holdfast.protocol.names import APP_LABEL, ATTEMPT_LABEL, FINALIZER, REPORT_LABEL, ROLE_LABEL, report_name
from holdfast.protocol.report import REPORT_KEY
from holdfast_operator.act.actions import EventWriter
from holdfast_operator.cluster import APP, CONFIG_MAP, POD, ApiKind, Cluster, ObjectList
from holdfast_operator.decide.facts import AppKey
from holdfast_operator.examine.sandbox import answered
from holdfast_operator.service.monitoring import Metrics
from holdfast_operator.wiring import OperatorOptions, OperatorParts, wired
from tests.operator.apps import NOW, POLICY, UID, driver, report, started, tree

KEY = AppKey("apps", "ads")
Tree = dict[str, Any]


class Reader:
    """Reads specs at once."""

    async def ask(self, namespace: str, question: str, *arguments: Any) -> tuple[Any, int]:  # noqa: ARG002 - as lanes
        return pickle.loads(answered(pickle.dumps((question, *arguments)))), 1  # noqa: S301 - our own


@dataclass
class Server:
    """The objects that exist; counts calls."""

    objects: dict[tuple[str, str], Tree] = field(default_factory=dict)
    version: int = 100
    calls: Counter[str] = field(default_factory=Counter)

    def limited(self, _: object) -> "Server":
        return self

    def put(self, kind: ApiKind, tree: Tree) -> Tree:
        self.version += 1
        tree["metadata"]["resourceVersion"] = str(self.version)
        self.objects[kind.plural, tree["metadata"]["name"]] = tree
        return copy.deepcopy(tree)

    async def get(self, kind: ApiKind, _namespace: str | None, name: str) -> Tree | None:
        self.calls[f"get {kind.plural}"] += 1
        return copy.deepcopy(self.objects.get((kind.plural, name)))

    async def listing(self, kind: ApiKind, _namespace: str | None, _labels: Any) -> ObjectList:
        self.calls[f"list {kind.plural}"] += 1
        return ObjectList([tree for (plural, _), tree in self.objects.items() if plural == kind.plural], "999")

    async def find(self, kind: ApiKind, namespace: str | None, labels: Any) -> list[Tree]:
        return (await self.listing(kind, namespace, labels)).items

    async def create(self, kind: ApiKind, _namespace: str | None, tree: Tree) -> Tree:
        return self.put(kind, copy.deepcopy(tree))

    async def patch(self, kind: ApiKind, _namespace: str, name: str, patch: Tree, part: str | None = None) -> Tree:  # noqa: ARG002
        before = self.objects[kind.plural, name]
        metadata = before["metadata"] | patch["metadata"]
        return self.put(kind, before | patch | {"metadata": metadata})

    async def delete(self, kind: ApiKind, *_: object) -> None:
        self.calls[f"delete {kind.plural}"] += 1  # a pod takes its time


@dataclass
class Operator:
    """An operator of one app, whose watches have told of it and of its driver, and are dead by now."""

    parts: OperatorParts
    server: Server
    now: int = NOW


def operator(*, deleted: bool) -> Operator:
    server = Server()
    options = OperatorOptions(POLICY, nodes=False, clock=lambda: made.now)
    cluster = cast("Cluster", server)
    made = Operator(wired(options, cluster, EventWriter(cluster, "me", options.clock), Metrics(), Reader()), server)
    deletion = {"deletionTimestamp": "2027-01-15T08:00:00Z"} if deleted else {}
    app = tree()
    app["metadata"] |= {"namespace": "apps", "uid": UID, "generation": 1, "finalizers": [FINALIZER], **deletion}
    app["status"] = started().model_dump(mode="json", by_alias=True, exclude_none=True)
    made.parts.cache.saw_app(server.put(APP, app))
    pod = driver()
    labels = {APP_LABEL: "ads", ATTEMPT_LABEL: "1", ROLE_LABEL: "driver"}
    owner = {"uid": UID, "controller": True, "kind": "StreamApp", "name": "ads"}
    metadata = {"name": pod.name, "namespace": "apps", "uid": pod.uid, "labels": labels, "ownerReferences": [owner]}
    running = {"metadata": metadata, "spec": {}, "status": {"phase": "Running"}}
    made.parts.cache.saw_pod(server.put(POD, running), deleted=False)
    report_metadata = {"name": report_name("ads", "1"), "namespace": "apps", "labels": {REPORT_LABEL: "ads"}}
    made.parts.cache.saw_report(
        server.put(CONFIG_MAP, {"metadata": report_metadata, "data": {REPORT_KEY: report().text()}}), deleted=False
    )
    return made


def test_an_unending_deletion_is_checked_once_a_minute() -> None:
    async def story() -> None:
        ads = operator(deleted=True)
        for _ in range(5):
            ads.now += 10_000
            await ads.parts.looks.look(KEY)
        assert ads.server.calls["list pods"] == 1, "checked once a minute"
        del ads.server.objects["pods", driver().name]
        assert ads.parts.cache.pods(KEY), "no watch tells of it"
        ads.now += 20_000
        await ads.parts.looks.look(KEY)
        assert ads.server.objects["streamapps", "ads"]["metadata"]["finalizers"] == []
        assert not ads.parts.cache.pods(KEY), "what was read live corrects the cache"

    asyncio.run(story())


def test_only_a_quiet_driver_is_checked() -> None:
    async def story() -> None:
        ads = operator(deleted=False)
        del ads.server.objects["pods", driver().name]
        ads.now += 60_000
        await ads.parts.looks.look(KEY)
        assert ads.server.calls["list pods"] == 0
        ads.now += 31_000
        await ads.parts.looks.look(KEY)
        assert ads.server.calls["list pods"] == 1
        assert ads.server.objects["streamapps", "ads"]["status"]["ended"] == "Lost"

    asyncio.run(story())
