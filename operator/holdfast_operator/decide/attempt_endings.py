"""The ways an attempt can end, in the order in which they are checked.

How it ended decides whether and how soon another attempt starts. The pod's phase is checked before its container
status, as an evicted pod has no container status. Must not know what is done about an ending.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from holdfast.bounded_json import load
from holdfast.one_line import one_line
from holdfast.protocol.pods import PodPhase, PodState
from holdfast.reasons import Reason
from holdfast.trees import as_object

_KILLED = 137
_SHOWN = 1000


class AttemptOutcome(StrEnum):
    """How an attempt ended."""

    COMPLETED = "Completed"
    """All inputs have ended: nothing is left to do."""
    DRAINED = "Drained"
    """It was asked to end and did."""
    LOST = "Lost"
    """It ended through no fault of its own: the next attempt starts at once."""
    FAILED = "Failed"
    """It failed: the next attempt starts after a wait."""
    STOPPED = "Stopped"
    """Like `FAILED`, but without an error: it ended although its inputs have no end."""
    REFUSED = "Refused"
    """Another attempt would end the same way: the user has to change something."""


FAILURES = (AttemptOutcome.FAILED, AttemptOutcome.STOPPED)
"""The outcomes that count as failures."""


@dataclass(frozen=True, slots=True)
class AttemptEnding:
    """How and why an attempt ended."""

    outcome: AttemptOutcome
    reason: Reason
    message: str


@dataclass(frozen=True, slots=True)
class _EndedDriver:
    """A driver that has ended, and its termination message."""

    pod: PodState
    draining: bool
    termination: Mapping[str, object]

    @property
    def message(self) -> str:
        """Return the driver's own message, else that of its container or pod. JSON may hide what is not printable."""
        text = self.termination.get("message")
        if isinstance(text, str) and text:
            return one_line(text, _SHOWN)
        end = self.pod.ended
        return one_line(end.message or end.reason if end else self.pod.message or self.pod.reason, _SHOWN)


def ending_of(pod: PodState, *, draining: bool) -> AttemptEnding:
    """Return how the attempt of this pod ended; the pod must be over."""
    last = _EndedDriver(pod, draining, _said(pod))
    return next(ending for ask in ENDINGS if (ending := ask(last)) is not None)


def _said(pod: PodState) -> Mapping[str, object]:
    """Return the driver's termination message if it is a JSON object, else an empty one."""
    try:
        return as_object(load(pod.ended.message) if pod.ended else None)
    except ValueError:
        return {}


def _node_lost(last: _EndedDriver) -> AttemptEnding | None:
    lost = last.pod.node_lost or last.pod.silent_since is not None
    if last.pod.phase is PodPhase.SUCCEEDED or not lost:
        return None
    return AttemptEnding(
        AttemptOutcome.LOST, Reason.NODE_LOST, f"node {last.pod.node} of the driver does not answer any more"
    )


def _evicted(last: _EndedDriver) -> AttemptEnding | None:
    if last.pod.phase is PodPhase.SUCCEEDED or not last.pod.evicted:
        return None
    return AttemptEnding(
        AttemptOutcome.LOST, Reason.EVICTED, f"node {last.pod.node} evicted the driver: {last.pod.message}"
    )


def _made_room(last: _EndedDriver) -> AttemptEnding | None:
    """A node drain or a preemption: whatever its exit code, it would have gone on otherwise."""
    if last.draining or last.pod.disrupted is None:
        return None
    message = f"the driver had to leave node {last.pod.node} ({last.pod.disrupted}); the next attempt starts at once"
    return AttemptEnding(AttemptOutcome.LOST, Reason.EVICTED, message)


def _deleted(last: _EndedDriver) -> AttemptEnding | None:
    """A driver ended by somebody else; also one that says it drained, if the operator did not ask for it."""
    drained = last.pod.phase is PodPhase.SUCCEEDED and last.termination.get("ended") == "drained"
    if last.draining or (last.pod.deleting_since is None and not drained):
        return None
    message = "the driver was told to end by somebody else; the next attempt starts at once"
    return AttemptEnding(AttemptOutcome.LOST, Reason.DRIVER_DELETED, message)


def _completed(last: _EndedDriver) -> AttemptEnding | None:
    if last.pod.phase is not PodPhase.SUCCEEDED or last.termination.get("ended") != "completed":
        return None
    return AttemptEnding(AttemptOutcome.COMPLETED, Reason.COMPLETED, Reason.COMPLETED.sentence)


def _drained(last: _EndedDriver) -> AttemptEnding | None:
    if not last.draining or last.pod.phase is not PodPhase.SUCCEEDED:
        return None
    return AttemptEnding(AttemptOutcome.DRAINED, Reason.DRAINING, "the attempt was drained")


def _ended_by_itself(last: _EndedDriver) -> AttemptEnding | None:
    if last.pod.phase is not PodPhase.SUCCEEDED:
        return None
    message = "the driver ended without an error though its inputs have no end; see its log for what stopped it"
    return AttemptEnding(AttemptOutcome.STOPPED, Reason.ENDED_BY_ITSELF, message)


def _out_of_memory(last: _EndedDriver) -> AttemptEnding | None:
    end = last.pod.ended
    if end is None or not (end.reason == "OOMKilled" or (end.exit_code == _KILLED and not end.message)):
        return None
    message = "the driver was killed for its memory; raise spec.runtime.driver.memory or read less per batch"
    return AttemptEnding(AttemptOutcome.FAILED, Reason.OUT_OF_MEMORY, message)


def _refused(last: _EndedDriver) -> AttemptEnding | None:
    if last.termination.get("failed") != "user":
        return None
    return AttemptEnding(AttemptOutcome.REFUSED, Reason.DRIVER_REFUSED, last.message)


def _killed_while_draining(last: _EndedDriver) -> AttemptEnding | None:
    if not last.draining:
        return None
    message = "the attempt did not finish its batch in time and was stopped; the next one repeats it"
    return AttemptEnding(AttemptOutcome.DRAINED, Reason.DRAINING, message)


def _failed(last: _EndedDriver) -> AttemptEnding:
    end = last.pod.ended
    how = "failed" if end is None else f"ended with exit code {end.exit_code}"
    explanation = f": {last.message}" if last.message else "; kubectl logs may tell more"
    return AttemptEnding(AttemptOutcome.FAILED, Reason.DRIVER_FAILED, f"the driver {how}{explanation}")


ENDINGS: tuple[Callable[[_EndedDriver], AttemptEnding | None], ...] = (
    _completed,
    _drained,
    _node_lost,
    _evicted,
    _refused,
    _made_room,
    _deleted,
    _ended_by_itself,
    _killed_while_draining,
    _out_of_memory,
    _failed,
)
"""The first match counts; the last always matches."""
