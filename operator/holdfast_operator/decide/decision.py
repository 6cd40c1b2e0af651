"""The answer of `decide`: the next status, the actions to take, the events to write, and when to look again.

A decision can't be made without a next look: either it says after how long, or that only a change of the app or of
its pods can matter. So no app can be forgotten. Must not decide.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.protocol.assignment import VersionedAssignment
from holdfast.reasons import Reason
from holdfast.spec.app import Status, StreamApp


@dataclass(frozen=True, slots=True)
class LookAgain:
    """Look again after so many milliseconds, whatever happens."""

    after: int
    well: bool = False
    """All is well: as long as the driver says so, the look can wait."""


@dataclass(frozen=True, slots=True)
class WaitForChange:
    """Nothing to do until something changes; a change wakes by itself."""

    until: str


NextLook = LookAgain | WaitForChange


@dataclass(frozen=True, slots=True)
class AddFinalizer:
    """Be told before the object goes; before anything else is made."""


@dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """Let the object go: take the finalizer off."""


@dataclass(frozen=True, slots=True)
class StartDriver:
    """Make what an attempt needs, and its pod. Done twice, it is done once."""

    app: StreamApp
    attempt: int
    topics: Mapping[str, int | None] = field(default_factory=dict)
    """Partition counts its plan was accepted with."""
    nodes: Mapping[str, int] = field(default_factory=dict)
    """Node that holds state -> how many tasks have theirs there."""
    storage_class: str = ""
    """The cluster's default, for claims of an app that names none."""


@dataclass(frozen=True, slots=True)
class HandOver:
    """Let the driver know who does what."""

    handed: VersionedAssignment
    moved: int = 0
    """Tasks whose state is elsewhere."""


@dataclass(frozen=True, slots=True)
class GiveUpClaim:
    """Delete one volume claim: its volume is on a node that is lost."""

    name: str


@dataclass(frozen=True, slots=True)
class EndPod:
    """Ask a pod to end; it has its own grace period. `uid` is a precondition: never another pod of that name."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class EndExecutorSet:
    """Take away what makes pods again that are to end."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class ForceDeletePod:
    """Take away a pod of a lost node: nobody is there to say that it ended."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class GiveUpRunClaims:
    """Delete the volume claims of a run: its local state will not be used again."""

    app_id: str


@dataclass(frozen=True, slots=True)
class CollectAttempts:
    """Remove ConfigMaps and finished pods of attempts before this one."""

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
    """An event: something that could surprise, said when it happens."""

    reason: Reason
    message: str
    warning: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """What happens now."""

    status: Status
    wake: NextLook
    actions: tuple[Action, ...] = ()
    events: tuple[OperatorEvent, ...] = ()

    @property
    def rests_on_absence(self) -> bool:
        """Whether it would be wrong if there were a pod, or an attempt, that was not seen."""
        return any(isinstance(action, StartDriver | RemoveFinalizer | GiveUpRunClaims) for action in self.actions)


ConditionUpdates = dict[str, tuple[bool | None, Reason, str]]
"""Condition -> whether it holds (None: not known), why, and the sentence."""


@dataclass(frozen=True, slots=True)
class DecisionLimits:
    """How long things may take, in milliseconds."""

    start: int = 300_000
    """A driver that has not started after this is said to be stuck; it is left alone, as its cause may go away."""
    silence: int = 150_000
    """A driver that has reported nothing for this long is not healthy."""
    triggers: int = 30
    """So many trigger intervals without a batch while records wait mean: no progress."""
    lost_after: int = 60_000
    """A node that has not answered for so long is lost."""
    settle: int = 15_000
    """Executors that came up are assigned when all are there, or when no other has come for so long."""
    missing: int = 60_000
    """An executor that is gone is waited for so long before its tasks are given to others."""
    look: int = 30_000
    """Where only the world can change, look this often."""
    soon: int = 2_000
    """Where something is under way, look this often."""
    jitter: float = 0.0
    """Between 0 and 1, drawn by the caller; spreads restarts."""
