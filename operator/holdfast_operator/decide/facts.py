"""Why: what is known of an app and its pods at one moment, as values that can't change while something is decided.

"Not there" and "could not be read" are different answers: the first is `None`, the second is `Unknown`, and no
decision that harms may rest on the second. Times are milliseconds since 1970. Must not read anything.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeAlias, TypeVar

from holdfast.protocol.assignment import VersionedAssignment
from holdfast.protocol.report import DriverReport
from holdfast.reasons import Reason
from holdfast.spec.app import Status
from holdfast.spec.app_part import StreamApp
from holdfast.tasks.record import PlacementRecord

FINALIZER = "holdfast.dev/release"


@dataclass(frozen=True, slots=True)
class Unknown:
    """Could not be read just now."""

    why: str
    asked: bool = True
    """No: nobody has asked yet, and somebody is about to."""


T = TypeVar("T")
Observed: TypeAlias = T | Unknown | None
"""There, proven to be absent, or not known."""


class PodPhase(StrEnum):
    """Phases of a pod, as Kubernetes names them."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True)
class ContainerEnd:
    """How a container ended."""

    exit_code: int
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class PodController:
    """A StatefulSet, which makes its pods again as often as they go."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class PodState:
    """What decisions may rest on of a pod."""

    name: str
    uid: str
    phase: PodPhase = PodPhase.UNKNOWN
    attempt: int | None = None
    """From its label; None: not one of ours, or somebody took the label off."""
    owner: str | None = None
    """Uid of what controls it: of a driver, its app."""
    role: str = ""
    created: int = 0
    deleting_since: int | None = None
    grace: int = 0
    """Milliseconds it was given to end."""
    node: str | None = None
    silent_since: int | None = None
    """Since when its node does not answer, or is gone."""
    node_lost: bool = False
    """Its node has not answered for so long that nobody waits for it any more, or the pod says that it went with it."""
    reason: str = ""
    message: str = ""
    disrupted: str | None = None
    """Why it has to make room, e.g. `EvictionByEvictionAPI`."""
    unschedulable: str | None = None
    """What the scheduler says, as long as it finds no node."""
    started: int | None = None
    """When its container began to run."""
    claim: str | None = None
    """Its volume claim for state."""
    made_by: PodController | None = None
    waiting: tuple[str, str] | None = None
    """Reason and message of a container that can't start yet."""
    ended: ContainerEnd | None = None

    @property
    def over(self) -> bool:
        """Whether nothing runs in it any more. The phase says so even where no container has a status."""
        return self.phase in (PodPhase.SUCCEEDED, PodPhase.FAILED)

    @property
    def works(self) -> bool:
        """Whether it runs, and will go on as far as anybody knows."""
        return self.phase is PodPhase.RUNNING and self.deleting_since is None and not self.node_lost


@dataclass(frozen=True, slots=True)
class ExecutorLocations:
    """Executors that may be given tasks, as the API server says now."""

    places: Mapping[str, str]
    """Pod -> location."""
    handed: VersionedAssignment | None
    """The assignment that was handed over last in this run."""
    lost_claims: frozenset[str] = frozenset()
    """Claims whose volume only lost nodes reach."""
    wrong: str = ""
    """Why an executor that works has no location."""


@dataclass(frozen=True, slots=True)
class AppObject:
    """The StreamApp object itself."""

    name: str
    namespace: str
    uid: str
    generation: int
    tree: Mapping[str, Any]
    """As the API server has it."""
    status: Status = field(default_factory=Status)
    deleting_since: int | None = None
    finalizer: bool = False
    version: str = ""
    """resourceVersion, the precondition of whatever is written to it."""


@dataclass(frozen=True, slots=True)
class AppFinding:
    """One thing that was found, and what it means."""

    reason: Reason
    message: str


@dataclass(frozen=True, slots=True)
class Grounds:
    """What a verdict on the next attempt rests on, beside the spec."""

    namespace: str
    counts: Mapping[str, int | None] | Unknown
    record: Observed[PlacementRecord]
    missing: tuple[str, ...] | Unknown
    storage_class: Observed[str]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything one decision rests on."""

    app: AppObject
    driver: Observed[PodState] = None
    """The pod of the attempt in the status. That one which was seen is gone is never believed from watches alone."""
    executors: tuple[PodState, ...] | Unknown = ()
    """Of every attempt of the app."""
    others: tuple[PodState, ...] | Unknown = ()
    """Drivers of other attempts."""
    strangers: tuple[PodState, ...] = ()
    """Drivers of an app of this name that was, or that somebody else labelled so: not ours to end."""
    running: Observed[StreamApp] = None
    """The app as the attempt in the status was told it."""
    counts: Mapping[str, int | None] | Unknown = field(default_factory=dict)
    """Partition counts of topics; None: there is no such topic."""
    record: Observed[PlacementRecord] = None
    missing: tuple[str, ...] | Unknown = ()
    """Objects that pods of the app need and that are not there, e.g. `Secret kafka-auth`."""
    storage_class: Observed[str] = ""
    """The cluster's default, where the app names none for its claims; empty: nobody needs it."""
    report: Observed[DriverReport] = None
    seats: ExecutorLocations | Unknown | None = None
    """None: the executors are those that were assigned last, and run."""
    highest: int = 0
    """The highest attempt of the run in the spec that has left a trace, whatever the status says: a status can be lost
    (a backup has none), and a run can be taken up again."""
    refused: AppFinding | None = None
    """Why the API server did not make the attempt in the status, when it was asked last."""

    @property
    def grounds(self) -> Grounds:
        """What is judged."""
        return Grounds(self.app.namespace, self.counts, self.record, self.missing, self.storage_class)

    @property
    def pods(self) -> list[PodState]:
        """All pods of the app that could be seen."""
        drivers = [] if self.driver is None or isinstance(self.driver, Unknown) else [self.driver]
        seen = [what for what in (self.others, self.executors) if not isinstance(what, Unknown)]
        return [*drivers, *(pod for pods in seen for pod in pods)]
