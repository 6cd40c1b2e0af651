"""The pods whose logs are meant: by attempt, driver or executor number; and which log a follower opens next.

Attempts come and go, and what is not there is explained. Pure: from the pods of an app as they are now to the
logs that are due. Must not read a log.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from holdfast.protocol.labels import APP_ID_LABEL
from holdfast.protocol.pods import MAIN, PodPhase, PodState, pod_state
from holdfast_cli.cluster.app import ClusterApp
from holdfast_cli.output.amounts import many
from holdfast_cli.output.screen import one_line

Tree = dict[str, Any]
DRIVER = "driver"
_TRIES = 2
"""How often a log that broke off is tried again while a later one waits."""
_ORDINAL = re.compile(r"-([0-9]{1,9})\Z")


@dataclass(frozen=True, slots=True)
class LogSelection:
    """Which logs of an app."""

    driver: bool = True
    executors: frozenset[int] | None = frozenset()
    """Their numbers; None: all."""
    attempt: int | None = None
    """None: the newest."""
    previous: bool = False
    """Of the driver: the attempt before. Of executors: what ran in the pod before its container was restarted."""

    @property
    def words(self) -> str:
        """What was looked for."""
        if self.executors is None:
            return "driver or executors" if self.driver else "executors"
        numbers = ", ".join(map(str, sorted(self.executors)))
        return "driver" if self.driver else f"executor {numbers}"

    @property
    def several(self) -> bool:
        """Whether lines must say whose they are."""
        return self.executors is None or len(self.executors) > 1


@dataclass(frozen=True, slots=True)
class PodLog:
    """A pod that has a log."""

    label: str
    """`driver`, or an executor's number: it stays when the pod is replaced."""
    attempt: int
    run: str
    """The app id, the same in every attempt of a run."""
    pod: PodState

    @property
    def order(self) -> tuple[int, int]:
        """A later one is greater."""
        return self.pod.created, self.attempt

    @property
    def begun(self) -> bool:
        """Whether there can be a log yet."""
        return self.pod.over or self.pod.phase is PodPhase.RUNNING or self.pod.ended is not None

    @property
    def container(self) -> str:
        """The one that is Holdfast's: a template may have added others."""
        return MAIN["driver" if self.label == DRIVER else "executors"]

    @property
    def why_not_begun(self) -> str:
        """What it waits for."""
        reason, message = self.pod.waiting or ("", "")
        why = self.pod.unschedulable or ": ".join(filter(None, (reason, message)))
        return one_line(why) or f"it is {self.pod.phase}"


@dataclass(frozen=True, slots=True)
class AttemptPods:
    """The pods of an attempt that are there."""

    number: int
    run: str
    sources: tuple[PodLog, ...]

    @property
    def words(self) -> str:
        """As in `attempt 3 (driver, 2 executors)`."""
        executors = sum(one.label != DRIVER for one in self.sources)
        driver = ["driver"] if executors < len(self.sources) else []
        return f"attempt {self.number} ({', '.join([*driver, *([many(executors, 'executor')] if executors else [])])})"


def attempts_in(pods: Iterable[Tree]) -> tuple[AttemptPods, ...]:
    """By age, the newest last; pods that are nobody's attempt are left out."""
    found: dict[tuple[str, int], list[PodLog]] = {}
    for tree in pods:
        source = _source(tree)
        if source is not None:
            found.setdefault((source.run, source.attempt), []).append(source)
    made = [AttemptPods(number, run, tuple(sorted(some, key=_by_label))) for (run, number), some in found.items()]
    return tuple(sorted(made, key=lambda one: max(source.order for source in one.sources)))


def selected_logs(attempts: Sequence[AttemptPods], asked: LogSelection) -> tuple[PodLog, ...]:
    """The pods meant, none where they are not there."""
    one = _attempt(attempts, asked)
    return () if one is None else tuple(source for source in one.sources if _meant(source, asked))


def no_pods_message(app: ClusterApp, attempts: Sequence[AttemptPods], asked: LogSelection, hint: str) -> str:
    """Why there is no log, and what to do: `hint` is the command that shows how the app does."""
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
    """What a follower has read, and what is due: each log once, in the order of attempts, again where it broke off."""

    asked: LogSelection
    last: dict[str, PodLog] = field(default_factory=dict)
    """Label -> the pod that was opened last."""
    broken: dict[str, int] = field(default_factory=dict)
    """Uid -> errors in a row that ended its log."""

    def due(self, attempts: Sequence[AttemptPods], open_now: Iterable[str]) -> list[PodLog]:
        """What to open, given what is open: its labels."""
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
        """Labels that are open though a later pod is there: it is only made when the one before is gone or fenced."""
        later = {one.label: one for one in _all_meant(attempts, self.asked)}
        return frozenset(
            label for label in open_now if label in later and later[label].pod.uid != self.last[label].pod.uid
        )


def _after(mine: Sequence[PodLog], before: PodLog, errors: int) -> PodLog | None:
    """The same log again, if more may stand in it; else the next."""
    same = next((one for one in mine if one.pod.uid == before.pod.uid), None)
    later = next((one for one in mine if one.order >= before.order and one.pod.uid != before.pod.uid), None)
    if later is None:
        return same if same is not None and (errors or not same.pod.over) else None
    # Its node may be lost: then the pod seems to run for ever, and its log can't be read.
    return same if same is not None and 0 < errors <= _TRIES else later


def _all_meant(attempts: Sequence[AttemptPods], asked: LogSelection) -> list[PodLog]:
    """Of every attempt that may be followed, the oldest first."""
    within = attempts if asked.attempt is None else [one for one in attempts if one.number == asked.attempt]
    return sorted(
        (source for one in within for source in one.sources if _meant(source, asked)), key=lambda source: source.order
    )


def _attempt(attempts: Sequence[AttemptPods], asked: LogSelection) -> AttemptPods | None:
    if asked.attempt is not None:
        return next((one for one in reversed(attempts) if one.number == asked.attempt), None)
    # Executors' own `previous` is asked of the kubelet, in the same pod.
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
