"""Which pods an installation lets apps have. That the rules are Kubernetes' own: tests/api/test_pod_security.py."""

import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some
from ruamel.yaml import YAML

from holdfast.protocol.pods import MAIN
from holdfast.reasons import Reason
from holdfast.spec.parse import parse_app
from holdfast_operator.manifests.driver_pod import AppOwner, Installation, node_directory
from holdfast_operator.manifests.pod_policy import PodPolicy
from holdfast_operator.manifests.pod_security import PodProfile
from holdfast_operator.manifests.pod_templates import TemplateRefusedError, check_templates
from tests.operator.apps import TREE, app, condition, decided, seen, tree

RELEASE = Installation("registry/holdfast:1")
RESTRICTED, BASELINE, ANY = (PodPolicy(RELEASE, profile) for profile in PodProfile)
EXAMPLES = Path(__file__).parents[2] / "examples"
EXECUTOR = "spark.kubernetes.executor"


def runtime(**fields: Any) -> dict[str, Any]:
    return {"runtime": {**TREE["spec"]["runtime"], **fields}}


def against(policy: PodPolicy, **spec: Any) -> str:
    return "; ".join(policy.against(parse_app(tree(**spec))))


def of_template(policy: PodPolicy, part: str, **spec: Any) -> str:
    return against(policy, **runtime(**{part: {"podTemplate": {"spec": spec}}}))


def main(part: str, **fields: Any) -> dict[str, Any]:
    return {"containers": [{"name": MAIN[part], **fields}]}


def test_what_says_nothing_of_its_pods_is_allowed_everywhere() -> None:
    for policy in (RESTRICTED, BASELINE, ANY):
        for location in ("Claim", "Pod"):
            assert against(policy, state={"location": location}) == ""


@pytest.mark.parametrize("part", ["driver", "executors"])
@pytest.mark.parametrize(
    ("spec", "named"),
    [
        ({"hostNetwork": True}, "spec.hostNetwork is true: remove it"),
        ({"volumes": [{"name": "etc", "hostPath": {"path": "/etc"}}]}, "spec.volumes[etc].hostPath is "),
        (
            {"containers": [{"name": "x", "securityContext": {"privileged": True}}]},
            "spec.containers[x].securityContext.privileged is true",
        ),
        ({"initContainers": [{"name": "x", "ports": [{"hostPort": 80}]}]}, "spec.initContainers[x].ports[0].hostPort"),
        ({"nodeName": "node-a"}, "spec.nodeName is 'node-a': choose nodes by"),
        ({"priorityClassName": "system-node-critical"}, "spec.priorityClassName is 'system-node-critical'"),
        ({"containers": [{"name": "x", "securityContext": 7}]}, "spec.containers[x].securityContext is not an object"),
        ({"volumes": "all"}, "spec.volumes is not a list"),
    ],
)
def test_reaching_for_the_node_is_refused_unless_any_is_allowed(part: str, spec: dict[str, Any], named: str) -> None:
    for policy in (RESTRICTED, BASELINE):
        assert f"spec.runtime.{part}.podTemplate.{named}" in of_template(policy, part, **spec)
    assert of_template(ANY, part, **spec) == ""


@pytest.mark.parametrize("part", ["driver", "executors"])
@pytest.mark.parametrize(
    "context", [{"runAsUser": 0}, {"allowPrivilegeEscalation": True}, {"capabilities": {"drop": []}}]
)
def test_loosening_our_container_is_refused_where_pods_are_restricted(part: str, context: dict[str, Any]) -> None:
    (field,) = context
    spec = main(part, securityContext=context)
    assert f"podTemplate.spec.containers[{MAIN[part]}].securityContext.{field}" in of_template(RESTRICTED, part, **spec)
    assert of_template(BASELINE, part, **spec) == ""


def test_what_takes_our_defaults_away_is_seen_too() -> None:
    assert "spec.containers[driver].securityContext.runAsNonRoot is not set" in of_template(
        RESTRICTED, "driver", securityContext=None
    )
    assert "allowPrivilegeEscalation" in of_template(RESTRICTED, "driver", **main("driver", securityContext=None))


def test_a_template_may_say_what_schedules_a_pod() -> None:
    spec = {
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"operator": "Exists"}],
        "priorityClassName": "high",
        "runtimeClassName": "gvisor",
        "schedulerName": "other",
        "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["a"]}],
        "volumes": [{"name": "token", "projected": {"sources": [{"serviceAccountToken": {"audience": "vault"}}]}}],
    }
    assert of_template(RESTRICTED, "driver", **spec) == of_template(RESTRICTED, "executors", **spec) == ""


@pytest.mark.parametrize("profile", PodProfile)
@pytest.mark.parametrize("field", ["serviceAccountName", "serviceAccount"])
def test_service_accounts_are_those_of_the_list_whatever_the_profile(profile: PodProfile, field: str) -> None:
    listed, all_of_them = PodPolicy(RELEASE, profile, ("loader",)), PodPolicy(RELEASE, profile, ("*",))
    refused = f"spec.{field} is 'admin': use holdfast-app, or let the release allow it (value apps.serviceAccounts)"
    assert refused in of_template(listed, "driver", **{field: "admin"})
    assert of_template(listed, "executors", **{field: "loader"}) == ""
    assert of_template(all_of_them, "executors", **{field: "admin"}) == ""
    assert "spec.serviceAccountName is 'default'" in of_template(listed, "driver", serviceAccountName=None)


@pytest.mark.parametrize(
    ("conf", "value", "allowed"),
    [
        ("spark.kubernetes.namespace", "kube-system", ()),
        (f"{EXECUTOR}.podTemplateFile", "/tmp/mine.yaml", ()),  # noqa: S108 - is only a name
        (f"{EXECUTOR}.label.holdfast.dev/app", "other", ()),
        ("spark.kubernetes.authenticate.executor.serviceAccountName", "admin", ()),
        ("spark.kubernetes.authenticate.serviceAccountName", "admin", ()),
        ("spark.kubernetes.authenticate.executor.serviceAccountName", "holdfast-app", (RESTRICTED, BASELINE, ANY)),
        (f"{EXECUTOR}.volumes.hostPath.root.mount.path", "/host", (ANY,)),
        (f"{EXECUTOR}.volumes.nfs.share.mount.path", "/share", (BASELINE, ANY)),
        (f"{EXECUTOR}.volumes.persistentVolumeClaim.x.mount.path", "/data", (RESTRICTED, BASELINE, ANY)),
        (f"{EXECUTOR}.pod.featureSteps", "evil.Step", (ANY,)),
        (f"{EXECUTOR}.annotation.container.apparmor.security.beta.kubernetes.io/x", "unconfined", (ANY,)),
        (f"{EXECUTOR}.securityContext.allowPrivilegeEscalation", "true", (BASELINE, ANY)),
        (f"{EXECUTOR}.securityContext.allowPrivilegeEscalation", "False", (RESTRICTED, BASELINE, ANY)),
        (f"{EXECUTOR}.request.cores", "500m", (RESTRICTED, BASELINE, ANY)),
    ],
)
def test_settings_of_spark_are_no_way_around(conf: str, value: str, allowed: tuple[PodPolicy, ...]) -> None:
    for policy in (RESTRICTED, BASELINE, ANY):
        refusal = against(policy, **runtime(sparkConf={conf: value}))
        assert (refusal == "") == (policy in allowed)
        assert refusal == "" or f"spec.runtime.sparkConf.{conf}" in refusal


@pytest.mark.parametrize("location", ["Node", "{node.labels.rack}"])
def test_node_folders_are_for_state_where_the_release_allows_them(location: str) -> None:
    state = {"location": location}
    assert "value apps.nodeState" in against(RESTRICTED, state=state)
    allowing = PodPolicy(RELEASE, node_state=True)
    assert against(allowing, state=state) == ""
    state_volume = node_directory(parse_app(tree(state=state)), AppOwner("ads", "apps", "uid"))
    for volume in ({**state_volume, "hostPath": {"path": "/etc"}}, {**state_volume, "name": "another"}):
        template = {"podTemplate": {"spec": {"volumes": [volume]}}}
        assert "hostPath" in against(allowing, state=state, **runtime(executors=template))
        assert "hostPath" in against(allowing, state=state, **runtime(driver=template))


def test_an_app_asking_too_much_learns_the_deciding_value() -> None:
    decision = decided(seen(app(**runtime(driver={"podTemplate": {"spec": {"hostPID": True}}}))))
    assert condition(decision, "Ready") == ("False", Reason.PODS_NOT_ALLOWED.value)
    (message,) = {one.message for one in decision.status.conditions if one.type == "Ready"}
    assert "restricted" in message
    assert "apps.podTemplates" in message
    assert "spec.runtime.driver.podTemplate.spec.hostPID" in message
    assert not decision.actions


def test_a_policy_can_be_handed_to_another_process() -> None:
    assert pickle.loads(pickle.dumps(RESTRICTED)) == RESTRICTED  # noqa: S301 - our own bytes


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*/app.yaml")), ids=lambda path: path.parent.name)
def test_examples_run_in_an_installation_that_says_nothing(path: Path) -> None:
    assert RESTRICTED.against(parse_app(YAML(typ="safe").load(path.read_text()))) == ()


def test_what_mounts_a_claim_and_a_secret_runs_there_too() -> None:
    """As apps on a real cluster do (tests/kind)."""
    for part, container in MAIN.items():
        claim = {"name": "checkpoints", "persistentVolumeClaim": {"claimName": "shared"}}
        mounted = {"volumeMounts": [{"name": "checkpoints", "mountPath": "/checkpoints"}]}
        container_tree = {"name": container, "resources": {"requests": {"cpu": "200m"}}, **mounted}
        spec = {"containers": [{**container_tree, "envFrom": [{"secretRef": {"name": "s3"}}]}], "volumes": [claim]}
        assert of_template(RESTRICTED, part, **spec) == ""


NAMES = some.sampled_from(
    (
        "metadata", "spec", "annotations", "labels", "containers", "initContainers", "volumes", "securityContext",
        "name", "driver", "spark-kubernetes-executor", "env", "ports", "capabilities", "add", "drop", "seccompProfile",
        "type", "hostPath", "hostNetwork", "lifecycle", "postStart", "httpGet", "host", "tolerations",
        "serviceAccountName", "volumeMounts", "mountPath", "imagePullSecrets", "sysctls", "nodeName",
        "priorityClassName", "x",
    )
)  # fmt: skip
LEAVES = some.none() | some.booleans() | some.integers() | some.floats() | some.text(max_size=3) | NAMES
KEYS = NAMES | some.integers() | some.none() | some.booleans()
TREES = some.recursive(
    LEAVES, lambda inner: some.lists(inner, max_size=4) | some.dictionaries(KEYS, inner, max_size=6), max_leaves=40
)
OBJECTS = some.dictionaries(NAMES, TREES, max_size=8)
TEMPLATES = OBJECTS | some.fixed_dictionaries({"spec": OBJECTS}, optional={"metadata": OBJECTS})


@given(TEMPLATES, some.sampled_from(("driver", "executors")), some.sampled_from(("Claim", "Node")))
def test_no_template_is_too_odd_for_an_answer(template: dict[str, Any], part: str, location: str) -> None:
    parsed = parse_app(tree(**runtime(**{part: {"podTemplate": template}}), state={"location": location}))
    try:
        check_templates(parsed.spec.runtime)
    except TemplateRefusedError:
        return
    for policy in (RESTRICTED, BASELINE, ANY):
        assert all(isinstance(one, str) for one in policy.against(parsed))
