import json
from typing import Any

import pytest

from holdfast.spec.app import StreamApp
from holdfast.spec.parse import parse_app
from holdfast_operator.decide.decision import StartDriver
from holdfast_operator.manifests.driver_pod import (
    AppOwner,
    Installation,
    attempt_config_map,
    driver_pod,
    executor_template,
    spark_settings,
)
from holdfast_operator.manifests.pod_fields import fields_said_twice
from holdfast_operator.manifests.pod_policy import PodPolicy
from holdfast_operator.manifests.trial_pod import pod_digests
from tests.operator.apps import TREE, tree

OWNER, RELEASE = AppOwner("ads", "apps", "uid-of-app"), Installation("registry/holdfast:1")
FIELDS: dict[str, Any] = {
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "streams", "operator": "Exists", "effect": "NoSchedule"}],
    "env": [
        {"name": "LOG_LEVEL", "value": "debug"},
        {"name": "API", "valueFrom": {"secretKeyRef": {"name": "api", "key": "key", "optional": True}}},
    ],
}
MAIN = {"driver": "driver", "executors": "spark-kubernetes-executor"}
PARTS = pytest.mark.parametrize("part", MAIN)


def app(**runtime: Any) -> StreamApp:
    return parse_app(tree(runtime={**TREE["spec"]["runtime"], **runtime}))


def pod_of(part: str, running: StreamApp) -> Any:
    pods = {
        "driver": driver_pod(running, 1, OWNER, RELEASE),
        "executors": executor_template(StartDriver(running, 1), OWNER, RELEASE),
    }
    return pods[part]["spec"]


@PARTS
def test_pods_have_what_the_spec_says_of_them(part: str) -> None:
    pod, plain = pod_of(part, app(**{part: FIELDS})), pod_of(part, app())
    assert pod["nodeSelector"] == {"disk": "ssd"}
    assert pod["tolerations"] == [*FIELDS["tolerations"], *plain["tolerations"]]
    assert pod["containers"][0]["env"] == [*plain["containers"][0]["env"], *FIELDS["env"]]
    (other,) = MAIN.keys() - {part}
    assert pod_of(other, app(**{part: FIELDS})) == pod_of(other, app())


@PARTS
def test_a_template_may_add_other_labels_and_variables(part: str) -> None:
    container = {"name": MAIN[part], "env": [{"name": "ZONE", "value": "a"}]}
    template = {"spec": {"nodeSelector": {"zone": "a"}, "containers": [container]}}
    running = app(**{part: {**FIELDS, "podTemplate": template}})
    assert list(fields_said_twice(running.spec.runtime)) == []
    pod = pod_of(part, running)
    assert pod["nodeSelector"] == {"disk": "ssd", "zone": "a"}
    assert [variable["name"] for variable in pod["containers"][0]["env"]][-3:] == ["LOG_LEVEL", "API", "ZONE"]


@PARTS
@pytest.mark.parametrize(
    ("spec", "path", "field"),
    [
        ({"nodeSelector": {"disk": "hdd"}}, "spec.nodeSelector[disk]", "nodeSelector[disk]"),
        ({"tolerations": []}, "spec.tolerations", "tolerations"),
        ({"env": [{"name": "API", "value": ""}]}, "spec.containers[MAIN].env[API]", "env[API]"),
        (
            {"resources": {"limits": {"cpu": "3", "memory": "4Gi"}}},
            "spec.containers[MAIN].resources.limits.cpu",
            "resources.limits.cpu",
        ),
    ],
)
def test_what_spec_and_template_say_is_refused_by_names(part: str, spec: Any, path: str, field: str) -> None:
    template = spec
    if not spec.keys() <= {"nodeSelector", "tolerations"}:
        template = {"containers": [{"name": "other", **spec}, {"name": MAIN[part], **spec}]}
    fields = {**FIELDS, "resources": {"limits": {"cpu": "2"}}, "podTemplate": {"spec": template}}
    (refusal,) = fields_said_twice(app(**{part: fields}).spec.runtime)
    assert refusal == (
        f"spec.runtime.{part}.podTemplate.{path.replace('MAIN', MAIN[part])}: spec.runtime.{part}.{field} says it "
        "already; leave one out"
    )


@PARTS
def test_templates_of_any_shape_are_looked_through(part: str) -> None:
    for spec in (7, None, {"containers": 7, "nodeSelector": 7}, {"containers": [7, {"name": MAIN[part], "env": [7]}]}):
        assert list(fields_said_twice(app(**{part: {**FIELDS, "podTemplate": {"spec": spec}}}).spec.runtime)) == []


def test_the_account_of_the_spec_is_that_of_all_pods() -> None:
    running = app(serviceAccountName="ads")
    for part in MAIN:
        assert pod_of(part, running)["serviceAccountName"] == "ads"
    settings = spark_settings(running, 1, OWNER, RELEASE)
    assert settings["spark.kubernetes.authenticate.driver.serviceAccountName"] == "ads"


def test_an_account_that_is_not_allowed_is_refused_once() -> None:
    running = app(serviceAccountName="ads")
    (refusal,) = PodPolicy(RELEASE).against(running)
    assert refusal.startswith("spec.runtime.serviceAccountName is 'ads': use holdfast-app")
    assert PodPolicy(RELEASE, accounts=("ads",)).against(running) == ()


@PARTS
def test_an_account_is_said_once(part: str) -> None:
    template = {"podTemplate": {"spec": {"serviceAccountName": "other"}}}
    (refusal,) = fields_said_twice(app(serviceAccountName="ads", **{part: template}).spec.runtime)
    assert f"spec.runtime.{part}.podTemplate.spec.serviceAccountName: spec.runtime.serviceAccountName says" in refusal


@pytest.mark.parametrize("field", FIELDS)
def test_other_fields_are_tried_before_a_drain(field: str) -> None:
    assert pod_digests(app(driver={field: FIELDS[field]}), RELEASE) != pod_digests(app(), RELEASE)


def test_variables_are_no_settings_of_spark() -> None:
    running = app(driver=FIELDS, executors=FIELDS)
    attempt = attempt_config_map(StartDriver(running, 1), tree(), OWNER, RELEASE)["data"]
    assert "LOG_LEVEL" not in json.dumps(attempt["spark.json"])
