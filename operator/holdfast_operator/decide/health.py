"""Why: a driver that exists is not yet an app that works; these questions, in this order, find what is wrong with it.

Must not end anything: a driver that waits for its image or a node is left alone, since what it waits for may come.
"""

from collections.abc import Callable
from dataclasses import dataclass

from holdfast.protocol.report import DriverReport
from holdfast.reasons import Reason
from holdfast_operator.decide.decision import DecisionLimits
from holdfast_operator.decide.facts import AppFinding, PodPhase, PodState

_IMAGE = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable"})
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
    """A driver that is not over."""

    pod: PodState
    report: DriverReport | None
    """Of this attempt; None: nothing yet."""
    interval: int
    """The app's trigger, in milliseconds."""
    now: int
    limits: DecisionLimits

    @property
    def age(self) -> int:
        """How long the pod has existed."""
        return self.now - self.pod.created


def unhealthy(living: LivingDriver) -> AppFinding | None:
    """What is wrong with the driver; None: it starts in time, or runs well."""
    return next((found for ask in HEALTH_CHECKS if (found := ask(living)) is not None), None)


def _node_lost(living: LivingDriver) -> AppFinding | None:
    if living.pod.silent_since is None and not living.pod.node_lost:
        return None
    message = (
        f"node {living.pod.node} of the driver does not answer; "
        f"its pod is given up when the node stays away for {living.limits.lost_after // 1000} s"
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
    message = f"{living.pod.unschedulable}; lower spec.runtime.driver.cores or memory, or add nodes"
    return AppFinding(Reason.UNSCHEDULABLE, message)


def _slow_start(living: LivingDriver) -> AppFinding | None:
    works = living.report is not None and living.report.progressed is not None
    if works or living.age <= living.limits.start:
        return None
    where = "is not running" if living.pod.phase is not PodPhase.RUNNING else "runs but has not committed a batch yet"
    return AppFinding(
        Reason.START_TIMEOUT, f"after {living.age // 1000} s the driver {where}; see kubectl describe and logs"
    )


def _silent(living: LivingDriver) -> AppFinding | None:
    if living.report is None or living.now - living.report.at <= living.limits.silence:
        return None
    return AppFinding(
        Reason.NO_REPORT, f"the driver has said nothing for {(living.now - living.report.at) // 1000} s; see its log"
    )


def _no_progress(living: LivingDriver) -> AppFinding | None:
    report = living.report
    if report is None or report.lag == 0:
        return None
    since = living.now - (report.progressed or living.pod.created)
    if since <= max(living.limits.silence, living.limits.triggers * living.interval):
        return None
    message = f"{report.lag} records wait, but no batch was committed for {since // 1000} s"
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
"""First match counts; none: healthy."""
