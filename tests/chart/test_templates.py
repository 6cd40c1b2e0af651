"""What the chart makes of values, without an API server."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from ruamel.yaml import YAML

from holdfast.protocol.metrics import METRICS_PORT, METRICS_PORT_NAME
from holdfast.protocol.names import APP_LABEL, TRIAL_LABEL
from holdfast.spec.runtime import Checkpoint
from holdfast_cli.dashboards import dashboards
from holdfast_cli.generated import leaves
from holdfast_operator.manifests.driver_pod import Installation, driver_pod
from holdfast_operator.manifests.network_policy import AppNetwork, read_app_network
from holdfast_operator.manifests.release_defaults import read_release_defaults
from tests.chart.helms import HelmError
from tests.chart.rendered import CHART, NAMESPACE, RELEASE, Tree, one, rendered, renderer, trees
from tests.chart.rights import aggregated, granted, rights
from tests.operator.test_driver_pod import OWNER, app
from tests.operator.test_network_policy import DEFAULT

ROOT = CHART.parents[1]
SCHEMA = json.loads((CHART / "values.schema.json").read_text())
VALUES = YAML(typ="safe").load((CHART / "values.yaml").read_text())
APPS = "templates/rbac-apps.yaml"
MONITOR = "metrics.serviceMonitor"
EVERYTHING = (
    "replicas=3", "runAsUser=1000680000", f"{MONITOR}.enabled=true", f"{MONITOR}.labels.release=prom",
    "image.pullSecrets={one,two}", "runtime.image.pullSecrets={three}", "priorityClassName=high",
    "nodeSelector.disk=ssd", "tolerations[0].operator=Exists", "affinity.nodeAffinity.x=y", "podLabels.team=streams",
    "podAnnotations.note=yes", "topologySpreadConstraints[0].maxSkew=1", "watchNamespaces={b,a}", "global.any=thing",
    "networkPolicy.metricsFrom[0].namespaceSelector.matchLabels.a=b", "networkPolicy.extraEgress[0].ports[0].port=1",
    "networkPolicy.apiServerCidrs={10.96.0.1/32}", "apps.networkPolicy.egress=open",
    "serviceAccount.annotations.a=b", "runtime.serviceAccount.annotations.a=b",
    "service.annotations.a=b", "rbac.secretNames={kafka-auth}", "nodes.watch=false", "crds.install=false",
    "nodes.lostAfter=120", "storageClasses.read=false", "rbac.aggregate=false", "apps.podTemplates=any",
    "apps.serviceAccounts={loader,*}", "apps.nodeState=true",
    "apps.defaults.checkpoint.location=s3a://bucket/apps", "apps.namespaceDefaults.team.storageClass=fast",
    "kafka.allowed={*.kafka.svc:9092,[fd00::/8]:9092-9098}",
    "metrics.podMonitor.enabled=true", "metrics.podMonitor.labels.release=prom", "metrics.rules.enabled=true",
    "metrics.rules.labels.release=prom", "metrics.dashboards.enabled=true", "ui.enabled=true",
    "ui.serviceAccount.name=viewer",
)  # fmt: skip
REFUSED = {
    "replica=2": "'replica'",
    "image.tags=x": "'tags'",
    "image.pullPolicy=Sometimes": "pullPolicy",
    "image.digest=latest": "digest",
    "runtime.image.registry=x": "'registry'",
    "metrics.port=80": "port",
    "metrics.port=all": "port",
    "replicas=-1": "replicas",
    "watchNamespaces=apps": "watchNamespaces",
    "watchNamespaces={Apps}": "watchNamespaces",
    "watchNamespaces={a,a}": "watchNamespaces",
    "nodes.watch=maybe": "watch",
    "nodes.lostAfter=0": "lostAfter",
    "topics.every=0": "every",
    "apps.podTemplates=privileged": "podTemplates",
    "apps.serviceAccounts={Loader}": "serviceAccounts",
    "apps.nodeState=maybe": "nodeState",
    "apps.defaults.checkpoint.location=bucket": "location",
    "apps.defaults.checkpoint.retention=1h": "location or claim",
    "apps.defaults.image=x": "'image'",
    "apps.namespaceDefaults.team.checkpoint.claim=A": "claim",
    "networkPolicy.kafkaPorts={70000}": "kafkaPorts",
    "networkPolicy.kafkaPorts={}": "kafkaPorts",
    "networkPolicy.kafkaPorts=null": "kafkaPorts",
    "networkPolicy.apiServerPorts=null": "apiServerPorts",
    "networkPolicy.apiServerCidrs={kubernetes}": "apiServerCidrs",
    "apps.networkPolicy.egress=closed": "egress",
    "apps.networkPolicy.stores=null": "stores",
    "kafka.allowed=kafka:9092": "allowed",
    "kafka.allowed={kafka 9092}": "allowed",
    "runAsUser=0": "runAsUser",
    "ui.enabled=maybe": "enabled",
    "ui.port=8080": "'port'",
    "ui.resources.request=1": "'request'",
    "metrics.port=8080": "must differ",
    "metrics.rules.defaults.stateFull=2": "stateFull",
    "metrics.rules.defaults.behindFor=soon": "behindFor",
    "metrics.rules.defaults.quiet=1": "quiet",
}


@pytest.fixture(params=[3, 4], ids=["helm 3", "helm 4"])
def major(request: pytest.FixtureRequest) -> int:
    return int(request.param)


def test_the_linter_has_nothing_to_say(major: int) -> None:
    output = renderer(major)("lint", "--strict", str(CHART))
    assert "WARNING" not in output


def test_both_helms_make_the_same(major: int) -> None:
    def key(tree: Tree) -> tuple[str, str]:
        return tree["kind"], tree["metadata"]["name"]

    assert sorted(rendered(major=major), key=key) == sorted(rendered(), key=key)


@pytest.mark.parametrize("setting", REFUSED)
def test_a_value_that_means_nothing_is_refused_by_name(setting: str, major: int) -> None:
    with pytest.raises(HelmError, match=REFUSED[setting]):
        rendered(setting, major=major)


def test_everything_can_be_set_at_once(major: int) -> None:
    manifests = rendered(*EVERYTHING, major=major)
    kinds = {tree["kind"] for tree in manifests}
    assert {"PodDisruptionBudget", "ServiceMonitor", "NetworkPolicy", "PodMonitor", "PrometheusRule"} <= kinds
    assert not {"CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding"} & kinds
    pod = one(manifests, "Deployment", "hold-holdfast")["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsUser"] == 1000680000
    assert pod["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"]["app.kubernetes.io/instance"] == RELEASE
    assert {
        "--namespace=a", "--namespace=b", "--no-nodes", "--pull-secret=three", "--lost-after=120",
        "--pod-templates=any", "--app-service-account=loader", "--app-service-account=*", "--node-state",
        "--kafka-allowed=*.kafka.svc:9092", "--kafka-allowed=[fd00::/8]:9092-9098",
    } <= set(pod["containers"][0]["args"])  # fmt: skip
    binding = one(manifests, "ValidatingAdmissionPolicyBinding", "hold-system-hold-holdfast")["spec"]
    (bound,) = binding["matchResources"]["namespaceSelector"]["matchExpressions"]
    assert bound["values"] == ["a", "b"]
    assert [tree["metadata"]["namespace"] for tree in trees_of(manifests, "Role", "holdfast-operator")] == ["a", "b"]
    (secrets,) = [rule for rule in rules(manifests) if rule["resources"] == ["secrets"] and rule.get("resourceNames")][
        :1
    ]
    assert secrets["resourceNames"] == ["kafka-auth"]
    (server,) = [
        rule
        for rule in one(manifests, "NetworkPolicy", "hold-holdfast")["spec"]["egress"]
        if {"protocol": "TCP", "port": 6443} in rule["ports"]
    ]
    assert server["to"] == [{"ipBlock": {"cidr": "10.96.0.1/32"}}]
    assert app_network(manifests).open


def test_nothing_of_what_is_switched_off_is_made() -> None:
    off = (
        "apps.requirePodRights",
        "apps.limitDrivers",
        "networkPolicy.enabled",
        "rbac.create",
        "serviceAccount.create",
        "runtime.serviceAccount.create",
    )
    manifests = [tree for tree in rendered(*(f"{one}=false" for one in off)) if not hooked(tree)]
    assert {tree["kind"] for tree in manifests} == {"CustomResourceDefinition", "Service", "Deployment"}
    assert one(manifests, "Deployment")["spec"]["template"]["spec"]["serviceAccountName"] == "default"
    manifests = rendered("metrics.port=0")
    assert [port["name"] for port in one(manifests, "Service")["spec"]["ports"]] == ["health"]
    assert len(one(manifests, "NetworkPolicy")["spec"]["ingress"]) == 1


def test_the_operators_policy_names_each_port() -> None:
    for settings in ((), EVERYTHING):
        spec = one(rendered(*settings), "NetworkPolicy", "hold-holdfast")["spec"]
        for rule in (*spec["ingress"], *spec["egress"]):
            assert rule["ports"]
            assert not [port for port in rule["ports"] if "endPort" in port or "port" not in port]


def test_what_apps_may_reach_is_told_to_the_operator() -> None:
    assert app_network(rendered()) == DEFAULT
    network = app_network(
        rendered(
            "networkPolicy.apiServerCidrs={10.96.0.1/32}",
            "networkPolicy.dnsPorts={53,5353}",
            "apps.networkPolicy.extraIngress[0].ports[0].port=4040",
            "apps.networkPolicy.extraEgress[0].ports[0].port=8080",
        )
    )
    assert network == replace(
        DEFAULT,
        dns_ports=(53, 5353),
        api_server=({"ipBlock": {"cidr": "10.96.0.1/32"}},),
        ingress=({"ports": [{"port": 4040}]},),
        egress=({"ports": [{"port": 8080}]},),
    )


def test_without_policies_of_apps_there_is_no_right_to_them() -> None:
    manifests = rendered("apps.networkPolicy.enabled=false")
    assert not [right for right in granted(manifests, "hold-holdfast") if right.resource == "networkpolicies"]
    assert not [word for word in operator_arguments(manifests) if word.startswith("--app-network")]


def test_what_apps_get_is_told_to_the_operator() -> None:
    assert not [word for word in operator_arguments(rendered()) if word.startswith("--app-defaults")]
    (text,) = [
        word.partition("=")[2]
        for word in operator_arguments(
            rendered(
                "apps.defaults.checkpoint.claim=checkpoints",
                "apps.defaults.storageClass=local",
                "apps.namespaceDefaults.team.checkpoint.location=s3a://team/apps",
            )
        )
        if word.startswith("--app-defaults=")
    ]
    defaults = read_release_defaults(text)
    assert (defaults.of("default").checkpoint, defaults.of("default").storage_class) == (
        Checkpoint(claim="checkpoints"),
        "local",
    )
    assert (defaults.of("team").checkpoint, defaults.of("team").storage_class) == (
        Checkpoint(location="s3a://team/apps"),
        "local",
    )


def operator_arguments(manifests: list[Tree]) -> list[str]:
    (container,) = one(manifests, "Deployment", "hold-holdfast")["spec"]["template"]["spec"]["containers"]
    return list(container["args"])


def app_network(manifests: list[Tree]) -> AppNetwork:
    (text,) = [word.partition("=")[2] for word in operator_arguments(manifests) if word.startswith("--app-network=")]
    return read_app_network(text)


def test_no_right_is_a_star(major: int) -> None:
    manifests = rendered(major=major) + rendered(*EVERYTHING, major=major)
    assert not [rule for rule in rules(manifests) if "*" in json.dumps(rule)]
    assert not [rule for rule in rules(manifests) if "nonResourceURLs" in rule]


def test_apps_get_restricted_pods_unless_somebody_says_otherwise() -> None:
    (container,) = one(rendered(), "Deployment")["spec"]["template"]["spec"]["containers"]
    assert "--pod-templates=restricted" in container["args"]
    assert not [word for word in container["args"] if word.startswith(("--app-service-account", "--node-state"))]


@pytest.mark.parametrize(
    ("settings", "namespaces"),
    [
        ((), [NAMESPACE]),
        (("watchNamespaces={b,a}",), ["a", "b"]),
        (("appNamespaces={c}",), ["c"]),
        (("watchNamespaces={b,a}", "appNamespaces={b}"), ["b"]),
    ],
)
def test_the_account_of_apps_is_where_apps_are(settings: tuple[str, ...], namespaces: list[str]) -> None:
    manifests = rendered(*settings, only=APPS)
    for kind in ("ServiceAccount", "Role", "RoleBinding"):
        assert [tree["metadata"]["namespace"] for tree in trees_of(manifests, kind, "holdfast-app")] == namespaces


def test_a_namespace_of_apps_that_nobody_watches_is_refused(major: int) -> None:
    with pytest.raises(HelmError, match="appNamespaces names c, which watchNamespaces does not"):
        rendered("watchNamespaces={a,b}", "appNamespaces={a,c}", major=major)


def test_a_digest_counts_over_a_tag() -> None:
    digest = f"sha256:{'a' * 64}"
    manifests = rendered("image.tag=x", f"image.digest={digest}", "runtime.image.tag=y")
    (container,) = one(manifests, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"holdfast/operator@{digest}"
    assert "--image=holdfast/runtime:y" in container["args"]


def test_long_names_stay_names() -> None:
    release = "r" * 53
    text = renderer()("template", release, str(CHART), "--namespace", "n" * 63, "--set", "ui.enabled=true")
    names = [(tree["kind"], tree["metadata"]["name"]) for tree in trees(text)]
    assert all(len(name) <= (63 if kind in ("Service", "Pod", "Deployment") else 253) for kind, name in names)


def test_the_crd_is_the_projects_own() -> None:
    crd = one(rendered(), "CustomResourceDefinition")
    source = YAML(typ="safe").load((ROOT / "crds" / "streamapps.holdfast.dev.yaml").read_text())
    assert crd["spec"] == source["spec"]
    assert crd["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}


def test_the_values_are_those_with_a_default_and_a_sentence() -> None:
    described = [path for path, _, description in leaves(SCHEMA, VALUES) if description.endswith(".")]
    assert described == [path for path, _, _ in leaves(SCHEMA, VALUES)]
    assert all(node["additionalProperties"] is False for node in objects(SCHEMA) if "properties" in node)
    assert set(described) == set(paths(VALUES, set(described)))


def test_every_right_has_its_reason_in_the_docs() -> None:
    rows = [line.split("|") for line in (ROOT / "docs" / "install.md").read_text().splitlines()]
    documented = {(row[1].strip(" `"), *sorted(row[2].strip().split(", "))) for row in rows if _verbs(row)}
    manifests, required = rendered("ui.enabled=true"), set()
    people = [set(rights(rule)) for role in aggregated(manifests) for rule in role["rules"]]
    accounts = (granted(manifests, name) for name in ("hold-holdfast", "holdfast-app", "hold-holdfast-ui"))
    for role_rights in (*accounts, *people):
        for resource in {right.resource for right in role_rights}:
            required.add((resource, *sorted(right.verb for right in role_rights if right.resource == resource)))
    assert sorted(documented) == sorted(required)


def _verbs(row: list[str]) -> bool:
    """Whether it is a row of a table of rights."""
    verbs = {"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}
    return len(row) == 5 and set(row[2].strip().split(", ")) <= verbs


def rules(manifests: list[Tree]) -> list[Tree]:
    return [rule for tree in manifests if tree["kind"] in ("Role", "ClusterRole") for rule in tree["rules"]]


def trees_of(manifests: list[Tree], kind: str, name: str) -> list[Tree]:
    return [tree for tree in manifests if tree["kind"] == kind and tree["metadata"]["name"] == name]


def hooked(tree: Tree) -> bool:
    return "helm.sh/hook" in (tree["metadata"].get("annotations") or {})


def objects(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield schema
    for inner in (schema.get("properties") or {}).values():
        yield from objects(inner)


def paths(values: dict[str, Any], leaf: set[str], path: str = "") -> Iterator[str]:
    for name, value in values.items():
        if f"{path}{name}" in leaf or not isinstance(value, dict):
            yield f"{path}{name}"
        else:
            yield from paths(value, leaf, f"{path}{name}.")


def test_monitors_of_drivers_find_what_the_operator_makes() -> None:
    manifests = rendered("metrics.podMonitor.enabled=true", "networkPolicy.metricsFrom[0].podSelector.matchLabels.a=b")
    monitor = one(manifests, "PodMonitor", "hold-holdfast-apps")["spec"]
    pod = driver_pod(app(), 1, OWNER, Installation("registry/holdfast:1"))
    assert monitor["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    assert [rule["key"] for rule in monitor["selector"]["matchExpressions"]] == [APP_LABEL, TRIAL_LABEL]
    (endpoint,) = monitor["podMetricsEndpoints"]
    assert endpoint["port"] == METRICS_PORT_NAME
    assert "honorLabels" not in endpoint
    assert monitor["namespaceSelector"] == {"any": True}
    (operator,) = one(manifests, "PodMonitor", "hold-holdfast")["spec"]["podMetricsEndpoints"]
    assert operator["honorLabels"] is True
    ports = [{"protocol": "TCP", "port": METRICS_PORT}]
    assert app_network(manifests).ingress == ({"ports": ports, "from": [{"podSelector": {"matchLabels": {"a": "b"}}}]},)
    assert app_network(rendered()).ingress == ()


def test_the_operator_is_scraped_once() -> None:
    manifests = rendered("metrics.podMonitor.enabled=true", f"{MONITOR}.enabled=true", "watchNamespaces={b,a}")
    assert [tree["metadata"]["name"] for tree in manifests if tree["kind"] == "PodMonitor"] == ["hold-holdfast-apps"]
    monitor = one(manifests, "PodMonitor")["spec"]
    assert monitor["namespaceSelector"] == {"matchNames": ["a", "b"]}
    (endpoint,) = one(manifests, "ServiceMonitor")["spec"]["endpoints"]
    assert endpoint["honorLabels"] is True


def test_dashboards_come_as_they_are_with_the_sidecars_label() -> None:
    manifests = rendered("metrics.dashboards.enabled=true")
    maps = [
        tree for tree in manifests if tree["kind"] == "ConfigMap" and "grafana_dashboard" in tree["metadata"]["labels"]
    ]
    assert {name: text for tree in maps for name, text in tree["data"].items()} == {
        f"{name}.json": text for name, text in dashboards().items()
    }
