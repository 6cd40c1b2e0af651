"""Why: an app may start only if nothing of this stands against it; the list below is all that can, in order.

Checked before a pod is made and while one runs: what stands against the next attempt never harms the running one. Must
not read anything: what could not be read is in the snapshot as such.
"""

from collections.abc import Callable
from dataclasses import dataclass

from holdfast.planning.plan import Plan, PlanningFacts, plan
from holdfast.planning.topics import setting_problems
from holdfast.reasons import Reason
from holdfast.spec.app import Status
from holdfast.spec.app_part import StreamApp
from holdfast_operator.decide.facts import AppFinding, Grounds, Unknown
from holdfast_operator.decide.specs import ParsedSpec
from holdfast_operator.manifests.pod_policy import PodPolicy
from holdfast_operator.manifests.pod_templates import TemplateRefusedError, check_templates

_SHOWN_PROBLEMS = 10
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


@dataclass(frozen=True, slots=True)
class _Case:
    seen: Grounds
    app: StreamApp
    plan: Plan | None
    policy: PodPolicy


def judge(seen: Grounds, spec: ParsedSpec, policy: PodPolicy) -> StartVerdict:
    """Whether an attempt of the app, as it is now, may start."""
    app = spec.app
    if app is None:
        return StartVerdict(None, None, AppFinding(Reason.INVALID_SPEC, spec.wrong))
    planned = None
    if not isinstance(seen.counts, Unknown) and not isinstance(seen.record, Unknown):
        planned = plan(app, PlanningFacts(topics=seen.counts, record=seen.record))
    case = _Case(seen, app, planned, policy)
    against = next((found for ask in START_CHECKS if (found := ask(case)) is not None), None)
    return StartVerdict(app, planned, against, spec.fingerprint)


def _no_embedded_log(case: _Case) -> AppFinding | None:
    names = [one.name for one in case.app.spec.systems if one.log is not None]
    if not names:
        return None
    message = f"spec.systems: {', '.join(names)} is an embedded log, which is on one host; use Kafka on a cluster"
    return AppFinding(Reason.SYSTEM_NOT_REACHABLE, message)


def _checkpoint(case: _Case) -> AppFinding | None:
    if case.app.spec.runtime.checkpoint is not None:
        return None
    message = (
        "spec.runtime.checkpoint.location is missing; give a folder that driver and executors reach, e.g. "
        "s3a://bucket/path, or file:///path on a volume that all of them mount"
    )
    return AppFinding(Reason.CHECKPOINT_MISSING, message)


def _settings(case: _Case) -> AppFinding | None:
    """Before brokers are asked, which the plan comes after."""
    problem = next(setting_problems(case.app.spec.systems), None)
    return None if problem is None else AppFinding(problem.reason, problem.message)


def _templates(case: _Case) -> AppFinding | None:
    try:
        check_templates(case.app.spec.runtime)
    except TemplateRefusedError as error:
        return AppFinding(Reason.POD_TEMPLATE_REFUSED, str(error))
    return None


def _pods(case: _Case) -> AppFinding | None:
    against = case.policy.against(case.app)
    if not against:
        return None
    more = f"; and {len(against) - _SHOWN_PROBLEMS} more" if len(against) > _SHOWN_PROBLEMS else ""
    allowed = f"this release allows {case.policy.profile} pods (value apps.podTemplates)"
    return AppFinding(Reason.PODS_NOT_ALLOWED, f"{allowed}; {'; '.join(against[:_SHOWN_PROBLEMS])}{more}")


def _readable(case: _Case) -> AppFinding | None:
    for what in (case.seen.record, case.seen.missing, case.seen.storage_class):
        if isinstance(what, Unknown):
            return AppFinding(Reason.CLUSTER_UNREADABLE, what.why)
    counts = case.seen.counts
    if isinstance(counts, Unknown):
        return AppFinding(Reason.BROKER_UNREACHABLE if counts.asked else Reason.ASKING_BROKERS, counts.why)
    return None


def _plan_valid(case: _Case) -> AppFinding | None:
    if case.plan is None or case.plan.valid:
        return None
    told = [
        f"{one.reason.value} at {one.step or one.stream or 'the app'}: {one.message}"
        + (f" (repair: {one.repair.summary})" if one.repair is not None else "")
        for one in case.plan.problems[:_SHOWN_PROBLEMS]
    ]
    more = len(case.plan.problems) - len(told)
    return AppFinding(case.plan.problems[0].reason, "; ".join(told) + (f"; and {more} more" if more else ""))


def _built(case: _Case) -> AppFinding | None:
    if case.plan is None or not case.plan.not_built:
        return None
    told = [one.message for one in case.plan.not_built]
    more = f"; and {len(told) - _SHOWN_PROBLEMS} more" if len(told) > _SHOWN_PROBLEMS else ""
    return AppFinding(Reason.NOT_BUILT, "; ".join(told[:_SHOWN_PROBLEMS]) + more)


def _objects_there(case: _Case) -> AppFinding | None:
    missing = case.seen.missing
    if isinstance(missing, Unknown) or not missing:
        return None
    return AppFinding(Reason.OBJECT_MISSING, f"{', '.join(missing)}: create it in namespace {case.seen.namespace}")


def _storage_class(case: _Case) -> AppFinding | None:
    if case.seen.storage_class is not None:
        return None
    message = (
        "spec.state.storageClass is missing, and the cluster has no default StorageClass that the operator can see: "
        "name one, or make one the default"
    )
    return AppFinding(Reason.STORAGE_CLASS_MISSING, message)


START_CHECKS: tuple[Callable[[_Case], AppFinding | None], ...] = (
    _no_embedded_log,
    _settings,
    _checkpoint,
    _templates,
    _pods,
    _readable,
    _plan_valid,
    _built,
    _objects_there,
    _storage_class,
)
"""First match counts; none: it may start."""
