"""The executors that ended though their attempt goes on: one event for each end, with its cause and cure.

Nothing else shows it: the kubelet starts the container again, or the StatefulSet makes another pod, and a batch comes
late. Only executors of an attempt that goes on are asked about: those of a drained or replaced one are meant to end.
Executors also end with an error when their driver dies, before its pod says so. So such an end is told only if the
attempt still goes on some seconds later, or if the pod is about to disappear. Each look finds all recent ends again;
what their events are about keeps them to one. Must not know whether an event was written.
"""

from dataclasses import dataclass

from holdfast.one_line import one_line
from holdfast.protocol.pods import ContainerEnd, PodState
from holdfast.reasons import Reason
from holdfast.times import time_span
from holdfast_operator.decide.decision import OperatorEvent
from holdfast_operator.decide.facts import DecisionLimits

_SHOWN_DEATHS = 5
_LAST_WORDS = 400
_KILLED = 137


@dataclass(frozen=True, slots=True)
class ExecutorDeath:
    """The end of an executor."""

    key: str
    """The same in every look, and of no other end."""
    message: str
    at: int
    wait: int = 0
    """For how many milliseconds the attempt has to go on until this is told."""


def death_events(executors: tuple[PodState, ...], now: int, limits: DecisionLimits) -> tuple[OperatorEvent, ...]:
    """Return events for the latest ends of these executors. The last event says how many more there are."""
    due = [death for death in _recent_deaths(executors, now, limits) if death.at + death.wait <= now]
    due.sort(key=lambda death: (-death.at, death.key))
    messages = [death.message for death in due[:_SHOWN_DEATHS]]
    if more := len(due) - len(messages):
        messages[-1] += f"; {more} more executors ended within {time_span(limits.recent)}"
    return tuple(
        OperatorEvent(Reason.EXECUTOR_LOST, message, warning=True, about=death.key)
        for message, death in zip(messages, due, strict=False)
    )


def until_next_death(executors: tuple[PodState, ...], now: int, limits: DecisionLimits) -> int | None:
    """Return after how many milliseconds the next end can be told; None: all are."""
    left = [death.at + death.wait - now for death in _recent_deaths(executors, now, limits)]
    return min((wait for wait in left if wait > 0), default=None)


def _recent_deaths(executors: tuple[PodState, ...], now: int, limits: DecisionLimits) -> list[ExecutorDeath]:
    deaths = [death for pod in executors if (death := _death_of(pod, now, limits)) is not None]
    return [death for death in deaths if now - death.at <= limits.recent]


def _death_of(pod: PodState, now: int, limits: DecisionLimits) -> ExecutorDeath | None:
    if (message := _lost_with_node(pod) or _taken_away(pod)) is not None:
        # Both say the same when a node is lost: Kubernetes evicts its pods.
        return ExecutorDeath(pod.uid, message, pod.silent_since or pod.deleting_since or now)
    end = pod.executor_end
    if end is None or (message := _out_of_memory(pod, end) or _failed(pod, end)) is None:
        return None
    died = now if end.at is None else end.at
    certain = _of_memory(end) or pod.over or pod.deleting_since is not None
    return ExecutorDeath(f"{pod.uid}/{end.at}", message, died, 0 if certain else limits.settle)


def _lost_with_node(pod: PodState) -> str | None:
    if not pod.node_lost:
        return None
    return f"executor {pod.name} is lost with node {pod.node}, which does not answer any more"


def _taken_away(pod: PodState) -> str | None:
    if not pod.evicted and (pod.disrupted is None or not (pod.over or pod.deleting_since is not None)):
        return None
    why = ": ".join(filter(None, (pod.disrupted or pod.reason, pod.message)))
    return f"executor {pod.name} had to leave node {pod.node} ({one_line(why, _LAST_WORDS)})"


def _out_of_memory(pod: PodState, end: ContainerEnd) -> str | None:
    if not _of_memory(end):
        return None
    return (
        f"executor {pod.name} on node {pod.node} was killed for its memory (OOMKilled, exit code {end.exit_code}); "
        "raise spec.runtime.executors.memory, or lower spec.runtime.trigger.maxRecordsPerPartition"
    )


def _of_memory(end: ContainerEnd) -> bool:
    return end.reason == "OOMKilled"


def _failed(pod: PodState, end: ContainerEnd) -> str | None:
    """With exit code 0 its driver ended it; after its pod was deleted, whoever did that."""
    deleted_first = pod.deleting_since is not None and (end.at is None or end.at >= pod.deleting_since)
    if end.exit_code == 0 or deleted_first:
        return None
    ended = f"executor {pod.name} on node {pod.node} ended with exit code {end.exit_code}"
    how = "killed from outside" if end.exit_code == _KILLED else end.reason
    words = f": {one_line(end.message, _LAST_WORDS)}" if end.message else "; see holdfast logs --executors --previous"
    return f"{ended}{f' ({how})' if how else ''}{words}"
