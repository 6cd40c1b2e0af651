"""`holdfast status` with a kubeconfig on a real API server, with apps as the operator leaves them."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.protocol.assignment import Assignment, VersionedAssignment
from holdfast.protocol.names import ASSIGNMENT_LABEL, app_id, assignment_name, executor_set
from holdfast_cli.main import main
from tests.api.admin import APPS, CONFIG_MAPS
from tests.api.conftest import Site
from tests.api.plane import Plane
from tests.cli.conftest import Ran
from tests.operator.apps import tree
from tests.waiting import wait_until

RIGHTS = "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/{}"
Status = Callable[..., Ran]


@pytest.fixture
def status(site: Site, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Status:
    """Run `holdfast status` as this user, in the namespace of the test."""

    def run(*arguments: str, user: str = "admin") -> Ran:
        monkeypatch.setenv("KUBECONFIG", str(site.plane.kubeconfig(user)))
        namespace = [] if "-A" in arguments else ["-n", site.namespace]
        code = main(["status", *arguments, *namespace])
        out, err = capsys.readouterr()
        return Ran(code, out, err)

    return run


def hand_over(site: Site, handed: VersionedAssignment) -> None:
    """As the operator does."""
    metadata = {"name": assignment_name("ads", "1"), "labels": {ASSIGNMENT_LABEL: "ads"}}
    tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"assignment.json": handed.text()}}
    site.admin.create(CONFIG_MAPS.format(site.namespace), tree)


def may(site: Site, user: str, *rules: dict[str, Any]) -> None:
    """Give these rights to a user."""
    group = "rbac.authorization.k8s.io"
    role = {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": {"name": user}, "rules": list(rules)}
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": user},
        "roleRef": {"apiGroup": group, "kind": "Role", "name": user},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
    }
    site.admin.create(RIGHTS.format(site.namespace, "roles"), role)
    site.admin.create(RIGHTS.format(site.namespace, "rolebindings"), binding)


def test_a_ready_app_shows_driver_report_places_and_events(site: Site, status: Status) -> None:
    with site.operator():
        site.apply()
        site.until("Ready", "True", "Running")
        name = assignment_name("ads", "1")
        wait_until(lambda: name in site.config_maps(), 30, "executors have their tasks")
        ran = status("ads")
        tree = json.loads(status("ads", "-o", "json").out)
    (driver,) = site.alive()
    assert (ran.code, ran.err) == (0, "")
    assert f"ads  in {site.namespace}: ready, Running" in ran.out
    assert f"attempt     1 of run 1, 0 restarts; pod {driver}" in ran.out
    assert "last batch  1, committed" in ran.out
    assert "tasks       4, 4 of them where their state is; 4 input partitions" in ran.out
    executor = f"{executor_set('ads', '1')}-0"
    assert re.search(rf"state-{executor} +{executor} +2  partition-\d, partition-\d", ran.out)
    assert "attempt 1 of run 1 starts" in ran.out
    assert (tree["ready"], tree["reason"], tree["driver"], tree["missing"]) == (True, "Running", driver, {})
    assert tree["status"]["placed"] == "4/4"
    assert tree["report"]["tasks"] == 4
    assert tree["assignment"]["processors"][0]["location"] == f"state-{executor}"
    assert [one["reason"] for one in tree["events"]] == ["Starting"]


def test_a_rejected_app_shows_the_repair_and_its_reasons_meaning(site: Site, status: Status) -> None:
    with site.operator():
        site.apply(runtime={})
        site.until("Ready", "False", "CheckpointMissing")
    ran = status("ads")
    assert ran.code == 1
    assert "not ready, CheckpointMissing" in ran.out
    assert "give it a location that driver and executors reach" in ran.out
    assert "holdfast explain CheckpointMissing" in ran.out
    assert main(["explain", "CheckpointMissing"]) == 0
    assert "report      not known: no attempt has been started" in ran.out


def test_an_app_nobody_has_looked_at_is_not_ready(site: Site, status: Status) -> None:
    site.apply()
    ran = status("ads")
    assert ran.code == 1
    assert "the operator has not looked at it yet" in ran.out


def test_what_was_said_of_an_older_generation_does_not_count(site: Site, status: Status) -> None:
    with site.operator():
        site.apply()
        site.until("Ready", "True", "Running")
    site.apply(suspend=True)
    ran = status("ads")
    assert ran.code == 1
    assert "the operator has not looked at generation 2 yet" in ran.out


def test_a_wrong_name_is_refused_with_the_nearest(site: Site, status: Status) -> None:
    site.apply("ad-clicks")
    ran = status("ad-click")
    assert (ran.code, ran.out) == (2, "")
    expected = f"there is no StreamApp ad-click in namespace {site.namespace}; did you mean ad-clicks?"
    assert expected in ran.err


def test_all_apps_of_a_namespace_and_of_all(site: Site, status: Status) -> None:
    assert (status().code, status().out) == (0, f"no StreamApps in namespace {site.namespace}\n")
    with site.operator():
        site.apply()
        site.apply("other", runtime={})
        site.until("Ready", "True", "Running")
        site_ready = status()
        everywhere = json.loads(status("-A", "-o", "json").out)["apps"]
    heads, ads, other = site_ready.out.splitlines()
    assert heads.split()[:4] == ["APP", "READY", "REASON", "RUN"]
    assert ads.split()[:9] == ["ads", "True", "Running", "1", "1", "0", "4", "4/4", "0"]
    assert other.split()[:2] == ["other", "False"]
    assert site_ready.code == 0
    assert {"ads", "other"} <= {one["app"] for one in everywhere if one["namespace"] == site.namespace}


def test_an_app_that_can_not_be_parsed_hides_no_other(site: Site, status: Status) -> None:
    deep = '{"a":' * 1_500 + "1" + "}" * 1_500
    hostile = tree(runtime={**tree()["spec"]["runtime"], "driver": {"podTemplate": {"spec": {"deep": "hole"}}}})
    hostile["metadata"] = {"name": "hostile"}
    site.admin.send("POST", APPS.format(site.namespace), json.dumps(hostile).replace('"hole"', deep))
    with site.operator():
        site.apply()
        site.until("Ready", "True", "Running")
        ran = status()
    line_of = {line.split()[0]: line for line in ran.out.splitlines() if line}
    assert "Running" in line_of["ads"]
    assert "InvalidSpec" in line_of["hostile"]
    assert "can't be read: it is nested deeper than 64 levels" in status("hostile").out


def test_who_may_not_see_apps_learns_the_missing_right(site: Site, status: Status) -> None:
    site.apply()
    for arguments, right in ((("ads",), "get streamapps.holdfast.dev"), ((), "list streamapps.holdfast.dev")):
        ran = status(*arguments, user="someone")
        assert (ran.code, ran.out) == (2, "")
        assert "someone" in ran.err
        assert f"ask whoever runs the cluster for the right to {right}" in ran.err


def test_who_may_see_apps_only_is_told_what_is_missing(site: Site, status: Status) -> None:
    may(site, "visitor", {"apiGroups": ["holdfast.dev"], "resources": ["streamapps"], "verbs": ["get"]})
    with site.operator():
        site.apply()
        site.until("Ready", "True", "Running")
    ran = status("ads", user="visitor")
    assert ran.code == 0
    assert "ads  in" in ran.out
    assert "right to get configmaps" in ran.out
    assert "right to list events.events.k8s.io" in ran.out
    missing = json.loads(status("ads", "-o", "json", user="visitor").out)["missing"]
    assert set(missing) == {"report", "assignment", "events"}
    unknown = status("adz", user="visitor")
    assert (unknown.code, unknown.err.count("adz")) == (2, 1)


def test_texts_of_others_cannot_move_the_cursor(site: Site, status: Status) -> None:
    site.apply()
    path = f"{APPS.format(site.namespace)}/ads"
    ready = {"type": "Ready", "status": "False", "reason": "NoProgress", "lastTransitionTime": "2026-11-20T12:00:00Z"}
    conditions = [{**ready, "message": "wait\x1b[2J\r\nReady True \u202e", "observedGeneration": 1}]
    site.admin.patch(f"{path}/status", {"status": {"observedGeneration": 1, "runId": "1", "conditions": conditions}})
    report = {"attempt": 1, "at": 1, "heldBack": "clicks\x1b[31m"}
    metadata = {"name": f"{app_id('ads', '1')}-report", "labels": {"holdfast.dev/report": "ads"}}
    data = {"report.json": json.dumps(report)}
    tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
    site.admin.create(CONFIG_MAPS.format(site.namespace), tree)
    hand_over(site, VersionedAssignment(1, 1, {"exec\x1b[5m": "cl\x07aim"}, Assignment({"exec\x1b[5m": ("p\x9b0",)})))
    for arguments in (("ads",), (), ("ads", "-o", "json")):
        assert all(line.isprintable() for line in status(*arguments).out.splitlines())


@pytest.fixture(scope="module")
def bare() -> Iterator[Plane]:
    """A cluster without Holdfast."""
    with Plane() as plane:
        yield plane


def test_a_cluster_without_holdfast_is_said(bare: Plane, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["status"], ["status", "ads"]):
        assert main([*arguments, "--kubeconfig", str(bare.kubeconfig())]) == 2
        assert "Holdfast's CustomResourceDefinition is not installed" in capsys.readouterr().err


def test_credentials_that_are_not_accepted_are_said(
    plane: Plane, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = json.loads(plane.kubeconfig().read_text())
    tree["users"][0]["user"] = {"token": "expired"}
    path = tmp_path / "config"
    path.write_text(json.dumps(tree))
    assert main(["status", "--kubeconfig", str(path)]) == 2
    assert "context test does not accept the credentials" in capsys.readouterr().err


def test_watching_shows_each_change_until_it_is_interrupted(
    site: Site, status: Status, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = iter((lambda: None, lambda: site.apply(suspend=True)))

    def between(_: float) -> None:
        change = next(changes, None)
        if change is None:
            raise KeyboardInterrupt
        change()

    site.apply()
    monkeypatch.setattr("time.sleep", between)
    ran = status("ads", "--watch", "-o", "json")
    assert ran.code == 0
    assert [json.loads(line)["generation"] for line in ran.out.splitlines()] == [1, 2]
