"""Selection of pod logs by attempt, driver or executor number, and of the log that a follower opens next.

If the selected pods don't exist, the message explains why. Pure: takes the app's current pods, returns the logs to
open. Must not read a log.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from holdfast.protocol.names import APP_ID_LABEL
from holdfast.protocol.pods import MAIN, PodPhase, PodState, pod_state
from holdfast_cli.cluster.app import ClusterApp
from holdfast_cli.output.amounts import many
from holdfast_cli.output.screen import one_line

Tree = dict[str, Any]
DRIVER = "driver"
_TRIES = 2
"""How often a broken log is retried while a later one waits."""
_ORDINAL = re.compile(r"-([0-9]{1,9})\Z")


@dataclass(frozen=True, slots=True)
class LogSelection:
    """Which logs of an app the user asks for."""

    driver: bool = True
    executors: frozenset[int] | None = frozenset()
    """Executor numbers; None: all."""
    attempt: int | None = None
    """None: the newest."""
    previous: bool = False
    """Driver: the previous attempt. Executors: the same pod's log before its container was restarted."""

    @property
    def words(self) -> str:
        """Return the selection in words, e.g. `executor 1, 2`."""
        if self.executors is None:
            return "driver or executors" if self.driver else "executors"
        numbers = ", ".join(map(str, sorted(self.executors)))
        return "driver" if self.driver else f"executor {numbers}"

    @property
    def several(self) -> bool:
        """Return whether several logs may be mixed, so that each line needs its label."""
        return self.executors is None or len(self.executors) > 1


@dataclass(frozen=True, slots=True)
class PodLog:
    """A pod whose log can be read."""

    label: str
    """`driver`, or the executor's number, which stays the same when the pod is replaced."""
    attempt: int
    run: str
    """The Spark app id, which is the same in every attempt of a run."""
    pod: PodState

    @property
    def order(self) -> tuple[int, int]:
        """Return a sort key: later pods sort after earlier ones."""
        return self.pod.created, self.attempt

    @property
    def begun(self) -> bool:
        """Return whether the pod can have a log yet."""
        return self.pod.over or self.pod.phase is PodPhase.RUNNING or self.pod.ended is not None

    @property
    def container(self) -> str:
        """Return the name of Holdfast's container; a pod template may have added others."""
        return MAIN["driver" if self.label == DRIVER else "executors"]

    @property
    def why_not_begun(self) -> str:
        """Return why the pod has not started."""
        reason, message = self.pod.waiting or ("", "")
        why = self.pod.unschedulable or ": ".join(filter(None, (reason, message)))
        return one_line(why) or f"it is {self.pod.phase}"


@dataclass(frozen=True, slots=True)
class AttemptPods:
    """The existing pods of one attempt."""

    number: int
    run: str
    sources: tuple[PodLog, ...]

    @property
    def words(self) -> str:
        """Return a description such as `attempt 3 (driver, 2 executors)`."""
        executors = sum(one.label != DRIVER for one in self.sources)
        driver = ["driver"] if executors < len(self.sources) else []
        return f"attempt {self.number} ({', '.join([*driver, *([many(executors, 'executor')] if executors else [])])})"


def attempts_in(pods: Iterable[Tree]) -> tuple[AttemptPods, ...]:
    """Return attempts by age, newest last; pods that belong to no attempt are left out."""
    found: dict[tuple[str, int], list[PodLog]] = {}
    for tree in pods:
        source = _source(tree)
        if source is not None:
            found.setdefault((source.run, source.attempt), []).append(source)
    made = [AttemptPods(number, run, tuple(sorted(some, key=_by_label))) for (run, number), some in found.items()]
    return tuple(sorted(made, key=lambda one: max(source.order for source in one.sources)))


def selected_logs(attempts: Sequence[AttemptPods], asked: LogSelection) -> tuple[PodLog, ...]:
    """Return the selected pods; empty if they don't exist."""
    one = _attempt(attempts, asked)
    return () if one is None else tuple(source for source in one.sources if _meant(source, asked))


def no_pods_message(app: ClusterApp, attempts: Sequence[AttemptPods], asked: LogSelection, hint: str) -> str:
    """Say why there is no log and what to do; `hint` is the command that shows the app's status."""
    number = "" if asked.attempt is None else f" of attempt {asked.attempt}"
    before = " before the newest attempt's" if asked.previous and asked.driver else ""
    there = ", ".join(one.words for one in attempts)
    has = f"pods are there of {there}" if there else "it has no pods"
    said = app.verdict
    how = "ready" if said.ready else "not ready"
    verdict = f"{how}, {said.reason}: {said.message}" if said.reason else f"{how}: {said.message}"
    cure = "a log goes with its pod; what collects the logs of this cluster may still have it"
    return (
        f"there is no pod of the {asked.words}{number}{before} of {app.name} in namespace {app.namespace}: {has}; "
        f"{app.name} is {verdict} ({hint}); {cure}"
    )


@dataclass(slots=True)
class FollowedLogs:
    """What a follower has read and opens next: each log once, in order of attempts; a broken log again."""

    asked: LogSelection
    last: dict[str, PodLog] = field(default_factory=dict)
    """Label -> the pod opened last."""
    broken: dict[str, int] = field(default_factory=dict)
    """Pod uid -> consecutive errors that ended its log."""

    def due(self, attempts: Sequence[AttemptPods], open_now: Iterable[str]) -> list[PodLog]:
        """Return the logs to open; `open_now` holds the labels of open logs."""
        meant = _all_meant(attempts, self.asked)
        newest = {one.label: one for one in selected_logs(attempts, self.asked)}
        found = []
        for label in {one.label: None for one in meant}:
            if label in open_now:
                continue
            mine, before = [one for one in meant if one.label == label], self.last.get(label)
            due = newest.get(label) if before is None else _after(mine, before, self.broken.get(before.pod.uid, 0))
            if due is not None and due.begun:
                found.append(due)
        return found

    def overtaken(self, attempts: Sequence[AttemptPods], open_now: Iterable[str]) -> frozenset[str]:
        """Return open labels that have a later pod: that pod is only created once the earlier one is gone or fenced."""
        later = {one.label: one for one in _all_meant(attempts, self.asked)}
        return frozenset(
            label for label in open_now if label in later and later[label].pod.uid != self.last[label].pod.uid
        )


def _after(mine: Sequence[PodLog], before: PodLog, errors: int) -> PodLog | None:
    """Return the same log if it may hold more lines, else the next one."""
    same = next((one for one in mine if one.pod.uid == before.pod.uid), None)
    later = next((one for one in mine if one.order >= before.order and one.pod.uid != before.pod.uid), None)
    if later is None:
        return same if same is not None and (errors or not same.pod.over) else None
    # If the node is lost, the pod seems to run forever and its log can't be read.
    return same if same is not None and 0 < errors <= _TRIES else later


def _all_meant(attempts: Sequence[AttemptPods], asked: LogSelection) -> list[PodLog]:
    """Return the selected logs of all attempts that may be followed, oldest first."""
    within = attempts if asked.attempt is None else [one for one in attempts if one.number == asked.attempt]
    return sorted(
        (source for one in within for source in one.sources if _meant(source, asked)), key=lambda source: source.order
    )


def _attempt(attempts: Sequence[AttemptPods], asked: LogSelection) -> AttemptPods | None:
    if asked.attempt is not None:
        return next((one for one in reversed(attempts) if one.number == asked.attempt), None)
    # For executors, `previous` is passed to the kubelet and concerns the same pod.
    back = 2 if asked.previous and asked.driver else 1
    return attempts[-back] if len(attempts) >= back else None


def _meant(source: PodLog, asked: LogSelection) -> bool:
    if source.label == DRIVER:
        return asked.driver
    return asked.executors is None or int(source.label) in asked.executors


def _by_label(source: PodLog) -> tuple[int, int]:
    return (0, source.pod.created) if source.label == DRIVER else (1, int(source.label))


def _source(tree: Tree) -> PodLog | None:
    pod, labels = pod_state(tree), (tree.get("metadata") or {}).get("labels") or {}
    ordinal = _ORDINAL.search(pod.name)
    label = DRIVER if pod.role == "driver" else str(int(ordinal[1])) if pod.role == "executor" and ordinal else None
    if pod.attempt is None or label is None:
        return None
    return PodLog(label, pod.attempt, str(labels.get(APP_ID_LABEL)), pod)
