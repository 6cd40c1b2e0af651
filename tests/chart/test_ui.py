"""The page of `holdfast ui` as the chart makes it: read only, and on no network."""

from typing import Any

import pytest

from tests.chart.rendered import CHART, NAMESPACE, Tree, one, rendered, renderer
from tests.chart.rights import Right, bound, granted

ON, NAME = "ui.enabled=true", "hold-holdfast-ui"
CLUSTER = f"{NAMESPACE}-{NAME}"
LOOKING = {
    Right("holdfast.dev", "streamapps", "get"),
    Right("holdfast.dev", "streamapps", "list"),
    Right("", "configmaps", "get"),
    Right("", "configmaps", "list"),
    Right("", "pods", "list"),
    Right("", "pods/log", "get"),
    Right("events.k8s.io", "events", "list"),
}
"""What docs/ui.md says that the page takes."""


def added(*settings: str) -> list[Tree]:
    """What is there with the page, and not without."""
    without = rendered(*settings)
    return [tree for tree in rendered(ON, *settings) if tree not in without]


def pod_of(manifests: list[Tree], name: str) -> dict[str, Any]:
    spec: dict[str, Any] = one(manifests, "Deployment", name)["spec"]["template"]["spec"]
    return spec


def container_of(manifests: list[Tree], name: str = NAME) -> dict[str, Any]:
    (container,) = pod_of(manifests, name)["containers"]
    return dict(container)


def places(manifests: list[Tree]) -> list[tuple[str, str | None]]:
    return [(binding["kind"], binding["metadata"].get("namespace")) for binding, _ in bound(manifests, NAME)]


def test_there_is_no_page_unless_it_is_wanted() -> None:
    assert not [tree for tree in rendered() if tree["metadata"]["name"] in (NAME, CLUSTER, "holdfast-ui")]
    assert sorted((tree["kind"], tree["metadata"]["name"]) for tree in added()) == [
        ("ClusterRole", CLUSTER),
        ("ClusterRoleBinding", CLUSTER),
        ("Deployment", NAME),
        ("NetworkPolicy", NAME),
        ("ServiceAccount", NAME),
    ]


@pytest.mark.parametrize(
    ("setting", "where"),
    [
        ("appNamespaces={c}", [("ClusterRoleBinding", None)]),
        ("watchNamespaces={b,a}", [("RoleBinding", "a"), ("RoleBinding", "b")]),
    ],
)
def test_it_may_look_where_the_operator_does(setting: str, where: list[tuple[str, str | None]]) -> None:
    manifests = rendered(ON, setting)
    assert granted(manifests, NAME) == LOOKING
    assert places(manifests) == where
    for _, role in bound(manifests, NAME):
        assert not [rule for rule in role["rules"] if "resourceNames" in rule]


def test_its_list_is_of_the_namespaces_it_may_see() -> None:
    words = ["--no-browser", "--port=8080"]
    assert container_of(rendered(ON))["args"] == [*words, "--all-namespaces"]
    assert container_of(rendered(ON, "watchNamespaces={b,a}"))["args"] == [*words, "--namespace=a", "--namespace=b"]


def test_nothing_leads_to_it_from_the_network() -> None:
    manifests = rendered(ON, "metrics.podMonitor.enabled=true", "replicas=2")
    labels = one(manifests, "Deployment", NAME)["spec"]["template"]["metadata"]["labels"]
    selectors = [tree["spec"]["selector"] for tree in manifests if tree["kind"] == "Service"]
    selectors += [
        tree["spec"]["selector"].get("matchLabels", {})
        for tree in manifests
        if tree["kind"] in ("PodMonitor", "PodDisruptionBudget")
    ]
    assert len(selectors) == 4
    assert not [selector for selector in selectors if selector.items() <= labels.items()]
    assert "ports" not in container_of(manifests)
    policy = one(manifests, "NetworkPolicy", NAME)["spec"]
    assert (policy["podSelector"]["matchLabels"], policy["policyTypes"]) == (labels, ["Ingress", "Egress"])
    assert "ingress" not in policy
    ports = {port["port"] for rule in policy["egress"] for port in rule["ports"]}
    assert ports == {53, 443, 6443}


def test_its_pod_is_as_closed_as_the_operators() -> None:
    for settings in ((), ("runAsUser=null", "nodeSelector.disk=ssd", "image.pullSecrets={one}")):
        manifests = rendered(ON, *settings)
        page, operator = pod_of(manifests, NAME), pod_of(manifests, "hold-holdfast")
        same = ("securityContext", "nodeSelector", "imagePullSecrets", "enableServiceLinks")
        assert [page.get(name) for name in same] == [operator.get(name) for name in same]
        container, operators_container = container_of(manifests), container_of(manifests, "hold-holdfast")
        for name in ("image", "securityContext"):
            assert container[name] == operators_container[name]
        assert "volumes" not in page
        assert container["resources"]["limits"]["memory"]


def test_accounts_and_rights_may_be_somebody_elses() -> None:
    nothing_made = ("rbac.create=false", "ui.serviceAccount.create=false", "networkPolicy.enabled=false")
    (deployment,) = added(*nothing_made)
    assert deployment["spec"]["template"]["spec"]["serviceAccountName"] == "default"
    (deployment,) = added(*nothing_made, "ui.serviceAccount.name=viewer")
    assert deployment["spec"]["template"]["spec"]["serviceAccountName"] == "viewer"


def test_both_helms_make_the_same_page() -> None:
    older, newer = (
        {(tree["kind"], tree["metadata"]["name"]): tree for tree in rendered(ON, major=major)} for major in (3, 4)
    )
    assert older == newer


def test_the_linter_has_nothing_to_say_of_it() -> None:
    assert "WARNING" not in renderer()("lint", "--strict", str(CHART), "--set", ON)
