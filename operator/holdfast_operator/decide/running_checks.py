"""The checks of a running attempt: reasons to end it, and health checks of its driver, each list in order.

A running attempt is ended only for these reasons, and the reason is in the status before it is ended. A driver that
exists may still not work, so its node, image, container, start, reports and progress are checked. Must not end
anything: a driver that waits for its image or a node is left alone, since the wait may end.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from holdfast.one_line import one_line
from holdfast.protocol.pods import PodPhase, PodState
from holdfast.protocol.report import DriverReport
from holdfast.reasons import Reason
from holdfast.spec.app import StreamApp
from holdfast.spec.diff import diff
from holdfast.spec.fields import ChangeCost
from holdfast.times import time_span
from holdfast_operator.decide.facts import AppFinding, Case, DecisionLimits
from holdfast_operator.decide.growth import growth_of, growth_to_read

_SHOWN = 5


def reason_to_end(case: Case) -> AppFinding | None:
    """Return why the running attempt has to end; None: it goes on."""
    if case.judged.app is None:
        return None
    return next((found for ask in REASONS_TO_END if (found := ask(case, case.judged.app)) is not None), None)


def growth_halts(case: Case) -> AppFinding | None:
    """Return what has grown, if the spec says to halt on growth."""
    app = case.judged.app
    if app is None or app.spec.on_partition_growth != "Halt" or not (growth := growth_of(case)):
        return None
    return AppFinding(Reason.GROWTH_HALTED, f"{growth} partitions; set spec.onPartitionGrowth to Restart to go on")


def _suspended(_: Case, app: StreamApp) -> AppFinding | None:
    return AppFinding(Reason.SUSPENDED, "spec.suspend is true") if app.spec.suspend else None


def _changed(case: Case, app: StreamApp) -> AppFinding | None:
    if not case.judged.differs(case.status) or case.judged.against is not None:
        return None
    if not isinstance(case.snapshot.running, StreamApp):
        message = f"the spec differs from what the attempt runs; {ChangeCost.RESTART.sentence}"
        return AppFinding(Reason.SPEC_CHANGED, message)
    spec_diff = diff(case.snapshot.running, app)
    named = [one.path for one in spec_diff.changes if one.cost >= ChangeCost.RESTART]
    more = f" and {len(named) - _SHOWN} more" if len(named) > _SHOWN else ""
    cost = ChangeCost.RESTART.sentence if not spec_diff.new_run else "the new run starts with empty state"
    return AppFinding(Reason.SPEC_CHANGED, f"{one_line(', '.join(named[:_SHOWN]))}{more} changed: {cost}")


def _halted(case: Case, _: StreamApp) -> AppFinding | None:
    # Until the driver has begun, the record is the previous attempt's.
    return growth_halts(case) if case.begun else None


def _grown(case: Case, _: StreamApp) -> AppFinding | None:
    growth = growth_to_read(case) if case.judged.against is None else ""
    return AppFinding(Reason.PARTITIONS_GREW, f"{growth} partitions") if growth else None


REASONS_TO_END: tuple[Callable[[Case, StreamApp], AppFinding | None], ...] = (_suspended, _halted, _changed, _grown)
"""The first match counts; none: the attempt goes on."""

_IMAGE = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable"})
_SCHEDULING_CURES: Mapping[str, str] = {
    "persistentvolume": "look at the claims that its pod template mounts (kubectl describe pvc)",
    "insufficient": "lower spec.runtime.driver.cores or memory, or add nodes",
    "taint": "give its pod template a toleration, or add nodes without that taint",
    "affinity": "change the node selector or affinity of its pod template, or label a node",
    "selector": "change the node selector or affinity of its pod template, or label a node",
}
"""What the scheduler says, in small letters -> what to do; the first that stands in its message counts."""
_REFUSED = frozenset(
    {
        "CreateContainerConfigError",
        "CreateContainerError",
        "RunContainerError",
        "CrashLoopBackOff",
        "PreCreateHookError",
    }
)


@dataclass(frozen=True, slots=True)
class LivingDriver:
    """A driver that has not ended."""

    pod: PodState
    report: DriverReport | None
    """This attempt's report; None: none yet."""
    interval: int
    """The app's trigger interval, in milliseconds."""
    now: int
    limits: DecisionLimits
    waits: str = ""
    """What an executor waits for, as the end of a sentence."""

    @property
    def age(self) -> int:
        """Return how long the pod has existed."""
        return self.now - self.pod.created


def unhealthy(living: LivingDriver) -> AppFinding | None:
    """Return what is wrong with the driver; None: it is starting in time or running well."""
    return next((found for ask in HEALTH_CHECKS if (found := ask(living)) is not None), None)


def obstacle(living: LivingDriver) -> AppFinding | None:
    """Return what keeps the pod from starting, with the cure; None: nothing that is known."""
    return next((found for ask in (_image, _container, _unschedulable) if (found := ask(living)) is not None), None)


def _node_lost(living: LivingDriver) -> AppFinding | None:
    if living.pod.silent_since is None and not living.pod.node_lost:
        return None
    message = (
        f"node {living.pod.node} of the driver does not answer; "
        f"its pod is given up when the node stays away for {time_span(living.limits.lost_after)}"
    )
    return AppFinding(Reason.NODE_LOST, message)


def _image(living: LivingDriver) -> AppFinding | None:
    if living.pod.waiting is None or living.pod.waiting[0] not in _IMAGE:
        return None
    reason, message = living.pod.waiting
    return AppFinding(
        Reason.IMAGE_UNAVAILABLE,
        f"{reason}: {message}; correct spec.runtime.image, or let the nodes reach its registry",
    )


def _container(living: LivingDriver) -> AppFinding | None:
    if living.pod.waiting is None or living.pod.waiting[0] not in _REFUSED:
        return None
    reason, message = living.pod.waiting
    return AppFinding(Reason.CONTAINER_REFUSED, f"{reason}: {message}")


def _unschedulable(living: LivingDriver) -> AppFinding | None:
    if living.pod.phase is not PodPhase.PENDING or living.pod.unschedulable is None:
        return None
    why = living.pod.unschedulable
    cure = next((cure for part, cure in _SCHEDULING_CURES.items() if part in why.lower()), "see kubectl describe pod")
    return AppFinding(Reason.UNSCHEDULABLE, f"{why}; {cure}")


def _slow_start(living: LivingDriver) -> AppFinding | None:
    works = living.report is not None and living.report.progressed is not None
    if works or living.age <= living.limits.start:
        return None
    progress = (
        "is not running" if living.pod.phase is not PodPhase.RUNNING else "runs but has not committed a batch yet"
    )
    message = (
        f"after {time_span(living.limits.start)} the driver {progress}{living.waits}; see kubectl describe and logs"
    )
    return AppFinding(Reason.START_TIMEOUT, message)


def _silent(living: LivingDriver) -> AppFinding | None:
    if living.report is None or living.now - living.report.at <= living.limits.silence:
        return None
    return AppFinding(
        Reason.NO_REPORT, f"the driver has said nothing for over {time_span(living.limits.silence)}; see its log"
    )


def _no_progress(living: LivingDriver) -> AppFinding | None:
    report = living.report
    if report is None or report.lag == 0:
        return None
    since = living.now - (report.progressed or living.pod.created)
    if since <= max(living.limits.silence, living.limits.triggers * living.interval):
        return None
    message = f"{report.lag:,} records wait, but no batch was committed for {time_span(since)}"
    return AppFinding(Reason.NO_PROGRESS, message + (f"; {report.held_back}" if report.held_back else "; see its log"))


HEALTH_CHECKS: tuple[Callable[[LivingDriver], AppFinding | None], ...] = (
    _node_lost,
    _image,
    _container,
    _unschedulable,
    _slow_start,
    _silent,
    _no_progress,
)
"""The first match counts; none: the driver is healthy."""
STUCK_REASONS = frozenset(
    {Reason.IMAGE_UNAVAILABLE, Reason.CONTAINER_REFUSED, Reason.UNSCHEDULABLE, Reason.START_TIMEOUT}
)
"""Reasons that somebody has to end if they last longer than a start may."""
