"""Where an app's tasks were and can be: its placement record and its executors' locations, from the API server.

The record is read with the core's own code. Locations are read only when the working executors have changed. Must not
decide, nor write: the driver writes the record.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from holdfast.one_line import one_line
from holdfast.placement.config_map_store import stored_in
from holdfast.placement.location import (
    LocationId,
    LocationMissingError,
    NodeFacts,
    PodFacts,
    PodNotScheduledError,
    location_of,
)
from holdfast.placement.metadata_store import object_name
from holdfast.placement.record_store import read_record, record_key
from holdfast.protocol.assignment import ASSIGNMENT_KEY, AssignmentInvalidError, VersionedAssignment, read_assignment
from holdfast.protocol.names import (
    APP_LABEL,
    ATTEMPT_LABEL,
    ROLE_LABEL,
    assignment_name,
    executor_set,
    executor_set_in,
    is_claim_of,
)
from holdfast.protocol.pods import PodState, pod_state
from holdfast.tasks.record import PlacementRecord
from holdfast.trees import Tree
from holdfast_operator.cluster import CLAIM, CONFIG_MAP, NODE, POD, VOLUME, Cluster
from holdfast_operator.decide.facts import AppKey, ExecutorLocations
from holdfast_operator.observe.cache import RecentValues, WatchCache
from holdfast_operator.observe.nodes import out_of_reach


@dataclass(frozen=True, slots=True)
class PlacementRecords:
    """Reads the records of all apps and caches recent ones."""

    cluster: Cluster
    _last: RecentValues[tuple[AppKey, str], tuple[PlacementRecord | None]] = field(default_factory=RecentValues)
    """Values are tuples, so that a missing record is cached too."""

    async def read(self, key: AppKey, run: str, *, since: object, live: bool) -> PlacementRecord | None:
        """Return the record of this run; None: there is none yet.

        Unless `live`, return the cached record if the driver's news (`since`) is the same as when it was read.
        """
        cached_record = None if live else self._last.get((key, run), since)
        if cached_record is None:
            cached_record = self._last.put((key, run), since, (await self._fresh(key, run),))
        return cached_record[0]

    async def _fresh(self, key: AppKey, run: str) -> PlacementRecord | None:
        stored_name = record_key(key.name, run)
        tree = await self.cluster.get(CONFIG_MAP, key.namespace, object_name(stored_name))
        return None if tree is None else read_record(key.name, run, stored_in(tree, stored_name).value)


async def read_executor_locations(
    cluster: Cluster, cache: WatchCache, key: AppKey, run: str, attempt: int, kind: str
) -> ExecutorLocations:
    """Return the locations of an attempt's executors, and the last assignment. `kind`: what a location is."""
    labels = {APP_LABEL: key.name, ATTEMPT_LABEL: str(attempt), ROLE_LABEL: "executor"}
    trees = await cluster.find(POD, key.namespace, labels)
    candidates = [(tree, cache.with_node_state(pod_state(tree))) for tree in trees]
    # Others may carry these labels too. Tasks that are given to such a pod would never run.
    executors = [
        (tree, pod) for tree, pod in candidates if executor_set_in(key.name, pod.name) == executor_set(key.name, run)
    ]
    locations, wrong = {}, ""
    for tree, pod in executors:
        if pod.works:
            try:
                locations[pod.name] = str(await _location(cluster, tree, pod, kind))
            except (LocationMissingError, PodNotScheduledError) as error:
                wrong = one_line(error)
    # A pod template can put a claim of the user's in place of the executor's own.
    claims = [(pod, pod.claim) for _, pod in executors if pod.claim is not None and is_claim_of(pod.name, pod.claim)]
    stuck = [claim for pod, claim in claims if pod.unschedulable is not None]
    return ExecutorLocations(
        locations, await _handed(cluster, key, run), await _lost(cluster, cache, key, stuck), wrong
    )


async def _location(cluster: Cluster, tree: Tree, pod: PodState, kind: str) -> LocationId:
    metadata = tree["metadata"]
    facts = PodFacts(
        pod.name,
        pod.uid,
        metadata["namespace"],
        metadata.get("labels") or {},
        metadata.get("annotations") or {},
        pod.claim,
    )
    return location_of(kind, facts, await _node(cluster, pod, kind))


async def _node(cluster: Cluster, pod: PodState, kind: str) -> NodeFacts | None:
    if pod.node is None:
        return None
    if "node.labels" not in kind and "node.annotations" not in kind:
        return NodeFacts(pod.node)
    tree = await cluster.get(NODE, None, pod.node)
    metadata = {} if tree is None else tree["metadata"]
    return NodeFacts(pod.node, metadata.get("labels") or {}, metadata.get("annotations") or {})


async def _handed(cluster: Cluster, key: AppKey, run: str) -> VersionedAssignment | None:
    tree = await cluster.get(CONFIG_MAP, key.namespace, assignment_name(key.name, run))
    if tree is None:
        return None
    try:
        return read_assignment((tree.get("data") or {}).get(ASSIGNMENT_KEY, ""))
    except AssignmentInvalidError:
        return None  # it was edited by hand; the next assignment replaces it


async def _lost(cluster: Cluster, cache: WatchCache, key: AppKey, claims: Iterable[str]) -> Mapping[str, str]:
    """Return the claims whose volume only lost nodes can reach, and their uids; none if nodes are not watched."""
    lost = {}
    for name in claims if cache.nodes.told else ():
        claim = await cluster.get(CLAIM, key.namespace, name)
        if claim is None:
            continue
        of = (claim.get("spec") or {}).get("volumeName")
        volume = await cluster.get(VOLUME, None, of) if of else None
        if out_of_reach(claim, volume, cache.nodes):
            lost[name] = str(claim["metadata"]["uid"])
    return lost
