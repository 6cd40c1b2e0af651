"""The checks before a start: everything that can prevent the next attempt of an app, in order.

They run before a pod is created and also while one is running; a failed check never harms the running attempt. Must
not read anything: facts that could not be read are `Unknown` in the grounds.
"""

from collections.abc import Callable
from dataclasses import dataclass

from holdfast.planning.checks import setting_problems
from holdfast.planning.plan import Plan, PlanningFacts, plan
from holdfast.reasons import Reason
from holdfast.spec.app import StreamApp
from holdfast_operator.decide.facts import AppFinding, Grounds, ParsedSpec, StartVerdict, Unknown
from holdfast_operator.manifests.pod_fields import fields_said_twice
from holdfast_operator.manifests.pod_policy import PodPolicy
from holdfast_operator.manifests.pod_resources import refused_resources
from holdfast_operator.manifests.pod_templates import TemplateRefusedError, check_templates
from holdfast_operator.manifests.trial_pod import pod_digests

_SHOWN_PROBLEMS = 10


@dataclass(frozen=True, slots=True)
class _Case:
    grounds: Grounds
    app: StreamApp
    plan: Plan | None
    policy: PodPolicy


def judge(grounds: Grounds, spec: ParsedSpec, policy: PodPolicy) -> StartVerdict:
    """Return whether an attempt of the current app may start."""
    app = spec.app
    if app is None:
        return StartVerdict(None, None, AppFinding(Reason.INVALID_SPEC, spec.wrong))
    planned = None
    if not isinstance(grounds.counts, Unknown) and not isinstance(grounds.record, Unknown):
        planned = plan(app, PlanningFacts(topics=grounds.counts, record=grounds.record))
    case = _Case(grounds, app, planned, policy)
    against = next((finding for ask in START_CHECKS if (finding := ask(case)) is not None), None)
    pods = pod_digests(app, policy.release) if against is None else ()
    return StartVerdict(app, planned, against, spec.fingerprint, pods, spec.defaults)


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
        "spec.runtime.checkpoint is missing; give it a location that driver and executors reach, e.g. "
        "s3a://bucket/path, or the claim of a volume that all of them can mount; or let the release give one to apps "
        "(value apps.defaults)"
    )
    return AppFinding(Reason.CHECKPOINT_MISSING, message)


def _settings(case: _Case) -> AppFinding | None:
    """Check settings; this does not need brokers, unlike the plan."""
    problem = next(setting_problems(case.app.spec.systems), None)
    return None if problem is None else AppFinding(problem.reason, problem.message)


def _templates(case: _Case) -> AppFinding | None:
    runtime = case.app.spec.runtime
    try:
        check_templates(runtime)
    except TemplateRefusedError as error:
        return AppFinding(Reason.POD_TEMPLATE_REFUSED, str(error))
    wrong = "; ".join((*refused_resources(runtime), *fields_said_twice(runtime)))
    return AppFinding(Reason.POD_TEMPLATE_REFUSED, wrong) if wrong else None


def _pods(case: _Case) -> AppFinding | None:
    against = case.policy.against(case.app)
    if not against:
        return None
    more = f"; and {len(against) - _SHOWN_PROBLEMS} more" if len(against) > _SHOWN_PROBLEMS else ""
    allowed = f"this release allows {case.policy.profile} pods (value apps.podTemplates)"
    return AppFinding(Reason.PODS_NOT_ALLOWED, f"{allowed}; {'; '.join(against[:_SHOWN_PROBLEMS])}{more}")


def _readable(case: _Case) -> AppFinding | None:
    for what in (case.grounds.record, case.grounds.missing, case.grounds.storage_class):
        if isinstance(what, Unknown):
            return AppFinding(Reason.CLUSTER_UNREADABLE, what.why)
    counts = case.grounds.counts
    if isinstance(counts, Unknown):
        return AppFinding(Reason.BROKER_UNREACHABLE if counts.asked else Reason.ASKING_BROKERS, counts.why)
    return None


def _plan_valid(case: _Case) -> AppFinding | None:
    if case.plan is None or case.plan.valid:
        return None
    problems = [
        f"{problem.reason.value} at {problem.step or problem.stream or 'the app'}: {problem.message}"
        + (f" (repair: {problem.repair.summary})" if problem.repair is not None else "")
        for problem in case.plan.problems[:_SHOWN_PROBLEMS]
    ]
    more = len(case.plan.problems) - len(problems)
    return AppFinding(case.plan.problems[0].reason, "; ".join(problems) + (f"; and {more} more" if more else ""))


def _objects_there(case: _Case) -> AppFinding | None:
    missing = case.grounds.missing
    if isinstance(missing, Unknown) or not missing:
        return None
    return AppFinding(Reason.OBJECT_MISSING, f"{', '.join(missing)}: create it in namespace {case.grounds.namespace}")


def _storage_class(case: _Case) -> AppFinding | None:
    if case.grounds.storage_class is not None:
        return None
    if (named := case.app.spec.state.storage_class) is not None:
        message = f"spec.state.storageClass: the cluster has no StorageClass {named}; create it, or name another"
        return AppFinding(Reason.STORAGE_CLASS_MISSING, message)
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
    _objects_there,
    _storage_class,
)
"""The first match counts; none: the attempt may start."""
