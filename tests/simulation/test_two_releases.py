"""Two releases that watch one namespace: one looks after it, the other says so, and takes over when it is needed."""

import asyncio

import pytest

from holdfast_operator.act.lease import LEADER
from holdfast_operator.act.lease import NAMESPACE as TIMES
from holdfast_operator.act.namespaces import NAME
from tests.simulation.lives import LEASE, OTHER_LEASE, history, unsettled
from tests.simulation.objects import APPS, MAPS, Change
from tests.simulation.tenants import edit, make, remove
from tests.simulation.world import NAMESPACE, World

_STARTED = 60.0
"""Seconds after which an app runs."""


class Writers:
    """Who writes apps, in order and once each."""

    def __init__(self, world: World) -> None:
        self.names: list[str] = []
        world.objects.listeners.append(self._note)

    def _note(self, change: Change) -> None:
        if change.kind == APPS and change.by.startswith("operator") and change.by not in self.names:
            self.names.append(change.by)


def holder(world: World) -> str:
    config_map = world.objects.get(MAPS, NAMESPACE, NAME)
    return "" if config_map is None else str(config_map["data"]["holderIdentity"])


async def both_at_work(world: World) -> int:
    """Return the number of the operator that looks after the namespace."""
    writers = Writers(world)
    make(world, "ads")
    await asyncio.sleep(_STARTED)
    (first,) = writers.names
    assert unsettled(world, "ads") is None
    assert holder(world) == (LEASE, OTHER_LEASE)[int(first[-1])]
    return int(first[-1])


def test_of_two_releases_one_acts_and_the_other_says_so() -> None:
    async def script(world: World) -> None:
        other = 1 - await both_at_work(world)
        notes = [one for one in world.objects.all("events", NAMESPACE) if one["reason"] == "NamespaceTaken"]
        assert [one["reportingInstance"] for one in notes] == [f"operator-{other}"]
        assert f"release {holder(world)} looks after them" in notes[0]["note"]
        process = world.operators[other].process
        assert process is not None
        assert process.parts is not None
        assert (process.parts.namespaces.left_alone(), process.problems()) == (1, [])

    assert history(script, (LEASE, OTHER_LEASE))[1].broken == ()


def test_a_release_takes_over_from_one_that_is_gone() -> None:
    async def script(world: World) -> None:
        first = await both_at_work(world)
        process = world.operators[first].process
        assert process is not None
        process.client.cut = True
        await asyncio.sleep(TIMES.duration + 2 * TIMES.retry)
        assert holder(world) == (LEASE, OTHER_LEASE)[1 - first]
        edit(world, "ads", suspend=True)
        await asyncio.sleep(_STARTED)
        assert unsettled(world, "ads") is None
        process.client.cut = False
        writers = Writers(world)
        await asyncio.sleep(_STARTED)
        edit(world, "ads", suspend=False)
        await asyncio.sleep(_STARTED)
        assert unsettled(world, "ads") is None
        assert writers.names == [f"operator-{1 - first}"]

    assert history(script, (LEASE, OTHER_LEASE))[1].broken == ()


def test_a_namespace_is_let_go_with_its_last_app() -> None:
    async def script(world: World) -> None:
        await both_at_work(world)
        remove(world, "ads")
        await asyncio.sleep(_STARTED + TIMES.retry)
        assert holder(world) == ""

    assert history(script, (LEASE, OTHER_LEASE))[1].broken == ()


def test_where_no_lease_can_be_made_apps_are_looked_after() -> None:
    async def script(world: World) -> None:
        world.servers[0].full.add(MAPS)
        make(world, "ads")
        await asyncio.sleep(_STARTED)
        remove(world, "ads")
        await asyncio.sleep(_STARTED)
        assert unsettled(world, "ads") is None
        assert holder(world) == ""

    assert history(script, (LEASE,))[1].broken == ()


def test_a_lease_that_a_tenant_has_spoiled_is_taken_again() -> None:
    async def script(world: World) -> None:
        make(world, "ads")
        await asyncio.sleep(_STARTED)
        spoiled = {"holderIdentity": "tenants/own\nforged", "leaseTransitions": "9" * 5000}
        world.objects.patch(MAPS, NAMESPACE, NAME, {"data": spoiled}, "tenant")
        await asyncio.sleep(TIMES.duration + 3 * TIMES.retry)
        assert holder(world) == LEASE
        world.objects.delete(MAPS, NAMESPACE, NAME, "tenant")
        await asyncio.sleep(TIMES.retry + 2)
        assert holder(world) == LEASE

    assert history(script, (LEASE,))[1].broken == ()


@pytest.mark.parametrize("lost_after", range(12, 60, 4))
def test_a_long_look_writes_nothing_once_the_namespace_is_lost(lost_after: int) -> None:
    """Whether it was held was asked when the look began, and each call took seconds."""
    written: list[str] = []

    async def script(world: World) -> None:
        make(world, "calm", suspend=True)
        await asyncio.sleep(_STARTED)
        process = world.operators[0].process
        assert process is not None
        assert process.parts is not None
        leases = process.parts.namespaces

        def note(change: Change) -> None:
            bookkeeping = change.kind in ("events", "leases") or change.tree["metadata"]["name"] == NAME
            if change.by.startswith("operator") and not bookkeeping and leases.left(NAMESPACE) <= 0:
                written.append(f"{change.type} {change.kind} {change.tree['metadata']['name']}")

        world.objects.listeners.append(note)
        world.network.answers_after = 4.0
        make(world, "ads")
        await asyncio.sleep(lost_after)
        world.objects.patch(MAPS, NAMESPACE, NAME, {"data": {"holderIdentity": "tenants/own"}}, "tenant")
        await asyncio.sleep(TIMES.duration - 1)

    assert history(script, (LEASE,))[1].broken == ()
    assert written == []


def test_a_renewal_that_failed_is_repeated_soon() -> None:
    """It was repeated as late as one that succeeded, and who took the namespace meanwhile was found out late."""
    renewed: list[float] = []

    async def script(world: World) -> None:
        make(world, "ads")
        await asyncio.sleep(_STARTED)
        world.servers[0].forbidden.add(MAPS)
        await asyncio.sleep(1.5 * TIMES.retry)
        world.servers[0].forbidden.clear()
        since = asyncio.get_running_loop().time()

        def note(change: Change) -> None:
            if change.kind == MAPS and change.tree["metadata"]["name"] == NAME:
                renewed.append(asyncio.get_running_loop().time() - since)

        world.objects.listeners.append(note)
        await asyncio.sleep(2 * TIMES.retry)

    assert history(script, (LEASE,))[1].broken == ()
    assert renewed[0] < LEADER.retry + 1
