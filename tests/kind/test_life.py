"""What people do first: apply an app, apply a wrong one and mend it, and let one end."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.cluster.cluster import Cluster
from tests.kafka.counted import Counted
from tests.kind.apps import App, counted_app
from tests.kind.fed import Fed
from tests.kind.installed import Team
from tests.waiting import patience, wait_until

_ENDED = 120.0
_STILL = 10.0
_LOOK = patience(60)


def test_a_good_app_becomes_ready_and_its_output_is_right(app: App, counted: Counted) -> None:
    with Fed(counted) as fed:
        began = time.monotonic()
        app.apply()
        app.ready()
        fed.flows()
        print(f"applied -> rows: {time.monotonic() - began:.1f} s")  # noqa: T201 - figures for `-s`
        assert app.condition("PlanValid") == ("True", "PlanAccepted")
        app.until("Assigned", "True", "Assigned")
        assert app.status()["placed"] == f"{app.status()['tasks']}/{app.status()['tasks']}"
        looked_at_beside_its_driver(app)
        fed.settles()
        assert app.attempt() == 1


def looked_at_beside_its_driver(app: App) -> None:
    """Streams, records, positions, state and letters, as its driver's pod reaches them."""
    began = time.monotonic()
    streams = {one["name"]: one for one in beside_driver(app, "streams")["streams"]}
    assert (streams["rows"]["system"], streams["rows"]["records"] > 0) == ("kafka", True)
    assert beside_driver(app, "tail", "numbered", "--from-beginning", "--max", "1")["value"]["k"]
    positions = beside_driver(app, "offsets")
    assert (positions["batch"] > 0, positions["unknown"]) == (True, {})
    tasks = beside_driver(app, "state ls")["tasks"]
    assert {one["from"] for one in tasks} == {"durable"}
    assert "deadLetter" in beside_driver(app, "letters", code=2)["message"]
    print(f"five looks beside the driver: {time.monotonic() - began:.1f} s")  # noqa: T201 - figures for `-s`


def beside_driver(app: App, command: str, *words: str, code: int = 0) -> Any:
    """What `holdfast` shows of an app on the cluster, as JSON."""
    program = Path(sys.executable).with_name("holdfast")
    line = [str(program), *command.split(), app.name, *words, "--namespace", app.namespace, "--output", "json"]
    environment = os.environ | {"KUBECONFIG": str(app.cluster.kubeconfig)}
    ran = subprocess.run(line, capture_output=True, text=True, timeout=_LOOK, env=environment, check=False)
    assert ran.returncode == code, f"{command}: {ran.stdout}{ran.stderr}"
    return json.loads(ran.stdout)


def test_an_impossible_join_makes_no_pod_and_its_repair_runs(cluster: Cluster, team: Team, counted: Counted) -> None:
    """Keys are stamped by one topic of two partitions and looked up in one of three."""
    other = f"{counted.name}-other"
    counted.broker.create_topic(other, 3)
    app = counted_app(cluster, team, counted)
    whole = app.tree["spec"]
    rows = whole["streams"][0]
    pair = {**rows, "name": "others", "topic": other}
    join = {"name": "both", "from": ["rows", "others"], "join": {"by": ["k"], "within": "1m", "select": ["k"]}}
    write = {"name": "out", "from": ["both"], "to": "numbered"}
    app.apply(streams=[*whole["streams"], pair], steps=[join, write])
    app.until("PlanValid", "False", "PartitionCountMismatch")
    assert "repartition" in app.message("PlanValid")
    assert app.condition("Ready")[0] == "False"
    assert app.pods() == []

    with Fed(counted) as fed:
        app.apply(streams=whole["streams"], steps=whole["steps"])
        app.ready()
        fed.flows()
        fed.settles()


def test_a_completed_apps_driver_goes_and_its_log_stays(app: App, counted: Counted) -> None:
    rows, numbered = app.tree["spec"]["streams"]
    counted.feed(600)
    app.apply(streams=[{**rows, "bounded": True}, numbered])
    app.until("Ready", "True", "Completed")
    wait_until(lambda: not app.executors(), _ENDED, "executors are gone")
    (driver,) = app.pods("driver")
    assert driver["status"]["phase"] == "Succeeded"
    assert "completed:" in app.driver_log()
    counted.check(600)
