"""What the app stands on goes away under load: its broker, the API server, the room on its disk."""

from tests.cluster.cluster import Cluster
from tests.kafka.counted import Counted
from tests.kind.apps import App, counted_app
from tests.kind.faults import Faults
from tests.kind.fed import Fed
from tests.kind.installed import Installed
from tests.kind.kafka import KindBroker
from tests.kind.storage import disk

_FILLS = """
import uuid
import pyarrow as pa

def stamp(batch):
    stamps = pa.array([uuid.uuid4().hex for _ in range(batch.num_rows)])
    return batch.select(["id", "name"]).append_column("stamp", stamps)

def number(name, rows, state):
    state["rows"] = state.get("rows", "") + "a line of it that takes more room\\n" * 100
    for row in rows:
        state["n"] = state.get("n", 0) + 1
        before, state["stamp"] = state.get("stamp", ""), row["stamp"]
        yield {"id": row["id"], "k": name, "nth": state["n"], "stamp": row["stamp"], "before": before}
"""


def test_a_restarted_broker_costs_no_row_and_no_attempt(broker: KindBroker, running: tuple[App, Fed]) -> None:
    app, fed = running
    attempt = app.attempt()
    broker.die()
    print(f"broker killed -> a new row committed: {fed.flows():.1f} s")  # noqa: T201 - figures for `-s`
    assert app.attempt() == attempt
    fed.settles()


def test_an_api_server_that_is_restarted_ends_no_driver(
    cluster: Cluster, installed: Installed, broker: KindBroker, running: tuple[App, Fed]
) -> None:
    app, fed = running
    driver = app.driver()["metadata"]["uid"]
    Faults(cluster, installed, broker, app).api_server()
    fed.flows()
    installed.up()
    app.until("Ready", "True")
    assert app.driver()["metadata"]["uid"] == driver
    fed.settles()


def test_a_full_disk_is_named_and_room_lets_apps_continue(
    cluster: Cluster, installed: Installed, counted: Counted
) -> None:
    with installed.team(disks=1, limit="24m") as team:
        app = counted_app(cluster, team, counted)
        app.tree["spec"]["runtime"]["code"] = {"f": _FILLS}
        app.tree["spec"]["restart"] = {"backoff": {"initial": "1s", "max": "5s"}}
        with Fed(counted) as fed:
            app.apply()
            app.ready()
            fed.flows()
            node = cluster.workers[0]
            path = disk(team.storage_class, 0)
            _fill(cluster, node, f"{path}/filler")
            app.until("Reconciling", "True", "WaitingToRestart")
            assert "no space" in app.message("Ready")
            cluster.on_node(node, "mount", "-o", "remount,size=512m", path)
            cluster.on_node(node, "rm", f"{path}/filler")
            fed.flows()
            app.until("Ready", "True")
            fed.settles()


def _fill(cluster: Cluster, node: str, file: str) -> None:
    """Until there is no room."""
    cluster.on_node(node, "sh", "-c", f"dd if=/dev/zero of={file} bs=64k 2>/dev/null || true")
