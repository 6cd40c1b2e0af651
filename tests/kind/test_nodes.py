"""A node that is lost, as when its power fails, and comes back."""

import time

import pytest

from tests.cluster.cluster import Cluster
from tests.kind.apps import App
from tests.kind.fed import Fed
from tests.kind.installed import Installed
from tests.waiting import wait_until

_LIMIT = 90.0


@pytest.fixture
def windows() -> bool:
    return True


def test_tasks_of_a_lost_node_move_and_do_not_return(
    cluster: Cluster, installed: Installed, running: tuple[App, Fed]
) -> None:
    app, fed = running
    nodes = app.nodes()
    assert set(nodes.values()) == set(cluster.workers), "both workers have tasks"
    lost = app.driver()["spec"]["nodeName"]
    lost_tasks = {task for task, node in nodes.items() if node == lost}

    began = time.monotonic()
    cluster.stop_node(lost)
    fed.flows(_LIMIT)
    print(f"the driver's node lost -> a new row committed: {time.monotonic() - began:.1f} s")  # noqa: T201
    app.until("Ready", "True")
    assert set(app.nodes().values()) == set(cluster.workers) - {lost}
    assert set(app.restored_without_need()) <= lost_tasks, "a task whose disk is there has nothing to restore"

    places, attempt = app.where(), app.attempt()
    cluster.start_node(lost)
    installed.up()
    wait_until(lambda: len(app.executors()) == 2, _LIMIT, "two executors")
    fed.flows()
    fed.flows()
    assert (app.where(), app.attempt()) == (places, attempt)
    fed.settles()
