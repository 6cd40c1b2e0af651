"""What the simulation has found: each a history that is written down, with what must not come of it."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.protocol.names import (
    APP_LABEL,
    ATTEMPT_LABEL,
    ROLE_LABEL,
    app_id,
    attempt_name,
    executor_set,
    report_name,
)
from holdfast.protocol.report import REPORT_KEY
from tests.simulation.hindrances import HINDRANCES
from tests.simulation.lives import history, unsettled
from tests.simulation.objects import APPS, MAPS, PODS, SECRETS, SETS, DeleteCondition, Tree
from tests.simulation.tenants import LOGIN, edit, make
from tests.simulation.world import NAMESPACE, World

_STARTED = 60.0
"""Seconds after which an app runs."""


async def well(world: World, seconds: float = 600.0) -> None:
    """Wait until all is well; else it is broken."""
    for _ in range(int(seconds / 5)):
        await asyncio.sleep(5)
        if unsettled(world, "ads") is None:
            return
    world.break_rule(f"never well: {unsettled(world, 'ads')}")


def tell_late(world: World) -> None:
    """Let watches tell of a write after its answer, so that no operator is ended by its own probe and begins anew."""
    for server in world.servers:
        server.lag = 0.05


async def vanish_unheard(world: World) -> None:
    """An app's driver is deleted while no watch lives, and the next watch begins after that."""
    tell_late(world)
    make(world, "ads")
    await asyncio.sleep(_STARTED)
    process = world.operators[0].process
    assert process is not None
    process.client.kill_streams()
    world.objects.delete(PODS, NAMESPACE, driver(world).process.name, "tenant", DeleteCondition(grace=0))
    await asyncio.sleep(20)
    for server in world.servers:
        server.compact()
    await asyncio.sleep(400)


def forge(world: World, **fields: Any) -> None:
    """A pod of the app writes a report of its own."""
    data = {REPORT_KEY: json.dumps({"at": world.clock(), "tasks": 4, **fields})}
    world.objects.patch(MAPS, NAMESPACE, report_name("ads", "1"), {"data": data}, "tenant")


def new_run(world: World) -> None:
    edit(world, "ads", runId="2")


def driver(world: World) -> Any:
    (driver,) = world.drivers.living.values()
    return driver


def test_an_operator_lives_though_nothing_happens_to_its_apps() -> None:
    """A write of which the watch told before its answer came was waited for for ever."""

    async def script(world: World) -> None:
        world.network.answers_after = 0.5
        make(world, "ads", suspend=True)
        await asyncio.sleep(900)
        await well(world)

    world, end = history(script)
    assert end.broken == ()
    assert world.operators[0].killed_by_probe == 0, end.killed_by_probe


def test_a_driver_that_is_deleted_behind_dead_watches_is_replaced() -> None:
    """After a list nobody was told what had vanished before it."""

    async def script(world: World) -> None:
        await vanish_unheard(world)
        await well(world)

    assert history(script)[1].broken == ()


def test_an_app_that_is_deleted_behind_dead_watches_goes() -> None:
    """Its driver had vanished before the list, and its deletion waited for that."""

    async def script(world: World) -> None:
        await vanish_unheard(world)
        world.objects.delete(APPS, NAMESPACE, "ads", "tenant")
        await well(world)

    assert history(script)[1].broken == ()


def test_apps_are_watched_again_after_their_kind_was_withdrawn() -> None:
    """The watch of a kind ended for good, and the operator lived on and said that all is well."""

    async def script(world: World) -> None:
        tell_late(world)
        await asyncio.sleep(30)
        world.servers[0].served.remove(APPS)
        for server in world.servers:
            server.withdraw(APPS)
        await asyncio.sleep(60)
        world.servers[0].served.add(APPS)
        make(world, "ads")
        await well(world, 900)

    assert history(script)[1].broken == ()


def test_pods_are_watched_again_after_the_right_came_back() -> None:
    """A watch that is refused for longer than kopf tries ended for good."""

    async def script(world: World) -> None:
        tell_late(world)
        make(world, "ads")
        await asyncio.sleep(250)
        world.servers[0].forbidden.add(PODS)
        await asyncio.sleep(200)
        world.servers[0].forbidden.clear()
        await asyncio.sleep(300)
        world.drivers.fail(driver(world), 1)
        await well(world, 900)

    assert history(script)[1].broken == ()


def test_a_driver_whose_orders_went_before_it_began_is_replaced() -> None:
    """Its pod waited for the volume for ever, and nobody made the ConfigMap again."""

    async def script(world: World) -> None:
        make(world, "ads")
        orders = attempt_name("ads", "1", 1)
        while world.objects.get(MAPS, NAMESPACE, orders) is None:
            await asyncio.sleep(0.01)
        world.objects.delete(MAPS, NAMESPACE, orders, "tenant", DeleteCondition())
        await well(world)

    assert history(script)[1].broken == ()


def test_a_driver_that_hangs_is_replaced() -> None:
    """It was said to give no report, for good."""

    async def script(world: World) -> None:
        make(world, "ads")
        await asyncio.sleep(_STARTED)
        driver(world).hangs = True
        await asyncio.sleep(300)
        await well(world, 900)

    assert history(script)[1].broken == ()


def test_no_driver_is_replaced_because_the_api_servers_were_away() -> None:
    """None of them could say anything in that time."""

    async def script(world: World) -> None:
        make(world, "ads")
        await asyncio.sleep(_STARTED)
        before = driver(world).process.name
        world.servers[0].forbidden |= {APPS, PODS, MAPS}
        driver(world).hangs = True
        await asyncio.sleep(3600)
        world.servers[0].forbidden.clear()
        await asyncio.sleep(60)
        driver(world).hangs = False
        await well(world)
        assert driver(world).process.name == before

    assert history(script)[1].broken == ()


def test_a_forged_largest_report_does_not_stop_an_app() -> None:
    """No attempt could follow, as no status can hold its number."""

    async def script(world: World) -> None:
        make(world, "ads")
        await asyncio.sleep(_STARTED)
        forge(world, attempt=2**63 - 1)
        world.drivers.fail(driver(world), 1)
        await well(world)

    assert history(script)[1].broken == ()


def test_an_attempt_numbered_by_a_forged_report_is_fenced() -> None:
    """From ten digits on, nobody saw the claim of an attempt, and an older one went on beside it."""

    async def script(world: World) -> None:
        make(world, "ads")
        await asyncio.sleep(_STARTED)
        forge(world, attempt=10**10)
        world.drivers.fail(driver(world), 1)
        await well(world)
        world.machines.lose(driver(world).process.node, power=False)
        await asyncio.sleep(200)
        for node in world.machines.nodes:
            world.machines.bring_back(node)
        await well(world)

    assert history(script)[1].broken == ()


def test_a_pod_with_an_apps_labels_does_not_choose_deletions() -> None:
    """The set that it belonged to was deleted as one of the app's."""

    async def script(world: World) -> None:
        make(world, "ads")
        await asyncio.sleep(_STARTED)
        spec = {"replicas": 0, "template": {"metadata": {}, "spec": {}}}
        foreign = world.objects.create(SETS, NAMESPACE, {"metadata": {"name": "database"}, "spec": spec}, "tenant")
        world.foreign.add(foreign["metadata"]["uid"])
        owner: Tree = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "database", "controller": True}
        labels = {APP_LABEL: "ads", ROLE_LABEL: "executor", ATTEMPT_LABEL: "1"}
        above = {**owner, "uid": foreign["metadata"]["uid"]}
        metadata = {"name": "database-0", "labels": labels, "ownerReferences": [above]}
        pod = {"metadata": metadata, "spec": {"containers": [{"name": "database", "image": "database"}]}}
        world.objects.create(PODS, NAMESPACE, pod, "tenant")
        await asyncio.sleep(30)
        world.drivers.fail(driver(world), 1)
        await asyncio.sleep(120)

    assert history(script)[1].broken == ()


def test_an_edit_while_pods_are_refused_is_what_runs() -> None:
    """The orders of the refused attempt were there already, and a driver with them ran the app as it was."""

    async def script(world: World) -> None:
        world.servers[0].full.add(PODS)
        world.after(20, world.servers[0].full.clear)
        make(world, "ads")
        await asyncio.sleep(0.5)
        edit(world, "ads", runtime={"trigger": {"interval": "7s"}})
        await well(world)
        assert json.loads(driver(world).app)["spec"]["runtime"]["trigger"] == {"interval": "7s"}
        assert driver(world).orders.attempt == 1

    assert history(script)[1].broken == ()


def test_claims_of_a_left_run_go_though_operators_die() -> None:
    """They were deleted once, when the next run was written down, and never again."""

    async def script(world: World) -> None:
        make(world, "ads")
        await asyncio.sleep(_STARTED)
        assert world.claims_of(app_id("ads", "1"))
        edit(world, "ads", runId="2")
        while (world.app("ads") or {})["status"]["runId"] != "2":
            await asyncio.sleep(0.001)
        world.operators[0].kill("it is killed")
        await well(world)
        assert driver(world).orders.run == "2"
        assert world.claims_of(app_id("ads", "1")) == []

    assert history(script)[1].broken == ()


def test_apps_of_a_deleted_namespace_go_without_the_operators_rights() -> None:
    """Its Role was in the namespace: whichever went first, the Role or the apps, decided whether the namespace hung."""
    left: list[str] = []

    async def script(world: World) -> None:
        make(world, "ads")
        make(world, "calm", suspend=True)
        await asyncio.sleep(_STARTED)
        for server in world.servers:
            server.ending = True
        world.objects.delete(PODS, NAMESPACE, driver(world).process.name, "tenant", DeleteCondition(grace=0))
        await asyncio.sleep(10)  # Kubernetes ends all pods before it deletes anything else
        world.servers[0].forbidden |= {APPS, PODS, MAPS}
        for name in ("ads", "calm"):
            world.objects.delete(APPS, NAMESPACE, name, "tenant")
        left.extend(name for name in ("ads", "calm") if world.app(name) is not None)

    history(script)
    assert left == []


@pytest.mark.parametrize("hinders", HINDRANCES.values(), ids=HINDRANCES.keys())
def test_growth_is_not_forgotten_while_a_start_is_hindered(hinders: Callable[[World], Callable[[], object]]) -> None:
    """Its look was put off for half an hour, as its driver was well: nobody told that the hindrance was gone."""

    async def script(world: World) -> None:
        tell_late(world)
        data = {"sasl.password": "c2VjcmV0"}
        world.objects.create(SECRETS, NAMESPACE, {"metadata": {"name": LOGIN}, "data": data}, "tenant")
        kafka = {"bootstrapServers": "kafka:9092", "secretName": LOGIN}
        make(world, "ads", systems=[{"name": "events", "kafka": kafka}])
        await asyncio.sleep(_STARTED)
        let_go = hinders(world)
        world.brokers.topics["clicks"] = 8
        await asyncio.sleep(200)
        let_go()
        await well(world)

    assert history(script)[1].broken == ()


def test_claims_of_a_deleted_app_go_though_its_set_lives() -> None:
    """Its pods had all failed at once: its claims were deleted, its set made one again, and the app was gone."""

    async def script(world: World) -> None:
        make(world, "ads")
        await asyncio.sleep(_STARTED)
        world.objects.delete(APPS, NAMESPACE, "ads", "tenant")
        for node in world.machines.nodes:
            world.machines.lose(node, power=True)
        for node in world.machines.nodes:
            world.machines.bring_back(node)
        await well(world)

    assert history(script)[1].broken == ()


@pytest.mark.parametrize("leave", [lambda world: world.objects.delete(APPS, NAMESPACE, "ads", "tenant"), new_run])
def test_a_set_without_pods_yet_leaves_no_claims(leave: Callable[[World], object]) -> None:
    """No pod told of it when its claims were looked for, and it made them when nobody looked any more."""

    async def script(world: World) -> None:
        make(world, "ads")
        while not world.objects.all(SETS, NAMESPACE):
            await asyncio.sleep(0.001)
        world.drivers.fail(driver(world), 1)
        leave(world)
        await well(world)
        assert world.claims_of(app_id("ads", "1")) == []

    assert history(script)[1].broken == ()


def test_a_set_that_no_driver_made_is_left_alone() -> None:
    """It has the name that the set of the app's executors would have."""

    async def script(world: World) -> None:
        make(world, "ads", suspend=True)
        made = {"metadata": {"name": executor_set("ads", "1")}, "spec": {"replicas": 0}}
        foreign = world.objects.create(SETS, NAMESPACE, made, "tenant")
        world.foreign.add(foreign["metadata"]["uid"])
        await asyncio.sleep(_STARTED)
        world.objects.delete(APPS, NAMESPACE, "ads", "tenant")
        await well(world)
        assert world.objects.get(SETS, NAMESPACE, executor_set("ads", "1")) is not None

    assert history(script)[1].broken == ()
