"""What can happen in a life: what tenants do, what drivers meet, and what fails beneath them.

Each is a function of the world and of its own random numbers, so that a life can be lived again without some of what
happened. Must not check anything.
"""

import base64
import copy
import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from holdfast.protocol.names import (
    APP_LABEL,
    ATTEMPT_LABEL,
    ROLE_LABEL,
    assignment_name,
    attempt_name,
    policy_name,
    report_name,
)
from holdfast.protocol.report import REPORT_KEY
from tests.operator.apps import TREE
from tests.simulation.drivers import CRASHING_IMAGE
from tests.simulation.machines import MISSING_IMAGE
from tests.simulation.objects import (
    APPS,
    CLASSES,
    MAPS,
    PODS,
    POLICIES,
    SECRETS,
    SETS,
    DeleteCondition,
    RefusedCallError,
    Tree,
)
from tests.simulation.world import NAMESPACE, World

NAMES = ("ads", "bids")
LOGIN = "kafka-login"
Happens = Callable[[World, random.Random], None]


@dataclass(frozen=True, slots=True)
class Happening:
    """Something that happens at a time."""

    at: float
    what: str
    number: int
    """From which its random numbers follow."""

    def happen(self, world: World) -> None:
        world.note(f"--- {self.what}")
        try:
            HAPPENINGS[self.what](world, random.Random(self.number))  # noqa: S311 - to be repeated
        except RefusedCallError as refused:
            world.note(f"refused: {refused}")


def app_tree(name: str, **spec: Any) -> Tree:
    """An app that can run."""
    tree = copy.deepcopy(TREE)
    tree["metadata"] = {"name": name}
    tree["spec"]["runtime"]["checkpoint"]["location"] = f"s3a://bucket/{name}"
    tree["spec"] |= {"restart": {"backoff": {"initial": "1s", "max": "10s"}}, **spec}
    return tree


def make(world: World, name: str, **spec: Any) -> Tree:
    return world.objects.create(APPS, NAMESPACE, app_tree(name, **spec), "tenant")


def edit(world: World, name: str, **spec: Any) -> None:
    """Change fields of a spec; None takes one away."""
    if world.app(name) is not None:
        world.objects.patch(APPS, NAMESPACE, name, {"spec": spec}, "tenant")


def remove(world: World, name: str) -> None:
    if world.app(name) is not None:
        world.objects.delete(APPS, NAMESPACE, name, "tenant")


def _name(pick: random.Random) -> str:
    return pick.choice(NAMES)


def _make(world: World, pick: random.Random) -> None:
    """Also one that was deleted; its run is another then, as the files of the old one stay."""
    name = _name(pick)
    make(world, name, runId=str(pick.randint(1, 3)))


def _edit(world: World, pick: random.Random) -> None:
    edit(world, _name(pick), runtime={"driver": {"memory": pick.choice(("1g", "2g"))}})


def _new_run(world: World, pick: random.Random) -> None:
    edit(world, _name(pick), runId=str(pick.randint(1, 5)))


def _break_image(world: World, pick: random.Random) -> None:
    edit(world, _name(pick), runtime={"image": pick.choice((MISSING_IMAGE, CRASHING_IMAGE, "registry/other", None))})


def _mistype_image(world: World, pick: random.Random) -> None:
    edit(world, _name(pick), runtime={"image": MISSING_IMAGE})


def _fail_trial(world: World, pick: random.Random) -> None:
    """A trial ends badly, by its node or by itself; or somebody deletes it."""
    name = _name(pick)
    trials = world.trials_of(name)
    if not trials:
        return
    pod = pick.choice(trials)
    process = world.machines.processes.get(pod["metadata"]["uid"])
    if process is not None and process.alive and pick.random() < 0.5:
        world.machines.end(process, 1, "ModuleNotFoundError")
    else:
        world.objects.delete(PODS, NAMESPACE, pod["metadata"]["name"], "tenant")


def _suspend(world: World, pick: random.Random) -> None:
    edit(world, _name(pick), suspend=pick.random() < 0.5)


def _break_spec(world: World, pick: random.Random) -> None:
    written = {"name": "written", "from": [pick.choice(("nobody", "clicks"))], "to": "out"}
    edit(world, _name(pick), steps=[written])


def _remove(world: World, pick: random.Random) -> None:
    remove(world, _name(pick))


def _remove_finalizer(world: World, pick: random.Random) -> None:
    """As `kubectl replace` does; never of an app that is deleted: that would be its own answer."""
    app = world.app(_name(pick))
    if app is not None and "deletionTimestamp" not in app["metadata"]:
        world.objects.patch(APPS, NAMESPACE, app["metadata"]["name"], {"metadata": {"finalizers": None}}, "tenant")


def _lose_status(world: World, pick: random.Random) -> None:
    """As after a restore from a backup, or by an edit."""
    name = _name(pick)
    fields = ("conditions", "driverUid", "ended", "draining", "pods", "trial", "begun", "rollback")
    lost: Any = {pick.choice(fields): None}
    if world.app(name) is not None:
        world.objects.patch(APPS, NAMESPACE, name, {"status": lost}, "tenant", "status")


def _lose_map(world: World, pick: random.Random) -> None:
    name = _name(pick)
    app = world.app(name)
    status = {} if app is None else app.get("status") or {}
    run, attempt = status.get("runId", "1"), status.get("attempt") or 1
    which = pick.choice((assignment_name(name, run), attempt_name(name, run, attempt), report_name(name, run)))
    if world.objects.get(MAPS, NAMESPACE, which) is not None:
        world.objects.delete(MAPS, NAMESPACE, which, "tenant")


def _pod(world: World, pick: random.Random, role: str) -> Tree | None:
    pods = world.pods_of(_name(pick), role)
    return pick.choice(pods) if pods else None


def _delete_pod(world: World, pick: random.Random) -> None:
    pod = _pod(world, pick, pick.choice(("driver", "executor")))
    if pod is not None:
        world.objects.delete(
            PODS, NAMESPACE, pod["metadata"]["name"], "tenant", DeleteCondition(grace=pick.choice((None, 5)))
        )


def _end_driver(world: World, pick: random.Random) -> None:
    living = list(world.drivers.living.values())
    if living:
        code, message = pick.choice(((1, '{"failed": "world", "message": "disk"}'), (137, ""), (1, ""), (0, "")))
        world.drivers.fail(pick.choice(living), code, message)


def _end_executor(world: World, pick: random.Random) -> None:
    pod = _pod(world, pick, "executor")
    process = None if pod is None else world.machines.processes.get(pod["metadata"]["uid"])
    if process is not None and process.alive:
        world.machines.end(process, 137, "")


def _lose_node(world: World, pick: random.Random) -> None:
    node = pick.choice(world.machines.nodes)
    if all(other.silent_since is None for other in world.machines.nodes):
        world.machines.lose(node, power=pick.random() < 0.5)
        world.after(pick.choice((5.0, 60.0, 90.0, 150.0)), world.machines.bring_back, node)


def _slow(world: World, pick: random.Random) -> None:
    world.network.slowness = pick.choice((0.2, 1.0, 5.0))
    world.after(pick.uniform(1, 60), _heal_network, world)


def _lossy(world: World, pick: random.Random) -> None:
    for trouble in pick.sample(("lost", "unanswered", "refusing"), 2):
        setattr(world.network, trouble, pick.choice((0.05, 0.3)))
    world.after(pick.uniform(1, 60), _heal_network, world)


def _heal_network(world: World) -> None:
    network = world.network
    network.slowness, network.lost, network.unanswered, network.refusing = 0.01, 0.0, 0.0, 0.0


def _lag(world: World, pick: random.Random) -> None:
    """The watches of one server fall behind."""
    server = pick.choice(world.servers)
    server.lag = pick.choice((0.5, 3.0, 15.0))
    world.after(pick.uniform(5, 60), setattr, server, "lag", 0.002)


def _stop_server(world: World, pick: random.Random) -> None:
    """A server goes, and with it the connections; another answers."""
    server = pick.choice(world.servers)
    if all(one.up for one in world.servers):
        server.stop()
        world.after(pick.uniform(1, 40), server.start)


def _stop_servers(world: World, pick: random.Random) -> None:
    for server in world.servers:
        if server.up:
            server.stop()
            world.after(pick.uniform(1, 40), server.start)


def _deaf(world: World, _: random.Random) -> None:
    """The connections of watches die, and nobody tells."""
    for operator in world.operators:
        if operator.process is not None:
            operator.process.client.kill_streams()


def _compact(world: World, _: random.Random) -> None:
    for server in world.servers:
        server.compact()


def _kill_operator(world: World, pick: random.Random) -> None:
    pick.choice(world.operators).kill("it is killed")


def _brokers_away(world: World, pick: random.Random) -> None:
    world.brokers.up = False
    world.after(pick.uniform(1, 60), setattr, world.brokers, "up", True)


def _topics_grow(world: World, _: random.Random) -> None:
    world.brokers.topics["clicks"] = min(16, world.brokers.topics["clicks"] * 2)


def _topic_lost(world: World, pick: random.Random) -> None:
    count = world.brokers.topics.pop("out", 4)
    world.after(pick.uniform(1, 60), world.brokers.topics.__setitem__, "out", count)


def _forge_report(world: World, pick: random.Random) -> None:
    """A pod of the app writes what it likes, within what can be."""
    name = _name(pick)
    app = world.app(name)
    status = {} if app is None else app.get("status") or {}
    report = report_name(name, status.get("runId", "1"))
    if world.objects.get(MAPS, NAMESPACE, report) is not None:
        forged = pick.choice(("", "{}", "[]", json.dumps({"attempt": status.get("attempt") or 1, "at": 0})))
        world.objects.patch(MAPS, NAMESPACE, report, {"data": {REPORT_KEY: forged}}, "tenant")


def _forge_number(world: World, pick: random.Random) -> None:
    """A pod of the app says that a far later attempt runs."""
    name = _name(pick)
    status = (world.app(name) or {}).get("status") or {}
    report = report_name(name, status.get("runId", "1"))
    if world.objects.get(MAPS, NAMESPACE, report) is not None:
        forged = {"attempt": pick.choice((2**63 - 1, 2**62, 10**10)), "at": world.clock(), "tasks": 4}
        world.objects.patch(MAPS, NAMESPACE, report, {"data": {REPORT_KEY: json.dumps(forged)}}, "tenant")


def _foreign_set(world: World, pick: random.Random) -> None:
    """A pod of somebody's StatefulSet bears the labels of an app."""
    name, number = _name(pick), pick.getrandbits(16)
    spec = {"replicas": 0, "template": {"metadata": {}, "spec": {}}}
    made = world.objects.create(SETS, NAMESPACE, {"metadata": {"name": f"db-{number}"}, "spec": spec}, "tenant")
    world.foreign.add(made["metadata"]["uid"])
    owner: Tree = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": f"db-{number}", "controller": True}
    labels = {APP_LABEL: name, ROLE_LABEL: "executor", ATTEMPT_LABEL: str(pick.randint(1, 3))}
    above = {**owner, "uid": made["metadata"]["uid"]}
    metadata = {"name": f"db-{number}-0", "labels": labels, "ownerReferences": [above]}
    pod = {"metadata": metadata, "spec": {"containers": [{"name": "db", "image": "db"}]}}
    world.objects.create(PODS, NAMESPACE, pod, "tenant")
    world.after(60.0, _remove_set, world, f"db-{number}")


def _remove_set(world: World, name: str) -> None:
    if world.objects.get(SETS, NAMESPACE, name) is not None:
        world.objects.delete(SETS, NAMESPACE, name, "tenant")


def _take_right(world: World, pick: random.Random) -> None:
    kind = pick.choice((APPS, PODS, MAPS, SECRETS, POLICIES, CLASSES))
    world.servers[0].forbidden.add(kind)
    for server in world.servers:
        server.withdraw(kind)
    world.after(pick.choice((5.0, 30.0, 120.0)), world.servers[0].forbidden.discard, kind)


def _hang(world: World, pick: random.Random) -> None:
    """A driver does nothing more, not even what it is told."""
    if living := list(world.drivers.living.values()):
        pick.choice(living).hangs = True


def _bound(world: World, pick: random.Random) -> None:
    """The app's input has an end, or none."""
    name, bounded = _name(pick), pick.random() < 0.7
    app = world.app(name)
    if app is not None:
        first, *other_streams = app["spec"]["streams"]
        completion = pick.choice(("Release", "Keep", None))
        edit(world, name, streams=[{**first, "bounded": bounded}, *other_streams], state={"onCompletion": completion})


def _log_in(world: World, pick: random.Random) -> None:
    """The app's brokers want a login, which is in a Secret, or want none any more."""
    kafka: Tree = {"bootstrapServers": "kafka:9092"} | ({"secretName": LOGIN} if pick.random() < 0.7 else {})
    edit(world, _name(pick), systems=[{"name": "events", "kafka": kafka}])


def _change_login(world: World, pick: random.Random) -> None:
    """The Secret is made, changed or deleted."""
    secret, password = world.objects.get(SECRETS, NAMESPACE, LOGIN), base64.b64encode(pick.randbytes(8)).decode()
    if secret is None:
        made = {"metadata": {"name": LOGIN}, "data": {"sasl.password": password}}
        world.objects.create(SECRETS, NAMESPACE, made, "tenant")
    elif pick.random() < 0.5:
        world.objects.patch(SECRETS, NAMESPACE, LOGIN, {"data": {"sasl.password": password}}, "tenant")
    else:
        world.objects.delete(SECRETS, NAMESPACE, LOGIN, "tenant")


def _spoil_policy(world: World, pick: random.Random) -> None:
    """A NetworkPolicy of an app is opened or deleted."""
    app = world.app(_name(pick))
    name = "" if app is None else policy_name(app["metadata"]["name"], app["metadata"]["uid"])
    if world.objects.get(POLICIES, NAMESPACE, name) is None:
        return
    if pick.random() < 0.5:
        world.objects.patch(POLICIES, NAMESPACE, name, {"spec": {"egress": [{}]}}, "tenant")
    else:
        world.objects.delete(POLICIES, NAMESPACE, name, "tenant")


def _foreign_policy(world: World, pick: random.Random) -> None:
    """Somebody's own NetworkPolicy has the name of an app's, for a while."""
    app = world.app(_name(pick))
    name = "" if app is None else policy_name(app["metadata"]["name"], app["metadata"]["uid"])
    if app is None or world.objects.get(POLICIES, NAMESPACE, name) is not None:
        return
    made = world.objects.create(POLICIES, NAMESPACE, {"metadata": {"name": name}, "spec": {}}, "tenant")
    world.foreign.add(made["metadata"]["uid"])
    world.after(pick.uniform(1, 60), _remove_policy, world, made["metadata"]["uid"])


def _remove_policy(world: World, uid: str) -> None:
    policy = world.objects.of(uid)
    if policy is not None:
        world.objects.delete(POLICIES, NAMESPACE, policy["metadata"]["name"], "tenant")


def _class_away(world: World, pick: random.Random) -> None:
    """The only storage class is gone for a while."""
    storage_class = world.objects.get(CLASSES, None, "disk")
    if storage_class is not None:
        world.objects.delete(CLASSES, None, "disk", "admin")
        metadata = {name: storage_class["metadata"][name] for name in ("name", "annotations")}
        world.after(pick.uniform(1, 60), world.objects.create, CLASSES, None, {"metadata": metadata}, "admin")


HAPPENINGS: dict[str, Happens] = {
    "a tenant makes an app": _make,
    "a tenant edits an app": _edit,
    "a tenant starts a new run": _new_run,
    "a tenant changes the image": _break_image,
    "a tenant mistypes the image": _mistype_image,
    "a trial fails": _fail_trial,
    "a tenant suspends or resumes an app": _suspend,
    "a tenant breaks or mends a spec": _break_spec,
    "a tenant deletes an app": _remove,
    "a tenant takes the finalizer away": _remove_finalizer,
    "a tenant edits a status": _lose_status,
    "a tenant deletes a ConfigMap": _lose_map,
    "a tenant deletes a pod": _delete_pod,
    "a pod forges a report": _forge_report,
    "a driver ends": _end_driver,
    "an executor ends": _end_executor,
    "a node is lost": _lose_node,
    "the network is slow": _slow,
    "calls get lost": _lossy,
    "a server lags": _lag,
    "a server is started again": _stop_server,
    "all servers are started again": _stop_servers,
    "watches die silently": _deaf,
    "history is compacted": _compact,
    "an operator is killed": _kill_operator,
    "brokers are away": _brokers_away,
    "a topic grows": _topics_grow,
    "a topic is lost": _topic_lost,
    "a pod forges an attempt's number": _forge_number,
    "a foreign pod bears an app's labels": _foreign_set,
    "a right is taken for a while": _take_right,
    "a driver hangs": _hang,
    "a tenant gives an input an end": _bound,
    "a tenant names a Secret": _log_in,
    "a Secret changes": _change_login,
    "a NetworkPolicy is opened or deleted": _spoil_policy,
    "a foreign NetworkPolicy has an app's name": _foreign_policy,
    "the storage class is away": _class_away,
}
DEAFENING = frozenset({"watches die silently", "a right is taken for a while", "all servers are started again"})
"""After which an operator may be ended by its probe: only a new one hears again."""
