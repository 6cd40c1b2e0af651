"""The whole of a life: servers, nodes, drivers, brokers, operators and tenants, and what must never be.

Built from one seed; `tenants` and `faults` move it, and each change is checked as it is made. Must not decide what
happens when.
"""

import asyncio
import math
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from holdfast.errors import WorldChangeError
from holdfast.protocol.names import APP_LABEL, ROLE_LABEL, SPARK_APP_LABEL, TRIAL_LABEL, policy_name
from holdfast_operator.act.lease import NAMESPACE as TIMES
from holdfast_operator.act.namespaces import NAME
from tests.simulation.controllers import Controllers
from tests.simulation.drivers import Drivers
from tests.simulation.machines import Machine, Machines
from tests.simulation.network import LATE, LATEST, Network
from tests.simulation.objects import (
    APPS,
    CLAIMS,
    CLASSES,
    MAPS,
    PODS,
    POLICIES,
    Change,
    Objects,
    Tree,
    owners,
    whole_numbers,
)
from tests.simulation.operators import OperatorPod
from tests.simulation.server import ApiServer

EPOCH = 1_800_000_000_000
NAMESPACE = "apps"
_LONGEST_CALL = 60.0
"""Seconds that may pass between two writes of one action."""


@dataclass(eq=False, slots=True)
class Brokers:
    """Kafka, as far as an operator asks it."""

    topics: dict[str, int] = field(default_factory=lambda: {"clicks": 4, "out": 4})
    up: bool = True

    def ask(
        self, _system: str, bootstrap: str, _config: Mapping[str, str], topics: Collection[str]
    ) -> dict[str, int | None]:
        if not self.up:
            message = f"the brokers at {bootstrap} do not answer"
            raise WorldChangeError(message)
        return {topic: self.topics.get(topic) for topic in topics}


@dataclass(eq=False)
class World:
    """Everything there is."""

    pick: random.Random
    operators: list[OperatorPod] = field(default_factory=list)
    foreign: set[str] = field(default_factory=set)
    """Uids of objects that no operator may delete."""
    trace: list[str] | None = None
    """What happened, if somebody wants to know."""
    broken: list[str] = field(default_factory=list)
    abandoned: set[str] = field(default_factory=set)
    """Apps that went without their finalizer: what they left is nobody's."""
    brokers: Brokers = field(default_factory=Brokers)
    looks_after: tuple[str, float] = ("", 0.0)
    """The release that the namespace's lease names, and since when; empty: there is no lease."""
    renewed: dict[str, float] = field(default_factory=dict)
    """Release -> when it renewed this lease last."""
    unlimited: dict[str, float] = field(default_factory=dict)
    """Name of a NetworkPolicy that a tenant deleted -> when."""

    def __post_init__(self) -> None:
        self.objects = Objects(self.clock, checked=_checked)
        self.servers = [ApiServer(self.objects), ApiServer(self.objects)]
        self.servers[1].served = self.servers[0].served
        self.servers[1].forbidden = self.servers[0].forbidden
        self.servers[1].full = self.servers[0].full
        self.network = Network(self.servers, self.pick)
        self.machines = Machines(
            self.objects, self.pick, [Machine(name, clock_error=self.pick.randint(-3000, 3000)) for name in "abc"]
        )
        self.controllers = Controllers(self.objects, self.pick)
        self.drivers = Drivers(self.objects, self.machines, self.pick, self.clock)

    def begin(self, leases: Sequence[str | None] = (None,)) -> None:
        """Start all that is not an app, and an operator for each of these leases."""
        for server in self.servers:
            server.start()
        self.objects.listeners.append(self._changed)
        self.machines.begin()
        self.controllers.begin()
        self.drivers.begin()
        self.drivers.taken_up = self._check_fences
        annotations = {"storageclass.kubernetes.io/is-default-class": "true"}
        self.objects.create(CLASSES, None, {"metadata": {"name": "disk", "annotations": annotations}}, "admin")
        for number, lease in enumerate(leases):
            error = self.pick.randint(-2000, 2000)
            clock = lambda error=error: self.clock() + error  # noqa: E731
            pod = OperatorPod(
                f"operator-{number}",
                self.network,
                self.brokers.ask,
                clock,
                self.pick,
                lease,
                lambda who, why: self.note(f"{who} ends: {why}"),
            )
            self.operators.append(pod)
            pod.start()

    def clock(self) -> int:
        return EPOCH + int(_now() * 1000)

    def note(self, what: str) -> None:
        if self.trace is not None:
            self.trace.append(f"{_now():9.3f} {what}")

    def after(self, seconds: float, act: Callable[..., Any], *arguments: Any) -> None:
        asyncio.get_running_loop().call_later(seconds, act, *arguments)

    def break_rule(self, what: str) -> None:
        """Something must never be, and is."""
        self.note(f"BROKEN: {what}")
        self.broken.append(f"at {_now():.3f} s: {what}")

    def app(self, name: str) -> Tree | None:
        return self.objects.get(APPS, NAMESPACE, name)

    def pods_of(self, app: str, role: str) -> list[Tree]:
        """Its pods of this role that are not over."""
        pods = self.objects.all(PODS, NAMESPACE, {APP_LABEL: app, ROLE_LABEL: role})
        return [pod for pod in pods if pod["status"].get("phase") not in ("Succeeded", "Failed")]

    def trials_of(self, app: str) -> list[Tree]:
        """Its pods that try what the next attempt needs."""
        return self.objects.all(PODS, NAMESPACE, {APP_LABEL: app, TRIAL_LABEL: None})

    def claims_of(self, app_id: str) -> list[Tree]:
        return self.objects.all(CLAIMS, NAMESPACE, {SPARK_APP_LABEL: app_id})

    def _changed(self, change: Change) -> None:
        if self.trace is not None and change.kind != "events":
            self.note(f"{change.by}: {_shown(change)}")
        operator = change.by.startswith("operator")
        if change.kind == APPS and change.type == "DELETED" and not operator:
            self.abandoned.add(change.tree["metadata"]["name"])
        if operator and change.kind == APPS and change.before is not None:
            self._check_status(change)
            self._check_drain(change)
        if operator:
            self._check_release(change)
        if change.kind == MAPS and change.tree["metadata"]["name"] == NAME:
            self._note_release(change)
        deleted = change.type == "DELETED" or "deletionTimestamp" in change.tree["metadata"]
        if change.kind == POLICIES and change.type == "DELETED":
            self.unlimited[change.tree["metadata"]["name"]] = _now()
        if operator and (deleted or change.type == "MODIFIED") and change.tree["metadata"]["uid"] in self.foreign:
            what = "deletes" if deleted else "changes"
            self.break_rule(f"{change.by} {what} {change.kind} {change.tree['metadata']['name']}, which is not ours")
        if change.kind == PODS and change.type == "ADDED" and operator:
            if not change.by.endswith(LATE):
                self._check_drivers(change.tree)
            self._check_limited(change.tree)

    def _note_release(self, change: Change) -> None:
        holder, now = "" if change.type == "DELETED" else change.tree["data"]["holderIdentity"], _now()
        if holder != self.looks_after[0]:
            self.looks_after = holder, now
        if not holder:
            self.renewed.clear()
        elif change.by.startswith("operator"):
            self.renewed[holder] = now

    def _check_release(self, change: Change) -> None:
        """An operator does nothing in a namespace that another looks after, from when its own renewals can't count."""
        (acting_for,) = {one.lease for one in self.operators if one.name == change.by.removesuffix(LATE)}
        release, since = self.looks_after
        name = change.tree["metadata"]["name"]
        bookkeeping = change.kind in ("events", "leases") or name == NAME
        if acting_for is None or release in ("", acting_for) or bookkeeping:
            return
        if _now() - self.renewed.get(acting_for, since) > TIMES.confidence + LATEST:
            what = f"{change.type} {change.kind} {name}"
            self.break_rule(f"{change.by} of {acting_for} does {what}, though {release} looks after the namespace")

    def _check_status(self, change: Change) -> None:
        """A status never goes back."""
        before, after = (change.before or {}).get("status") or {}, change.tree.get("status") or {}
        if before.get("runId") != after.get("runId"):
            return
        for number in ("attempt", "restarts"):
            was, now = before.get(number), after.get(number)
            if was is not None and (now is None or now < was):
                self.break_rule(f"{change.tree['metadata']['name']}: {number} went from {was} back to {now}")
        same = before.get("specHash") == after.get("specHash")
        if same and before.get("ended") == "Completed" and after.get("ended") != "Completed":
            self.break_rule(f"{change.tree['metadata']['name']} has completed, and starts again as it was")

    def _check_drain(self, change: Change) -> None:
        """An attempt that has begun is not drained for a spec whose pods can't start."""
        before, after = (change.before or {}).get("status") or {}, change.tree.get("status") or {}
        attempt, image = before.get("begun") or {}, change.tree["spec"]["runtime"].get("image")
        known = (attempt.get("runId"), attempt.get("attempt")) == (before.get("runId"), before.get("attempt"))
        drained = before.get("draining") is None and after.get("draining") in ("SpecChanged", "PartitionsGrew")
        if drained and known and image in self.machines.broken_images:
            self.break_rule(f"{change.tree['metadata']['name']} is drained for {image}, which can't be pulled")

    def _check_drivers(self, pod: Tree) -> None:
        """A driver is made only when no other of the app is alive; one without orders that has not begun never will."""
        labels, uids = pod["metadata"].get("labels") or {}, {owner["uid"] for owner in owners(pod)}
        if labels.get(ROLE_LABEL) != "driver":
            return
        for other in self.pods_of(labels[APP_LABEL], "driver"):
            same = uids & {owner["uid"] for owner in owners(other)}
            name = other["metadata"]["name"]
            if other["status"]["phase"] == "Pending" and self.objects.get(MAPS, NAMESPACE, name) is None:
                continue
            if same and other["metadata"]["uid"] != pod["metadata"]["uid"]:
                self.break_rule(f"{pod['metadata']['name']} is made while {name} is alive")

    def _check_limited(self, pod: Tree) -> None:
        """A driver is made only when the policy of its app is there, or was until a moment ago."""
        if TRIAL_LABEL in pod["metadata"]["labels"]:
            return
        for owner in owners(pod):
            name = policy_name(owner["name"], owner["uid"])
            removed_at = self.unlimited.get(name, -math.inf)
            if self.objects.get(POLICIES, NAMESPACE, name) is None and _now() - removed_at > _LONGEST_CALL:
                self.break_rule(f"{pod['metadata']['name']} is made without a NetworkPolicy")

    def _check_fences(self) -> None:
        """At most one driver of a run is alive and unfenced; and of an app, unless it was given up with its node."""
        at_work: dict[Any, str] = {}
        for driver in self.drivers.living.values():
            process = driver.process
            if not (driver.claimed and process.alive):
                continue
            pod = self.objects.get(PODS, process.namespace, process.name)
            given_up = pod is None or pod["metadata"]["uid"] != process.uid
            for what in (driver.run, *([] if given_up else [driver.orders.uid])):
                if what in at_work:
                    self.break_rule(f"{process.name} and {at_work[what]} are alive and unfenced")
                at_work[what] = process.name


def _checked(kind: str, tree: Tree) -> str | None:
    return whole_numbers(tree.get("status")) if kind == APPS else None


def _shown(change: Change) -> str:
    metadata = change.tree["metadata"]
    text = f"{change.type} {change.kind} {metadata['name']} {metadata['resourceVersion']}"
    status = change.tree.get("status") or {}
    if change.kind == PODS:
        text += f" {status.get('phase')}{' going' if 'deletionTimestamp' in metadata else ''}"
    if change.kind == APPS:
        ready: Tree = next((one for one in status.get("conditions") or () if one["type"] == "Ready"), {})
        text += (
            f" attempt {status.get('attempt')} ended {status.get('ended')} {ready.get('status')} {ready.get('reason')}"
        )
    return text


def _now() -> float:
    return asyncio.get_running_loop().time()
