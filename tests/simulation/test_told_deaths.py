"""Executors that end: their app has one event for each end that nobody wanted, whatever becomes of operators."""

import asyncio

from holdfast.protocol.pods import MAIN
from holdfast.reasons import Reason
from tests.simulation.lives import history
from tests.simulation.objects import EVENTS, PODS, Tree
from tests.simulation.tenants import edit, make, remove
from tests.simulation.world import NAMESPACE, World

_STARTED, _WHILE = 60.0, 120.0
"""Seconds after which an app runs, and for which it then does."""


def executor(world: World) -> Tree:
    return world.pods_of("ads", "executor")[0]


def told(world: World) -> list[str]:
    return [event["note"] for event in world.objects.all(EVENTS) if event["reason"] == Reason.EXECUTOR_LOST]


def restart_container(world: World, reason: str) -> None:
    """A kubelet starts the container again that ended."""
    pod = executor(world)
    end = {"terminated": {"exitCode": 137, "reason": reason, "finishedAt": world.objects.stamp()}}
    status = {**pod["status"], "containerStatuses": [{"name": MAIN["executors"], "state": {}, "lastState": end}]}
    world.machines.set_status(pod, status)


def test_a_memory_kill_is_told_once_though_operators_die() -> None:
    async def script(world: World) -> None:
        make(world, "ads")
        await asyncio.sleep(_STARTED)
        restart_container(world, "OOMKilled")
        for _ in range(5):
            await asyncio.sleep(_WHILE)
            world.operators[0].kill("it is killed")
        await asyncio.sleep(_WHILE)

    world, end = history(script)
    assert end.broken == ()
    (note,) = told(world)
    assert "OOMKilled" in note


def test_each_end_in_one_pod_is_told() -> None:
    async def script(world: World) -> None:
        make(world, "ads")
        await asyncio.sleep(_STARTED)
        for _ in range(2):
            restart_container(world, "Error")
            await asyncio.sleep(_WHILE)

    world, end = history(script)
    assert end.broken == ()
    assert len(told(world)) == 2


def test_an_executor_whose_pod_ends_is_told() -> None:
    async def script(world: World) -> None:
        make(world, "ads")
        await asyncio.sleep(_STARTED)
        world.machines.end(world.machines.processes[executor(world)["metadata"]["uid"]], 1, "a disk broke")
        await asyncio.sleep(_WHILE)

    world, end = history(script)
    assert end.broken == ()
    (note,) = told(world)
    assert note.endswith("exit code 1 (Error): a disk broke")


def test_intended_ends_of_executors_are_not_told() -> None:
    async def script(world: World) -> None:
        make(world, "ads")
        await asyncio.sleep(_STARTED)
        world.objects.delete(PODS, NAMESPACE, executor(world)["metadata"]["name"], "tenant")
        await asyncio.sleep(_WHILE)
        edit(world, "ads", runtime={"driver": {"memory": "2g"}})
        await asyncio.sleep(_WHILE)
        edit(world, "ads", suspend=True)
        await asyncio.sleep(_WHILE)
        edit(world, "ads", suspend=False)
        await asyncio.sleep(_WHILE)
        remove(world, "ads")
        await asyncio.sleep(_WHILE)

    world, end = history(script)
    assert end.broken == ()
    assert told(world) == []
