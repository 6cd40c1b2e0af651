"""The reconcile loop of one app.

Each look goes through these steps:

    examine -> gather -> judge -> decide -> write the intent -> act -> write events -> return the next look

Watches are enough to find that nothing has to be done. A decision that starts an attempt or deletes something rests on
absence, so it is made again with facts read from the API server. So is, at most once a minute, one about an app that is
not well though it has pods: watches may have died before they could tell of the pods' end. The status is written before
any action, and only over the version that was read: if anyone else wrote meanwhile, the write fails and nothing is
done. Must not hold the knowledge of any step.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from holdfast.reasons import Reason
from holdfast.trees import Tree
from holdfast_operator.act.actions import ActionRunner, EventWriter
from holdfast_operator.act.namespaces import NamespaceLeases
from holdfast_operator.decide.decision import (
    Decision,
    HandOver,
    LookAgain,
    NextLook,
    StartDriver,
    TryPods,
    WaitForChange,
)
from holdfast_operator.decide.facts import AppFinding, AppKey, AppObject, DecisionLimits, ParsedSpec, Snapshot
from holdfast_operator.decide.rules import decide
from holdfast_operator.examine.examiner import ExaminationPendingError, Examiner
from holdfast_operator.observe.snapshot import SnapshotSources, app_object, find_app, gather
from holdfast_operator.observe.spec_in_force import spec_that_ran
from holdfast_operator.service.monitoring import Metrics

_EXAMINED = 60_000
"""Milliseconds until the next look if the examiner has no answer yet; an answer triggers a look earlier."""

_CHECKED = 60_000
"""Milliseconds between two checks that the pods of an app which is not well still exist."""


class RefusedCreation(NamedTuple):
    """An attempt or a trial of an app, as the API server refused it."""

    uid: str
    generation: int = 0
    trial: str = ""
    """When the trial began; empty: it was an attempt. What was refused before may be taken when it is tried again."""


_NOTHING = RefusedCreation("")


def _refused_of(app: AppObject, refused: AppFinding) -> RefusedCreation:
    trial = app.status.trial if refused.reason is Reason.TRIAL_FAILED else None
    return RefusedCreation(app.uid, app.generation, "" if trial is None else trial.since)


@dataclass(slots=True)
class Reconciler:
    """Reconciles apps; remembers nothing that it could not find out again."""

    world: SnapshotSources
    examiner: Examiner
    hands: ActionRunner
    events: EventWriter
    namespaces: NamespaceLeases
    limits: DecisionLimits
    metrics: Metrics
    at: Callable[[str], None]
    """Called between any two effects, so that tests can crash the operator there."""
    clock: Callable[[], int]
    """Returns the time of day in milliseconds."""
    jitter: Callable[[], float]
    """Returns a number from 0 to 1, by which restarts are spread."""
    changed: Callable[[AppKey], None]
    """Requests a look."""
    _refused: dict[AppKey, tuple[RefusedCreation, AppFinding]] = field(default_factory=dict)
    """App -> what of it the API server refused, and why."""

    async def reconcile(self, key: AppKey) -> NextLook:
        """Look at one app and do what has to be done; return when to look again."""
        try:
            decided = await self._decided(key, live=False)
            if decided is not None and (decided[1].rests_on_absence or self._doubtful(key, *decided)):
                decided = await self._decided(key, live=True)
        except ExaminationPendingError:
            return LookAgain(_EXAMINED)
        if decided is None:
            return WaitForChange("the app is created again, or this operator looks after its namespace")
        snapshot, decision = decided
        self.at("gathered")
        app = await self.hands.write_status(snapshot.app, decision.status)
        if app is None:
            return LookAgain(0)
        self.at("intent written")
        await self._act(app, decision)
        for event in decision.events:
            await self.events.say(app, event)
        self.at("said")
        return decision.wake

    def _doubtful(self, key: AppKey, snapshot: Snapshot, decision: Decision) -> bool:
        """Return whether a pod may be gone without a word, as watches can die: asked once a minute, while not well."""
        checked = self.world.cache.checked.get(key)
        due = checked is None or abs(self.clock() - checked) >= _CHECKED
        return due and decision.wants_change and any(not pod.over for pod in snapshot.pods)

    async def _decided(self, key: AppKey, *, live: bool) -> tuple[Snapshot, Decision] | None:
        if live:
            self.world.cache.checked[key] = self.clock()
        tree = await find_app(self.world, key, live=live)
        if tree is None:
            self._refused.pop(key, None)
            return None
        if not self.namespaces.held(key):
            return None
        app, spec = await self._in_force(key, tree)
        snapshot = await gather(self.world, app, spec, self._refusal(key, app), self.clock(), live=live)
        judged = await self.examiner.verdict(key, snapshot.app.uid, snapshot.app.generation, spec, snapshot.grounds)
        return snapshot, decide(snapshot, judged, self.clock(), replace(self.limits, jitter=self.jitter()))

    async def _in_force(self, key: AppKey, tree: Tree) -> tuple[AppObject, ParsedSpec]:
        """Return the app and its spec; after a rollback, with the spec that ran."""
        app = app_object(tree)
        defaults = self.examiner.policy.release.defaults
        ran = await spec_that_ran(self.world, app)
        if ran is not None:
            spec = await self.examiner.spec(key, ran.app.tree, defaults.after_rollback(app.status), ran.attempt)
            if spec.fingerprint == ran.fingerprint:
                return ran.app, spec
        return app, await self.examiner.spec(key, tree, defaults.offered(key.namespace, app.status))

    def _refusal(self, key: AppKey, app: AppObject) -> AppFinding | None:
        """Return why the API server refused what was last created for this generation of the app, or for any."""
        creation, refused = self._refused.get(key, (_NOTHING, None))
        if refused is not None and refused.reason is Reason.DELETING:
            return refused if creation.uid == app.uid else None
        return refused if refused is not None and creation == _refused_of(app, refused) else None

    def _tell_neighbours(self, namespace: str, refused: AppFinding) -> None:
        """Look at the other apps of a namespace that is being deleted; one at rest would not hear of it in time."""
        for key, uid in self.world.cache.apps_in(namespace).items():
            creation, refusal = self._refused.get(key, (_NOTHING, None))
            if creation.uid != uid or refusal is None or refusal.reason is not Reason.DELETING:
                self._refused[key] = RefusedCreation(uid), refused
                self.changed(key)

    async def _act(self, app: AppObject, decision: Decision) -> None:
        for action in decision.actions:
            refused = await self.hands.act(action, app)
            self.at(type(action).__name__)
            if refused is not None:
                self._refused[AppKey(app.namespace, app.name)] = _refused_of(app, refused), refused
                self.metrics.refused(refused.reason)
                if refused.reason is Reason.DELETING:
                    self._tell_neighbours(app.namespace, refused)
            elif isinstance(action, StartDriver | TryPods):
                self._refused.pop(AppKey(app.namespace, app.name), None)
            if isinstance(action, StartDriver) and refused is None:
                self.metrics.launched()
            if isinstance(action, HandOver):
                self.metrics.moved(action.moved)
