"""Why: one gatherer does all reading, so that a decision rests on one moment and everybody knows what it may rest on.

A look begins with what watches told. That may be late, so what would rest on absence is asked of the API server: the
driver of the attempt always, all else when `live`. What can't be read becomes `Unknown`, with the reason. Must not
decide.
"""

import base64
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import ValidationError

from holdfast.errors import HoldfastError
from holdfast.placement.driver_report import REPORT_KEY, Report, read_report
from holdfast.spec.app import StreamApp
from holdfast.spec.parse import SpecInvalidError, parse_app
from holdfast.spec.status import Status
from holdfast.tasks.record import Record
from holdfast_operator.cache import Cache, Key
from holdfast_operator.cluster import CONFIG_MAP, POD, SECRET, Cluster, ClusterUnreachableError
from holdfast_operator.conditions import moment
from holdfast_operator.driver_pod import APP_KEY, needed
from holdfast_operator.facts import FINALIZER, AppSeen, Finding, PodSeen, Seats, Seen, Snapshot, Unknown
from holdfast_operator.names import attempt_name, report_name
from holdfast_operator.pods import APP_LABEL, pod_seen
from holdfast_operator.records import Records
from holdfast_operator.seats import read_seats
from holdfast_operator.specs import Spec

Tree = dict[str, Any]
T = TypeVar("T")
Secrets = Mapping[str, Mapping[str, str]]
"""Name -> the settings in it."""
Counts = Callable[[Key, StreamApp, Secrets], Mapping[str, int | None] | Unknown]


@dataclass(frozen=True, slots=True)
class World:
    """Where facts come from."""

    cluster: Cluster
    cache: Cache
    counts: Counts
    """Partition counts of an app's topics, as they are watched."""
    records: Records


async def gather(world: World, tree: Tree, told: Spec, refused: Finding | None, *, live: bool) -> Snapshot:
    """Everything a decision about this app may rest on; `live`: nothing of it from watches alone."""
    app = app_seen(tree)
    key, status, spec = Key(app.namespace, app.name), app.status, told.app
    name = None if status.attempt is None else attempt_name(app.name, status.run_id or "1", status.attempt)
    pods = await _tried(_listed(world, key) if live else _watched(world, key, name if status.driver_uid else None))
    if isinstance(pods, Unknown):
        return Snapshot(app, driver=pods, executors=pods, others=pods)
    report = await _tried(_report(world, key, status.run_id, live=live))
    run = status.run_id if spec is None else spec.spec.run_id
    last = report if run == status.run_id else await _tried(_report(world, key, run, live=live))
    if spec is not None and isinstance(last, Unknown):
        raise ClusterUnreachableError(last.why)  # without it a number could be given twice
    secrets = {} if spec is None else await _secrets(world, key, spec)
    record: Seen[Record] = None
    # A driver writes the record before it says that it has begun, or that it has applied an assignment.
    since = (report.attempt, report.begun, report.assignment) if isinstance(report, Report) else None
    if spec is not None:
        record = await _tried(world.records.read(key, spec.spec.run_id, since=since, live=live))
    executors = tuple(pod for pod in pods.values() if pod.role == "executor")
    # A pod of our name that belongs to nobody, or to an app that was, is not our driver.
    drivers = {pod.name: pod for pod in pods.values() if pod.role == "driver" and pod.owner == app.uid}
    driver = None if name is None else drivers.get(name)
    return Snapshot(
        app=app,
        driver=driver,
        executors=executors,
        others=tuple(pod for pod in drivers.values() if pod.name != name),
        strangers=tuple(pod for pod in pods.values() if pod.role == "driver" and pod.owner != app.uid),
        running=None if spec is None else await _tried(_running(world, key, name, told, status)),
        counts={} if spec is None else _counts(world, key, spec, secrets),
        record=record,
        missing=secrets
        if isinstance(secrets, Unknown)
        else tuple(f"Secret {name}" for name, settings in secrets.items() if settings is None),
        report=report,
        seats=None if spec is None or driver is None else await _tried(_seats(world, key, spec, driver, executors)),
        highest=0 if spec is None else _highest(app.name, spec.spec.run_id, drivers, last),
        refused=refused,
    )


def app_seen(tree: Tree) -> AppSeen:
    """The object; a status that somebody else has spoilt counts as none."""
    metadata = tree["metadata"]
    return AppSeen(
        name=str(metadata["name"]),
        namespace=str(metadata["namespace"]),
        uid=str(metadata["uid"]),
        generation=int(metadata.get("generation") or 0),
        tree={name: tree[name] for name in ("apiVersion", "kind", "metadata", "spec") if name in tree},
        status=_status(tree.get("status")),
        deleting_since=moment(metadata.get("deletionTimestamp")),
        finalizer=FINALIZER in (metadata.get("finalizers") or ()),
        version=str(metadata.get("resourceVersion")),
    )


def _status(tree: object) -> Status:
    try:
        return Status.model_validate(tree or {}, by_alias=True, by_name=False)
    except ValidationError:
        return Status()


async def _watched(world: World, key: Key, driver: str | None) -> Mapping[str, PodSeen]:
    """The pods that watches told of; a driver they did not tell of is asked for."""
    pods = world.cache.pods(key)
    if driver is not None and driver not in pods:
        tree = await world.cluster.get(POD, key.namespace, driver)
        if tree is not None:
            pods[driver] = world.cache.placed(pod_seen(tree))
    return pods


async def _listed(world: World, key: Key) -> Mapping[str, PodSeen]:
    """All pods of an app, asked for."""
    trees = await world.cluster.find(POD, key.namespace, {APP_LABEL: key.name})
    seen = (world.cache.placed(pod_seen(tree)) for tree in trees)
    return {pod.name: pod for pod in seen}


async def _running(world: World, key: Key, name: str | None, told: Spec, status: Status) -> StreamApp | None:
    """What the attempt was told, which matters only where it is something else now."""
    if name is None or status.spec_hash == told.fingerprint:
        return None
    tree = await world.cluster.get(CONFIG_MAP, key.namespace, name)
    try:
        return None if tree is None else parse_app(json.loads(tree["data"][APP_KEY]))
    except (SpecInvalidError, KeyError, TypeError, ValueError):
        return None


def _highest(app: str, run: str, drivers: Mapping[str, PodSeen], last: Seen[Report]) -> int:
    numbers = [pod.attempt or 0 for pod in drivers.values() if pod.name == attempt_name(app, run, pod.attempt or 0)]
    return max([*numbers, last.attempt if isinstance(last, Report) else 0])


async def _report(world: World, key: Key, run: str | None, *, live: bool) -> Report | None:
    if run is None:
        return None
    name = report_name(key.name, run)
    cached = world.cache.reports.get((key.namespace, name))
    if cached is not None or not live:
        return cached
    tree = await world.cluster.get(CONFIG_MAP, key.namespace, name)
    return None if tree is None else read_report((tree.get("data") or {}).get(REPORT_KEY))


async def _seats(
    world: World, key: Key, app: StreamApp, driver: PodSeen, executors: tuple[PodSeen, ...]
) -> Seats | None:
    """Where executors are, if they are others than those that were found to be seated rightly."""
    mine = [pod for pod in executors if pod.attempt == driver.attempt]
    now = frozenset((pod.name, pod.uid, pod.works) for pod in mine)
    if not driver.works or not mine or driver.attempt is None or world.cache.seated.get(key) == now:
        return None
    run, kind = app.spec.run_id, app.spec.state.location
    seats = await read_seats(world.cluster, world.cache, key, run, driver.attempt, kind)
    handed = seats.handed
    if handed is not None and handed.attempt == driver.attempt and dict(handed.processors) == dict(seats.places):
        world.cache.seated[key] = now
    return seats


async def _secrets(world: World, key: Key, app: StreamApp) -> dict[str, dict[str, str] | None] | Unknown:
    """What pods mount; None: there is no such Secret. Their values go to the Kafka client and nowhere else."""
    try:
        found = {name: await world.cluster.get(SECRET, key.namespace, name) for name in needed(app)}
    except HoldfastError as error:
        return Unknown(str(error))
    return {name: None if tree is None else _settings(tree) for name, tree in found.items()}


def _settings(tree: Tree) -> dict[str, str]:
    try:
        return {name: base64.b64decode(value).decode() for name, value in (tree.get("data") or {}).items()}
    except ValueError:
        return {}  # no settings of a client; the broker will say what is missing


def _counts(
    world: World, key: Key, app: StreamApp, secrets: Mapping[str, dict[str, str] | None] | Unknown
) -> Mapping[str, int | None] | Unknown:
    if isinstance(secrets, Unknown):
        return secrets
    return world.counts(key, app, {name: settings or {} for name, settings in secrets.items()})


async def _tried(reading: Awaitable[T]) -> T | Unknown:
    try:
        return await reading
    except HoldfastError as error:
        return Unknown(str(error))
