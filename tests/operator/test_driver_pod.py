import json
from typing import Any

from holdfast.protocol.attempt import ORDERS_KEY, read_orders
from holdfast.protocol.names import app_id
from holdfast.spec.app import StreamApp
from holdfast.spec.parse import parse_app
from holdfast_operator.decide.decision import StartDriver
from holdfast_operator.manifests.driver_pod import (
    APP_KEY,
    EXECUTOR_KEY,
    SPARK_KEY,
    AppOwner,
    Installation,
    attempt_config_map,
    drain_seconds,
    driver_pod,
    executor_template,
    spark_settings,
    takes_node_directory,
)
from holdfast_operator.manifests.pod_security import PodProfile, violations
from holdfast_runtime.checkpoint.directories import storage_at
from holdfast_runtime.spark.settings import check_settings
from tests.operator.apps import TREE, tree

OWNER = AppOwner("ads", "apps", "uid-of-app")
RELEASE = Installation("registry/holdfast:1", pull_secrets=("login",))


def app(**spec: Any) -> StreamApp:
    return parse_app(tree(**spec))


def runtime(**fields: Any) -> dict[str, Any]:
    return {**TREE["spec"]["runtime"], **fields}


def test_driver_and_executors_pass_restricted_pod_security() -> None:
    for pod in (driver_pod(app(), 1, OWNER, RELEASE), executor_template(StartDriver(app(), 1), OWNER, RELEASE)):
        assert list(violations(pod, PodProfile.RESTRICTED)) == []
        assert pod["spec"]["enableServiceLinks"] is False


def test_all_pods_mount_the_checkpoints_claim_at_its_location() -> None:
    for checkpoint, path in (
        ({"claim": "shared"}, "/checkpoints"),
        ({"claim": "shared", "location": "file:///with%20space/apps"}, "/with space/apps"),
    ):
        mounting = app(runtime=runtime(checkpoint=checkpoint))
        for pod in (
            driver_pod(mounting, 1, OWNER, RELEASE),
            executor_template(StartDriver(mounting, 1), OWNER, RELEASE),
        ):
            (container,) = pod["spec"]["containers"]
            (claimed,) = (volume for volume in pod["spec"]["volumes"] if "persistentVolumeClaim" in volume)
            assert claimed["persistentVolumeClaim"] == {"claimName": "shared"}
            mount = {"name": claimed["name"], "mountPath": path}
            assert mount in container["volumeMounts"]
            assert storage_at(checkpoint.get("location", "file:///checkpoints"), {}).directory == path


def test_executors_have_no_account_token_unless_the_user_asks() -> None:
    def mounted(pod: dict[str, Any]) -> bool:
        return bool(pod["spec"].get("automountServiceAccountToken", True))

    assert not mounted(executor_template(StartDriver(app(), 1), OWNER, RELEASE))
    assert mounted(driver_pod(app(), 1, OWNER, RELEASE))
    app_with_token = app(runtime=runtime(executors={"podTemplate": {"spec": {"automountServiceAccountToken": True}}}))
    assert mounted(executor_template(StartDriver(app_with_token, 1), OWNER, RELEASE))


def test_executors_have_the_account_of_their_template() -> None:
    named = app(runtime=runtime(executors={"podTemplate": {"spec": {"serviceAccountName": "loader"}}}))
    for made, account in ((app(), "holdfast-app"), (named, "loader")):
        spec = executor_template(StartDriver(made, 1), OWNER, RELEASE)["spec"]
        assert spec["serviceAccountName"] == spec["serviceAccount"] == account


def test_all_attempts_of_a_run_share_app_id_and_claims() -> None:
    first, second = (spark_settings(app(), attempt, OWNER, RELEASE) for attempt in (1, 2))
    assert first["spark.app.id"] == second["spark.app.id"]
    assert spark_settings(app(runId="2"), 1, OWNER, RELEASE)["spark.app.id"] != first["spark.app.id"]
    assert first["spark.kubernetes.driver.ownPersistentVolumeClaim"] == "false"
    assert first["spark.kubernetes.driver.pod.name"] != second["spark.kubernetes.driver.pod.name"]


def test_each_place_of_state_has_its_volume() -> None:
    def volumes(location: str) -> list[dict[str, Any]]:
        spec = executor_template(StartDriver(app(state={"location": location}), 1), OWNER, RELEASE)["spec"]
        return [one for one in spec["volumes"] if one["name"] == "state"]

    assert volumes("Claim") == []
    assert "emptyDir" in volumes("Pod")[0]
    assert volumes("Node")[0]["hostPath"]["path"] == f"/var/lib/holdfast/apps/{app_id('ads', '1')}"
    claim = "spark.kubernetes.executor.volumes.persistentVolumeClaim.state.options.claimName"
    assert claim in spark_settings(app(), 1, OWNER, RELEASE)
    assert claim not in spark_settings(app(state={"location": "Node"}), 1, OWNER, RELEASE)


def test_a_template_volume_for_state_replaces_ours() -> None:
    mount = {"name": "filer", "mountPath": "/var/lib/holdfast"}
    volume = {"name": "filer", "persistentVolumeClaim": {"claimName": "shared"}}
    pod = {"containers": [{"name": "spark-kubernetes-executor", "volumeMounts": [mount]}], "volumes": [volume]}
    executors = {"podTemplate": {"spec": pod}}
    shared = app(state={"location": "{node.labels.rack}"}, runtime=runtime(executors=executors))
    spec = executor_template(StartDriver(shared, 1), OWNER, RELEASE)["spec"]
    assert spec["volumes"] == [volume]
    assert spec["containers"][0]["volumeMounts"] == [mount]
    assert not takes_node_directory(shared)


def test_claims_have_the_named_class_or_the_clusters_default() -> None:
    name = "spark.kubernetes.executor.volumes.persistentVolumeClaim.state.options.storageClass"

    def told(default: str, **state: Any) -> str | None:
        start = StartDriver(app(state=state), 1, storage_class=default)
        spark = attempt_config_map(start, tree(), OWNER, RELEASE)["data"][SPARK_KEY]
        setting: str | None = json.loads(spark).get(name)
        return setting

    assert told("standard") == "standard"
    assert told("standard", storageClass="fast") == "fast"
    assert told("standard", location="Pod") is None


def test_an_attempts_config_map_is_complete_and_without_status() -> None:
    start = StartDriver(app(), 3, {"clicks": 4})
    config_map = attempt_config_map(start, {**tree(), "status": {"attempt": 7}}, OWNER, RELEASE)
    assert config_map["immutable"] is True
    assert set(config_map["data"]) == {APP_KEY, ORDERS_KEY, EXECUTOR_KEY, SPARK_KEY}
    assert parse_app(json.loads(config_map["data"][APP_KEY])) == app()
    who = read_orders(config_map["data"][ORDERS_KEY])
    assert (who.attempt, who.uid, who.topics) == (3, "uid-of-app", {"clicks": 4})
    assert "status" not in json.loads(config_map["data"][APP_KEY])


def test_secrets_are_mounted_and_never_copied() -> None:
    registry = {"url": "https://registry", "secretName": "schemas"}
    kafka = {"bootstrapServers": "kafka:9092", "secretName": "login", "registry": registry}
    lineage = {"lineage": {"url": "https://lineage", "secretName": "openlineage"}}
    secret = app(systems=[{"name": "events", "kafka": kafka}], runtime=runtime(**lineage))
    pod = driver_pod(secret, 1, OWNER, RELEASE)
    template = executor_template(StartDriver(secret, 1), OWNER, RELEASE)
    for pod_tree in (pod, template):
        for number, name in enumerate(("login", "openlineage", "schemas")):
            assert {"name": f"secret-{number}", "secret": {"secretName": name}} in pod_tree["spec"]["volumes"]


def test_a_template_shapes_the_pod_and_keeps_what_is_ours() -> None:
    template = {"spec": {"nodeSelector": {"disk": "ssd"}, "containers": [{"name": "driver", "env": [{"name": "A"}]}]}}
    pod = driver_pod(app(runtime=runtime(driver={"podTemplate": template})), 1, OWNER, RELEASE)
    assert pod["spec"]["nodeSelector"] == {"disk": "ssd"}
    (container,) = pod["spec"]["containers"]
    assert container["args"][0] == "driver"
    assert container["env"][-1] == {"name": "A"}


def test_a_driver_may_drain_as_long_as_batches_may_last() -> None:
    assert drain_seconds(app()) == 120
    assert drain_seconds(app(runtime=runtime(trigger={"interval": "10m"}))) == 1200
    assert drain_seconds(app(runtime=runtime(trigger={"interval": "24h"}))) == 3600


def test_memory_is_the_heap_and_what_stands_beside_it() -> None:
    pod = driver_pod(app(runtime=runtime(driver={"memory": "2Gi", "cores": 3})), 1, OWNER, RELEASE)
    resources = pod["spec"]["containers"][0]["resources"]
    assert resources["requests"]["cpu"] == "3"
    assert int(resources["limits"]["memory"]) == int((2 << 30) * 1.4)


def test_executors_have_room_for_python_unless_the_user_sets_it() -> None:
    name = "spark.executor.memoryOverheadFactor"
    assert spark_settings(app(), 1, OWNER, RELEASE)[name] == "0.4"
    for conf in ("spark.executor.memoryOverhead", name, "spark.kubernetes.memoryOverheadFactor"):
        settings = spark_settings(app(runtime=runtime(sparkConf={conf: "1"})), 1, OWNER, RELEASE)
        assert name not in settings
        check_settings({conf: "1"}, settings)


def test_executors_prefer_the_nodes_that_hold_most_state() -> None:
    start = StartDriver(app(state={"location": "Node"}), 2, nodes={"node-a": 6, "node-b": 3})
    affinity = executor_template(start, OWNER, RELEASE)["spec"]["affinity"]
    wishes = affinity["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    preferences = [(one["preference"]["matchExpressions"][0]["values"], one["weight"]) for one in wishes]
    assert preferences == [(["node-a"], 100), (["node-b"], 50)]
    assert "podAntiAffinity" in affinity


def test_spark_tells_the_driver_in_which_pod_an_executor_runs() -> None:
    (container,) = executor_template(StartDriver(app(), 1), OWNER, RELEASE)["spec"]["containers"]
    source = {"fieldRef": {"fieldPath": "metadata.name"}}
    assert container["env"] == [{"name": "SPARK_EXECUTOR_ATTRIBUTE_POD", "valueFrom": source}]


def test_a_driver_serves_metrics_where_a_monitor_finds_them() -> None:
    (container,) = driver_pod(app(), 1, OWNER, RELEASE)["spec"]["containers"]
    assert container["ports"] == [{"name": "hold-metrics", "containerPort": 9404}]
    assert {"name": "HOLDFAST_METRICS_PORT", "value": "9404"} in container["env"]
