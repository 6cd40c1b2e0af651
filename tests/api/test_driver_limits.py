"""What a driver may write: what belongs to its own app, by the chart's ValidatingAdmissionPolicy and tokens of pods."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import requests

from holdfast.placement.metadata_store import object_name
from holdfast.placement.record_store import record_key
from holdfast.protocol.names import app_id, assignment_name, attempt_name, executor_set, report_name
from holdfast_runtime.coordination.coordinator import paces_key
from tests.api.admin import CONFIG_MAPS, PODS, SETS, Admin
from tests.api.conftest import NAMESPACE
from tests.api.driver_tokens import ACCOUNTS, drivers_limited, token_of
from tests.api.plane import Plane
from tests.chart.rendered import rendered
from tests.chart.rights import grant
from tests.chart.test_rights import stranger
from tests.waiting import patience, wait_until

APPS = "limited"
USER = f"system:serviceaccount:{APPS}:holdfast-app"
LONG = "a-name-of-an-app-as-long-as-it-may-be-12"


@dataclass(frozen=True)
class Driver:
    """A client with the token of a pod."""

    plane: Plane
    token: str

    def status(self, method: str, path: str, body: Any = None, content: str = "application/json") -> int:
        """The API server's answer; nothing is changed if it is a success."""
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": content}
        with requests.Session() as session:
            session.trust_env = False
            return session.request(
                method,
                f"{self.plane.url}{path}?dryRun=All",
                json=body,
                headers=headers,
                verify=str(self.plane.directory / "ca.crt"),
                timeout=patience(60),
            ).status_code

    def creates(self, name: str, **metadata: Any) -> bool:
        """Whether it may create this ConfigMap."""
        tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}}
        return self._allowed(self.status("POST", CONFIG_MAPS.format(APPS), tree))

    def replaces(self, name: str) -> bool:
        """Whether it may replace this ConfigMap."""
        tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"x": "y"}}
        return self._allowed(self.status("PUT", f"{CONFIG_MAPS.format(APPS)}/{name}", tree))

    def deletes(self, path: str, name: str) -> bool:
        """Whether it may delete this object."""
        return self._allowed(self.status("DELETE", f"{path.format(APPS)}/{name}"))

    def labels(self, pod: str) -> bool:
        """Whether it may write a label on this pod."""
        path, patch = f"{PODS.format(APPS)}/{pod}", {"metadata": {"labels": {"holdfast.dev/app": "x"}}}
        return self._allowed(self.status("PATCH", path, patch, "application/merge-patch+json"))

    def makes(self, name: str, account: str) -> bool:
        """Whether it may create a StatefulSet whose pods have this account."""
        selected = {"set": name}
        pods = {"metadata": {"labels": selected}, "spec": stranger(name)["spec"] | {"serviceAccountName": account}}
        spec = {"replicas": 1, "selector": {"matchLabels": selected}, "template": pods}
        tree = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name}, "spec": spec}
        return self._allowed(self.status("POST", SETS.format(APPS), tree))

    @staticmethod
    def _allowed(status: int) -> bool:
        assert status in (200, 201, 403), status
        return status != 403


@pytest.fixture(scope="module")
def admin(plane: Plane) -> Iterator[Admin]:
    made = Admin(plane)
    made.create("/api/v1/namespaces", NAMESPACE | {"metadata": {"name": APPS}})
    chart = rendered(f"watchNamespaces={{{APPS}}}")
    (account,) = [one for one in chart if one["kind"] == "ServiceAccount" and one["metadata"]["namespace"] == APPS]
    made.create(ACCOUNTS.format(APPS), account)
    grant(made, chart, "holdfast-app", USER)
    for app in ("ads", "ads-2", "x-ads", LONG):
        for name in (attempt_name(app, "1", 1), f"{executor_set(app, '1')}-0"):
            pod = stranger(name)
            made.create(PODS.format(APPS), pod | {"spec": pod["spec"] | {"serviceAccountName": "holdfast-app"}})
        for name in (report_name(app, "1"), assignment_name(app, "1"), object_name(record_key(app, "1"))):
            made.create(CONFIG_MAPS.format(APPS), {"metadata": {"name": name, "labels": {"holdfast.dev/app": app}}})
    made.create(CONFIG_MAPS.format(APPS), {"metadata": {"name": "of-somebody"}})
    with drivers_limited(made, APPS):
        yield made


def driver(plane: Plane, admin: Admin, pod: str | None) -> Driver:
    """A client with the token that the kubelet would mount into this pod; None: one of no pod."""
    client = Driver(plane, token_of(admin, APPS, pod))
    wait_until(lambda: not client.creates("anything"), 30, "the policy holds")
    return client


@pytest.mark.parametrize("app", ["ads", "x-ads", LONG])
def test_a_driver_writes_what_its_own_app_keeps(plane: Plane, admin: Admin, app: str) -> None:
    client, label = driver(plane, admin, attempt_name(app, "1", 1)), {"labels": {"holdfast.dev/app": app}}
    for run in ("2", "a.b"):
        assert client.creates(report_name(app, run))
        assert client.creates(object_name(record_key(app, run)), **label)
        assert client.creates(object_name(paces_key(app, run)), **label)
    selector = {"labels": {"spark-app-selector": app_id(app, "1")}}
    assert client.creates("spark-exec-0123456789abcdef-conf-map", **selector)
    for name in (report_name(app, "1"), assignment_name(app, "1"), object_name(record_key(app, "1"))):
        assert client.deletes(CONFIG_MAPS, name)
    assert client.replaces(report_name(app, "1"))
    assert not client.replaces(assignment_name(app, "1")), "the operator's assignment"
    for pod in (attempt_name(app, "1", 1), f"{executor_set(app, '1')}-0"):
        assert client.labels(pod)
        assert client.deletes(PODS, pod)
    assert client.makes(executor_set(app, "1"), "holdfast-app")


@pytest.mark.parametrize(("app", "other"), [("ads", "ads-2"), ("ads-2", "ads"), ("x-ads", "ads"), ("ads", "x-ads")])
def test_and_nothing_of_another_app(plane: Plane, admin: Admin, app: str, other: str) -> None:
    client = driver(plane, admin, attempt_name(app, "1", 1))
    assert not client.creates(report_name(other, "2"))
    assert not client.creates(object_name(record_key(other, "2")), labels={"holdfast.dev/app": other})
    assert not client.creates(attempt_name(app, "1", 2)), "the operator's orders"
    assert not client.creates(assignment_name(app, "2")), "the operator's assignment"
    assert not client.creates("spark-exec-0123456789abcdef-conf-map", labels={"spark-app-selector": app_id(other, "1")})
    names = (report_name(other, "1"), assignment_name(other, "1"), object_name(record_key(other, "1")))
    for name in (*names, "of-somebody"):
        assert not client.deletes(CONFIG_MAPS, name)
        assert not client.replaces(name)
    for pod in (attempt_name(other, "1", 1), f"{executor_set(other, '1')}-0"):
        assert not client.labels(pod)
        assert not client.deletes(PODS, pod)


def test_no_pod_that_a_driver_can_make_is_another_driver(plane: Plane, admin: Admin) -> None:
    client = driver(plane, admin, attempt_name("ads", "1", 1))
    for name in (executor_set("ads-2", "1"), app_id("ads-2", "1"), app_id("ads", "1"), "another"):
        assert not client.makes(name, "holdfast-app")
    for account in ("default", "with-more-rights"):
        assert not client.makes(executor_set("ads", "1"), account)


def test_a_token_of_an_executor_or_no_pod_writes_nothing(plane: Plane, admin: Admin) -> None:
    for pod in (f"{executor_set('ads', '1')}-0", None):
        other = driver(plane, admin, pod)
        assert not other.creates(report_name("ads", "2"))
        assert not other.deletes(CONFIG_MAPS, report_name("ads", "1"))
        assert not other.makes(executor_set("ads", "1"), "holdfast-app")
