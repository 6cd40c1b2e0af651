"""Real Spark in client mode asks for nothing that the chart does not give the account of apps."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.protocol.names import attempt_name, executor_set
from holdfast.spec.parse import parse_app
from holdfast_operator.manifests.driver_pod import AppOwner, Installation, spark_settings
from tests.api.admin import PODS, SETS, Admin
from tests.api.conftest import NAMESPACE, RESTRICTED
from tests.api.driver_tokens import ACCOUNTS, drivers_limited, token_of
from tests.api.kubelet import stateful_set
from tests.api.plane import Plane
from tests.chart.rendered import rendered
from tests.chart.rights import Right, grant, granted
from tests.chart.test_rights import refused, right_of, stranger
from tests.operator.apps import tree
from tests.waiting import patience, wait_until

APPS = "apps"
USER = f"system:serviceaccount:{APPS}:holdfast-app"
DRIVER_POD = attempt_name("ads", "1", 1)
EXECUTOR_POD = f"{executor_set('ads', '1')}-0"
NOT_CALLED = {
    # Spark writes the number of an executor on its pod when it registers; here none does.
    Right("", "pods", "patch"),
    # The driver's own: its report, the placement record, the assignment (tests/api/test_cluster_coordinator.py).
    *(Right("", "configmaps", verb) for verb in ("get", "list", "update", "delete")),
}
DRIVER = """
import json, sys
from pyspark.sql import SparkSession
builder = SparkSession.builder
for name, value in json.loads(sys.argv[1]).items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
print("started", flush=True)
sys.stdin.readline()
spark.stop()
"""
HINDERED = """
import json, sys
from holdfast_runtime.spark.session import open_session
from holdfast_runtime.spark.settings import SessionRequest
given = json.loads(sys.argv[1])
wanted = SessionRequest("ads", given.pop("spark.master"), ui=False, conf=json.loads(sys.argv[2]), given=given)
open_session(wanted, None)
"""


@pytest.fixture(scope="module")
def admin(plane: Plane) -> Admin:
    made = Admin(plane)
    made.create("/api/v1/namespaces", NAMESPACE | {"metadata": {"name": APPS, "labels": RESTRICTED}})
    return made


@pytest.fixture(scope="module")
def chart(admin: Admin) -> Iterator[list[dict[str, Any]]]:
    """Its account of apps is there with its rights and limits, and so is the pod of a driver."""
    manifests = rendered(f"appNamespaces={{{APPS}}}")
    (account,) = [one for one in manifests if one["kind"] == "ServiceAccount" and one["metadata"]["namespace"] == APPS]
    admin.create(ACCOUNTS.format(APPS), account)
    grant(admin, manifests, "holdfast-app", USER)
    driver = stranger(DRIVER_POD)
    runs(admin, driver | {"spec": driver["spec"] | {"serviceAccountName": "holdfast-app"}})
    with drivers_limited(admin, APPS):
        yield manifests


def test_spark_uses_what_the_chart_gives(
    plane: Plane, admin: Admin, chart: list[dict[str, Any]], tmp_path: Path
) -> None:
    log = tmp_path / "driver.log"
    with log.open("w") as file:
        process = subprocess.Popen(
            [sys.executable, "-c", DRIVER, json.dumps(settings(plane, admin, tmp_path))],
            env=without_proxy(),
            stdin=subprocess.PIPE,
            stdout=file,
            stderr=file,
            text=True,
        )
    try:
        wait_until(lambda: bool(admin.items(SETS.format(APPS))), 90, "Spark makes a StatefulSet")
        runs(admin, executor(admin))
        wait_until(lambda: "\nstarted" in log.read_text() or process.poll() is not None, 60, "the session is there")
        path = f"{PODS.format(APPS)}/{EXECUTOR_POD}"
        admin.patch(f"{path}/status", {"status": {"phase": "Failed", "containerStatuses": [ended()]}})
        wait_until(lambda: not admin.get(path), 60, "Spark lets it go")
        process.communicate("\n", timeout=patience(60))
    finally:
        process.kill()
        process.wait(patience(20))
    assert process.returncode == 0, log.read_text()[-4000:]
    assert admin.items(SETS.format(APPS)) == []
    calls = plane.asked_by(USER)
    assert {str(right_of(call)) for call in calls if refused(call)} == set()
    used, gave = {right_of(call) for call in calls if "objectRef" in call}, granted(chart, "holdfast-app")
    assert sorted(map(str, gave - used)) == sorted(map(str, NOT_CALLED))


@pytest.mark.usefixtures("chart")
@pytest.mark.parametrize(
    ("conf", "error"),
    [
        ({}, "RetrySoonError: Spark did not start: io.fabric8.kubernetes.client.KubernetesClientException: "),
        (
            {"spark.serializer": "no.such.One"},
            "UserActionError: Spark did not start: java.lang.ClassNotFoundException: ",
        ),
    ],
)
def test_what_spark_is_refused_is_no_mistake_of_the_user(
    plane: Plane, admin: Admin, tmp_path: Path, conf: dict[str, str], error: str
) -> None:
    spark_conf = settings(plane, admin, tmp_path)
    left = admin.create(SETS.format(APPS), stateful_set(spark_conf, DRIVER_POD, "uid-of-a-driver-before"))
    ran = subprocess.run(
        [sys.executable, "-c", HINDERED, json.dumps(spark_conf), json.dumps(conf)],
        env=without_proxy(),
        capture_output=True,
        text=True,
        timeout=patience(120),
        check=False,
    )
    admin.delete(f"{SETS.format(APPS)}/{left['metadata']['name']}")
    assert ran.returncode == 1
    (error_line,) = [line for line in ran.stderr.splitlines() if line.startswith("holdfast.errors.")]
    assert error in error_line


def without_proxy() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}


def settings(plane: Plane, admin: Admin, tmp_path: Path) -> dict[str, str]:
    """As the operator tells them, but for how to reach the API server and this machine."""
    app, owner, release = parse_app(tree()), AppOwner("ads", APPS, "uid"), Installation("image")
    (tmp_path / "executor.json").write_text(json.dumps(stranger("executor")))
    return spark_settings(app, 1, owner, release) | {
        "spark.master": f"k8s://{plane.url}",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.kubernetes.executor.podTemplateFile": str(tmp_path / "executor.json"),
        "spark.kubernetes.authenticate.caCertFile": str(plane.directory / "ca.crt"),
        "spark.kubernetes.authenticate.oauthToken": token_of(admin, APPS, DRIVER_POD),
        # There is no Service of a driver; to delete "it" Spark would need the right to delete any.
        "spark.kubernetes.driver.service.deleteOnTermination": "false",
    }


def executor(admin: Admin) -> dict[str, Any]:
    """As the StatefulSet's controller would make it, and registered."""
    (made,) = admin.items(SETS.format(APPS))
    labels = made["spec"]["template"]["metadata"]["labels"] | {"spark-exec-id": "1"}
    return stranger(EXECUTOR_POD) | {"metadata": {"name": EXECUTOR_POD, "labels": labels}}


def runs(admin: Admin, pod: dict[str, Any]) -> None:
    """As scheduler and kubelet would say."""
    path, name = PODS.format(APPS), pod["metadata"]["name"]
    admin.create(path, pod)
    target = {"apiVersion": "v1", "kind": "Node", "name": "node-a"}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
    admin.create(f"{path}/{name}/binding", binding)
    ready = [{"type": "Ready", "status": "True"}]
    admin.patch(f"{path}/{name}/status", {"status": {"phase": "Running", "conditions": ready}})


def ended() -> dict[str, Any]:
    state = {"terminated": {"exitCode": 1, "finishedAt": "2026-01-01T00:00:00Z"}}
    return {"name": "driver", "ready": False, "restartCount": 0, "image": "i", "imageID": "i", "state": state}
