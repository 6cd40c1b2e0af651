"""When a node is lost, and which volumes are lost with it."""

from collections.abc import Mapping
from typing import Any

import pytest

from holdfast_operator.manifests.pod_templates import with_node_tolerations
from holdfast_operator.observe.nodes import HOST, MADE_FOR, Nodes, out_of_reach
from tests.operator.apps import NOW

LOST_AFTER = 60_000
STAMP = "2027-01-15T08:00:00Z"  # NOW


def node(name: str, ready: str = "True", since: str = STAMP, **labels: str) -> dict[str, Any]:
    condition = {"type": "Ready", "status": ready, "lastTransitionTime": since}
    return {"metadata": {"name": name, "labels": labels}, "status": {"conditions": [condition]}}


def nodes(at: int, *trees: dict[str, Any], removed: tuple[str, ...] = ()) -> Nodes:
    now = NOW
    made = Nodes(LOST_AFTER, lambda: now)
    for tree in trees:
        made.saw(tree["metadata"]["name"], tree)
    for name in removed:
        made.saw(name, None)
    now = at
    return made


@pytest.mark.parametrize("ready", ["False", "Unknown"])
def test_a_silent_node_is_lost_exactly_after_its_time(ready: str) -> None:
    for after, lost in ((0, False), (LOST_AFTER - 1, False), (LOST_AFTER, True)):
        assert nodes(NOW + after, node("a", ready)).lost("a") is lost
    assert not nodes(NOW + 86_400_000, node("a")).lost("a")


def test_another_word_for_silence_does_not_restart_the_wait() -> None:
    of = nodes(NOW + LOST_AFTER, node("a", "False"), node("a", "Unknown", "2027-01-15T08:00:50Z"))
    assert of.lost("a")


def test_an_answer_for_a_moment_restarts_the_wait() -> None:
    later = "2027-01-15T08:00:50Z"
    assert not nodes(NOW + LOST_AFTER, node("a", "Unknown"), node("a"), node("a", "Unknown", later)).lost("a")


def test_a_missing_node_is_lost_as_late_and_may_return() -> None:
    for after, lost in ((LOST_AFTER - 1, False), (LOST_AFTER, True)):
        assert nodes(NOW + after, node("a"), node("b"), removed=("a",)).lost("a") is lost
    assert not nodes(NOW + 2 * LOST_AFTER, node("a"), removed=("a",)).lost("b")
    assert not nodes(NOW + LOST_AFTER, node("b"), node("a")).lost("a")


def test_who_sees_no_nodes_holds_none_for_lost() -> None:
    assert nodes(NOW).silent_since("a") is None
    assert not nodes(NOW + 86_400_000).lost("a")


def test_an_unknown_node_counts_from_when_it_was_asked_for() -> None:
    now = NOW
    of = Nodes(LOST_AFTER, lambda: now)
    of.saw("b", node("b"))
    assert of.silent_since("a") == NOW
    now = NOW + LOST_AFTER
    assert of.lost("a")
    of.saw("a", node("a"))
    assert not of.lost("a")


def tolerations(*users: dict[str, Any]) -> list[tuple[str, int | None]]:
    spec = {"tolerations": list(users)} if users else {}
    toleration_trees = with_node_tolerations({"spec": spec}, 60)["spec"]["tolerations"]
    return [(one.get("key", ""), one.get("tolerationSeconds")) for one in toleration_trees]


def test_pods_tolerate_silence_until_lost_unless_the_user_sets_it() -> None:
    ready, reach = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
    assert tolerations() == [(ready, 60), (reach, 60)]
    assert tolerations({"key": "gpu", "operator": "Exists"}) == [("gpu", None), (ready, 60), (reach, 60)]
    toleration = {"key": ready, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
    assert tolerations(toleration) == [(ready, 5), (reach, 60)]
    assert tolerations({"operator": "Exists"}) == [("", None)]
    assert tolerations({"key": ready, "operator": "Exists", "effect": "NoSchedule"}) == [
        (ready, None),
        (ready, 60),
        (reach, 60),
    ]


def expression(key: str, *values: str, operator: str = "In") -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def volume(*terms: Mapping[str, Any]) -> dict[str, Any]:
    return {"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": list(terms)}}} if terms else {}}


ZONE = "topology.kubernetes.io/zone"
VOLUMES = {
    "of a node's disk": (volume(expression(HOST, "a-host")), True),
    "of a node by its name": (
        volume({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}),
        True,
    ),
    "of a driver with a label of its own for nodes": (volume(expression("topology.topolvm.io/node", "a")), True),
    "of a node that is gone": (volume(expression(HOST, "gone")), True),
    "of a node, and in its zone": (
        volume(
            {
                "matchExpressions": [
                    *expression(ZONE, "z")["matchExpressions"],
                    *expression(HOST, "a-host")["matchExpressions"],
                ]
            }
        ),
        True,
    ),
    "of a zone": (volume(expression(ZONE, "z")), False),
    "of the network": (volume(), False),
    "of one of two nodes": (volume(expression(HOST, "a-host", "b-host")), False),
    "of another node": (volume(expression(HOST, "b-host")), False),
    "of either of two disks": (volume(expression(HOST, "a-host"), expression(HOST, "b-host")), False),
    "of all but a node": (volume(expression(HOST, "b-host", operator="NotIn")), False),
    "that was not found": (None, False),
}


@pytest.mark.parametrize("which", VOLUMES)
def test_a_claim_is_out_of_reach_with_only_lost_nodes(which: str) -> None:
    tree, lost = VOLUMES[which]
    labels: Any = {ZONE: "z"}
    of = nodes(
        NOW + LOST_AFTER,
        node("a", "Unknown", **labels, **{HOST: "a-host"}),
        node("b", **labels, **{HOST: "b-host"}),
        node("gone"),
        removed=("gone",),
    )
    claim: dict[str, Any] = {
        "metadata": {"name": "state-0", "annotations": {MADE_FOR: "a"}},
        "spec": {"volumeName": "pv"},
    }
    assert out_of_reach(claim, tree, of) is lost
    claim["metadata"].pop("annotations")
    assert out_of_reach(claim, tree, of) is lost


def test_an_unmade_volume_is_out_of_reach_with_its_node() -> None:
    of = nodes(NOW + LOST_AFTER, node("a", "Unknown"), node("b"))
    for name, lost in (("a", True), ("b", False)):
        assert out_of_reach({"metadata": {"annotations": {MADE_FOR: name}}, "spec": {}}, None, of) is lost
    assert not out_of_reach({"metadata": {}, "spec": {}}, None, of)
