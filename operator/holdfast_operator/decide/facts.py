"""The facts one decision rests on: the app, its spec, its pods, the rest of a snapshot, and the start verdict.

They are values that can't change while something is decided. "Not there" and "could not be read" are different
answers: the first is `None`, the second is `Unknown`, and no decision that harms may rest on the second. Times are
milliseconds since 1970. The checks behind a verdict are `examine.start_checks`. Must not read anything but
arguments.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from holdfast.planning.plan import Plan
from holdfast.protocol.assignment import VersionedAssignment
from holdfast.protocol.pods import PodState
from holdfast.protocol.report import DriverReport
from holdfast.reasons import Reason
from holdfast.spec.app import Status, StreamApp
from holdfast.spec.diff import fingerprint
from holdfast.spec.parse import SpecInvalidError, parse_app
from holdfast.tasks.record import PlacementRecord


@dataclass(frozen=True, slots=True)
class Unknown:
    """Could not be read just now."""

    why: str
    asked: bool = True
    """No: nobody has asked yet, and somebody is about to."""


T = TypeVar("T")
Observed: TypeAlias = T | Unknown | None
"""There, proven to be absent, or not known."""


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


_SHOWN_ERRORS = 10


@dataclass(frozen=True, slots=True)
class ParsedSpec:
    """What an object says an app is."""

    app: StreamApp | None
    """None: it is invalid."""
    fingerprint: str | None
    wrong: str = ""
    """What is invalid about it."""


def read_spec(tree: Mapping[str, Any]) -> ParsedSpec:
    """What this object says, or what is wrong with it."""
    try:
        app = parse_app({name: tree[name] for name in tree if name != "status"})
    except SpecInvalidError as error:
        return ParsedSpec(None, None, "; ".join(str(one) for one in error.errors[:_SHOWN_ERRORS]))
    return ParsedSpec(app, fingerprint(app.spec))


PENDING_REASONS = frozenset({Reason.CLUSTER_UNREADABLE, Reason.ASKING_BROKERS})
WORLD_REASONS = frozenset(
    {Reason.BROKER_UNREACHABLE, Reason.OBJECT_MISSING, Reason.STORAGE_CLASS_MISSING, Reason.TOPIC_MISSING}
)
"""What can go away without a change of the app."""


@dataclass(frozen=True, slots=True)
class StartVerdict:
    """What the app is now, and what stands against starting it."""

    app: StreamApp | None
    """None: the spec is invalid."""
    plan: Plan | None
    """None: it could not be made."""
    against: AppFinding | None
    """None: it may start."""
    fingerprint: str | None = None
    """Of the spec, where it is valid."""

    @property
    def may_change(self) -> bool:
        """Whether what stands against it can go away by itself."""
        return self.against is not None and self.against.reason in PENDING_REASONS | WORLD_REASONS

    def differs(self, status: Status) -> bool:
        """Whether the app is another one than its last attempt ran; a spec that can't be read is not."""
        return self.app is not None and (status.run_id, status.spec_hash) != (self.app.spec.run_id, self.fingerprint)


@dataclass(frozen=True, order=True, slots=True)
class AppKey:
    """Which app."""

    namespace: str
    name: str
