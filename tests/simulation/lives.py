"""A life from a seed: some apps, some tens of happenings, then peace; at its end all is well, or says what is not.

    HOLDFAST_SEED=17 python -m tests.simulation      lives the life of seed 17 alone and shows all of it

`minimised` leaves out of a failing life what it fails without. Must not know what a happening does.
"""

import asyncio
import functools
import json
import logging
import random
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any

from holdfast.protocol.names import APP_LABEL, app_id, attempt_name
from holdfast_operator.decide.facts import read_spec
from holdfast_operator.manifests.driver_pod import APP_KEY
from tests.simulation.drivers import CRASHING_IMAGE
from tests.simulation.happenings import DEAFENING, HAPPENINGS, Happening
from tests.simulation.machines import MISSING_IMAGE
from tests.simulation.objects import MAPS, POLICIES, SECRETS, Tree
from tests.simulation.operators import OperatorPod
from tests.simulation.tenants import NAMES, make
from tests.simulation.virtual_loop import StuckError, VirtualLoop
from tests.simulation.world import NAMESPACE, World

PEACE = 900.0
"""Seconds without trouble after which all has to be well."""
_LOOK = 5.0
LEASE, OTHER_LEASE = f"{NAMESPACE}/operator", f"{NAMESPACE}/other"
_CONTENT = 3
"""So many looks have to find it well, one after the other."""


@dataclass(frozen=True, slots=True)
class LifePlan:
    """All that happens in a life."""

    seed: int
    happenings: tuple[Happening, ...]
    until: float
    """When the last trouble is over."""
    leases: tuple[str | None, ...] = (None,)
    """Of each operator. Two without one act side by side all the time; two with their own are two releases."""


@dataclass(frozen=True, slots=True)
class LifeEnd:
    """How it ended."""

    broken: tuple[str, ...]
    trace: tuple[str, ...]
    seconds: float
    """How long it was."""
    killed_by_probe: tuple[str, ...]


def planned(seed: int) -> LifePlan:
    """The life of a seed."""
    pick = random.Random(f"plan {seed}")  # noqa: S311 - to be repeated
    chosen = pick.sample([*HAPPENINGS], pick.randint(3, len(HAPPENINGS)))
    length = pick.choice((30.0, 60.0, 120.0, 240.0))
    happenings = [
        Happening(round(pick.uniform(1, length), 3), pick.choice(chosen), pick.getrandbits(32))
        for _ in range(pick.randint(5, 30))
    ]
    leases = pick.choice(((None,), (LEASE,), (None, None), (LEASE, LEASE), (LEASE, OTHER_LEASE)))
    return LifePlan(seed, tuple(sorted(happenings, key=lambda happening: happening.at)), length + 160.0, leases)


def lived(plan: LifePlan, *, traced: bool = False) -> LifeEnd:
    """Live it."""
    pick = random.Random(f"world {plan.seed}")  # noqa: S311 - to be repeated
    world = World(pick, trace=[] if traced else None)

    async def life() -> None:
        world.begin(plan.leases)
        for name in NAMES[: pick.randint(1, 2)]:
            world.after(pick.uniform(0.1, 5.0), _make, world, name)
        for happening in plan.happenings:
            world.after(happening.at, happening.happen, world)
        last = max((happening.at for happening in plan.happenings), default=0.0)
        await asyncio.sleep(last)
        await _peace(world, plan.until)

    end = _ended(world, life())
    deaf = any(happening.what in DEAFENING for happening in plan.happenings)
    if end.killed_by_probe and not deaf:
        return replace(end, broken=(*end.broken, f"ended though it could hear: {end.killed_by_probe[0]}"))
    return end


def history(
    script: Callable[[World], Awaitable[None]], leases: Sequence[str | None] = (None,)
) -> tuple[World, LifeEnd]:
    """A life that is written down: whatever happens is in the script."""
    pick = random.Random("history")  # noqa: S311 - to be repeated
    world = World(pick, trace=[])

    async def life() -> None:
        world.begin(leases)
        await script(world)

    return world, _ended(world, life())


def _ended(world: World, life: Coroutine[Any, Any, None]) -> LifeEnd:
    """Run a life to its end, and clean up behind it."""
    loop = VirtualLoop(world.pick)
    asyncio.set_event_loop(loop)
    logging.disable(logging.CRITICAL)
    try:
        loop.run_until_complete(life)
    except StuckError as stuck:
        world.broken.append(str(stuck))
    finally:
        seconds = loop.time()
        _clean(world, loop)
        logging.disable(logging.NOTSET)
    crashes = [f"{operator.name} crashed: {error!r}" for operator in world.operators for error in operator.crashes]
    why = tuple(why for operator in world.operators for why in operator.why)
    return LifeEnd((*world.broken, *crashes), tuple(world.trace or ()), seconds, why)


def minimised(plan: LifePlan) -> LifePlan:
    """The same life without what it fails without."""
    happenings = list(plan.happenings)
    size = max(1, len(happenings) // 2)
    while size:
        at = 0
        while at < len(happenings):
            fewer = happenings[:at] + happenings[at + size :]
            shorter = replace(plan, happenings=tuple(fewer))
            if lived(shorter).broken:
                happenings = fewer
            else:
                at += size
        size //= 2
    return replace(plan, happenings=tuple(happenings))


async def _peace(world: World, until: float) -> None:
    """Wait until all is well for good."""
    loop, content = asyncio.get_running_loop(), 0
    while True:
        wrong = [against for against in (unsettled(world, name) for name in NAMES) if against]
        wrong += [f"{one.name} is ill" for one in world.operators if _ill(one)]
        content = 0 if wrong else content + 1
        if world.broken or content >= _CONTENT:
            return
        if loop.time() > until + PEACE:
            for what in wrong:
                world.break_rule(f"never well: {what}")
            return
        await asyncio.sleep(_LOOK)


def unsettled(world: World, name: str) -> str | None:
    """What is not well with an app and its remains; None: all is as it says, and what it says is an end."""
    app = world.app(name)
    if app is None:
        return None if name in world.abandoned else _left(world, name)
    state, reason, message = _ready(app)
    if "deletionTimestamp" in app["metadata"]:
        return f"{name} is not gone: {state} {reason}: {message}"
    if (behind := _behind(world, app)) is not None:
        return f"{name}: {behind}: {state} {reason}"
    drivers = [pod["metadata"]["name"] for pod in world.pods_of(name, "driver")]
    if reason == "Running" and state == "True":
        reached = _runs(world, app) and _as_applied(world, app) and _reads_all(world, app)
        return None if reached else f"{name} is Running; its drivers: {drivers}; topics: {world.brokers.topics}"
    if reason in _ENDS and _ENDS[reason](world, app) and not (reason == "Suspended" and drivers):
        return None
    return f"{name}: Ready={state} {reason}: {message}"


def _behind(world: World, app: Tree) -> str | None:
    """What is still to be looked at, or to be cleaned up."""
    metadata = app["metadata"]
    if (app.get("status") or {}).get("observedGeneration") != metadata["generation"]:
        return f"it was not looked at since generation {metadata['generation']}"
    trials = world.trials_of(metadata["name"])
    return f"{trials[0]['metadata']['name']} is still there" if trials else None


def _left(world: World, name: str) -> str | None:
    """What an app that is gone has left."""
    left = [*world.pods_of(name, "driver"), *world.pods_of(name, "executor"), *world.trials_of(name)]
    left += [claim for run in map(str, range(1, 6)) for claim in world.claims_of(app_id(name, run))]
    left += world.objects.all(POLICIES, NAMESPACE, {APP_LABEL: name})
    return f"{name} is gone, and left {left[0]['metadata']['name']}" if left else None


def _runs(world: World, app: Tree) -> bool:
    """Whether its one driver lives and is not fenced."""
    drivers = [pod["metadata"]["name"] for pod in world.pods_of(app["metadata"]["name"], "driver")]
    living = world.drivers.living.get(app["status"].get("driverUid"))
    return living is not None and living.claimed and drivers == [living.process.name]


def _as_applied(world: World, app: Tree) -> bool:
    """Whether its driver runs the spec as it is, or as it was before an edit that never came up."""
    if app["status"].get("rollback") is not None:
        return True
    driver = world.drivers.living[app["status"]["driverUid"]]
    metadata = {"name": app["metadata"]["name"]}
    return _fingerprint(driver.app) == _fingerprint(json.dumps({**app, "metadata": metadata, "status": None}))


def _reads_all(world: World, app: Tree) -> bool:
    """Whether its driver was made when its topics had the partitions that they have."""
    topics = world.drivers.living[app["status"]["driverUid"]].orders.topics
    return all(count is None or world.brokers.topics.get(name, 0) <= count for name, count in topics.items())


@functools.lru_cache(maxsize=512)
def _fingerprint(app: str) -> str | None:
    return read_spec(json.loads(app)).fingerprint


def _unstartable(world: World, app: Tree) -> bool:
    return _broken_image(world, app) or _without_login(world, app)


def _without_login(world: World, app: Tree) -> bool:
    """Whether a Secret that it names is not there."""
    names = [one.get("kafka", {}).get("secretName") for one in app["spec"]["systems"]]
    return any(name is not None and world.objects.get(SECRETS, NAMESPACE, name) is None for name in names)


def _completed(world: World, app: Tree) -> bool:
    """Whether its input has an end, nothing of it runs, and its claims are released if it says so."""
    name, spec = app["metadata"]["name"], _in_force(world, app)
    if world.pods_of(name, "driver") or world.pods_of(name, "executor"):
        return False
    if spec is None:
        return True
    releases = spec.get("state", {}).get("onCompletion", "Release") == "Release"
    claims = world.claims_of(app_id(name, app["status"]["runId"])) if releases else []
    return any(stream.get("bounded") for stream in spec["streams"]) and not claims


def _went_back(world: World, app: Tree) -> bool:
    """Whether the spec that ran before runs, or has completed."""
    return _runs(world, app) or (app["status"].get("ended") == "Completed" and _completed(world, app))


def _in_force(world: World, app: Tree) -> Tree | None:
    """The newest spec, or the one that it went back to; None: it says nothing, as it is not valid or not there."""
    status = app["status"]
    if status.get("rollback") is None:
        return None if _invalid(world, app) else dict(app["spec"])
    name = attempt_name(app["metadata"]["name"], status["runId"], status["attempt"])
    orders = world.objects.get(MAPS, NAMESPACE, name)
    return None if orders is None else dict(json.loads(orders["data"][APP_KEY])["spec"])


def _invalid(_: World, app: Tree) -> bool:
    return bool(app["spec"]["steps"][0]["from"] == ["nobody"])


def _broken_image(_: World, app: Tree) -> bool:
    return bool(app["spec"]["runtime"].get("image") == MISSING_IMAGE)


def _crashing_image(_: World, app: Tree) -> bool:
    return bool(app["spec"]["runtime"].get("image") == CRASHING_IMAGE)


_ENDS: dict[str, Callable[[World, Tree], bool]] = {
    "Suspended": lambda _world, app: app["spec"].get("suspend") is True,
    "DriverRefused": lambda _world, _app: True,
    "ImageUnavailable": _broken_image,
    "StartTimeout": _unstartable,
    "TrialFailed": lambda world, app: _broken_image(world, app) and _runs(world, app),
    "RolledBack": _went_back,
    "DriverFailed": _crashing_image,
    "WaitingToRestart": _crashing_image,
    "Starting": _crashing_image,
    "ObjectMissing": _without_login,
    "Completed": _completed,
    "InvalidSpec": _invalid,
}
"""Reasons that a person has to end -> whether there is cause."""


def _ready(app: Tree) -> tuple[str, str, str]:
    conditions = (app.get("status") or {}).get("conditions") or ()
    ready = next((one for one in conditions if one["type"] == "Ready"), None)
    return ("Unknown", "", "") if ready is None else (ready["status"], ready["reason"], ready["message"])


def _ill(operator: OperatorPod) -> bool:
    return operator.process is None or not operator.process.alive or bool(operator.process.problems())


def _make(world: World, name: str) -> None:
    if world.app(name) is None:
        make(world, name)


def _clean(world: World, loop: VirtualLoop) -> None:
    for operator in world.operators:
        operator.ended = lambda _who, _why: None
        if operator.process is not None:
            operator.process.kill()
    while tasks := asyncio.all_tasks(loop):
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.wait(tasks, timeout=1))
    loop.close()
    asyncio.set_event_loop(None)
