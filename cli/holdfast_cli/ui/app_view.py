"""One app as the page gets it: all that `holdfast status` has, what its reason means, its pods and last failures.

Moments stay moments, as in `list_view`. Must not read anything, nor judge: the operator's conditions do.
"""

from collections.abc import Iterator
from dataclasses import asdict

from holdfast.placement.affinity import by_name
from holdfast.protocol.pods import ContainerEnd, PodState
from holdfast.reasons import Reason
from holdfast.spec.app import Condition
from holdfast.times import moment
from holdfast.trees import Tree
from holdfast_cli.cluster.app import AppDetail, AppEvent, Missing, OrMissing
from holdfast_cli.cluster.pod_logs import DRIVER, PodLog
from holdfast_cli.cluster.status_view import app_json, badness
from holdfast_cli.plan.builtin_commands import advice
from holdfast_cli.ui.list_view import standing_of

EVENTS = 50
"""How many events are shown."""
_MOST_FAILURES, _MOST_PODS = 20, 500
_GOOD = 4
_REASONS = {reason.value: reason for reason in Reason}


def app_view(detail: AppDetail, attempts: OrMissing[tuple[tuple[PodLog, ...], ...]]) -> Tree:
    """Return everything about one app but its plan and its logs; `missing` says why a part is null."""
    app, view = detail.app, app_json(detail)
    pods = () if isinstance(attempts, Missing) else tuple(log for logs in reversed(attempts) for log in logs)
    events = () if isinstance(detail.events, Missing) else detail.events
    missing = {"pods": attempts.why} if isinstance(attempts, Missing) else {}
    report = app.current(detail.report)
    return {
        **view,
        "standing": standing_of(app),
        "created": app.created,
        "suspend": app.suspend,
        "conditions": [_condition(condition) for condition in sorted(app.status.conditions, key=badness)],
        "explanation": _explanation(app.verdict.reason),
        "report": None if isinstance(report, Missing) else view["report"],
        "assignment": _assignment(view["assignment"]),
        "events": None if isinstance(detail.events, Missing) else [asdict(event) for event in reversed(events)],
        "pods": None if isinstance(attempts, Missing) else [_pod(log) for log in pods[:_MOST_PODS]],
        "failures": sorted(_failures(pods, events), key=lambda failure: -failure["at"])[:_MOST_FAILURES],
        "missing": {
            **view["missing"],
            **({"report": report.why} if isinstance(report, Missing) else {}),
            **missing,
        },
    }


def _condition(condition: Condition) -> Tree:
    reason = _REASONS.get(condition.reason)
    return {
        "type": condition.type,
        "status": condition.status,
        "good": badness(condition) == _GOOD,
        "since": moment(condition.last_transition_time),
        "reason": condition.reason,
        "message": condition.message,
        "meaning": None if reason is None else reason.sentence,
    }


def _explanation(reason: str | None) -> Tree | None:
    """What `holdfast explain` says of the reason; None if it knows no such reason."""
    known_reason = _REASONS.get(reason or "")
    if known_reason is None:
        return None
    advices = [{"title": title, "text": text} for title, text in advice(known_reason)]
    return {"reason": known_reason.value, "sentence": known_reason.sentence, "advice": advices}


def _assignment(assignment: Tree | None) -> Tree | None:
    """The assignment, its processors in the order of places."""
    if assignment is None:
        return None
    by_place = sorted(assignment["processors"], key=lambda row: (by_name(row["location"]), by_name(row["processor"])))
    return {**assignment, "processors": by_place}


def _pod(log: PodLog) -> Tree:
    pod = log.pod
    return {
        "pod": pod.name,
        "label": log.label,
        "attempt": log.attempt,
        "phase": pod.phase.value,
        "node": pod.node,
        "created": pod.created or None,
        "started": pod.started,
        "note": "; ".join(_notes(pod)),
        "log": log.begun,
    }


def _notes(pod: PodState) -> Iterator[str]:
    """What is unusual about a pod."""
    if pod.deleting_since is not None:
        yield "is being deleted"
    if pod.node_lost:
        yield "its node is lost"
    if pod.unschedulable:
        yield f"no node: {pod.unschedulable}"
    if pod.waiting:
        yield "waits: " + ": ".join(filter(None, pod.waiting))
    if pod.disrupted:
        yield f"evicted: {pod.disrupted}"
    if pod.reason or pod.message:
        yield ": ".join(filter(None, (pod.reason, pod.message)))
    if (end := _end(pod)) is not None:
        yield _ending(end)


def _end(pod: PodState) -> ContainerEnd | None:
    """How the container in it ended last."""
    return pod.ended or pod.executor_end


def _ending(end: ContainerEnd) -> str:
    return f"ended with {end.exit_code}" + "".join(f", {text}" for text in (end.reason, end.message) if text)


def _failures(pods: tuple[PodLog, ...], events: tuple[AppEvent, ...]) -> Iterator[Tree]:
    """What went wrong last: containers that did not end well, and warnings."""
    for log in pods:
        end = _end(log.pod)
        if end is not None and end.exit_code:
            who = DRIVER if log.label == DRIVER else f"executor {log.label}"
            yield {
                "at": end.at or log.pod.created,
                "what": f"{who} of attempt {log.attempt}",
                "text": _ending(end),
                "pod": log.pod.name,
            }
    for event in events:
        if event.warning:
            yield {"at": event.at, "what": event.reason, "text": event.note, "pod": None}
