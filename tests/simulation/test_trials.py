"""Edits that would take an app down, while the operator dies again and again: histories of trials and of going back."""

import asyncio

from tests.simulation.drivers import CRASHING_IMAGE
from tests.simulation.lives import history
from tests.simulation.machines import MISSING_IMAGE
from tests.simulation.objects import PODS
from tests.simulation.tenants import edit, make
from tests.simulation.test_found import driver, well
from tests.simulation.world import NAMESPACE, World

_STARTED = 60.0


def reason(world: World) -> str:
    """Why the app is not ready."""
    app = world.objects.get("streamapps", NAMESPACE, "ads")
    assert app is not None
    return next(str(one["reason"]) for one in app["status"]["conditions"] if one["type"] == "Ready")


def tried(world: World) -> int:
    """How many trial pods were ever made."""
    changes = [change for change in world.objects.history if change.kind == "pods" and change.type == "ADDED"]
    return sum("-trial-" in change.tree["metadata"]["name"] for change in changes)


def test_an_image_that_cannot_be_pulled_is_tried_slowly() -> None:
    async def script(world: World) -> None:
        make(world, "ads")
        await asyncio.sleep(_STARTED)
        before = driver(world).process.name
        edit(world, "ads", runtime={"image": MISSING_IMAGE})
        for _ in range(60):
            await asyncio.sleep(30)
            world.operators[0].kill("it is killed")
        await asyncio.sleep(300)
        await well(world)
        assert (driver(world).process.name, reason(world)) == (before, "TrialFailed")
        assert tried(world) <= 5
        edit(world, "ads", runtime={"image": "registry/other"})
        await well(world)
        assert reason(world) == "Running"
        assert driver(world).orders.attempt == 2

    assert history(script)[1].broken == ()


def test_a_refused_trial_is_made_when_the_quota_has_room() -> None:
    """The other operator took what it had been refused for an answer about the next trial."""

    async def script(world: World) -> None:
        make(world, "ads")
        await asyncio.sleep(_STARTED)
        world.servers[0].full.add(PODS)
        edit(world, "ads", runtime={"image": "registry/other"})
        await asyncio.sleep(60)
        assert reason(world) == "TrialFailed"
        world.servers[0].full.clear()
        await well(world, 700)
        assert (reason(world), driver(world).orders.attempt) == ("Running", 2)

    assert history(script, leases=(None, None))[1].broken == ()


def test_a_crashing_image_goes_back_once_for_each_edit() -> None:
    async def script(world: World) -> None:
        make(world, "ads")
        await asyncio.sleep(_STARTED)
        for number in (1, 2):
            edit(world, "ads", runtime={"image": CRASHING_IMAGE}, restart={"backoff": {"initial": f"{number}s"}})
            await asyncio.sleep(120)
            await well(world)
            assert reason(world) == "RolledBack"
            assert driver(world).orders.attempt == 1 + 2 * number
        edit(world, "ads", runtime={"image": None})
        await well(world)
        assert (reason(world), driver(world).orders.attempt) == ("Running", 5)

    assert history(script)[1].broken == ()
