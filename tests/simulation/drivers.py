"""Drivers and executors: what runs in the pods of apps, their reports, their records, and the fence of attempts.

The fence is that of the runtime, by the names of its claims. A driver writes as its pod could: from a node that is cut
off nothing arrives. Must not know the operator, nor what a report leads to.
"""

import asyncio
import functools
import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from holdfast.api_answers import ApiConflictError
from holdfast.placement.config_map_store import ConfigMapStore
from holdfast.placement.metadata_store import VersionConflictError
from holdfast.placement.record_store import RecordStore
from holdfast.planning.plan import PlanningFacts, plan
from holdfast.protocol.assignment import ASSIGNMENT_KEY, AssignmentInvalidError, read_assignment
from holdfast.protocol.attempt import ORDERS_KEY, AttemptOrders, read_orders
from holdfast.protocol.names import REPORT_LABEL, app_id
from holdfast.protocol.report import REPORT_KEY, DriverReport, read_report
from holdfast.spec.app import API_VERSION, KIND
from holdfast.spec.kept_state import KeptState
from holdfast.spec.parse import parse_app
from holdfast.tasks.record import PlacementRecord
from holdfast_operator.manifests.driver_pod import APP_KEY, EXECUTOR_KEY, SPARK_KEY
from holdfast_runtime.checkpoint.run_owner import is_claim
from tests.simulation.machines import Machines, PodProcess
from tests.simulation.objects import MAPS, PODS, SETS, DeleteCondition, Objects, RefusedCallError, Tree
from tests.simulation.pod_trees import executor_set

RunPlace = tuple[str, str, str]
"""Namespace, app and run: where its files are."""
_REPORTS = 15.0, 25.0
CRASHING_IMAGE = "registry/crashing"
"""With it a driver ends before it takes up its run, though its image can be pulled and imported."""
_BATCHES_TO_THE_END = 4
"""After which a bounded input has ended."""


@dataclass(eq=False, slots=True)
class Driver:
    """A driver process."""

    process: PodProcess
    orders: AttemptOrders
    app: str
    """Its spec, as JSON."""
    claimed: bool = False
    """Whether it has taken up the run, and is not fenced since."""
    hangs: bool = False
    has_begun: bool = False
    batch: int = 0
    assignment: int = 0

    @property
    def run(self) -> RunPlace:
        return self.orders.namespace, self.orders.app, self.orders.run


@dataclass(eq=False, slots=True)
class RunFiles:
    """What is in the shared storage of a run."""

    uid: str
    """Of the app that owns it."""
    claims: list[str] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class Drivers:
    """All drivers that live, and the storage that they share."""

    objects: Objects
    machines: Machines
    pick: random.Random
    clock: Callable[[], int]
    taken_up: Callable[[], None] = lambda: None
    """Called after a driver has taken up its run."""
    living: dict[str, Driver] = field(default_factory=dict)
    """Uid of the pod -> its driver."""
    files: dict[RunPlace, RunFiles] = field(default_factory=dict)
    attempts: dict[str, set[int]] = field(default_factory=dict)
    """Uid of an app -> its attempts that ran."""

    def begin(self) -> None:
        self.machines.started = self._started
        self.machines.told_to_end = self._told_to_end

    def unfenced(self, run: RunPlace) -> list[Driver]:
        """Those that live and could commit."""
        return [one for one in self.living.values() if one.run == run and one.claimed and one.process.alive]

    def fail(self, driver: Driver, code: int, message: str = "") -> None:
        """A driver ends by itself."""
        if driver.process.alive:
            self._end(driver, code, message)

    def _started(self, process: PodProcess) -> None:
        if process.is_driver:
            self._after(self.pick.uniform(0.2, 2.0), self._wake, process)

    def _told_to_end(self, process: PodProcess) -> None:
        self._after(self.pick.choice((0.3, 1.0, 3.0, 8.0)) if process.is_driver else 0.5, self._drained, process)

    def _drained(self, process: PodProcess) -> None:
        if not process.alive:
            return
        driver = self.living.get(process.uid)
        if driver is not None and driver.hangs:
            self._after(30.0, self.machines.end, process, 137, "")
            return
        message = json.dumps({"ended": "drained"}) if process.is_driver else ""
        if process.is_trial:
            self.machines.end(process, 143, "")
            return
        if driver is not None:
            self._end(driver, 0, message)
        else:
            self.machines.end(process, 0, message)

    def _end(self, driver: Driver, code: int, message: str) -> None:
        self.living.pop(driver.process.uid, None)
        driver.claimed = False
        self.machines.end(driver.process, code, message)
        set_tree = self.objects.get(
            SETS, driver.orders.namespace, f"spark-s-{app_id(driver.orders.app, driver.orders.run)}-0"
        )
        same_owner = set_tree is not None and set_tree["metadata"]["ownerReferences"][0]["uid"] == driver.process.uid
        if set_tree is not None and same_owner and not code and driver.process.node.reachable:
            metadata = set_tree["metadata"]
            self.objects.delete(
                SETS, metadata["namespace"], metadata["name"], "driver", DeleteCondition(metadata["uid"])
            )

    def _wake(self, process: PodProcess) -> None:
        """Read the orders, take up the run, ask for executors, and say so."""
        if not process.alive or process.ending:
            return
        maps = self.objects.get(MAPS, process.namespace, process.name)
        if not process.node.reachable or maps is None:
            self._after(2.0, self._wake, process)
            return
        if _content(maps, SPARK_KEY)["spark.kubernetes.container.image"] == CRASHING_IMAGE:
            self.machines.end(process, 1, json.dumps({"failed": "bug", "message": "no such module"}))
            return
        driver = Driver(process, read_orders(maps["data"][ORDERS_KEY]), maps["data"][APP_KEY])
        self.living[process.uid] = driver
        self.attempts.setdefault(driver.orders.uid, set()).add(driver.orders.attempt)
        if not self._takes_up(driver):
            return
        settings, template = _content(maps, SPARK_KEY), _content(maps, EXECUTOR_KEY)
        made = executor_set(settings, template, process.name, process.uid)
        try:
            self.objects.create(SETS, process.namespace, made, "driver")
        except RefusedCallError as refused:
            self._end(driver, 1, json.dumps({"failed": "world", "message": str(refused)}))
            return
        self._tick(driver)

    def _takes_up(self, driver: Driver) -> bool:
        """Claim the run, and so fence older attempts; False: it is not this one's to take."""
        files = self.files.setdefault(driver.run, RunFiles(driver.orders.uid))
        claims = [int(name.split("-")[1]) for name in files.claims if is_claim(name)]
        if files.uid != driver.orders.uid:
            message = {"failed": "user", "message": "the run is another app's; start under a new spec.runId"}
            self._end(driver, 1, json.dumps(message))
            return False
        if max(claims, default=0) > driver.orders.attempt:
            self._end(driver, 1, json.dumps({"failed": "world", "message": "a later attempt has taken up the run"}))
            return False
        claim = f"claim-{driver.orders.attempt:010}-{len(files.claims):012x}"
        files.claims.append(claim)
        for other in self.unfenced(driver.run) if is_claim(claim) else ():
            if other.orders.attempt <= driver.orders.attempt:
                other.claimed = False
                self._after(self.pick.uniform(0.5, 10.0), self._fenced, other)
        driver.claimed = True
        self.taken_up()
        return True

    def _fenced(self, driver: Driver) -> None:
        if driver.process.alive:
            self._end(driver, 1, json.dumps({"failed": "world", "message": "it is fenced"}))

    def _tick(self, driver: Driver) -> None:
        """Commit batches, and report."""
        if not driver.process.alive or driver.process.uid not in self.living:
            return
        wait = self.pick.uniform(*_REPORTS)
        if driver.claimed and driver.process.node.reachable and not driver.hangs:
            try:
                wait = self._reported(driver, wait)
                if driver.batch >= _BATCHES_TO_THE_END and _is_bounded(driver.app):
                    self._end(driver, 0, json.dumps({"ended": "completed"}))
                    return
            except (RefusedCallError, ApiConflictError, VersionConflictError):
                wait = 1.0
        self._after(wait, self._tick, driver)

    def _reported(self, driver: Driver, wait: float) -> float:
        """Report; return in how many seconds the next one is due."""
        if not driver.batch and not self._has_executors(driver):
            wait = 1.0
        elif not driver.has_begun:
            self._record(driver)
            driver.has_begun, wait = True, 1.0
        if driver.has_begun:
            driver.batch += 1
        self._take_assignment(driver)
        now = self.clock() + driver.process.node.clock_error
        tasks = 4 if driver.has_begun else 0
        report = DriverReport(
            driver.orders.attempt,
            now,
            driver.batch,
            now if driver.has_begun else None,
            0,
            tasks,
            8,
            tasks,
            driver.assignment,
        )
        self._write_report(driver.orders, report)
        return wait

    def _write_report(self, orders: AttemptOrders, report: DriverReport) -> None:
        config_map = self.objects.get(MAPS, orders.namespace, orders.report)
        data = {REPORT_KEY: report.text()}
        if config_map is None:
            owner = {"apiVersion": API_VERSION, "kind": KIND, "name": orders.app, "uid": orders.uid}
            metadata = {"name": orders.report, "labels": {REPORT_LABEL: orders.app}, "ownerReferences": [owner]}
            self.objects.create(MAPS, orders.namespace, {"metadata": metadata, "data": data}, "driver")
            return
        before = read_report((config_map.get("data") or {}).get(REPORT_KEY))
        if before is None or before != report:
            self.objects.patch(MAPS, orders.namespace, orders.report, {"data": data}, "driver")

    def _take_assignment(self, driver: Driver) -> None:
        config_map = self.objects.get(MAPS, driver.orders.namespace, driver.orders.assignment)
        try:
            handed = read_assignment((config_map or {"data": {}})["data"].get(ASSIGNMENT_KEY, ""))
        except (AssignmentInvalidError, KeyError):
            return
        if handed is not None and handed.attempt == driver.orders.attempt:
            driver.assignment = max(driver.assignment, handed.version)

    def _has_executors(self, driver: Driver) -> bool:
        run = app_id(driver.orders.app, driver.orders.run)
        name = f"spark-s-{run}-0-0"
        pod = self.objects.get(PODS, driver.orders.namespace, name)
        return pod is not None and pod["status"].get("phase") == "Running"

    def _record(self, driver: Driver) -> None:
        """Where tasks run, which a driver writes before it says that it has begun."""
        orders = driver.orders
        owner = {"apiVersion": API_VERSION, "kind": KIND, "name": orders.app, "uid": orders.uid}
        maps = _Maps(self.objects, orders.namespace)
        record = _record_of(driver.app, orders.run, tuple(sorted(orders.topics.items())))
        RecordStore(ConfigMapStore(maps, orders.app, owner), orders.app).save(record)

    def _after(self, seconds: float, act: Callable[..., None], *arguments: Any) -> None:
        asyncio.get_running_loop().call_later(seconds, act, *arguments)


@functools.lru_cache(maxsize=512)
def _is_bounded(text: str) -> bool:
    """Whether the app's input ends."""
    return any(stream.get("bounded") for stream in json.loads(text)["spec"]["streams"])


@functools.lru_cache(maxsize=512)
def _record_of(text: str, run: str, topics: tuple[tuple[str, int | None], ...]) -> PlacementRecord:
    app = parse_app(json.loads(text))
    planned = plan(app, PlanningFacts(topics=dict(topics), record=None))
    tasks = {task.name: task.inputs for task in planned.tasks}
    places = dict.fromkeys(tasks, "state-0"), dict.fromkeys(tasks, "exec-0")
    return PlacementRecord(run, tasks, *places, state=KeptState().after(app.spec, planned.made_by))


@dataclass(frozen=True, slots=True)
class _Maps:
    """A driver's ConfigMaps, as the core's store calls them."""

    objects: Objects
    namespace: str

    def get(self, name: str) -> Tree | None:
        return self.objects.get(MAPS, self.namespace, name)

    def create(self, tree: Tree) -> Tree:
        return self._tried(lambda: self.objects.create(MAPS, self.namespace, tree, "driver"))

    def replace(self, tree: Tree) -> Tree | None:
        return self._tried(lambda: self.objects.replace(MAPS, self.namespace, tree["metadata"]["name"], tree, "driver"))

    def delete(self, name: str, version: str) -> None:
        self._tried(lambda: self.objects.delete(MAPS, self.namespace, name, "driver", DeleteCondition(version=version)))

    def _tried(self, call: Callable[[], Tree]) -> Tree:
        try:
            return call()
        except RefusedCallError as refused:
            raise ApiConflictError(str(refused)) from refused


def _content(maps: Tree, key: str) -> Any:
    """What is in a ConfigMap under a key."""
    return json.loads(maps["data"][key])
