"""Who may say what an app runs: whoever may create pods there, by the chart's ValidatingAdmissionPolicy."""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.api.admin import APPS, Admin, RefusedError, Tree
from tests.api.conftest import Site
from tests.chart.rendered import rendered
from tests.operator.apps import tree
from tests.waiting import wait_until

USER = "tenant"
_ADMISSION = "/apis/admissionregistration.k8s.io/v1"
_PLURALS = {
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_EVERY_VERB = ["get", "create", "update", "patch", "delete"]


@dataclass(frozen=True)
class Tenant:
    """Somebody with every right on apps of a namespace, and none on pods yet."""

    site: Site
    client: Admin

    @property
    def path(self) -> str:
        return APPS.format(self.site.namespace)

    def may(self, group: str, resource: str, *verbs: str) -> None:
        """Give this right."""
        name, within = f"{USER}-{resource}", f"{_RBAC}/namespaces/{self.site.namespace}"
        rule = {"apiGroups": [group], "resources": [resource], "verbs": list(verbs)}
        subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": USER}
        ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
        self.site.admin.create(f"{within}/roles", {"metadata": {"name": name}, "rules": [rule]})
        self.site.admin.create(
            f"{within}/rolebindings", {"metadata": {"name": name}, "roleRef": ref, "subjects": [subject]}
        )

    def refused(self, method: str, path: str, body: Tree, content: str = "application/json") -> str:
        """What the API server says to this; empty: it does it."""
        try:
            self.client.call(method, path, body, content)
        except RefusedError as error:
            assert error.status == 403
            return str(error)
        return ""

    def creates(self, dry: str = "") -> str:
        return self.refused("POST", f"{self.path}{dry}", tree())

    def patches(self, **spec: Any) -> str:
        return self.refused("PATCH", f"{self.path}/ads", {"spec": spec}, "application/merge-patch+json")


@pytest.fixture
def tenant(site: Site) -> Iterator[Tenant]:
    policy = rendered(
        f"watchNamespaces={{{site.namespace}}}", namespace=site.namespace, only="templates/admission.yaml"
    )
    paths = [f"{_ADMISSION}/{_PLURALS[one['kind']]}" for one in policy]
    for path, policy_tree in zip(paths, policy, strict=True):
        site.admin.create(path, policy_tree)
    new_tenant = Tenant(site, Admin(site.plane, USER))
    new_tenant.may("holdfast.dev", "streamapps", *_EVERY_VERB)
    wait_until(lambda: "create pods" in new_tenant.creates("?dryRun=All"), 30, "the policy holds")
    yield new_tenant
    for path, policy_tree in zip(paths, policy, strict=True):
        site.admin.delete(f"{path}/{policy_tree['metadata']['name']}")


def test_who_may_not_create_pods_may_not_choose_what_runs(tenant: Tenant) -> None:
    message = tenant.creates()
    assert f"needs the right to create pods in namespace {tenant.site.namespace}" in message
    tenant.site.apply()
    assert "create pods" in tenant.patches(restart={"policy": "Never"})
    assert "create pods" in tenant.patches(runtime={"image": "another"})
    whole = copy.deepcopy(tenant.site.app())
    whole["spec"]["steps"][0]["name"] = "another"
    assert "create pods" in tenant.refused("PUT", f"{tenant.path}/ads", whole)


def test_without_that_right_an_app_can_be_stopped_and_deleted(tenant: Tenant) -> None:
    tenant.site.apply()
    assert tenant.patches(suspend=True) == ""
    assert tenant.patches(suspend=None) == ""
    labels = {"metadata": {"labels": {"team": "ads"}}}
    assert tenant.refused("PATCH", f"{tenant.path}/ads", labels, "application/merge-patch+json") == ""
    assert "create pods" in tenant.patches(suspend=True, restart={"policy": "Never"})
    tenant.client.delete(f"{tenant.path}/ads")
    assert tenant.site.app() == {}


def test_who_may_create_pods_may(tenant: Tenant) -> None:
    tenant.may("", "pods", "create")
    wait_until(lambda: tenant.creates("?dryRun=All") == "", 30, "the right holds")
    assert tenant.creates() == ""
    large = {"code": {"large": "x" * 500_000}, **tree()["spec"]["runtime"]}
    assert tenant.patches(runtime=large) == ""
    assert tenant.patches(suspend=True) == ""


def test_the_operator_goes_on_with_what_was_allowed(tenant: Tenant) -> None:
    tenant.site.apply()
    with tenant.site.operator():
        tenant.site.until("DriverRunning", "True", "Running")
        assert tenant.patches(suspend=True) == ""
        wait_until(lambda: tenant.site.alive() == [], 60, "the driver ends")
