"""Who applies apps, and plays kubelets and drivers, as cheaply as it can, since it shares the machine.

A driver pod runs as soon as it is seen, and its driver reports at once, then as often as real ones do. Everything goes
through the API server; times are those at which a watch told of it. Must not know the operator.
"""

import asyncio
import json
import ssl
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from holdfast.protocol.names import REPORT_LABEL, TRIAL_LABEL
from holdfast.protocol.report import REPORT_INTERVAL, REPORT_KEY, DriverReport
from tests.api.plane import ADMIN, Plane

Tree = dict[str, Any]
NAMESPACE = "bench"
_APPS = f"/apis/holdfast.dev/v1alpha1/namespaces/{NAMESPACE}/streamapps"
_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
_CONFIG_MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
_AT_ONCE = 32


def app(name: str) -> Tree:
    """An app of ordinary size: three inputs, state, six steps."""
    timed = {"system": "events", "key": ["ad"], "eventTime": {"column": "ts", "lateness": "10s"}}
    columns = "ad STRING, campaign STRING, ts TIMESTAMP"
    return {
        "apiVersion": "holdfast.dev/v1alpha1",
        "kind": "StreamApp",
        "metadata": {"name": name},
        "spec": {
            "systems": [{"name": "events", "kafka": {"bootstrapServers": "kafka:9092"}}],
            "streams": [
                {"name": "impressions", "schema": columns, **timed},
                {"name": "clicks", "schema": columns, **timed},
                {"name": "purchases", "schema": columns, **timed},
                {"name": "out", "system": "events", "key": ["campaign"]},
            ],
            "steps": [
                {"name": "valid", "from": ["clicks"], "filter": "campaign IS NOT NULL"},
                {"name": "all", "from": ["valid", "impressions", "purchases"], "merge": {}},
                {"name": "picked", "from": ["all"], "select": ["upper(campaign) AS campaign", "ad"]},
                {"name": "by-campaign", "from": ["picked"], "repartition": {"by": ["campaign"]}},
                {
                    "name": "counts",
                    "from": ["by-campaign"],
                    "process": {"function": "ads:count", "by": ["campaign"], "schema": "campaign STRING, n BIGINT"},
                },
                {"name": "written", "from": ["counts"], "to": "out"},
            ],
            "runtime": {
                "checkpoint": {"location": "s3a://bucket/ads"},
                "code": {"ads": "def count(key, rows, state):\n    yield {}\n"},
            },
        },
    }


@dataclass(slots=True)
class Life:
    """What was seen of one app, in seconds of the monotonic clock."""

    applied: float = 0.0
    pod: float = 0.0
    """Its driver pod was made."""
    caused: float = 0.0
    """The cause of the status that is waited for: its driver reported, or ended."""
    known: float = 0.0
    """The status says so."""


@dataclass(slots=True)
class Player:
    """One namespace full of apps."""

    plane: Plane
    lives: dict[str, Life] = field(default_factory=dict)
    ready: int = 0
    drivers: dict[str, str] = field(default_factory=dict)
    """App -> its driver pod that runs."""
    _session: aiohttp.ClientSession | None = None
    _seen: set[str] = field(default_factory=set)
    _running: set["asyncio.Task[None]"] = field(default_factory=set)
    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def __aenter__(self) -> "Player":
        self.plane.kubeconfig()
        context = ssl.create_default_context(cafile=str(self.plane.directory / "ca.crt"))
        context.load_cert_chain(self.plane.directory / f"{ADMIN}.crt", self.plane.directory / f"{ADMIN}.key")
        connector = aiohttp.TCPConnector(ssl=context, limit=0)
        self._session = aiohttp.ClientSession(self.plane.url, connector=connector, trust_env=False)
        for work in (self._watch_pods(), self._watch_apps()):
            self._spawn(work)
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        if self._session is not None:
            await self._session.close()

    async def apply(self, name: str) -> None:
        """As `kubectl apply`."""
        self.lives[name] = Life(applied=time.monotonic())
        await self._call("POST", _APPS, app(name))

    async def edit(self, name: str, spec: Tree) -> None:
        """Merge this into the spec of an app."""
        await self._call("PATCH", f"{_APPS}/{name}", {"spec": spec})

    async def end(self, name: str) -> None:
        """The driver of this app fails."""
        life = self.lives[name]
        life.known, life.caused = 0.0, time.monotonic()
        pod = self.drivers.pop(name)
        ended = {"terminated": {"exitCode": 1, "reason": "Error", "message": "no broker"}}
        await self._status(pod, "Failed", ended)

    async def until(self, ready: int, seconds: float) -> None:
        """Until so many apps are Ready."""
        async with asyncio.timeout(seconds):
            while self.ready < ready:
                self._changed.clear()
                await self._changed.wait()

    async def until_known(self, names: list[str], seconds: float) -> None:
        """Until the status of these apps says what was told."""
        async with asyncio.timeout(seconds):
            while not all(self.lives[name].known for name in names):
                self._changed.clear()
                await self._changed.wait()

    @property
    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            message = "a player plays inside its `async with`"
            raise RuntimeError(message)
        return self._session

    def _spawn(self, work: Any) -> None:
        task: asyncio.Task[None] = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _watch_pods(self) -> None:
        async for kind, pod in self._watch(_PODS):
            labels = pod["metadata"].get("labels") or {}
            is_new = kind == "ADDED" and pod["metadata"]["uid"] not in self._seen
            if is_new and TRIAL_LABEL in labels:
                self._seen.add(pod["metadata"]["uid"])
                self._spawn(self._status(pod["metadata"]["name"], "Succeeded", {"terminated": {"exitCode": 0}}))
            elif is_new and labels.get("spark-role") == "driver":
                self._seen.add(pod["metadata"]["uid"])
                life = self.lives.get(labels["holdfast.dev/app"])
                if life is not None and not life.pod:
                    life.pod = time.monotonic()
                self._spawn(self._drive(pod["metadata"]["name"], labels))
            elif kind != "DELETED" and "deletionTimestamp" in pod["metadata"]:
                self._spawn(self._call("DELETE", f"{_PODS}/{pod['metadata']['name']}", {"gracePeriodSeconds": 0}))

    async def _drive(self, pod: str, labels: Tree) -> None:
        name = labels["holdfast.dev/app"]
        await self._status(pod, "Running", {"running": {}})
        self.drivers[name] = pod
        life = self.lives[name]
        if not life.caused:
            life.caused = time.monotonic()
        while self.drivers.get(name) == pod:
            await self._report(labels)
            await asyncio.sleep(REPORT_INTERVAL / 1000)

    async def _report(self, labels: Tree) -> None:
        now = time.time_ns() // 1_000_000
        report = DriverReport(int(labels["holdfast.dev/attempt"]), now, 1, now, 0, 8, 32, 8)
        name = f"{labels['holdfast.dev/app-id']}-report"
        tree = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "labels": {REPORT_LABEL: labels["holdfast.dev/app"]}},
            "data": {REPORT_KEY: report.text()},
        }
        if await self._call("PUT", f"{_CONFIG_MAPS}/{name}", tree) is None:
            await self._call("POST", _CONFIG_MAPS, tree)

    async def _status(self, pod: str, phase: str, state: Tree) -> None:
        container = {"name": "driver", "ready": True, "restartCount": 0, "image": "i", "imageID": "i", "state": state}
        patch = {"status": {"phase": phase, "containerStatuses": [container]}}
        await self._call("PATCH", f"{_PODS}/{pod}/status", patch)

    async def _watch_apps(self) -> None:
        were: set[str] = set()
        async for _, tree in self._watch(_APPS):
            name, status = tree["metadata"]["name"], tree.get("status") or {}
            conditions = {one["type"]: one for one in status.get("conditions") or ()}
            is_ready = conditions.get("Ready", {}).get("status") == "True"
            life = self.lives.get(name)
            if life is not None and life.caused and not life.known and is_ready != (name in were):
                life.known = time.monotonic()
            (were.add if is_ready else were.discard)(name)
            self.ready = len(were)
            self._changed.set()

    async def _watch(self, path: str) -> AsyncIterator[tuple[str, Tree]]:
        """What changes there; all that is there again when the API server has cut a watch off that was too slow."""
        while True:
            listing = await self._call("GET", path, {}) or {}
            for tree in listing["items"]:
                yield "ADDED", tree
            async for event in self._watched(path, listing["metadata"]["resourceVersion"]):
                yield event

    async def _watched(self, path: str, since: str) -> AsyncIterator[tuple[str, Tree]]:
        timeout = aiohttp.ClientTimeout(total=None)
        query = f"?watch=true&resourceVersion={since}"
        async with self._open.get(f"{path}{query}", timeout=timeout) as answer:
            left = b""
            async for chunk in answer.content.iter_any():
                *lines, left = (left + chunk).split(b"\n")
                for line in lines:
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        return
                    yield event["type"], event["object"]

    async def _call(self, method: str, path: str, body: Tree) -> Tree | None:
        content = "application/merge-patch+json" if method == "PATCH" else "application/json"
        async with (
            self._slots,
            self._open.request(method, path, data=json.dumps(body), headers={"Content-Type": content}) as answer,
        ):
            if answer.status == 404:
                return None
            if answer.status >= 300:
                message = f"{method} {path}: {answer.status} {(await answer.text())[:500]}"
                raise RuntimeError(message)
            tree: Tree = await answer.json(content_type=None)
            return tree
