"""The result of `decide`: the next status, actions, events, and when to look again.

Every decision has a next look: after a given time, or when the app or its pods change. So no app can be forgotten. Must
not decide.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from holdfast.protocol.assignment import VersionedAssignment
from holdfast.protocol.names import app_id, attempt_in, executor_set, executor_set_in, is_run_claim
from holdfast.protocol.pods import PodState
from holdfast.reasons import Reason
from holdfast.spec.app import Status, StreamApp
from holdfast.spec.runtime import AppDefaults
from holdfast_operator.decide.facts import AppObject, Case, Unknown


@dataclass(frozen=True, slots=True)
class LookAgain:
    """Look again after this many milliseconds, whatever happens."""

    after: int
    well: bool = False
    """The app is healthy."""
    postponable: bool = False
    """The look can be postponed as long as the driver reports progress: whatever else changes is told."""


@dataclass(frozen=True, slots=True)
class WaitForChange:
    """Nothing to do until something changes; a change triggers a look."""

    until: str


NextLook = LookAgain | WaitForChange


@dataclass(frozen=True, slots=True)
class AddFinalizer:
    """Add the finalizer before anything else is created, so that the object can't disappear unnoticed."""


@dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """Remove the finalizer, so that the object can be deleted."""


@dataclass(frozen=True, slots=True)
class StartDriver:
    """Create an attempt's objects and its driver pod. Idempotent."""

    app: StreamApp
    attempt: int
    topics: Mapping[str, int | None] = field(default_factory=dict)
    """Partition counts with which the plan was accepted."""
    nodes: Mapping[str, int] = field(default_factory=dict)
    """Node -> number of tasks that have their state there."""
    storage_class: str = ""
    """The cluster's default class, for claims of an app that names none."""
    spec_hash: str = ""
    """The fingerprint of its spec."""
    defaults: AppDefaults = field(default_factory=AppDefaults)
    """What of the app is not in its spec."""


@dataclass(frozen=True, slots=True)
class TryPods:
    """Create the trial pods of an app that have these digests. Idempotent."""

    app: StreamApp
    digests: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HandOver:
    """Hand a new assignment to the driver."""

    handed: VersionedAssignment
    moved: int = 0
    """Number of tasks that move away from their state."""


@dataclass(frozen=True, slots=True)
class GiveUpClaim:
    """Delete a volume claim whose volume is on a lost node. `uid` is a precondition."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class EndPod:
    """Ask a pod to end within its grace period. `uid` is a precondition, so that no other pod of that name is hit."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class EndExecutorSet:
    """Delete the StatefulSet that would recreate pods that are to end.

    `name` is one that only this app's Spark gives, `uid` what its pods say, or what was read.
    """

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class ForceDeletePod:
    """Force-delete a pod on a lost node: no kubelet is there to report its end."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class GiveUpRunClaims:
    """Delete the volume claims of a run: its local state will not be used again."""

    app_id: str

    def covers(self, claim: Mapping[str, Any]) -> bool:
        """Return whether the claim with this metadata was made for executors of the run."""
        return is_run_claim(self.app_id, str(claim.get("name")))


@dataclass(frozen=True, slots=True)
class CollectAttempts:
    """Delete ConfigMaps and finished pods of attempts before this one, and of all attempts of other runs."""

    before: int
    app_id: str
    """Of the run that stays: each run numbers its attempts from one."""

    def covers(self, app: AppObject, metadata: Mapping[str, Any]) -> bool:
        """Return whether the object with this metadata was made by the operator for such an attempt of the app."""
        name = attempt_in(app.name, str(metadata.get("name")))
        if name is None or not app.owns(metadata):
            return False
        return name.app_id != self.app_id or name.attempt < self.before


Action = (
    AddFinalizer
    | RemoveFinalizer
    | StartDriver
    | TryPods
    | HandOver
    | EndPod
    | EndExecutorSet
    | ForceDeletePod
    | GiveUpClaim
    | GiveUpRunClaims
    | CollectAttempts
)


@dataclass(frozen=True, slots=True)
class OperatorEvent:
    """An event to write about the app."""

    reason: Reason
    message: str
    warning: bool = False
    about: str = ""
    """What happened, as a key: events about the same are written once, however many looks decide on them."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What the operator does about an app now."""

    status: Status
    wake: NextLook
    actions: tuple[Action, ...] = ()
    events: tuple[OperatorEvent, ...] = ()
    goes_back: bool = False
    """Whether it gives the newest spec up for the one that ran, as no report says that the newest began."""

    @property
    def rests_on_absence(self) -> bool:
        """Return whether it would be wrong if a pod, an attempt or a report existed that was not seen."""
        return self.goes_back or any(
            isinstance(action, StartDriver | RemoveFinalizer | GiveUpRunClaims) for action in self.actions
        )

    @property
    def wants_change(self) -> bool:
        """Return whether the app is not as it should be, and something that is under way or waited for would help."""
        return isinstance(self.wake, LookAgain) and not self.wake.well


ConditionUpdates = dict[str, tuple[bool | None, Reason, str]]
"""Condition -> whether it holds (None: unknown), reason, message."""


def given_up(case: Case, pod: PodState, since: int | None) -> bool:
    """Return whether to stop waiting for this pod. If only the pod reports a lost node, wait first."""
    if not pod.node_lost:
        return False
    return pod.silent_since is not None or (since is not None and case.now - since > case.limits.lost_after)


def actions_to_end(case: Case, pods: list[PodState]) -> tuple[Action, ...]:
    """Return actions that ask each pod once to end, and force-delete it if its node is lost: its attempt is fenced.

    StatefulSets that would recreate the pods go first. Otherwise only Spark's normal end or the driver pod's deletion
    removes them.
    """
    actions: list[Action] = _ends_of_sets(case, (pod for pod in pods if pod.deleting_since is None))
    for pod in pods:
        if pod.deleting_since is None:
            actions.append(EndPod(pod.name, pod.uid))
        elif given_up(case, pod, pod.deleting_since + pod.grace):
            actions.append(ForceDeletePod(pod.name, pod.uid))
    return tuple(actions)


def actions_to_release(case: Case, run: str) -> tuple[Action, ...]:
    """Return actions that delete the claims of a run of which no pod is alive.

    Its StatefulSet goes first: it would make pods again, and their claims. Where it was not looked for, a pod that is
    over may tell of it.
    """
    name = case.snapshot.app.name
    executors = () if isinstance(case.snapshot.executors, Unknown) else case.snapshot.executors
    of_run = (pod for pod in executors if executor_set_in(name, pod.name) == executor_set(name, run))
    maker = case.snapshot.executor_sets.get(run)
    ends = _ends_of_sets(case, of_run) if maker is None else [EndExecutorSet(maker.name, maker.uid)]
    return (*ends, GiveUpRunClaims(app_id(name, run)))


def _ends_of_sets(case: Case, pods: Iterable[PodState]) -> list[Action]:
    """Return actions that end the StatefulSets that made these pods.

    Anybody who may change a pod can name any StatefulSet in it: only the app's own is ended.
    """
    makers = dict.fromkeys(
        pod.made_by
        for pod in pods
        if pod.made_by is not None and pod.made_by.name == executor_set_in(case.snapshot.app.name, pod.name)
    )
    return [EndExecutorSet(maker.name, maker.uid) for maker in makers]
