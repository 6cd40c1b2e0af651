"""What changes while apps run: the operator, an app's image, its run, and whether it runs at all."""

from pathlib import Path

from tests.cluster import docker
from tests.cluster.cluster import Cluster
from tests.kafka.counted import Counted
from tests.kind.apps import App, counted_app
from tests.kind.fed import Fed
from tests.kind.images import Images
from tests.kind.installed import Installed, Team
from tests.waiting import wait_until

_SOON = 120.0
_KEPT = {"owner.json", "collected.json"}
"""Of a run that was collected: by them, a return to it is refused."""


def test_an_upgrade_of_the_operator_restarts_no_app(installed: Installed, running: tuple[App, Fed]) -> None:
    app, fed = running
    driver, operator = app.driver()["metadata"]["uid"], installed.operator()
    installed.upgrade(podLabels={"holdfast-test": "upgraded"})
    wait_until(lambda: installed.operator() != operator, _SOON, "another operator")
    fed.flows()
    app.until("Ready", "True")
    assert app.driver()["metadata"]["uid"] == driver
    installed.upgrade()
    fed.settles()


def test_another_image_is_taken_up_with_the_state_kept(
    cluster: Cluster, images: Images, running: tuple[App, Fed]
) -> None:
    app, fed = running
    newer = f"{images.runtime}-again"
    docker.ask("tag", images.runtime, newer)
    cluster.load_image(newer)
    attempt, places = app.attempt(), app.nodes()
    app.apply(runtime={**app.tree["spec"]["runtime"], "image": newer})
    wait_until(lambda: app.attempt() == attempt + 1, _SOON, "the next attempt")
    fed.flows()
    app.ready()
    assert {one["spec"]["containers"][0]["image"] for one in app.pods() if one["status"]["phase"] == "Running"} == {
        newer
    }
    assert app.nodes() == places
    assert app.restored_without_need() == []
    fed.settles()


def test_another_run_begins_empty_and_the_old_is_collected_later(
    cluster: Cluster, team: Team, counted: Counted
) -> None:
    """It reads its input from the beginning: every row comes out a second time, numbered from one again."""
    app = counted_app(cluster, team, counted)
    app.tree["spec"]["runtime"]["checkpoint"] |= {"retention": "1s"}
    counted.feed(240)
    app.apply()
    app.ready()
    wait_until(lambda: len(counted.written()) == 216, _SOON, "the first run has written all")
    app.apply(runId="2")
    wait_until(lambda: len(counted.written()) == 432, _SOON, "the second run has written all")
    app.ready()
    assert (app.status()["runId"], app.attempt()) == ("2", 1)
    rows = counted.written()
    for key in {row["k"] for row in rows}:
        numbers = [row["nth"] for row in rows if row["k"] == key]
        assert numbers == [*range(1, len(numbers) // 2 + 1)] * 2
    claims = cluster.tree("persistentvolumeclaims", f"--namespace={team.namespace}")["items"]
    assert len([one for one in claims if one["metadata"]["name"] != "shared"]) == 2, "the old run's are given back"
    left = cluster.shared / team.namespace / team.namespace / app.name / "1"
    assert len(_files(left)) > len(_KEPT)
    app.kill_driver()  # drivers look at old runs when they start, and every hour
    wait_until(lambda: set(_files(left)) == _KEPT, _SOON, "the old run is gone")
    app.until("Ready", "True")
    assert len(counted.written()) == 432


def test_suspend_drains_and_resume_goes_on_where_it_was(running: tuple[App, Fed]) -> None:
    app, fed = running
    places = app.nodes()
    app.apply(suspend=True)
    app.until("Ready", "False", "Suspended")
    wait_until(lambda: not [one for one in app.pods() if one["status"]["phase"] == "Running"], _SOON, "no pod runs")
    app.apply(suspend=False)
    fed.flows()
    app.ready()
    assert app.nodes() == places
    assert app.restored_without_need() == []
    fed.settles()


def test_a_deleted_app_drains_and_takes_its_claims_with_it(
    cluster: Cluster, team: Team, running: tuple[App, Fed], counted: Counted
) -> None:
    app, _ = running
    app.delete()
    kinds = "pods,persistentvolumeclaims,configmaps,statefulsets"
    label = f"--selector=holdfast.dev/app={app.name}"
    wait_until(
        lambda: not cluster.tree(kinds, label, f"--namespace={team.namespace}")["items"], _SOON, "all of it is gone"
    )
    claims = cluster.tree("persistentvolumeclaims", f"--namespace={team.namespace}")["items"]
    assert [one["metadata"]["name"] for one in claims] == ["shared"]
    assert counted.written()


def test_a_namespace_that_is_deleted_goes_with_its_apps(
    cluster: Cluster, installed: Installed, counted: Counted
) -> None:
    with installed.team() as team:
        app = counted_app(cluster, team, counted)
        counted.feed(50)
        app.apply()
        app.ready()
        cluster.kubectl("delete", "namespace", team.namespace, "--timeout=180s", seconds=190)
        pods = cluster.tree("pods", "--all-namespaces", f"--selector=holdfast.dev/app={app.name}")["items"]
        assert pods == []


def _files(folder: Path) -> list[str]:
    """Names of all below it."""
    return [one.name for one in folder.rglob("*") if one.is_file()]
