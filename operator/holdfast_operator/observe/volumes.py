"""Why: a claim is given up only if its volume can be reached from no node but lost ones; the volume itself says so.

A volume of a zone, or of the network, outlives its node, whatever node it was made for; one that was made by hand on a
node's disk does not, whoever made it. Must not ask for anything.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from holdfast_operator.cluster.nodes import HOST, Nodes

StorageTree = dict[str, Any]
MADE_FOR = "volume.kubernetes.io/selected-node"
"""By this annotation of a claim the scheduler says for which node a volume is to be made."""


def out_of_reach(claim: StorageTree, volume: StorageTree | None, nodes: Nodes) -> bool:
    """Whether only lost nodes reach what this claim is bound to, or would be."""
    made_for = (claim["metadata"].get("annotations") or {}).get(MADE_FOR)
    if not (claim.get("spec") or {}).get("volumeName"):
        return isinstance(made_for, str) and nodes.lost(made_for)
    spec = (volume or {}).get("spec") or {}
    terms = ((spec.get("nodeAffinity") or {}).get("required") or {}).get("nodeSelectorTerms") or []
    return bool(terms) and all(_only_lost(term, made_for, nodes) for term in terms)


def _only_lost(term: StorageTree, made_for: object, nodes: Nodes) -> bool:
    """One of the requirements of a term is enough: all of them must hold."""
    return any(all(nodes.lost_host(name) for name in names) for names in _nodes_of(term, made_for, nodes))


def _nodes_of(term: StorageTree, made_for: object, nodes: Nodes) -> Iterator[Iterable[str]]:
    """The nodes that each requirement of a term names, as far as it names nodes.

    Drivers of volumes have labels of their own for a node, e.g. `topology.topolvm.io/node`; its value tells it from a
    zone.
    """
    fields = [(True, one) for one in term.get("matchFields") or ()]
    labels = [(one.get("key") == HOST, one) for one in term.get("matchExpressions") or ()]
    for of_nodes, one in [*fields, *labels]:
        values = [str(value) for value in one.get("values") or ()]
        named = of_nodes or all(value == made_for or nodes.known(value) for value in values)
        if one.get("operator") == "In" and values and named:
            yield values
