"""What tenants do to their apps and beside them, and what pods of an app forge.

Functions with a generator of random numbers act on an app or object of their choice. Must not check anything.
"""

import base64
import copy
import json
import random
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
from holdfast_operator.act.namespaces import NAME
from tests.operator.apps import TREE
from tests.simulation.drivers import CRASHING_IMAGE
from tests.simulation.machines import MISSING_IMAGE
from tests.simulation.objects import APPS, MAPS, PODS, POLICIES, SECRETS, SETS, DeleteCondition, Tree
from tests.simulation.world import NAMESPACE, World

NAMES = ("ads", "bids")
LOGIN = "kafka-login"


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


def any_name(pick: random.Random) -> str:
    return pick.choice(NAMES)


def any_pod(world: World, pick: random.Random, role: str) -> Tree | None:
    pods = world.pods_of(any_name(pick), role)
    return pick.choice(pods) if pods else None


def make_any(world: World, pick: random.Random) -> None:
    """Also one that was deleted; its run is another then, as the files of the old one stay."""
    name = any_name(pick)
    make(world, name, runId=str(pick.randint(1, 3)))


def edit_any(world: World, pick: random.Random) -> None:
    edit(world, any_name(pick), runtime={"driver": {"memory": pick.choice(("1g", "2g"))}})


def new_run(world: World, pick: random.Random) -> None:
    edit(world, any_name(pick), runId=str(pick.randint(1, 5)))


def break_image(world: World, pick: random.Random) -> None:
    edit(world, any_name(pick), runtime={"image": pick.choice((MISSING_IMAGE, CRASHING_IMAGE, "registry/other", None))})


def mistype_image(world: World, pick: random.Random) -> None:
    edit(world, any_name(pick), runtime={"image": MISSING_IMAGE})


def suspend(world: World, pick: random.Random) -> None:
    edit(world, any_name(pick), suspend=pick.random() < 0.5)


def break_spec(world: World, pick: random.Random) -> None:
    written = {"name": "written", "from": [pick.choice(("nobody", "clicks"))], "to": "out"}
    edit(world, any_name(pick), steps=[written])


def remove_any(world: World, pick: random.Random) -> None:
    remove(world, any_name(pick))


def remove_finalizer(world: World, pick: random.Random) -> None:
    """As `kubectl replace` does; never of an app that is deleted: that would be its own answer."""
    app = world.app(any_name(pick))
    if app is not None and "deletionTimestamp" not in app["metadata"]:
        world.objects.patch(APPS, NAMESPACE, app["metadata"]["name"], {"metadata": {"finalizers": None}}, "tenant")


def lose_status(world: World, pick: random.Random) -> None:
    """As after a restore from a backup, or by an edit."""
    name = any_name(pick)
    fields = ("conditions", "driverUid", "ended", "draining", "pods", "trial", "begun", "rollback")
    lost: Any = {pick.choice(fields): None}
    if world.app(name) is not None:
        world.objects.patch(APPS, NAMESPACE, name, {"status": lost}, "tenant", "status")


def lose_map(world: World, pick: random.Random) -> None:
    name = any_name(pick)
    app = world.app(name)
    status = {} if app is None else app.get("status") or {}
    run, attempt = status.get("runId", "1"), status.get("attempt") or 1
    which = pick.choice((assignment_name(name, run), attempt_name(name, run, attempt), report_name(name, run)))
    if world.objects.get(MAPS, NAMESPACE, which) is not None:
        world.objects.delete(MAPS, NAMESPACE, which, "tenant")


def spoil_lease(world: World, pick: random.Random) -> None:
    """A tenant may write its namespace's lease: away with it, another's name in it, or what is no lease."""
    if world.objects.get(MAPS, NAMESPACE, NAME) is None:
        return
    if pick.random() < 0.3:
        world.objects.delete(MAPS, NAMESPACE, NAME, "tenant")
        return
    spoiled = pick.choice(({"holderIdentity": "tenants/own"}, {"leaseTransitions": "many"}, {"acquireTime": None}))
    world.objects.patch(MAPS, NAMESPACE, NAME, {"data": spoiled}, "tenant")


def delete_pod(world: World, pick: random.Random) -> None:
    pod = any_pod(world, pick, pick.choice(("driver", "executor")))
    if pod is not None:
        world.objects.delete(
            PODS, NAMESPACE, pod["metadata"]["name"], "tenant", DeleteCondition(grace=pick.choice((None, 5)))
        )


def forge_report(world: World, pick: random.Random) -> None:
    """A pod of the app writes what it likes, within what can be."""
    name = any_name(pick)
    app = world.app(name)
    status = {} if app is None else app.get("status") or {}
    report = report_name(name, status.get("runId", "1"))
    if world.objects.get(MAPS, NAMESPACE, report) is not None:
        forged = pick.choice(("", "{}", "[]", json.dumps({"attempt": status.get("attempt") or 1, "at": 0})))
        world.objects.patch(MAPS, NAMESPACE, report, {"data": {REPORT_KEY: forged}}, "tenant")


def forge_number(world: World, pick: random.Random) -> None:
    """A pod of the app says that a far later attempt runs."""
    name = any_name(pick)
    status = (world.app(name) or {}).get("status") or {}
    report = report_name(name, status.get("runId", "1"))
    if world.objects.get(MAPS, NAMESPACE, report) is not None:
        forged = {"attempt": pick.choice((2**63 - 1, 2**62, 10**10)), "at": world.clock(), "tasks": 4}
        world.objects.patch(MAPS, NAMESPACE, report, {"data": {REPORT_KEY: json.dumps(forged)}}, "tenant")


def foreign_set(world: World, pick: random.Random) -> None:
    """A pod of somebody's StatefulSet bears the labels of an app."""
    name, number = any_name(pick), pick.getrandbits(16)
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


def bound_input(world: World, pick: random.Random) -> None:
    """The app's input has an end, or none."""
    name, bounded = any_name(pick), pick.random() < 0.7
    app = world.app(name)
    if app is not None:
        first, *other_streams = app["spec"]["streams"]
        completion = pick.choice(("Release", "Keep", None))
        edit(world, name, streams=[{**first, "bounded": bounded}, *other_streams], state={"onCompletion": completion})


def log_in(world: World, pick: random.Random) -> None:
    """The app's brokers want a login, which is in a Secret, or want none any more."""
    kafka: Tree = {"bootstrapServers": "kafka:9092"} | ({"secretName": LOGIN} if pick.random() < 0.7 else {})
    edit(world, any_name(pick), systems=[{"name": "events", "kafka": kafka}])


def change_login(world: World, pick: random.Random) -> None:
    """The Secret is made, changed or deleted."""
    secret, password = world.objects.get(SECRETS, NAMESPACE, LOGIN), base64.b64encode(pick.randbytes(8)).decode()
    if secret is None:
        made = {"metadata": {"name": LOGIN}, "data": {"sasl.password": password}}
        world.objects.create(SECRETS, NAMESPACE, made, "tenant")
    elif pick.random() < 0.5:
        world.objects.patch(SECRETS, NAMESPACE, LOGIN, {"data": {"sasl.password": password}}, "tenant")
    else:
        world.objects.delete(SECRETS, NAMESPACE, LOGIN, "tenant")


def spoil_policy(world: World, pick: random.Random) -> None:
    """A NetworkPolicy of an app is opened or deleted."""
    app = world.app(any_name(pick))
    name = "" if app is None else policy_name(app["metadata"]["name"], app["metadata"]["uid"])
    if world.objects.get(POLICIES, NAMESPACE, name) is None:
        return
    if pick.random() < 0.5:
        world.objects.patch(POLICIES, NAMESPACE, name, {"spec": {"egress": [{}]}}, "tenant")
    else:
        world.objects.delete(POLICIES, NAMESPACE, name, "tenant")


def foreign_policy(world: World, pick: random.Random) -> None:
    """Somebody's own NetworkPolicy has the name of an app's, for a while."""
    app = world.app(any_name(pick))
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
