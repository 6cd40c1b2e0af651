"""A world in a few fields: an app, its pods and a clock, moved by what is decided and by accidents.

It stands for no API server (the real one runs in `tests/api`): it is there so that thousands of lives of an app can be
lived in seconds, each decision lost or half done at will.
"""

import copy
from dataclasses import dataclass, field, replace
from typing import Any

from holdfast.protocol.names import attempt_name, executor_set
from holdfast.protocol.pods import ContainerEnd, PodController, PodPhase, PodState
from holdfast.protocol.report import DriverReport
from holdfast.spec.app import Status
from holdfast_operator.decide.decision import (
    Action,
    AddFinalizer,
    CollectAttempts,
    Decision,
    EndExecutorSet,
    EndPod,
    ForceDeletePod,
    LookAgain,
    RemoveFinalizer,
    StartDriver,
)
from holdfast_operator.decide.facts import AppObject, Snapshot, Unknown
from tests.operator.apps import NOW, TREE, UID, decided

GRACE = 30_000
BACK = 10_000
"""What a drain takes."""
EXECUTORS = 2
LONGEST = 400_000
"""More than any wait."""


@dataclass
class World:
    """Everything there is."""

    now: int = NOW
    tree: dict[str, Any] = field(default_factory=lambda: copy.deepcopy(TREE))
    generation: int = 1
    status: Status = field(default_factory=Status)
    finalizer: bool = False
    deleting: bool = False
    deleted: bool = False
    pods: dict[str, PodState] = field(default_factory=dict)
    maker: tuple[PodController, str] | None = None
    """The StatefulSet of executors, and the driver it belongs to."""
    executors: dict[str, PodState] = field(default_factory=dict)
    reports: dict[int, DriverReport] = field(default_factory=dict)
    made: list[str] = field(default_factory=list)
    """Names of all drivers ever made."""

    def snapshot(self, *, blind: bool = False) -> Snapshot:
        """What an operator sees."""
        of = AppObject(
            "ads",
            "apps",
            UID,
            self.generation,
            copy.deepcopy(self.tree),
            self.status,
            self.now if self.deleting else None,
            self.finalizer,
        )
        status = self.status
        name = None if status.attempt is None else attempt_name("ads", status.run_id or "1", status.attempt)
        return Snapshot(
            of,
            driver=Unknown("timeout") if blind else self.pods.get(name or ""),
            other_drivers=tuple(pod for pod in self.pods.values() if pod.name != name),
            executors=tuple(self.executors.values()),
            counts={"clicks": 4, "out": 4},
            report=self.reports.get(status.attempt or 0),
        )

    def look(self, *, blind: bool = False, dies_after: int | None = None) -> Decision:
        """One reconcile; an operator that dies does only so many things: the status is the first."""
        decision = decided(self.snapshot(blind=blind), self.now)
        things: list[Status | Action] = [decision.status, *decision.actions]
        for thing in things if dies_after is None else things[:dies_after]:
            self._do(thing)
        self._check()
        return decision

    def settle(self) -> Decision:
        """Look as often as decisions ask for, with nothing going wrong any more, until nothing has changed for long."""
        decision, changed = self.look(), self.now
        for _ in range(2_000):
            before = (decision.status, decision.actions, dict(self.pods), dict(self.executors))
            self.pass_time(decision.wake.after if isinstance(decision.wake, LookAgain) else LONGEST)
            decision = self.look()
            after = (decision.status, decision.actions, self.pods, self.executors)
            changed = self.now if before != after else changed
            if self.deleted or self.now - changed > LONGEST:
                return decision
        message = f"never settles: {decision}"
        raise AssertionError(message)

    def pass_time(self, millis: int) -> None:
        """Pods that have to end do; drivers that run have executors and commit batches."""
        self.now += max(millis, 1)
        self._control()
        for pod in list(self.pods.values()):
            if pod.deleting_since is not None and not pod.node_lost and self.now - pod.deleting_since >= BACK:
                del self.pods[pod.name]
            elif pod.phase is PodPhase.PENDING:
                self.pods[pod.name] = self._begun(pod)
            elif pod.phase is PodPhase.RUNNING and pod.attempt is not None and not pod.node_lost:
                self.reports[pod.attempt] = DriverReport(pod.attempt, self.now, 1, self.now, 0, 4, 8, 4)

    def driver(self) -> PodState | None:
        """The one that is alive."""
        return next((pod for pod in self.pods.values() if not pod.over), None)

    def end(self, code: int, message: str = "") -> None:
        """The driver ends by itself."""
        pod = self.driver()
        if pod is not None and pod.deleting_since is None:
            phase = PodPhase.FAILED if code else PodPhase.SUCCEEDED
            self.pods[pod.name] = replace(pod, phase=phase, ended=ContainerEnd(code, message=message))

    def _begun(self, driver: PodState) -> PodState:
        """It asks for its executors, once; while there are those of another, Spark is refused, and it ends."""
        if self.maker is not None:
            ended = ContainerEnd(1, message='{"failed": "world", "message": "there already"}')
            return replace(driver, phase=PodPhase.FAILED, ended=ended)
        self.maker = PodController(executor_set("ads", "1"), f"set-of-{driver.uid}"), driver.name
        return replace(driver, phase=PodPhase.RUNNING)

    def _control(self) -> None:
        """A set goes with its driver's pod, or when the driver ends well; what goes of its pods it makes again."""
        owner = None if self.maker is None else self.pods.get(self.maker[1])
        if owner is None or owner.phase is PodPhase.SUCCEEDED:
            self.maker = None
        for pod in list(self.executors.values()):
            if self.maker is None or pod.made_by != self.maker[0] or pod.deleting_since is not None:
                del self.executors[pod.name]
        if self.maker is not None:
            for number in range(EXECUTORS):
                name = f"{self.maker[0].name}-{number}"
                self.executors.setdefault(
                    name, PodState(name, f"{name}-{self.now}", PodPhase.RUNNING, role="executor", made_by=self.maker[0])
                )

    def _do(self, thing: Status | Action) -> None:
        if isinstance(thing, Status):
            self.status = thing
        elif isinstance(thing, AddFinalizer):
            self.finalizer = True
        elif isinstance(thing, RemoveFinalizer):
            self.finalizer, self.deleted = False, True
        elif isinstance(thing, StartDriver):
            self._start(thing)
        else:
            self._end(thing)

    def _end(self, thing: Action) -> None:
        if isinstance(thing, EndPod):
            for pods in (self.pods, self.executors):
                pod = pods.get(thing.name)
                if pod is not None and pod.uid == thing.uid and pod.deleting_since is None:
                    pods[thing.name] = replace(pod, deleting_since=self.now, grace=GRACE)
        elif isinstance(thing, EndExecutorSet):
            if self.maker is not None and self.maker[0].uid == thing.uid:
                self.maker = None
        elif isinstance(thing, ForceDeletePod):
            self.pods.pop(thing.name, None)
        elif isinstance(thing, CollectAttempts):
            for pod in [one for one in self.pods.values() if one.over]:
                if (pod.attempt or 0) < thing.before or not pod.name.startswith(f"{thing.app_id}-"):
                    del self.pods[pod.name]

    def _start(self, start: StartDriver) -> None:
        name = attempt_name("ads", start.app.spec.run_id, start.attempt)
        if name not in self.pods:
            self.made.append(name)
            self.pods[name] = PodState(
                name,
                f"uid-{len(self.made)}",
                PodPhase.PENDING,
                start.attempt,
                UID,
                "driver",
                created=self.now,
                node="node",
            )

    def _check(self) -> None:
        alive = [pod.name for pod in self.pods.values() if not pod.over]
        assert len(alive) <= 1, f"two drivers: {alive}"
        assert not (self.deleted and alive), "the app is gone and a driver is left"
