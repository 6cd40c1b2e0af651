"""What drivers, executors and operators meet, and what fails beneath them: nodes, the network, servers and brokers.

Must not check anything.
"""

import random

from tests.simulation.objects import APPS, CLASSES, MAPS, PODS, POLICIES, SECRETS
from tests.simulation.tenants import any_name, any_pod
from tests.simulation.world import NAMESPACE, World


def fail_trial(world: World, pick: random.Random) -> None:
    """A trial ends badly, by its node or by itself; or somebody deletes it."""
    name = any_name(pick)
    trials = world.trials_of(name)
    if not trials:
        return
    pod = pick.choice(trials)
    process = world.machines.processes.get(pod["metadata"]["uid"])
    if process is not None and process.alive and pick.random() < 0.5:
        world.machines.end(process, 1, "ModuleNotFoundError")
    else:
        world.objects.delete(PODS, NAMESPACE, pod["metadata"]["name"], "tenant")


def end_driver(world: World, pick: random.Random) -> None:
    living = list(world.drivers.living.values())
    if living:
        code, message = pick.choice(((1, '{"failed": "world", "message": "disk"}'), (137, ""), (1, ""), (0, "")))
        world.drivers.fail(pick.choice(living), code, message)


def end_executor(world: World, pick: random.Random) -> None:
    pod = any_pod(world, pick, "executor")
    process = None if pod is None else world.machines.processes.get(pod["metadata"]["uid"])
    if process is not None and process.alive:
        world.machines.end(process, 137, "")


def hang_driver(world: World, pick: random.Random) -> None:
    """A driver does nothing more, not even what it is told."""
    if living := list(world.drivers.living.values()):
        pick.choice(living).hangs = True


def lose_node(world: World, pick: random.Random) -> None:
    node = pick.choice(world.machines.nodes)
    if all(other.silent_since is None for other in world.machines.nodes):
        world.machines.lose(node, power=pick.random() < 0.5)
        world.after(pick.choice((5.0, 60.0, 90.0, 150.0)), world.machines.bring_back, node)


def slow_network(world: World, pick: random.Random) -> None:
    world.network.slowness = pick.choice((0.2, 1.0, 5.0))
    world.after(pick.uniform(1, 60), _heal_network, world)


def lose_calls(world: World, pick: random.Random) -> None:
    for trouble in pick.sample(("lost", "unanswered", "refusing", "late"), 2):
        setattr(world.network, trouble, pick.choice((0.05, 0.3)))
    world.after(pick.uniform(1, 60), _heal_network, world)


def _heal_network(world: World) -> None:
    network = world.network
    network.slowness, network.lost, network.unanswered, network.refusing, network.late = 0.01, 0.0, 0.0, 0.0, 0.0


def fill_quota(world: World, pick: random.Random) -> None:
    """Nobody gets another object of a kind from the API servers for a while."""
    kind, full = pick.choice((PODS, MAPS, POLICIES)), world.servers[0].full
    full.add(kind)
    world.after(pick.uniform(1, 120), full.discard, kind)


def lag_server(world: World, pick: random.Random) -> None:
    """The watches of one server fall behind."""
    server = pick.choice(world.servers)
    server.lag = pick.choice((0.5, 3.0, 15.0))
    world.after(pick.uniform(5, 60), setattr, server, "lag", 0.002)


def stop_server(world: World, pick: random.Random) -> None:
    """A server goes, and with it the connections; another answers."""
    server = pick.choice(world.servers)
    if all(one.up for one in world.servers):
        server.stop()
        world.after(pick.uniform(1, 40), server.start)


def stop_servers(world: World, pick: random.Random) -> None:
    for server in world.servers:
        if server.up:
            server.stop()
            world.after(pick.uniform(1, 40), server.start)


def deafen_watches(world: World, _: random.Random) -> None:
    """The connections of watches die, and nobody tells."""
    for operator in world.operators:
        if operator.process is not None:
            operator.process.client.kill_streams()


def compact_history(world: World, _: random.Random) -> None:
    for server in world.servers:
        server.compact()


def take_right(world: World, pick: random.Random) -> None:
    kind = pick.choice((APPS, PODS, MAPS, SECRETS, POLICIES, CLASSES))
    world.servers[0].forbidden.add(kind)
    for server in world.servers:
        server.withdraw(kind)
    world.after(pick.choice((5.0, 30.0, 120.0)), world.servers[0].forbidden.discard, kind)


def kill_operator(world: World, pick: random.Random) -> None:
    pick.choice(world.operators).kill("it is killed")


def brokers_away(world: World, pick: random.Random) -> None:
    world.brokers.up = False
    world.after(pick.uniform(1, 60), setattr, world.brokers, "up", True)


def topics_grow(world: World, _: random.Random) -> None:
    world.brokers.topics["clicks"] = min(16, world.brokers.topics["clicks"] * 2)


def topic_lost(world: World, pick: random.Random) -> None:
    count = world.brokers.topics.pop("out", 4)
    world.after(pick.uniform(1, 60), world.brokers.topics.__setitem__, "out", count)


def class_away(world: World, pick: random.Random) -> None:
    """The only storage class is gone for a while."""
    storage_class = world.objects.get(CLASSES, None, "disk")
    if storage_class is not None:
        world.objects.delete(CLASSES, None, "disk", "admin")
        metadata = {name: storage_class["metadata"][name] for name in ("name", "annotations")}
        world.after(pick.uniform(1, 60), world.objects.create, CLASSES, None, {"metadata": metadata}, "admin")
