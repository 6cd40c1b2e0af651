"""The facts that a decision rests on: the app, its spec, its pods, the rest of the snapshot, and the start verdict.

All are immutable values. "Does not exist" is `None`, "could not be read" is `Unknown`, and no harmful decision may rest
on the second. Times are milliseconds since 1970. The checks behind a verdict are in `examine.start_checks`. Must not
read anything but arguments.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from holdfast.planning.plan import Plan
from holdfast.protocol.assignment import VersionedAssignment
from holdfast.protocol.pods import PodController, PodState
from holdfast.protocol.report import DriverReport
from holdfast.reasons import Reason
from holdfast.spec.app import Rollback, Status, StreamApp
from holdfast.spec.defaults import OfferedDefaults, missing_in, with_defaults
from holdfast.spec.diff import fingerprint
from holdfast.spec.parse import SpecInvalidError, parse_app
from holdfast.spec.runtime import AppDefaults, Restart
from holdfast.tasks.record import PlacementRecord


@dataclass(frozen=True, slots=True)
class Unknown:
    """A fact that could not be read."""

    why: str
    asked: bool = True
    """False: the question has not been asked yet, but will be soon."""


T = TypeVar("T")
Observed: TypeAlias = T | Unknown | None
"""A value, proven absence (None), or unknown."""


@dataclass(frozen=True, slots=True)
class ExecutorLocations:
    """The executors that may be given tasks, as just read from the API server."""

    location_of: Mapping[str, str]
    """Pod -> location."""
    handed: VersionedAssignment | None
    """The last assignment handed over in this run."""
    lost_claims: Mapping[str, str] = field(default_factory=dict)
    """Executors' own claims whose volume can be reached only from lost nodes -> their uids."""
    wrong: str = ""
    """Why a working executor has no location."""


@dataclass(frozen=True, slots=True)
class AppObject:
    """The StreamApp object itself."""

    name: str
    namespace: str
    uid: str
    generation: int
    tree: Mapping[str, Any]
    """The object as read from the API server."""
    status: Status = field(default_factory=Status)
    deleting_since: int | None = None
    finalizer: bool = False
    version: str = ""
    """The resourceVersion, a precondition of every write."""

    def owns(self, metadata: Mapping[str, Any]) -> bool:
        """Return whether the object with this metadata belongs to this app, and to no earlier one of its name."""
        return any(owner.get("uid") == self.uid for owner in metadata.get("ownerReferences") or ())


@dataclass(frozen=True, slots=True)
class AppFinding:
    """A finding about an app: a reason and a message."""

    reason: Reason
    message: str


@dataclass(frozen=True, slots=True)
class Grounds:
    """The facts that a start verdict rests on, apart from the spec."""

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
    """The pod of the attempt in the status. That a driver is gone is never concluded from watches alone."""
    executors: tuple[PodState, ...] | Unknown = ()
    """Executors of all attempts."""
    other_drivers: tuple[PodState, ...] | Unknown = ()
    """Drivers of other attempts."""
    trials: tuple[PodState, ...] = ()
    """Pods that try what the next attempt's pods are made from."""
    strangers: tuple[PodState, ...] = ()
    """Drivers of an earlier app of this name: not ours to end."""
    running: Observed[StreamApp] = None
    """The app as given to the attempt in the status."""
    counts: Mapping[str, int | None] | Unknown = field(default_factory=dict)
    """Stream -> partition count; None: there is no such topic."""
    record: Observed[PlacementRecord] = None
    missing: tuple[str, ...] | Unknown = ()
    """Missing objects that the app's pods need, e.g. `Secret kafka-auth`."""
    storage_class: Observed[str] = ""
    """The class of the app's claims; None: there is no such; empty: it has no claims."""
    report: Observed[DriverReport] = None
    orders_gone: bool = False
    """Whether the ConfigMap is gone without which the driver, which has not begun, can't begin."""
    silence: int = 0
    """For how many milliseconds nothing new has been heard of the driver, while it was looked at."""
    locations: ExecutorLocations | Unknown | None = None
    """None: the executors are running and have not changed since they were last assigned."""
    highest: int = 0
    """The highest attempt of the spec's run that left a trace. The status is not enough: it can be lost (a backup has
    none), and an earlier run can be resumed."""
    refused: AppFinding | None = None
    """Why the API server refused to create the attempt in the status, or the trial in it, at the last try."""
    claimed: frozenset[str] = frozenset()
    """Those of the runs that the app has left, or of all if it is deleted, whose claims nobody has deleted yet, or of
    which new ones may come."""
    executor_sets: Mapping[str, PodController] = field(default_factory=dict)
    """Run of these -> its StatefulSet, which makes pods and their claims."""

    @property
    def grounds(self) -> Grounds:
        """Return the facts that a start verdict rests on."""
        return Grounds(self.app.namespace, self.counts, self.record, self.missing, self.storage_class)

    @property
    def pods(self) -> list[PodState]:
        """Return all pods of the app that could be read."""
        drivers = [] if self.driver is None or isinstance(self.driver, Unknown) else [self.driver]
        pod_lists = [what for what in (self.other_drivers, self.executors) if not isinstance(what, Unknown)]
        return [*drivers, *(pod for pods in pod_lists for pod in pods)]


_SHOWN_ERRORS = 10


@dataclass(frozen=True, slots=True)
class ParsedSpec:
    """The spec of an object, parsed."""

    app: StreamApp | None
    """None: the spec is invalid."""
    fingerprint: str | None
    wrong: str = ""
    """What is invalid."""
    defaults: AppDefaults = field(default_factory=AppDefaults)
    """What of the app is not in its spec, and in no fingerprint."""


def read_spec(tree: Mapping[str, Any], offered: OfferedDefaults | None = None) -> ParsedSpec:
    """Parse the spec of this object; what it does not say is taken from what is offered."""
    try:
        app = parse_app({name: tree[name] for name in tree if name != "status"})
    except SpecInvalidError as error:
        return ParsedSpec(None, None, "; ".join(str(one) for one in error.errors[:_SHOWN_ERRORS]))
    if offered is None:
        return ParsedSpec(app, fingerprint(app.spec))
    missing = missing_in(app.spec, offered.for_run(app.spec.run_id))
    return ParsedSpec(with_defaults(app, missing), fingerprint(app.spec), defaults=missing)


PENDING_REASONS = frozenset({Reason.CLUSTER_UNREADABLE, Reason.ASKING_BROKERS})
WORLD_REASONS = frozenset(
    {Reason.BROKER_UNREACHABLE, Reason.OBJECT_MISSING, Reason.STORAGE_CLASS_MISSING, Reason.TOPIC_MISSING}
)
"""Reasons that can go away without a change of the app."""


@dataclass(frozen=True, slots=True)
class StartVerdict:
    """The app's plan, and what prevents its start."""

    app: StreamApp | None
    """None: the spec is invalid."""
    plan: Plan | None
    """None: planning was not possible."""
    against: AppFinding | None
    """None: it may start."""
    fingerprint: str | None = None
    """Fingerprint of a valid spec."""
    pods: tuple[str, ...] = ()
    """Digests of what an attempt's pods would be made from, as far as a trial can tell."""
    defaults: AppDefaults = field(default_factory=AppDefaults)
    """What of the app is not in its spec."""

    @property
    def may_change(self) -> bool:
        """Return whether what prevents the start can go away without a change of the app."""
        return self.against is not None and self.against.reason in PENDING_REASONS | WORLD_REASONS

    @property
    def refused(self) -> AppFinding | None:
        """Return what prevents the start until somebody changes the app."""
        return None if self.may_change else self.against

    def differs(self, status: Status) -> bool:
        """Return whether the spec differs from that of the last attempt; False for an unreadable spec."""
        return self.app is not None and (status.run_id, status.spec_hash) != (self.app.spec.run_id, self.fingerprint)


@dataclass(frozen=True, order=True, slots=True)
class AppKey:
    """Namespace and name of an app."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class DecisionLimits:
    """Time limits, in milliseconds."""

    start: int = 300_000
    """A driver that has not started after this is reported as stuck; it is left alone, as the cause may go away."""
    silence: int = 150_000
    """A driver that has reported nothing for this long is not healthy."""
    quiet: int = 90_000
    """A driver that has reported nothing for this long is looked at by the API server: the watches may be dead."""
    trial: int = 180_000
    """A trial pod that has not ended well after this has failed."""
    trial_again: int = 600_000
    """A trial that failed is repeated after this, as its cause may be gone."""
    hung: int = 600_000
    """A running driver of which nothing has been heard for this long is replaced."""
    triggers: int = 30
    """This many trigger intervals without a batch while records wait mean no progress."""
    lost_after: int = 60_000
    """A node that has not answered for this long is lost."""
    settle: int = 15_000
    """Executors get tasks when all are up, or when no other has come up for this long."""
    missing: int = 60_000
    """How long to wait for a missing executor before its tasks go to others."""
    recent: int = 600_000
    """The end of an executor is told within this time: later its event may be gone, and would be told again."""
    look: int = 30_000
    """Interval of looks while only the environment can change."""
    soon: int = 2_000
    """Interval of looks while something is under way."""
    jitter: float = 0.0
    """Random number between 0 and 1, drawn by the caller; spreads restarts."""


@dataclass(frozen=True, slots=True)
class Case:
    """The facts that a rule examines."""

    snapshot: Snapshot
    judged: StartVerdict
    now: int
    limits: DecisionLimits

    @property
    def status(self) -> Status:
        """Return the app's status as written by the operator."""
        return self.snapshot.app.status

    @property
    def begun(self) -> bool:
        """Return whether the driver of the attempt in the status has said that it began."""
        report = self.snapshot.report
        reported = isinstance(report, DriverReport) and report.attempt == self.status.attempt and report.begun
        return reported or self.status.has_begun

    @property
    def rolled_back(self) -> Rollback | None:
        """Return the rollback if the spec that is judged is the one that ran before, in place of the newest."""
        rollback, attempt = self.status.rollback, self.status.begun
        if rollback is None or attempt is None or rollback.generation != self.snapshot.app.generation:
            return None
        return rollback if self.judged.fingerprint == attempt.spec_hash else None

    @property
    def restart(self) -> Restart:
        """Return the restart settings; the defaults if the spec can't be read."""
        return self.judged.app.spec.restart if self.judged.app is not None else Restart()
