"""Locations of executors, and volume claims that only lost nodes can reach, read from the API server.

Read only when the working executors have changed. A claim is given up only if its volume says that no node but lost
ones can reach it: a zonal or network volume outlives its node, whichever node it was created for; a volume on a node's
disk does not, even if created by hand. Must not decide.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from holdfast.placement.location import (
    LocationId,
    LocationMissingError,
    NodeFacts,
    PodFacts,
    PodNotScheduledError,
    location_of,
)
from holdfast.protocol.assignment import ASSIGNMENT_KEY, AssignmentInvalidError, VersionedAssignment, read_assignment
from holdfast.protocol.names import APP_LABEL, ATTEMPT_LABEL, ROLE_LABEL, assignment_name
from holdfast.protocol.pods import PodState, pod_state
from holdfast_operator.cluster.client import CLAIM, CONFIG_MAP, NODE, POD, VOLUME, Cluster
from holdfast_operator.cluster.nodes import HOST, Nodes
from holdfast_operator.decide.facts import AppKey, ExecutorLocations
from holdfast_operator.observe.cache import WatchCache

Tree = dict[str, Any]


async def read_executor_locations(
    cluster: Cluster, cache: WatchCache, key: AppKey, run: str, attempt: int, kind: str
) -> ExecutorLocations:
    """Return the locations of an attempt's executors, and the last assignment. `kind`: what a location is."""
    labels = {APP_LABEL: key.name, ATTEMPT_LABEL: str(attempt), ROLE_LABEL: "executor"}
    trees = await cluster.find(POD, key.namespace, labels)
    seen = [(tree, cache.placed(pod_state(tree))) for tree in trees]
    places, wrong = {}, ""
    for tree, pod in seen:
        if pod.works:
            try:
                places[pod.name] = str(await _place(cluster, tree, pod, kind))
            except (LocationMissingError, PodNotScheduledError) as error:
                wrong = str(error)
    stuck = [pod.claim for _, pod in seen if pod.unschedulable is not None and pod.claim is not None]
    return ExecutorLocations(places, await _handed(cluster, key, run), await _lost(cluster, cache, key, stuck), wrong)


async def _place(cluster: Cluster, tree: Tree, pod: PodState, kind: str) -> LocationId:
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


async def _lost(cluster: Cluster, cache: WatchCache, key: AppKey, claims: Iterable[str]) -> frozenset[str]:
    """Return the claims whose volume only lost nodes can reach; none if nodes are not watched."""
    lost = set()
    for name in claims if cache.nodes.told else ():
        claim = await cluster.get(CLAIM, key.namespace, name)
        if claim is None:
            continue
        of = (claim.get("spec") or {}).get("volumeName")
        volume = await cluster.get(VOLUME, None, of) if of else None
        if out_of_reach(claim, volume, cache.nodes):
            lost.add(name)
    return frozenset(lost)


StorageTree = dict[str, Any]
MADE_FOR = "volume.kubernetes.io/selected-node"
"""The annotation of a claim in which the scheduler names the node to create a volume for."""


def out_of_reach(claim: StorageTree, volume: StorageTree | None, nodes: Nodes) -> bool:
    """Return whether only lost nodes can reach the claim's volume, existing or still to be created."""
    made_for = (claim["metadata"].get("annotations") or {}).get(MADE_FOR)
    if not (claim.get("spec") or {}).get("volumeName"):
        return isinstance(made_for, str) and nodes.lost(made_for)
    spec = (volume or {}).get("spec") or {}
    terms = ((spec.get("nodeAffinity") or {}).get("required") or {}).get("nodeSelectorTerms") or []
    return bool(terms) and all(_only_lost(term, made_for, nodes) for term in terms)


def _only_lost(term: StorageTree, made_for: object, nodes: Nodes) -> bool:
    """Return whether a term admits only lost nodes; one such requirement is enough, as all must hold."""
    return any(all(nodes.lost_host(name) for name in names) for names in _nodes_of(term, made_for, nodes))


def _nodes_of(term: StorageTree, made_for: object, nodes: Nodes) -> Iterator[Iterable[str]]:
    """Yield the nodes that each requirement of a term names, if it names nodes.

    Volume drivers use their own node labels, e.g. `topology.topolvm.io/node`; the values tell whether it is a node or a
    zone.
    """
    fields = [(True, one) for one in term.get("matchFields") or ()]
    labels = [(one.get("key") == HOST, one) for one in term.get("matchExpressions") or ()]
    for of_nodes, one in [*fields, *labels]:
        values = [str(value) for value in one.get("values") or ()]
        named = of_nodes or all(value == made_for or nodes.known(value) for value in values)
        if one.get("operator") == "In" and values and named:
            yield values
