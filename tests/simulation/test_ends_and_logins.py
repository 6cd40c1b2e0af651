"""Apps whose inputs end, and what apps need beside their pods: Secrets and NetworkPolicies."""

import asyncio

from tests.simulation.lives import history, unsettled
from tests.simulation.objects import POLICIES, SECRETS
from tests.simulation.tenants import LOGIN, app_tree, edit, make
from tests.simulation.test_found import driver, well
from tests.simulation.world import NAMESPACE, World

_WHILE = 120.0


def bound(world: World) -> None:
    """The app's input has an end."""
    first, *other_streams = app_tree("ads")["spec"]["streams"]
    edit(world, "ads", streams=[{**first, "bounded": True}, *other_streams])


def attempt(world: World) -> int:
    return int((world.app("ads") or {})["status"]["attempt"])


def test_a_completed_app_starts_again_only_when_its_spec_changes() -> None:
    attempts = []

    async def script(world: World) -> None:
        make(world, "ads")
        bound(world)
        for _ in range(2):
            await asyncio.sleep(_WHILE)
            attempts.append(attempt(world))
            world.operators[0].kill("it is killed")
        edit(world, "ads", runtime={"driver": {"memory": "2g"}})
        await asyncio.sleep(_WHILE)
        attempts.append(attempt(world))
        await well(world)

    world, end = history(script)
    assert end.broken == ()
    assert attempts == [1, 1, 2]
    assert unsettled(world, "ads") is None


def test_an_app_waits_for_the_secret_that_it_names() -> None:
    async def script(world: World) -> None:
        make(world, "ads", systems=[{"name": "events", "kafka": {"bootstrapServers": "k:9092", "secretName": LOGIN}}])
        await asyncio.sleep(_WHILE)
        assert not world.drivers.living
        world.objects.create(SECRETS, NAMESPACE, {"metadata": {"name": LOGIN}, "data": {}}, "tenant")
        await well(world)
        assert driver(world).claimed

    _, end = history(script)
    assert end.broken == ()


def test_policies_that_were_deleted_are_there_before_the_next_attempt() -> None:
    async def script(world: World) -> None:
        make(world, "ads")
        await asyncio.sleep(_WHILE)
        for policy in world.objects.all(POLICIES, NAMESPACE):
            world.objects.delete(POLICIES, NAMESPACE, policy["metadata"]["name"], "tenant")
        await asyncio.sleep(_WHILE)
        edit(world, "ads", runtime={"driver": {"memory": "2g"}})
        await well(world)

    world, end = history(script)
    assert end.broken == ()
    assert len(world.objects.all(POLICIES, NAMESPACE)) == 2
