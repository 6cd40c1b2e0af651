"""Why: the operator on one screen.

For one app, at one moment:

    gather -> judge -> decide -> write the intent down -> act -> say what happened -> when to look again

The status is written before anything is done, over exactly the version that was read: whoever else wrote, or another
operator, makes the write fail, and then nothing is done. Must not hold what any of the steps knows.
"""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

from holdfast.spec.status import Status
from holdfast_operator.act import Hands
from holdfast_operator.cache import Key
from holdfast_operator.checks.start import Judged, judge
from holdfast_operator.cluster import APP
from holdfast_operator.decide import decide
from holdfast_operator.decision import Again, Decision, Final, Limits, StartDriver, Told, Wake
from holdfast_operator.facts import AppSeen, Finding, Snapshot
from holdfast_operator.snapshot import World, gather

Say = Callable[[AppSeen, Told], Awaitable[None]]


@dataclass(slots=True)
class Reconciler:
    """What looking at apps takes; remembers only what it could find out again."""

    world: World
    hands: Hands
    say: Say
    limits: Limits = field(default_factory=Limits)
    clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    jitter: Callable[[], float] = lambda: 0.0
    at: Callable[[str], None] = lambda _: None
    """Told each point between two things that are done, so that tests can die there."""
    _judged: dict[str, tuple[object, Judged]] = field(default_factory=dict)
    _refused: dict[str, Finding] = field(default_factory=dict)

    async def reconcile(self, key: Key) -> Wake:
        """Look at one app, do what is to be done, and say when to look again."""
        tree = await self.world.cluster.get(APP, key.namespace, key.name)
        if tree is None:
            return Final("the app is created again")
        seen = await gather(self.world, tree, self._refused.get(tree["metadata"]["uid"]))
        self.at("gathered")
        decision = decide(seen, self._judge(seen), self.clock(), replace(self.limits, jitter=self.jitter()))
        app = await self._written(seen.app, decision.status)
        if app is None:
            return Again(0)
        self.at("intent written")
        await self._act(app, decision)
        for told in decision.events:
            await self.say(app, told)
        self.at("said")
        return decision.wake

    def _judge(self, seen: Snapshot) -> Judged:
        """Planning costs milliseconds; what it rests on rarely changes."""
        facts = (seen.app.generation, seen.counts, seen.record, seen.missing)
        known = self._judged.get(seen.app.uid)
        if known is None or known[0] != facts:
            known = self._judged[seen.app.uid] = (facts, judge(seen))
        return known[1]

    async def _written(self, app: AppSeen, status: Status) -> AppSeen | None:
        """The app with this status, written if it says something new; None: it is gone."""
        before, after = _tree(app.status), _tree(status)
        if before == after:
            return app
        gone = {name: None for name in before if name not in after}
        patch: dict[str, Any] = {"metadata": {"resourceVersion": app.version}, "status": {**after, **gone}}
        written = await self.world.cluster.patch(APP, app.namespace, app.name, patch, part="status")
        return None if written is None else replace(app, status=status, version=written["metadata"]["resourceVersion"])

    async def _act(self, app: AppSeen, decision: Decision) -> None:
        for action in decision.actions:
            refused = await self.hands.act(action, app)
            self.at(type(action).__name__)
            if refused is not None:
                self._refused[app.uid] = refused
            elif isinstance(action, StartDriver):
                self._refused.pop(app.uid, None)


def _tree(status: Status) -> dict[str, Any]:
    return status.model_dump(mode="json", by_alias=True, exclude_none=True)
