"""Trial pods: they fit beside the running attempt, and tell what they can of the next one's pods."""

from typing import Any

import pytest

from holdfast.protocol.names import attempt_in, executor_set_in, trial_in
from holdfast.spec.parse import parse_app
from holdfast_operator.manifests.driver_pod import AppOwner, Installation
from holdfast_operator.manifests.pod_security import PodProfile, violations
from holdfast_operator.manifests.trial_pod import TrialPod, pod_digests, trial_pods
from tests.operator.apps import TREE, tree

OWNER = AppOwner("ads", "apps", "uid-of-app")
RELEASE = Installation("registry/holdfast:1", pull_secrets=("login",))


def trials(release: Installation = RELEASE, **runtime: Any) -> tuple[TrialPod, ...]:
    return trial_pods(parse_app(tree(runtime={**TREE["spec"]["runtime"], **runtime})), OWNER, release)


def digests(**runtime: Any) -> tuple[str, ...]:
    return tuple(trial.digest for trial in trials(**runtime))


def templated(**spec: Any) -> dict[str, Any]:
    return {"podTemplate": {"spec": spec}}


def main(**fields: Any) -> dict[str, Any]:
    return templated(containers=[{"name": "driver", **fields}])


def test_one_pod_tries_an_app_without_templates() -> None:
    (trial,) = trials(image="registry/new:2")
    (container,) = trial.tree["spec"]["containers"]
    assert container["image"] == "registry/new:2"
    assert trial.tree["spec"]["imagePullSecrets"] == [{"name": "login"}]
    assert trial.tree["spec"]["restartPolicy"] == "Never"
    assert trial.tree["metadata"]["ownerReferences"] == [OWNER.reference()]


def test_it_is_restricted_has_no_token_and_asks_little() -> None:
    (trial,) = trials(driver={"cores": 8, "memory": "64g"})
    assert list(violations(trial.tree, PodProfile.RESTRICTED)) == []
    assert trial.tree["spec"]["automountServiceAccountToken"] is False
    assert trial.tree["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "10m", "memory": "64Mi"}


def test_nothing_takes_it_for_a_driver_or_an_executor() -> None:
    (trial,) = trials()
    name, labels = trial.tree["metadata"]["name"], trial.tree["metadata"]["labels"]
    assert (attempt_in("ads", name), executor_set_in("ads", name)) == (None, None)
    assert trial_in("ads", name) == trial.digest == labels["holdfast.dev/trial"]
    assert labels["holdfast.dev/app"] == "ads"
    assert not {"spark-role", "holdfast.dev/attempt", "holdfast.dev/app-id"} & labels.keys()


@pytest.mark.parametrize(
    "runtime",
    [
        {"image": "registry/new:2"},
        {"driver": templated(nodeSelector={"disk": "ssd"})},
        {"driver": templated(serviceAccountName="another")},
        {"driver": templated(imagePullSecrets=[{"name": "another"}])},
        {"driver": templated(volumes=[{"name": "more", "configMap": {"name": "more"}}])},
        {"driver": main(env=[{"name": "MODE", "value": "x"}])},
        {"executors": templated(tolerations=[{"key": "gpu", "operator": "Exists"}])},
        {"sparkConf": {"spark.kubernetes.executor.container.image": "registry/executors:1"}},
    ],
)
def test_what_pods_are_made_from_is_in_the_digests(runtime: dict[str, Any]) -> None:
    assert set(digests(**runtime)) - set(digests())


@pytest.mark.parametrize(
    "runtime",
    [
        {"driver": {"memory": "2g"}},
        {"executors": {"count": 7}},
        {"driver": {"podTemplate": {"metadata": {"labels": {"team": "ads"}}}}},
        {"driver": templated(initContainers=[{"name": "migrate", "image": "m"}])},
        {"driver": templated(containers=[{"name": "sidecar", "image": "s"}])},
        {"driver": main(ports=[{"containerPort": 80, "hostPort": 80}])},
        {"driver": main(resources={"limits": {"gpu": "1"}})},
        {"driver": templated(volumes=[{"name": "disk", "persistentVolumeClaim": {"claimName": "disk"}}])},
        {"driver": templated(affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": []}})},
    ],
)
def test_what_would_not_fit_or_would_interfere_is_left_out(runtime: dict[str, Any]) -> None:
    assert digests(**runtime) == digests()


def test_a_mount_goes_with_its_volume() -> None:
    volume = {"name": "disk", "persistentVolumeClaim": {"claimName": "disk"}}
    mount = {"name": "disk", "mountPath": "/disk"}
    template = templated(volumes=[volume], containers=[{"name": "driver", "volumeMounts": [mount]}])
    assert digests(driver=template) == digests()


def test_executors_of_another_template_have_a_trial_of_their_own() -> None:
    driver, executors = trials(executors=templated(nodeSelector={"disk": "ssd"}))
    assert driver.digest == digests()[0]
    assert executors.tree["spec"]["nodeSelector"] == {"disk": "ssd"}


def test_the_releases_image_counts_where_the_app_names_none() -> None:
    app = parse_app(tree())
    assert pod_digests(app, RELEASE) != pod_digests(app, Installation("registry/holdfast:2", pull_secrets=("login",)))


def test_run_owner_and_release_labels_are_not_in_the_digest() -> None:
    run = parse_app(tree(runId="2"))
    labelled = Installation("registry/holdfast:1", pull_secrets=("login",), labels={"chart": "2"})
    (trial,) = trial_pods(run, AppOwner("ads", "elsewhere", "another"), labelled)
    assert (trial.digest,) == digests()
