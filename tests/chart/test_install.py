"""The life of a release on a real API server, with both Helms; what its pods run, runs, with their own rights."""

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.api.admin import APPS, Admin
from tests.api.conftest import NAMESPACE, RESTRICTED
from tests.api.plane import Plane
from tests.chart.helms import Helm, HelmError
from tests.chart.node import Node
from tests.chart.rendered import CHART
from tests.kafka.broker import free_ports
from tests.operator.apps import tree
from tests.waiting import wait_until

CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/streamapps.holdfast.dev"
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles/hold-system-hold-holdfast"
RELEASE, SYSTEM, TEAM = "hold", "hold-system", "team"
WAIT = ("--wait", "--timeout", "60s")


@dataclass(frozen=True)
class Site:
    admin: Admin
    helm: Helm
    node: Node
    settings: tuple[str, ...]

    def run(self, *arguments: str, helm: Helm | None = None) -> str:
        """What Helm said; with the pods' words where it failed."""
        try:
            return (helm or self.helm)(*arguments)
        except HelmError as error:
            message = f"{error}\n{self.node.failure}\n{self.node.logs()}"
            raise HelmError(message) from error

    def crd(self) -> dict[str, Any]:
        return self.admin.get(CRD)


@pytest.fixture
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    health, metrics = free_ports(2)
    values = (f"health.port={health}", f"metrics.port={metrics}", f"appNamespaces={{{TEAM}}}")
    with Plane() as plane:
        admin = Admin(plane)
        for name in (SYSTEM, TEAM):
            admin.create("/api/v1/namespaces", NAMESPACE | {"metadata": {"name": name, "labels": RESTRICTED}})
        helm = Helm(request.param, tmp_path, plane.kubeconfig(), SYSTEM)
        pods = tmp_path / "pods"
        pods.mkdir()
        with Node(plane, SYSTEM, pods) as node:
            yield Site(admin, helm, node, tuple(part for value in values for part in ("--set", value)))
        assert node.failure is None


@pytest.mark.parametrize("site", [3, 4], ids=["helm 3", "helm 4"], indirect=True)
def test_a_release_is_installed_upgraded_and_goes_without_the_apps(site: Site, tmp_path: Path) -> None:
    narrow = ("--set", f"watchNamespaces={{{TEAM}}}", "--dry-run=client")
    assert "this release leaves them alone" in site.run("install", RELEASE, str(CHART), *site.settings, *narrow)
    output = site.run("install", RELEASE, str(CHART), *site.settings, *WAIT)
    assert "all namespaces" in output
    assert "this release leaves them alone" not in output
    assert site.crd()["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    assert size_of_release(site) < 200_000
    assert "Succeeded" in site.run("test", RELEASE, "--timeout", "60s")
    wait_until(lambda: hooks_left(site) == [], 20, "what the test was run with goes")
    site.admin.create(APPS.format(TEAM), tree())
    wait_until(lambda: "observedGeneration" in (app(site).get("status") or {}), 30, "the operator looks at the app")

    newer = changed_chart(tmp_path)
    site.run("upgrade", RELEASE, str(newer), *site.settings, "--set", "podLabels.team=streams", *WAIT)
    columns = [one["name"] for one in site.crd()["spec"]["versions"][0]["additionalPrinterColumns"]]
    assert "Run" in columns
    assert "Age" not in columns
    assert "Succeeded" in site.run("test", RELEASE, "--timeout", "60s")

    uid = app(site)["metadata"]["uid"]
    with pytest.raises(HelmError, match="not stopped: team/ads"):
        site.run("uninstall", RELEASE, *WAIT)
    assert site.admin.get(ROLES) != {}
    site.admin.patch(f"{APPS.format(TEAM)}/ads", {"spec": {"suspend": True}})
    wait_until(lambda: "Suspended" in reasons(site), 60, "the app is suspended")
    site.run("uninstall", RELEASE, *WAIT)
    assert app(site)["metadata"]["uid"] == uid
    assert site.admin.get(ROLES) == {}
    wait_until(lambda: site.admin.items(f"/api/v1/namespaces/{SYSTEM}/pods") == [], 20, "the operator's pods go")
    site.run("install", RELEASE, str(CHART), *site.settings)
    assert "Age" in [one["name"] for one in site.crd()["spec"]["versions"][0]["additionalPrinterColumns"]]


@pytest.mark.parametrize("site", [3], indirect=True)
def test_what_helm_3_installed_is_upgraded_by_helm_4(site: Site, tmp_path: Path) -> None:
    site.run("install", RELEASE, str(CHART), *site.settings)
    newer = Helm(4, tmp_path, site.helm.kubeconfig, SYSTEM)
    site.run("upgrade", RELEASE, str(changed_chart(tmp_path)), *site.settings, helm=newer)
    assert "Run" in [one["name"] for one in site.crd()["spec"]["versions"][0]["additionalPrinterColumns"]]


@pytest.mark.parametrize("site", [3, 4], ids=["helm 3", "helm 4"], indirect=True)
def test_drivers_keep_their_account_whatever_becomes_of_the_release(site: Site) -> None:
    site.run("install", RELEASE, str(CHART), *site.settings)
    site.run("upgrade", RELEASE, str(CHART), *site.settings, "--set", f"appNamespaces={{{SYSTEM}}}")
    assert accounts_of_apps(site) == ["serviceaccounts", "roles", "rolebindings"]
    site.admin.create(APPS.format(TEAM), tree())
    with pytest.raises(HelmError, match="not stopped: team/ads"):
        site.run("uninstall", RELEASE, *WAIT)
    assert f"helm rollback {RELEASE} 2 -n {SYSTEM}" in site.node.logs()
    site.run("rollback", RELEASE, "2")
    site.run("upgrade", RELEASE, str(CHART), *site.settings)
    site.run("uninstall", RELEASE, "--no-hooks")
    assert accounts_of_apps(site) == ["serviceaccounts", "roles", "rolebindings"]
    site.run("install", RELEASE, str(CHART), *site.settings)


@pytest.mark.parametrize("site", [3, 4], ids=["helm 3", "helm 4"], indirect=True)
def test_a_second_release_that_watches_the_same_namespace_is_refused(site: Site) -> None:
    narrow = ("--set", f"watchNamespaces={{{TEAM}}},crds.install=false")
    second = ("install", "second", str(CHART), *site.settings, *narrow, "--set", "runtime.serviceAccount.name=other")
    site.run("install", RELEASE, str(CHART), *site.settings, *narrow)
    with pytest.raises(HelmError, match=f'"holdfast-operator" in namespace "{TEAM}" exists .*current value is "hold"'):
        site.run(*second)
    site.run("uninstall", RELEASE, "--no-hooks")
    site.run(*second)


def reasons(site: Site) -> list[str]:
    return [condition["reason"] for condition in app(site)["status"]["conditions"]]


def accounts_of_apps(site: Site) -> list[str]:
    """Kinds of what drivers have, of those objects that are there."""
    api, rbac = f"/api/v1/namespaces/{TEAM}", f"/apis/rbac.authorization.k8s.io/v1/namespaces/{TEAM}"
    paths = (f"{api}/serviceaccounts", f"{rbac}/roles", f"{rbac}/rolebindings")
    return [path.rpartition("/")[2] for path in paths if site.admin.get(f"{path}/holdfast-app")]


def app(site: Site) -> dict[str, Any]:
    return site.admin.get(f"{APPS.format(TEAM)}/ads")


def hooks_left(site: Site) -> list[str]:
    """Objects of the test that are still there."""
    kinds = ("api/v1/{}/serviceaccounts", "api/v1/{}/pods", "apis/rbac.authorization.k8s.io/v1/{}/roles")
    paths = [f"/{kind.format(f'namespaces/{SYSTEM}')}" for kind in kinds]
    names = [hook["metadata"]["name"] for path in paths for hook in site.admin.items(path)]
    return [name for name in names if name.endswith("-test")]


def size_of_release(site: Site) -> int:
    """Of the Secret in which Helm keeps it; the API server takes a megabyte."""
    (secret,) = site.admin.items(f"/api/v1/namespaces/{SYSTEM}/secrets")
    return len(secret["data"]["release"])


def changed_chart(tmp_path: Path) -> Path:
    """The next version, whose CRD has a column more and one less."""
    directory = tmp_path / "newer"
    shutil.copytree(CHART, directory)
    chart = (directory / "Chart.yaml").read_text()
    (directory / "Chart.yaml").write_text(chart.replace("version: 0.1.0", "version: 0.2.0", 1))
    file = directory / "files" / "streamapps.holdfast.dev.yaml"
    fresh = re.sub(r"- \{name: Age, .*\}", "- {name: Run, type: string, jsonPath: .status.runId}", file.read_text())
    file.write_text(fresh)
    return directory
