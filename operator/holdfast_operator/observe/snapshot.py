"""The gathering of a snapshot: all reads of one look, so that a decision rests on one moment.

A look starts from the cache of watches, which may be late. So absence is verified with the API server: in every look
for a driver that was seen before and is not cached. When `live`, the app, its pods and its report are read from the API
server, and corrected in the cache. Objects without a watch (Secrets, the record, the attempt's ConfigMap, executors'
locations) are read when needed. A fact that can't be read becomes `Unknown`, with the reason. Must not decide.
"""

import base64
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from pydantic import ValidationError

from holdfast.api_answers import ApiUnreachableError
from holdfast.errors import HoldfastError
from holdfast.one_line import one_line, printable
from holdfast.protocol.names import (
    APP_LABEL,
    FINALIZER,
    SPARK_APP_LABEL,
    app_id,
    attempt_in,
    attempt_name,
    executor_set,
    executor_set_in,
    is_run_claim,
    report_name,
    trial_in,
)
from holdfast.protocol.pods import PodController, PodPhase, PodState, pod_state
from holdfast.protocol.report import DriverReport, report_in
from holdfast.spec.app import Status, StreamApp
from holdfast.times import moment
from holdfast.trees import Tree
from holdfast_operator.cluster import (
    APP,
    CLAIM,
    CONFIG_MAP,
    NODE,
    POD,
    SECRET,
    STATEFUL_SET,
    Cluster,
)
from holdfast_operator.decide.facts import (
    AppFinding,
    AppKey,
    AppObject,
    ExecutorLocations,
    Observed,
    ParsedSpec,
    Snapshot,
    Unknown,
)
from holdfast_operator.manifests.driver_pod import APP_KEY, secrets_needed
from holdfast_operator.manifests.pod_templates import mounted_claims
from holdfast_operator.observe.cache import WatchCache
from holdfast_operator.observe.placement import PlacementRecords, read_executor_locations
from holdfast_operator.observe.storage_classes import StorageClasses

T = TypeVar("T")
SecretSettings = Mapping[str, Mapping[str, str]]
"""Secret name -> the settings in it."""
CountsSource = Callable[[AppKey, StreamApp, SecretSettings], Mapping[str, int | None] | Unknown]


@dataclass(frozen=True, slots=True)
class SnapshotSources:
    """The sources of a snapshot's facts."""

    cluster: Cluster
    cache: WatchCache
    counts: CountsSource
    """Returns the partition counts of an app's topics."""
    records: PlacementRecords
    storage: StorageClasses
    told: Callable[[AppKey, str, str], Awaitable[StreamApp | None]]
    """Returns the app in the text of an attempt's ConfigMap, given key and uid of the app."""


async def find_app(world: SnapshotSources, key: AppKey, *, live: bool) -> Tree | None:
    """Return the app as a tree, from the cache unless `live`; None: it does not exist."""
    cached = None if live else world.cache.app(key)
    if cached is not None:
        return cached
    tree = await world.cluster.get(APP, key.namespace, key.name)
    if tree is None:
        world.cache.distrust_app(key)
    else:
        world.cache.read_app(tree)
    return tree


async def gather(
    world: SnapshotSources, app: AppObject, spec: ParsedSpec, refused: AppFinding | None, now: int, *, live: bool
) -> Snapshot:
    """Return all facts for a decision about this app. `live`: read them from the API server."""
    key, status = AppKey(app.namespace, app.name), app.status
    started = _attempt(app.name, status) if status.had_driver else None
    pods = await _tried(_listed(world, key, started) if live else _watched(world, key, started))
    runs_over = _runs_over(app)
    sets = {run: await _tried(_executor_set(world, key, run)) for run in runs_over}
    claimed = frozenset([run for run in runs_over if sets[run] is not None or await _has_claims(world, key, run)])
    readable_sets = {run: maker for run, maker in sets.items() if isinstance(maker, PodController)}
    if isinstance(pods, Unknown):
        return Snapshot(app, driver=pods, executors=pods, other_drivers=pods, refused=refused, claimed=claimed)
    report = await _tried(_report(world, key, status.run_id, live=live))
    snapshot = replace(
        with_pods(app, pods), report=report, refused=refused, claimed=claimed, executor_sets=readable_sets
    )
    if isinstance(snapshot.driver, PodState):
        news = snapshot.driver.uid, report.at if isinstance(report, DriverReport) else None
        snapshot = replace(snapshot, silence=world.cache.silence(key, news, now))
    return snapshot if spec.app is None else await _with_spec(world, snapshot, spec.app, spec.fingerprint, live=live)


def with_pods(app: AppObject, pods: Mapping[str, PodState]) -> Snapshot:
    """Return the snapshot of an app with those of these pods that are its drivers and executors.

    Their names say what they are, and the number of an attempt: labels can be put on other pods, or changed.
    """
    current, drivers, strangers = _attempt(app.name, app.status), dict[str, PodState](), list[PodState]()
    for pod in pods.values():
        if (named := attempt_in(app.name, pod.name)) is None:
            continue
        driver = replace(pod, role="driver", attempt=named.attempt)
        # A pod with our driver's name but without our uid as its owner is not our driver.
        if pod.owner == app.uid:
            drivers[pod.name] = driver
        else:
            strangers.append(driver)
    trials = [pod for pod in pods.values() if trial_in(app.name, pod.name) and pod.owner == app.uid]
    executors = [replace(pod, role="executor") for pod in pods.values() if executor_set_in(app.name, pod.name)]
    return Snapshot(
        app,
        driver=None if current is None else drivers.pop(current, None),
        executors=tuple(executors),
        other_drivers=tuple(drivers.values()),
        trials=tuple(trials),
        strangers=tuple(strangers),
    )


async def _with_spec(
    world: SnapshotSources, snapshot: Snapshot, spec: StreamApp, fingerprint: str | None, *, live: bool
) -> Snapshot:
    """Return the snapshot with the facts that a valid spec is needed for."""
    key, run = AppKey(snapshot.app.namespace, snapshot.app.name), spec.spec.run_id
    last = snapshot.report if run == snapshot.app.status.run_id else await _tried(_report(world, key, run, live=live))
    if isinstance(last, Unknown):
        raise ApiUnreachableError(last.why)  # without it an attempt number could be used twice
    secrets = await _secrets(world, key, spec)
    running = await _running(world, key, snapshot.app, fingerprint)
    at_work = running if isinstance(running, StreamApp) else spec
    return replace(
        snapshot,
        orders_gone=await _orders_gone(world, key, snapshot.driver),
        record=await _tried(world.records.read(key, run, since=_news(snapshot.report), live=live)),
        running=running,
        counts=_counts(world, key, spec, secrets),
        missing=await _missing(world, key, spec, secrets),
        storage_class=await world.storage.of(spec, live=live),
        locations=await _tried(_locations(world, key, at_work, snapshot)),
        highest=_highest(snapshot, run, last),
    )


def app_object(tree: Tree) -> AppObject:
    """Return the app object; an invalid status counts as empty."""
    metadata = tree["metadata"]
    return AppObject(
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
    clean = "\\" not in repr(tree)  # which escapes all that is not printable
    try:
        return Status.model_validate((tree if clean else _printable(tree)) or {}, by_alias=True, by_name=False)
    except ValidationError:
        return Status()


def _printable(value: Any) -> Any:
    """Return the value with all its texts cleaned: others than the operator may write a status, and it is quoted."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, list):
        return [_printable(item) for item in value]
    return {name: _printable(item) for name, item in value.items()} if isinstance(value, dict) else value


async def _watched(world: SnapshotSources, key: AppKey, driver: str | None) -> Mapping[str, PodState]:
    """Return the cached pods; a driver that is not cached is read from the API server."""
    return await _with_node_states(world, await _with_driver(world, key, driver, world.cache.pods(key)))


async def _with_driver(
    world: SnapshotSources, key: AppKey, driver: str | None, pods: dict[str, PodState]
) -> dict[str, PodState]:
    """Return the pods and the driver, read by name if it is not among them: somebody may have taken its label off."""
    if driver is not None and driver not in pods:
        tree = await world.cluster.get(POD, key.namespace, driver)
        if tree is not None:
            pods[driver] = pod_state(tree)
    return pods


async def _listed(world: SnapshotSources, key: AppKey, driver: str | None) -> Mapping[str, PodState]:
    """Return all pods of an app, read from the API server."""
    listing = await world.cluster.listing(POD, key.namespace, {APP_LABEL: key.name})
    world.cache.listed_pods(key, listing.items, listing.version)
    pods = {pod.name: pod for pod in map(pod_state, listing.items)}
    return await _with_node_states(world, await _with_driver(world, key, driver, pods))


async def _with_node_states(world: SnapshotSources, pods: Mapping[str, PodState]) -> Mapping[str, PodState]:
    """Return the pods with the state of their nodes. A lost node is verified with the API server."""
    nodes = world.cache.nodes
    for name in sorted({pod.node for pod in pods.values() if pod.node is not None and nodes.lost(pod.node)}):
        nodes.saw(name, await world.cluster.get(NODE, None, name))
    return {name: world.cache.with_node_state(pod) for name, pod in pods.items()}


def _news(report: Observed[DriverReport]) -> object:
    """Return the parts of a report that change with the record: a driver writes the record before it reports them."""
    return (report.attempt, report.begun, report.assignment) if isinstance(report, DriverReport) else None


def _runs_over(app: AppObject) -> tuple[str, ...]:
    """Return the runs whose claims are to go."""
    run = None if app.deleting_since is None else app.status.run_id
    return app.status.left_runs if run is None else (*app.status.left_runs, run)


async def _executor_set(world: SnapshotSources, key: AppKey, run: str) -> PodController | None:
    """Return the StatefulSet of a run's executors, which a driver of the run has made."""
    name, spark_id = executor_set(key.name, run), app_id(key.name, run)
    tree = await world.cluster.get(STATEFUL_SET, key.namespace, name)
    if tree is None or "deletionTimestamp" in tree["metadata"]:
        return None
    drivers = (attempt_in(key.name, str(owner.get("name"))) for owner in tree["metadata"].get("ownerReferences") or ())
    ours = any(driver is not None and driver.app_id == spark_id for driver in drivers)
    return PodController(name, str(tree["metadata"]["uid"])) if ours else None


async def _has_claims(world: SnapshotSources, key: AppKey, run: str) -> bool:
    """Return whether a claim of a run may be there that nobody has deleted."""
    spark_id = app_id(key.name, run)
    claims = await _tried(world.cluster.find(CLAIM, key.namespace, {SPARK_APP_LABEL: spark_id}))
    return isinstance(claims, Unknown) or any(
        is_run_claim(spark_id, str(tree["metadata"]["name"])) and "deletionTimestamp" not in tree["metadata"]
        for tree in claims or ()
    )


async def _orders_gone(world: SnapshotSources, key: AppKey, driver: Observed[PodState]) -> bool:
    """Return whether the ConfigMap that a driver waits for is gone; its pod would wait for it for ever."""
    if not isinstance(driver, PodState) or driver.phase is not PodPhase.PENDING or driver.node is None:
        return False
    return await _tried(world.cluster.get(CONFIG_MAP, key.namespace, driver.name)) is None


async def _running(world: SnapshotSources, key: AppKey, app: AppObject, fingerprint: str | None) -> Observed[StreamApp]:
    """Return the app as given to the attempt; only needed if the spec has changed since."""
    name = _attempt(key.name, app.status)
    if name is None or app.status.spec_hash == fingerprint:
        return None
    tree = await _tried(world.cluster.get(CONFIG_MAP, key.namespace, name))
    if isinstance(tree, Unknown):
        return tree
    text = ((tree or {}).get("data") or {}).get(APP_KEY)
    return await world.told(key, app.uid, text) if isinstance(text, str) else None


def _attempt(app: str, status: Status) -> str | None:
    return None if status.attempt is None else attempt_name(app, status.run_id or "1", status.attempt)


def _highest(snapshot: Snapshot, run: str, last: DriverReport | None) -> int:
    names = [attempt_in(snapshot.app.name, pod.name) for pod in snapshot.pods]
    numbers = [name.attempt for name in names if name is not None and name.app_id == app_id(snapshot.app.name, run)]
    return max([*numbers, 0 if last is None else last.attempt])


async def _report(world: SnapshotSources, key: AppKey, run: str | None, *, live: bool) -> DriverReport | None:
    if run is None:
        return None
    name = report_name(key.name, run)
    if not live:
        return world.cache.reports.get((key.namespace, name))
    tree = await world.cluster.get(CONFIG_MAP, key.namespace, name)
    if tree is None:
        return None
    world.cache.read_report(tree)
    return report_in(tree)


async def _locations(
    world: SnapshotSources, key: AppKey, app: StreamApp, snapshot: Snapshot
) -> ExecutorLocations | None:
    """Return executors' locations, unless these executors are known to have the right assignment."""
    driver = snapshot.driver
    if not isinstance(driver, PodState):
        return None
    executors = [pod for pod in snapshot.pods if pod.role == "executor" and pod.attempt == driver.attempt]
    now = frozenset((pod.name, pod.uid, pod.works) for pod in executors)
    if not driver.works or not executors or driver.attempt is None or world.cache.assigned.get(key) == now:
        return None
    run, kind = app.spec.run_id, app.spec.state.location
    locations = await read_executor_locations(world.cluster, world.cache, key, run, driver.attempt, kind)
    handed = locations.handed
    stuck = any(pod.unschedulable is not None for pod in executors)  # its claim may turn out to be on a lost node
    same = (
        handed is not None
        and handed.attempt == driver.attempt
        and dict(handed.processors) == dict(locations.location_of)
    )
    if same and not stuck:
        world.cache.assigned[key] = now
    return locations


async def _secrets(world: SnapshotSources, key: AppKey, app: StreamApp) -> dict[str, dict[str, str] | None] | Unknown:
    """Return the Secrets that pods mount; None: it does not exist. The values only go to the Kafka client."""
    try:
        trees = {name: await world.cluster.get(SECRET, key.namespace, name) for name in secrets_needed(app)}
    except HoldfastError as error:
        return Unknown(one_line(error))
    return {name: None if tree is None else _settings(tree) for name, tree in trees.items()}


async def _missing(
    world: SnapshotSources, key: AppKey, app: StreamApp, secrets: Mapping[str, object] | Unknown
) -> tuple[str, ...] | Unknown:
    if isinstance(secrets, Unknown):
        return secrets
    claims = {name: await _tried(world.cluster.get(CLAIM, key.namespace, name)) for name in mounted_claims(app)}
    missing = [f"Secret {name}" for name, settings in secrets.items() if settings is None]
    # A claim that could not be read may be there: the scheduler will tell.
    return (*missing, *(f"PersistentVolumeClaim {name}" for name, tree in claims.items() if tree is None))


def _settings(tree: Tree) -> dict[str, str]:
    try:
        return {name: base64.b64decode(value).decode() for name, value in (tree.get("data") or {}).items()}
    except ValueError:
        return {}  # not client settings; the broker will say what is missing


def _counts(
    world: SnapshotSources, key: AppKey, app: StreamApp, secrets: Mapping[str, dict[str, str] | None] | Unknown
) -> Mapping[str, int | None] | Unknown:
    if isinstance(secrets, Unknown):
        return secrets
    return world.counts(key, app, {name: settings or {} for name, settings in secrets.items()})


async def _tried(reading: Awaitable[T]) -> T | Unknown:
    try:
        return await reading
    except HoldfastError as error:
        return Unknown(one_line(error))
