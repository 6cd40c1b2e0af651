"""A bounded pipeline of two apps and three repartitions over 16 partitions: killed on the way, both complete."""

import json
from typing import Any

from tests.cluster.cluster import Cluster, Tree
from tests.kafka.counted import Counted
from tests.kafka.sent import seen_by_partition
from tests.kind.apps import App
from tests.kind.installed import Team
from tests.waiting import wait_until

_ENDED, _HEARD = 240.0, 180.0
_PARTS, _ROWS, _WINDOW, _KEYS = 16, 12_000, 600, 12
_TIMED = {"schema": "id BIGINT, k STRING, ts TIMESTAMP", "eventTime": {"column": "ts"}}


def _first(app: App, between: Tree) -> Tree:
    spec: Tree = app.tree["spec"]
    rows = {**spec["streams"][0], **_TIMED, "bounded": True}
    steps: list[Tree] = [
        {"name": "by-id", "from": ["rows"], "repartition": {"by": ["id"]}},
        {"name": "by-key", "from": ["by-id"], "repartition": {"by": ["k"]}},
        {"name": "out", "from": ["by-key"], "to": "between"},
    ]
    return {**spec, "streams": [rows, between], "steps": steps, "planning": {"intermediatePartitions": _PARTS}}


def _second(app: App, between: Tree, output: Tree) -> Tree:
    compute = ["count(*) AS n", "sum(id) AS total"]
    steps: list[Tree] = [
        {"name": "again", "from": ["between"], "repartition": {"by": ["k"]}},
        {"name": "windows", "from": ["again"], "aggregate": {"by": ["k"], "window": "10m", "compute": compute}},
        {"name": "out", "from": ["windows"], "to": "windowed"},
    ]
    spec = {**app.tree["spec"], "streams": [{**between, "create": True, **_TIMED}, output], "steps": steps}
    return {**spec, "planning": {"intermediatePartitions": _PARTS}}


def _windows(counted: Counted, topic: str) -> list[tuple[str, int, int]]:
    rows = [json.loads(value) for values in seen_by_partition(counted.broker, topic).values() for value in values]
    return sorted((row["k"], row["n"], row["total"]) for row in rows)


def _expected() -> list[tuple[str, int, int]]:
    windows = []
    for start in range(0, _ROWS, _WINDOW):
        for key in range(_KEYS):
            numbers = range(start + key, start + _WINDOW, _KEYS)
            windows.append((str(key), len(numbers), sum(numbers)))
    return sorted(windows)


def _claims(cluster: Cluster, team: Team) -> set[str]:
    claims = cluster.tree("persistentvolumeclaims", f"--namespace={team.namespace}")["items"]
    return {one["metadata"]["name"] for one in claims if "deletionTimestamp" not in one["metadata"]}


def test_a_bounded_pipeline_completes_through_kills_and_frees_its_claims(
    cluster: Cluster, team: Team, app: App, counted: Counted
) -> None:
    fields: dict[str, Any] = {"system": "here", "key": ["k"]}
    between = {"name": "between", "topic": f"{counted.name}-between", "partitions": _PARTS, "control": True, **fields}
    output = {"name": "windowed", "topic": f"{counted.name}-windowed", "partitions": 2, **fields}
    counted.feed(_ROWS)
    tree = {**app.tree, "metadata": {**app.tree["metadata"], "name": f"{app.name}-second"}}
    second = App(cluster, app.namespace, tree)
    second.apply(**_second(second, between, output))
    second.ready()
    app.apply(**_first(app, between))
    wait_until(lambda: app.batch() >= 1, _HEARD, "the first app has read")
    app.kill_driver()
    second.kill(min(second.executors()))
    app.until("Ready", "True", "Completed", _ENDED)
    assert second.condition("Ready")[1] != "Completed" or _windows(counted, output["topic"])
    second.until("Ready", "True", "Completed", _ENDED)
    assert _windows(counted, output["topic"]) == _expected()
    for each_app in (app, second):
        wait_until(lambda each_app=each_app: not each_app.executors(), _ENDED, "executors are gone")  # type: ignore[misc]
        assert each_app.driver()["status"]["phase"] == "Succeeded"
    wait_until(lambda: _claims(cluster, team) == {"shared"}, _ENDED, "claims of completed apps are given back")
