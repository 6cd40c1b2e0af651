"""What prevents the start of an app and can go away without a word."""

import functools
from collections.abc import Callable

from tests.simulation.objects import CLASSES, MAPS, SECRETS
from tests.simulation.tenants import LOGIN
from tests.simulation.world import NAMESPACE, World


def forbid(kind: str, world: World) -> Callable[[], object]:
    """The operators may not read objects of this kind."""
    world.servers[0].forbidden.add(kind)
    return world.servers[0].forbidden.clear


def take(kind: str, namespace: str | None, name: str, world: World) -> Callable[[], object]:
    """An object that a start needs is gone; the result makes it again."""
    tree = world.objects.get(kind, namespace, name)
    assert tree is not None
    world.objects.delete(kind, namespace, name, "admin")
    metadata = {field: tree["metadata"][field] for field in ("name", "annotations") if field in tree["metadata"]}
    again = {field: tree[field] for field in ("data",) if field in tree} | {"metadata": metadata}
    return functools.partial(world.objects.create, kind, namespace, again, "admin")


def take_topic(world: World) -> Callable[[], object]:
    count = world.brokers.topics.pop("out")
    return lambda: world.brokers.topics.update(out=count)


def stop_brokers(world: World) -> Callable[[], object]:
    world.brokers.up = False
    return lambda: setattr(world.brokers, "up", True)


HINDRANCES: dict[str, Callable[[World], Callable[[], object]]] = {
    "no right to list classes": functools.partial(forbid, CLASSES),
    "no right to read Secrets": functools.partial(forbid, SECRETS),
    "no right to read ConfigMaps": functools.partial(forbid, MAPS),
    "no class": functools.partial(take, CLASSES, None, "disk"),
    "no Secret": functools.partial(take, SECRETS, NAMESPACE, LOGIN),
    "no output": take_topic,
    "no brokers": stop_brokers,
}
"""Name -> a function that begins it, and returns what ends it."""
