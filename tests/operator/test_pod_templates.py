from typing import Any

import pytest

from holdfast.spec.parse import parse_app
from holdfast_operator.manifests.pod_templates import TemplateRefusedError, check_templates, merged, mounted_claims
from tests.operator.apps import TREE, tree


def runtime(part: str, template: dict[str, Any]) -> Any:
    return parse_app(tree(runtime={**TREE["spec"]["runtime"], part: {"podTemplate": template}})).spec.runtime


@pytest.mark.parametrize(
    ("template", "named"),
    [
        ({"spec": {"restartPolicy": "Always"}}, "spec.restartPolicy"),
        ({"spec": {"enableServiceLinks": True}}, "spec.enableServiceLinks"),
        ({"spec": {"containers": [{"name": "driver", "command": ["sh"]}]}}, "spec.containers[driver].command"),
        ({"spec": {"containers": [{"name": "driver", "image": "x"}]}}, "spec.containers[driver].image"),
        ({"spec": {"containers": [{"name": "driver", "env": [{"name": "HOLDFAST_APP"}]}]}}, "env[HOLDFAST_APP]"),
        ({"spec": {"containers": [{"image": "x"}]}}, "spec.containers[]"),
        ({"spec": {"containers": {}}} | {"kind": "Pod"}, "kind"),
        ({"metadata": {"name": "x"}}, "metadata.name"),
        ({"metadata": {"labels": {"holdfast.dev/attempt": "9"}}}, "metadata.labels[holdfast.dev/attempt]"),
        ({"metadata": {"annotations": 7}}, "metadata.annotations"),
        ({"spec": 7}, "metadata, spec"),
        ({"spec": None}, "metadata, spec"),
        ({"spec": {"containers": None}}, "spec.containers"),
        ({"spec": {"containers": [{"name": "driver", "env": 7}]}}, "spec.containers[driver].env"),
    ],
)
def test_what_carries_the_engine_is_refused_by_name(template: dict[str, Any], named: str) -> None:
    with pytest.raises(TemplateRefusedError) as error:
        check_templates(runtime("driver", template))
    assert f"spec.runtime.driver.podTemplate.{named}" in str(error.value) or named in str(error.value)


@pytest.mark.parametrize(
    ("template", "claims"),
    [
        ({"spec": {"volumes": [{"name": "m", "persistentVolumeClaim": {"claimName": "models"}}]}}, ("models",)),
        ({"spec": {"volumes": [{"name": "s", "secret": {"secretName": "models"}}]}}, ()),
        ({"spec": {"volumes": [7, {"persistentVolumeClaim": 7}, {"persistentVolumeClaim": {"claimName": 7}}]}}, ()),
        ({"spec": {"volumes": 7}}, ()),
        ({"spec": 7}, ()),
    ],
)
def test_the_claims_of_a_template_are_known_whatever_its_shape(template: dict[str, Any], claims: tuple[str]) -> None:
    parts = {**TREE["spec"]["runtime"], "driver": {"podTemplate": template}, "executors": {"podTemplate": template}}
    assert mounted_claims(parse_app(tree(runtime=parts))) == claims


def test_the_claim_of_the_checkpoint_must_be_there_too() -> None:
    assert mounted_claims(parse_app(tree(runtime={"checkpoint": {"claim": "shared"}}))) == ("shared",)


def test_executors_have_a_container_of_another_name() -> None:
    check_templates(runtime("executors", {"spec": {"containers": [{"name": "driver", "image": "proxy"}]}}))
    with pytest.raises(TemplateRefusedError, match="spark-kubernetes-executor"):
        check_templates(
            runtime("executors", {"spec": {"containers": [{"name": "spark-kubernetes-executor", "args": []}]}})
        )


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(TemplateRefusedError, match=r"hostname.*subdomain"):
        check_templates(runtime("driver", {"spec": {"hostname": "a", "subdomain": "b"}}))


def test_templates_merge_as_kubernetes_does() -> None:
    ours: Any = {
        "metadata": {"labels": {"a": "1"}},
        "spec": {
            "containers": [{"name": "driver", "image": "i", "env": [{"name": "A", "value": "1"}], "args": ["x"]}],
            "tolerations": [{"key": "t"}],
            "terminationGracePeriodSeconds": 60,
        },
    }
    users = {
        "metadata": {"labels": {"b": "2"}},
        "spec": {
            "containers": [{"name": "proxy"}, {"name": "driver", "env": [{"name": "B"}, {"name": "A", "value": "2"}]}],
            "tolerations": [{"key": "u"}],
            "terminationGracePeriodSeconds": None,
            "nodeSelector": {"disk": "ssd"},
        },
    }
    assert merged(ours, users) == {
        "metadata": {"labels": {"a": "1", "b": "2"}},
        "spec": {
            "containers": [
                {"name": "driver", "image": "i", "env": [{"name": "A", "value": "2"}, {"name": "B"}], "args": ["x"]},
                {"name": "proxy"},
            ],
            "tolerations": [{"key": "u"}],
            "nodeSelector": {"disk": "ssd"},
        },
    }
    assert ours["spec"]["containers"][0]["env"] == [{"name": "A", "value": "1"}]


@pytest.mark.parametrize(
    "users", [{"spec": {"containers": [7]}}, {"spec": {"containers": [{"name": None}, {"name": []}]}}]
)
def test_odd_templates_merge_without_a_word(users: dict[str, Any]) -> None:
    merged({"spec": {"containers": [{"name": "driver"}]}}, users)
