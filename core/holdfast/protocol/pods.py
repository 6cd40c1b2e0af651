"""Facts of an app's pods: phase, attempt, node, claim, why a container waits or ended; read from the API's JSON.

A field that is missing or invalid becomes a default; nothing here raises, whatever the API server sends. Texts are
cleaned: containers, registries and whoever may write a pod's status choose them. Times are milliseconds since 1970.
Must not ask the API server, nor decide what a fact means.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from holdfast.attempt_number import plain_attempt
from holdfast.one_line import one_line
from holdfast.protocol.names import ATTEMPT_LABEL, ROLE_LABEL, SPEC_LABEL
from holdfast.times import moment
from holdfast.trees import Tree, as_object, as_objects


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
    at: int | None = None


@dataclass(frozen=True, slots=True)
class PodController:
    """The StatefulSet of a pod, which recreates the pod whenever it is deleted."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class PodState:
    """The facts of a pod that decisions may use."""

    name: str
    uid: str
    phase: PodPhase = PodPhase.UNKNOWN
    attempt: int | None = None
    """From its label; None: not a pod of an attempt, or somebody removed the label."""
    owner: str | None = None
    """Uid of its controller; that of a driver is its app."""
    role: str = ""
    created: int = 0
    deleting_since: int | None = None
    grace: int = 0
    """Its grace period for deletion, in milliseconds."""
    node: str | None = None
    silent_since: int | None = None
    """Since when its node does not answer, or is gone."""
    node_lost: bool = False
    """Its node has not answered for too long to wait any longer, or the pod's status says that the node is lost."""
    reason: str = ""
    message: str = ""
    disrupted: str | None = None
    """Why it is being evicted, e.g. `EvictionByEvictionAPI`."""
    unschedulable: str | None = None
    """The scheduler's message while it finds no node."""
    started: int | None = None
    """When its running container started."""
    claim: str | None = None
    """Its volume claim for state."""
    made_by: PodController | None = None
    waiting: tuple[str, str] | None = None
    """Reason and message of a container that waits to start."""
    ended: ContainerEnd | None = None
    executor_end: ContainerEnd | None = None
    """How the executor in it ended last; it may have been started again since."""
    spec_hash: str | None = None
    """The fingerprint of the spec that a driver was made of, from its label."""

    @property
    def evicted(self) -> bool:
        """Whether its node took its place for something else."""
        return self.reason in _EVICTIONS

    @property
    def over(self) -> bool:
        """Whether nothing runs in it any more, by its phase: containers may have no status."""
        return self.phase in (PodPhase.SUCCEEDED, PodPhase.FAILED)

    @property
    def works(self) -> bool:
        """Whether it runs, is not being deleted, and its node is not lost."""
        return self.phase is PodPhase.RUNNING and self.deleting_since is None and not self.node_lost


MAIN = {"driver": "driver", "executors": "spark-kubernetes-executor"}
"""`driver` or `executors` -> name of the main container in its pods."""

APP_DIRECTORY = "/etc/holdfast"
"""Where drivers and executors mount what the operator has written for them."""
STATE_VOLUME = "state"
STATE_DIRECTORY = "/var/lib/holdfast"
"""Where executors mount the disk of their location."""
_NUMBER = re.compile(r"-?[0-9]{1,11}")
_MOST_TEXT, _MOST_LAST_WORDS = 1_000, 8_192
"""Characters that are read of a text. The last words of a container are up to 4096 bytes, and may be JSON."""
_LOST_REASONS = frozenset({"NodeLost", "NodeShutdown", "Terminated"})
_EVICTIONS = frozenset({"Evicted", "Preempting", "Preempted"})


def pod_state(tree: object) -> PodState:
    """Return the facts in a pod's JSON from the API server."""
    metadata, spec, status = (as_object(as_object(tree).get(name)) for name in ("metadata", "spec", "status"))
    containers = as_objects(status.get("containerStatuses"))
    labels = as_object(metadata.get("labels"))
    return PodState(
        name=_text(metadata.get("name")),
        uid=_text(metadata.get("uid")),
        phase=_phase(status.get("phase")),
        attempt=plain_attempt(_text(labels.get(ATTEMPT_LABEL))),
        spec_hash=_text(labels.get(SPEC_LABEL)) or None,
        owner=_text(_controller(metadata).get("uid")) or None,
        made_by=_made_by(_controller(metadata)),
        role=_text(labels.get(ROLE_LABEL)),
        created=moment(_text(metadata.get("creationTimestamp")) or None) or 0,
        deleting_since=_deleting_since(metadata),
        grace=1000 * (_number(metadata.get("deletionGracePeriodSeconds")) or 0),
        node=_text(spec.get("nodeName")) or None,
        node_lost=_text(status.get("reason")) in _LOST_REASONS,
        reason=_text(status.get("reason")),
        message=_text(status.get("message")),
        disrupted=_disrupted(status),
        unschedulable=_unschedulable(status),
        started=next(_started(containers), None),
        claim=next(_claims(as_objects(spec.get("volumes"))), None),
        waiting=next(_waiting(containers), None),
        ended=next(_ended(containers, "state"), None),
        executor_end=_executor_end(containers),
    )


def _phase(value: object) -> PodPhase:
    return next((phase for phase in PodPhase if phase == value), PodPhase.UNKNOWN)


def _controller(metadata: Mapping[str, Any]) -> dict[str, Any]:
    owners = as_objects(metadata.get("ownerReferences"))
    return next((one for one in owners if one.get("controller") is True), {})


def _made_by(controller: Mapping[str, Any]) -> PodController | None:
    if controller.get("kind") != "StatefulSet":
        return None
    return PodController(_text(controller.get("name")), _text(controller.get("uid")))


def _deleting_since(metadata: Mapping[str, Any]) -> int | None:
    """When deletion began: the API server stores the end of the grace period."""
    over = moment(_text(metadata.get("deletionTimestamp")) or None)
    grace = 1000 * (_number(metadata.get("deletionGracePeriodSeconds")) or 0)
    return None if over is None else over - grace


def _disrupted(status: Mapping[str, Any]) -> str | None:
    for condition in as_objects(status.get("conditions")):
        if condition.get("type") == "DisruptionTarget" and condition.get("status") == "True":
            return _text(condition.get("reason")) or "DisruptionTarget"
    return None


def _unschedulable(status: Mapping[str, Any]) -> str | None:
    for condition in as_objects(status.get("conditions")):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return _text(condition.get("message")) or _text(condition.get("reason")) or "the scheduler does not say why"
    return None


def _waiting(containers: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    for container in containers:
        waiting = as_object(as_object(container.get("state")).get("waiting"))
        if waiting:
            yield _text(waiting.get("reason")), _text(waiting.get("message"))


def _started(containers: list[dict[str, Any]]) -> Iterator[int]:
    for container in containers:
        since = moment(_text(as_object(as_object(container.get("state")).get("running")).get("startedAt")) or None)
        if since is not None:
            yield since


def _claims(volumes: list[Tree]) -> Iterator[str]:
    for volume in volumes:
        claim = _text(as_object(volume.get("persistentVolumeClaim")).get("claimName"))
        if claim and volume.get("name") == STATE_VOLUME:
            yield claim


def _ended(containers: list[dict[str, Any]], state: str) -> Iterator[ContainerEnd]:
    for container in containers:
        ended = as_object(as_object(container.get(state)).get("terminated"))
        code, ended_at = _number(ended.get("exitCode")), moment(_text(ended.get("finishedAt")) or None)
        if code is not None:
            yield ContainerEnd(
                code, _text(ended.get("reason")), _text(ended.get("message"), _MOST_LAST_WORDS), ended_at
            )


def _executor_end(containers: list[dict[str, Any]]) -> ContainerEnd | None:
    """Return the last end of the executor's container: the kubelet starts it again within seconds."""
    executor = [one for one in containers if one.get("name") == MAIN["executors"]]
    return next((end for state in ("state", "lastState") for end in _ended(executor, state)), None)


def _text(value: object, most: int = _MOST_TEXT) -> str:
    return one_line(value, most) if isinstance(value, str) else ""


def _number(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        return None
    text = str(value)
    return int(text) if _NUMBER.fullmatch(text) else None
