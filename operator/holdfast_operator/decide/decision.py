"""The result of `decide`: the next status, actions, events, and when to look again.

Every decision has a next look: after a given time, or when the app or its pods change. So no app can be forgotten. Must
not decide.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.protocol.assignment import VersionedAssignment
from holdfast.reasons import Reason
from holdfast.spec.app import Status, StreamApp


@dataclass(frozen=True, slots=True)
class LookAgain:
    """Look again after this many milliseconds, whatever happens."""

    after: int
    well: bool = False
    """The app is healthy: the look can be postponed as long as the driver reports progress."""


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


@dataclass(frozen=True, slots=True)
class HandOver:
    """Hand a new assignment to the driver."""

    handed: VersionedAssignment
    moved: int = 0
    """Number of tasks that move away from their state."""


@dataclass(frozen=True, slots=True)
class GiveUpClaim:
    """Delete a volume claim whose volume is on a lost node."""

    name: str


@dataclass(frozen=True, slots=True)
class EndPod:
    """Ask a pod to end within its grace period. `uid` is a precondition, so that no other pod of that name is hit."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class EndExecutorSet:
    """Delete the StatefulSet that would recreate pods that are to end."""

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


@dataclass(frozen=True, slots=True)
class CollectAttempts:
    """Delete ConfigMaps and finished pods of attempts before this one."""

    before: int


Action = (
    AddFinalizer
    | RemoveFinalizer
    | StartDriver
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


@dataclass(frozen=True, slots=True)
class Decision:
    """What the operator does about an app now."""

    status: Status
    wake: NextLook
    actions: tuple[Action, ...] = ()
    events: tuple[OperatorEvent, ...] = ()

    @property
    def rests_on_absence(self) -> bool:
        """Return whether it would be wrong if a pod or an attempt existed that was not seen."""
        return any(isinstance(action, StartDriver | RemoveFinalizer | GiveUpRunClaims) for action in self.actions)


ConditionUpdates = dict[str, tuple[bool | None, Reason, str]]
"""Condition -> whether it holds (None: unknown), reason, message."""


@dataclass(frozen=True, slots=True)
class DecisionLimits:
    """Time limits, in milliseconds."""

    start: int = 300_000
    """A driver that has not started after this is reported as stuck; it is left alone, as the cause may go away."""
    silence: int = 150_000
    """A driver that has reported nothing for this long is not healthy."""
    triggers: int = 30
    """This many trigger intervals without a batch while records wait mean no progress."""
    lost_after: int = 60_000
    """A node that has not answered for this long is lost."""
    settle: int = 15_000
    """Executors get tasks when all are up, or when no other has come up for this long."""
    missing: int = 60_000
    """How long to wait for a missing executor before its tasks go to others."""
    look: int = 30_000
    """Interval of looks while only the environment can change."""
    soon: int = 2_000
    """Interval of looks while something is under way."""
    jitter: float = 0.0
    """Random number between 0 and 1, drawn by the caller; spreads restarts."""
