"""The case that every rule examines, and helpers for their answers. Must not hold a rule."""

from dataclasses import dataclass

from holdfast.protocol.pods import PodState
from holdfast.spec.app import Status
from holdfast.spec.runtime import Restart
from holdfast_operator.decide.conditions import updated_conditions
from holdfast_operator.decide.decision import (
    Action,
    ConditionUpdates,
    Decision,
    DecisionLimits,
    EndExecutorSet,
    EndPod,
    ForceDeletePod,
    NextLook,
)
from holdfast_operator.decide.facts import Snapshot, StartVerdict


@dataclass(frozen=True, slots=True)
class Case:
    """The facts that a rule examines."""

    seen: Snapshot
    judged: StartVerdict
    now: int
    limits: DecisionLimits

    @property
    def status(self) -> Status:
        """Return the app's status as written by the operator."""
        return self.seen.app.status

    @property
    def restart(self) -> Restart:
        """Return the restart settings; the defaults if the spec can't be read."""
        return self.judged.app.spec.restart if self.judged.app is not None else Restart()


def decision(
    case: Case,
    said: ConditionUpdates,
    wake: NextLook,
    actions: tuple[Action, ...] = (),
    *,
    uid: str | None = None,
    draining: str | None = None,
) -> Decision:
    """Return a decision with these conditions and actions; `uid` and `draining` go into the status if given."""
    return Decision(status_with(case, said, uid=uid, draining=draining), wake, actions)


def status_with(case: Case, said: ConditionUpdates, *, uid: str | None = None, draining: str | None = None) -> Status:
    """Return the status with these conditions of the current generation."""
    generation = case.seen.app.generation
    update: dict[str, object] = {
        "observed_generation": generation,
        "conditions": updated_conditions(case.status.conditions, said, generation, case.now),
    }
    if uid is not None:
        update["driver_uid"] = uid
    if draining is not None:
        update["draining"] = draining
    return case.status.model_copy(update=update)


def given_up(case: Case, pod: PodState, since: int | None) -> bool:
    """Return whether to stop waiting for this pod. If only the pod reports a lost node, wait first."""
    if not pod.node_lost:
        return False
    return pod.silent_since is not None or (since is not None and case.now - since > case.limits.lost_after)


def actions_to_end(case: Case, pods: list[PodState]) -> tuple[Action, ...]:
    """Return actions that ask each pod once to end, and force-delete it if its node is lost: its attempt is fenced.

    StatefulSets that would recreate the pods go first. Otherwise only Spark's normal end or the driver pod's deletion
    removes them.
    """
    makers = dict.fromkeys(pod.made_by for pod in pods if pod.made_by is not None and pod.deleting_since is None)
    actions: list[Action] = [EndExecutorSet(maker.name, maker.uid) for maker in makers]
    for pod in pods:
        if pod.deleting_since is None:
            actions.append(EndPod(pod.name, pod.uid))
        elif given_up(case, pod, pod.deleting_since + pod.grace):
            actions.append(ForceDeletePod(pod.name, pod.uid))
    return tuple(actions)
