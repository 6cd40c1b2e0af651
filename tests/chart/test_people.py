"""What people may do with apps by a cluster's own roles `view`, `edit` and `admin`, as a real cluster sums them up."""

import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.admin import APPS, Admin, RefusedError
from tests.api.conftest import NAMESPACE
from tests.api.plane import Plane
from tests.api.programs import kubernetes
from tests.chart.rendered import rendered
from tests.go_programs import built
from tests.operator.apps import tree
from tests.waiting import patience, wait_until

RBAC = "/apis/rbac.authorization.k8s.io/v1"
ROLES = ("view", "edit", "admin")
TEAM, OTHERS = "people-team", "people-others"
ADS = f"{APPS.format(TEAM)}/ads"
RUNNING = {"conditions": [], "attempt": 7}


@pytest.fixture(scope="module")
def admin(plane: Plane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Admin]:
    """The chart's roles are there, and the cluster's own have taken them in."""
    made = Admin(plane)
    for namespace in (TEAM, OTHERS):
        made.create("/api/v1/namespaces", NAMESPACE | {"metadata": {"name": namespace}})
    for role in rendered(only="templates/rbac-users.yaml"):
        made.create(f"{RBAC}/clusterroles", role)
    for name in ROLES:
        made.create(f"{RBAC}/namespaces/{TEAM}/rolebindings", binding(name))
    with (tmp_path_factory.mktemp("controllers") / "log").open("wb") as log:
        controllers = summing_up(plane, log)
        try:
            wait_until(lambda: all(takes_in_apps(made, name) for name in ROLES), 60, "the cluster's roles know apps")
            yield made
        finally:
            controllers.kill()
            controllers.wait(patience(20))


def summing_up(plane: Plane, log: Any) -> subprocess.Popen[bytes]:
    """The one controller that writes the rules of `view`, `edit` and `admin`."""
    program = built(kubernetes("kube-controller-manager"))
    switches = ("--controllers=clusterrole-aggregation-controller", "--leader-elect=false", "--secure-port=0")
    return subprocess.Popen([program, f"--kubeconfig={plane.kubeconfig()}", *switches], stdout=log, stderr=log)


def takes_in_apps(admin: Admin, name: str) -> bool:
    rules = admin.get(f"{RBAC}/clusterroles/{name}").get("rules") or ()
    return any("holdfast.dev" in rule.get("apiGroups", ()) for rule in rules)


def binding(name: str) -> dict[str, Any]:
    group = "rbac.authorization.k8s.io"
    return {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": group, "kind": "User", "name": f"{name}er"}],
    }


@pytest.fixture(params=["edit", "admin"])
def editor(request: pytest.FixtureRequest, plane: Plane, admin: Admin) -> Iterator[Admin]:
    made = Admin(plane, f"{request.param}er")
    wait_until(lambda: allowed(made, "POST", f"{APPS.format(TEAM)}?dryRun=All", tree()), 30, "the rights hold")
    yield made
    admin.delete(ADS)


def test_who_edits_a_namespace_controls_its_apps_whole_life(editor: Admin) -> None:
    editor.create(APPS.format(TEAM), tree())
    editor.patch(ADS, {"spec": {"suspend": True}})
    assert editor.get(ADS)["spec"]["suspend"]
    assert [app["metadata"]["name"] for app in editor.items(APPS.format(TEAM))] == ["ads"]
    editor.call("DELETE", APPS.format(TEAM))
    assert editor.items(APPS.format(TEAM)) == []


def test_who_edits_a_namespace_writes_no_status_and_nothing_elsewhere(editor: Admin) -> None:
    editor.create(APPS.format(TEAM), tree() | {"status": RUNNING})
    assert editor.get(f"{ADS}/status").get("status") is None
    assert not allowed(editor, "PATCH", f"{ADS}/status", {"status": RUNNING})
    assert not allowed(editor, "PUT", f"{ADS}/status", editor.get(ADS) | {"status": RUNNING})
    assert not allowed(editor, "POST", APPS.format(OTHERS), tree())
    assert not allowed(editor, "GET", APPS.format(OTHERS))


def test_who_views_a_namespace_sees_its_apps_and_changes_nothing(plane: Plane, admin: Admin) -> None:
    admin.create(APPS.format(TEAM), tree())
    viewer = Admin(plane, "viewer")
    wait_until(lambda: allowed(viewer, "GET", ADS), 30, "the rights hold")
    assert viewer.get(f"{ADS}/status")["metadata"]["name"] == "ads"
    assert not allowed(viewer, "POST", APPS.format(TEAM), tree())
    assert not allowed(viewer, "PATCH", ADS, {"spec": {"suspend": True}})
    assert not allowed(viewer, "PATCH", f"{ADS}/status", {"status": RUNNING})
    assert not allowed(viewer, "DELETE", ADS)
    admin.delete(ADS)


@pytest.mark.usefixtures("admin")
def test_commands_in_pods_are_for_who_edits_not_views(plane: Plane) -> None:
    wait_until(lambda: allowed(Admin(plane, "viewer"), "GET", APPS.format(TEAM)), 30, "the rights hold")
    wait_until(lambda: may_exec(plane, "editer", "create"), 30, "the rights hold")
    rights = {name: {verb for verb in ("get", "create") if may_exec(plane, f"{name}er", verb)} for name in ROLES}
    assert rights == {"view": set(), "edit": {"get", "create"}, "admin": {"get", "create"}}


def may_exec(plane: Plane, user: str, verb: str) -> bool:
    attributes = {"namespace": TEAM, "verb": verb, "resource": "pods", "subresource": "exec"}
    review = {"kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1"}
    spec = {"spec": {"resourceAttributes": attributes}}
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    return bool(Admin(plane, user).create(path, review | spec)["status"]["allowed"])


def allowed(user: Admin, method: str, path: str, body: Any = None) -> bool:
    content = "application/merge-patch+json" if method == "PATCH" else "application/json"
    try:
        user.call(method, path, body, content)
    except RefusedError as error:
        assert error.status == 403
        return False
    return True
