"""What the page of `holdfast ui` is answered on a real API server, with the rights alone that the chart gives it."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast_cli.cluster.target import ClusterTarget, NamespaceTarget
from holdfast_cli.ui.looks import ClusterLooks, PageAnswer
from tests.api.admin import Admin
from tests.api.conftest import Site
from tests.api.kubelet_logs import KubeletLogs, kubelet_logs
from tests.api.plane import Plane
from tests.api.test_life import ready
from tests.chart.rendered import rendered
from tests.chart.rights import grant, granted
from tests.chart.test_rights import right_of
from tests.waiting import wait_until


@pytest.fixture
def written(plane: Plane) -> Iterator[KubeletLogs]:
    with kubelet_logs(plane, Admin(plane)) as logs:
        yield logs


def looks_as(kubeconfig: Path, namespace: str) -> ClusterLooks:
    """As the command makes them."""
    target = NamespaceTarget(ClusterTarget((kubeconfig,), "test", "default"), namespace, ())
    return ClusterLooks(target.connect, "test", (namespace,), time.monotonic)


def tree_of(answer: PageAnswer) -> dict[str, Any]:
    tree: dict[str, Any] = json.loads(answer.body)
    assert answer.status == 200, tree
    return tree


def test_an_app_is_shown_whole_by_reading_alone(site: Site, written: KubeletLogs) -> None:
    user = f"looker-{site.namespace}"
    chart = rendered("ui.enabled=true", f"watchNamespaces={{{site.namespace}}}")
    grant(site.admin, chart, "hold-holdfast-ui", user)
    with site.operator():
        site.apply()
        driver = ready(site)
        wait_until(lambda: any(name.endswith("-assignment") for name in site.config_maps()), 30, "tasks have places")
        site.told("Starting")
        written.say(driver, "batch 1 committed")
        looks = looks_as(site.plane.kubeconfig(user), site.namespace)
        (row,) = tree_of(looks.apps())["apps"]
        tree = tree_of(looks.app(site.namespace, "ads"))
        plan = tree_of(looks.plan(site.namespace, "ads"))
        log = tree_of(looks.log(site.namespace, "ads", driver))
    assert (row["app"], row["standing"], row["reason"], row["placed"]) == ("ads", "ready", "Running", "4/4")
    assert tree["missing"] == {}
    assert tree["report"]["tasks"] == 4
    assert sum(len(processor["tasks"]) for processor in tree["assignment"]["processors"]) == 4
    assert tree["pods"][0]["pod"] == driver
    assert {event["reason"] for event in tree["events"]} >= {"Starting"}
    assert plan["why"] is None
    assert "4 partitions" in plan["drawing"]["cards"][0]["title"]
    assert log["lines"] == ["batch 1 committed"]
    assert {right_of(call) for call in site.plane.asked_by(user)} == granted(chart, "hold-holdfast-ui")


def test_whoever_may_not_look_is_told_the_missing_right(site: Site) -> None:
    answer = looks_as(site.plane.kubeconfig("someone"), site.namespace).apps()
    assert answer.status == 503
    assert "ask whoever runs the cluster for the right to list streamapps.holdfast.dev" in answer.body.decode()
